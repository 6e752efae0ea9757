"""From a trajectory to a force field, with nothing for the user to choose.

The permutation group comes from the configurations. Sigma is isotropic, the distance at which configurations are from
each other, or trained, one entry for every kind of pair of atoms. The bandwidth sigma and the noise are those of the
least error at configurations set aside, tried on few configurations first and on more of them then, since the best
bandwidth falls as configurations become more.

lambda is the variance of the labels by that of the prior, and the noise a share of the former. With sGDML's
lambda = 1e-10 and sigma = 15 that share is 2e-8 for malonaldehyde: forces are then exact to 0.15 meV / Angstrom.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import resolve_device
from lobal.molecules.field.anisotropy import FIRST_BANDWIDTH, trained_bandwidth
from lobal.molecules.field.evaluation import Errors, errors_on
from lobal.molecules.field.expert import Ladder, MolecularExperts, molecular_experts
from lobal.molecules.field.fitting import FieldSettings, fit_force_field
from lobal.molecules.field.forcefield import ForceField, fingerprints
from lobal.molecules.field.hyperparameters import label_hyperparameters
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.radial import radial_kernel_named
from lobal.molecules.geometry.permutations import typical_distance
from lobal.molecules.geometry.symmetry import permutation_group
from lobal.molecules.geometry.trajectory import Trajectory, set_apart

logger = logging.getLogger(__name__)

# Configurations that the first trials learn from; a quarter of all, where that is more, those after.
FEW = 150
# Bandwidths are tried from `FIRST_BANDWIDTH`, in units of the typical distance, by these factors, up and down.
COARSE, FINE = 2.0, 2.0**0.5
# The noise by the variance of the labels, and how much more of it is tried at a time, for labels that are not exact.
NOISE = 2e-8
MORE_NOISE = 100.0
# More noise is believed in where it lowers the mean squared error by so many standard errors of the difference. With
# few configurations it does little harm yet, and most of the error at noisy labels is these labels' own.
CLEARLY = 1.0
# The best bandwidth falls as n^-FALL: local ones of malonaldehyde did so from 512 to 2048 configurations.
FALL = 0.27
MOST_STEPS = 8  # in one direction
# Residuals that conjugate gradients leave, by the labels: in trials, where errors are then larger by 0.1% for
# malonaldehyde, and in the end, by the error that is to be expected, which then grows by 0.1%.
TRIED = 1e-3
LEFT = 0.05
LEAST_LEFT = 1e-7  # what rounding allows


@final
@dataclass(frozen=True, kw_only=True)
class Training:
    """What a user may say about the training of a force field."""

    n: int = 500  # configurations to learn from, if there are as many
    validation: int = 200  # configurations to choose by, at most a fifth of all
    labels: Labels | None = None  # what to learn from; by default forces, or energies where there are no forces
    kernel: str = "gaussian"
    anisotropic: bool = False  # a bandwidth for every kind of pair of atoms
    mixture: bool = False  # of experts of several bandwidths, with a gate; much more to compute
    inducing: int | None = None  # configurations that experts speak through, at most all; none: they are dense
    seed: int = 0
    device: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("n", self.n), ("validation", self.validation)):
            if value < 2:
                raise ValueError(f"{name} must be at least 2 configurations, got {value}")
        if self.inducing is not None and self.inducing < 1:
            raise ValueError(f"inducing must be at least 1 configuration, got {self.inducing}")
        radial_kernel_named(self.kernel)


class Trained(NamedTuple):
    """A force field and its errors at the configurations that were set aside."""

    force_field: ForceField
    validation: Errors


def train(trajectory: Trajectory, training: Training, say: Callable[[str], None] = logger.info) -> Trained:
    """A force field of one expert, or of a mixture.

    Raises:
        ValueError: there are too few configurations, or not the labels that are asked for.
    """
    labels = training.labels or (Labels.ENERGIES if trajectory.forces is None else Labels.FORCES)
    learned, held_out = split(trajectory, training)
    device = resolve_device(training.device)
    data, generator = learned.labelled(device), torch.Generator().manual_seed(training.seed)
    say(f"looking for symmetries of {len(data.geometry.values)} configurations")
    group = permutation_group(learned.R, learned.species).to(device)
    radial = radial_kernel_named(training.kernel)
    if training.anisotropic:
        say("training the bandwidths of all pairs of atoms")
        trained = trained_bandwidth(data, radial, group, labels=labels, generator=generator, say=say)
        shared = trained / FIRST_BANDWIDTH  # trials begin with what was trained
    else:
        shared = typical_distance(data.geometry.values, group).expand(data.geometry.values.shape[1]).contiguous()
    kernel = MolecularKernel(radial=radial, shared=shared, permutations=group)
    # Whoever asks for sparse experts has more configurations than trials, which are dense, should learn from.
    most = len(learned) if training.inducing is None else min(len(learned), 4 * max(FEW, training.inducing))
    choice = chosen(_Trials(kernel, labels, data, held_out.labelled(device), say), most)
    say(f"learning from {len(learned)} configurations")
    if training.mixture or training.inducing is not None:
        settings = FieldSettings(
            kernel=training.kernel,
            labels=labels.name,
            mixture=training.mixture,
            sparse=training.inducing,
            device=training.device,
        )
        if choice.noise > NOISE:  # what trials are for here: the labels are not exact
            settings = replace(settings, noise=choice.noise)
        force_field = fit_force_field(
            learned, settings, shared=FIRST_BANDWIDTH * shared, permutations=group, generator=generator, say=say
        )
    else:
        positions, species = learned.R.to(device), learned.species.to(device)
        about: dict[str, Any] = {"configurations": len(learned), "symmetries": len(group)}
        about |= {"labels": labels.name, "bandwidth": choice.bandwidth / FIRST_BANDWIDTH, "noise": choice.noise}
        experts = fitted(kernel, data, labels, choice)
        force_field = ForceField.of(experts, positions=positions, species=species, about=about)
    errors = errors_on(force_field, held_out)
    about = {"validation": len(held_out), "seed": training.seed, "errors": errors._asdict()}
    about |= {"source": Path(trajectory.source).name}
    return Trained(replace(force_field, about=force_field.about | about), errors)


def split(trajectory: Trajectory, training: Training) -> tuple[Trajectory, Trajectory]:
    """Configurations to learn from and to choose by, at random, from different trajectories where there are several.

    Of the latter, exact copies of the former are left out: they would speak for the smallest bandwidth there is.
    """
    if len(trajectory) < 10:
        raise ValueError(f"at least 10 configurations are needed, got {len(trajectory)} in {trajectory.source}")
    most = min(training.validation, len(trajectory) // 5)
    apart = set_apart(trajectory, most, generator=torch.Generator().manual_seed(training.seed))
    order = torch.randperm(len(trajectory), generator=torch.Generator().manual_seed(training.seed))
    learned, held_out = order[~apart[order]][: training.n], order[apart[order]][:most]
    held_out = held_out[~torch.isin(*(fingerprints(trajectory.R[rows]) for rows in (held_out, learned)))]
    if len(held_out) == 0:
        raise ValueError(
            f"all {most} configurations of {trajectory.source} that were kept to choose by are copies of those to "
            "learn from; remove duplicates"
        )
    return trajectory.at(learned), trajectory.at(held_out)


class Choice(NamedTuple):
    """What is chosen by validation."""

    bandwidth: float  # sigma, in units of Sigma
    noise: float  # v by the variance of the labels
    error: float  # root mean squared
    squares: Float[Tensor, " k"] | None = None  # mean squared errors at the configurations set aside


# A trial: the choice's error after learning from the first n configurations with that bandwidth and noise.
Trials: TypeAlias = Callable[[int, float, float], Choice]


@dataclass(frozen=True)
class _Trials:
    """What it takes to try a bandwidth and a noise."""

    kernel: MolecularKernel
    labels: Labels
    data: LabelledMolecules
    validation: LabelledMolecules
    say: Callable[[str], None]

    def __call__(self, n: int, bandwidth: float, noise: float) -> Choice:
        """The validation error after learning from the first n configurations."""
        part, choice = self.data.part(slice(n)), Choice(bandwidth, noise, 0.0)
        experts = fitted(self.kernel, part, self.labels, choice, tolerance=TRIED)
        energies, forces = experts.predictor.at(self.validation.geometry)
        if self.labels.forces and self.validation.forces is not None:
            off = forces[0] - self.validation.forces
        else:
            off = energies[0] - self.validation.residual(Labels.ENERGIES, experts.constants[0])[:, 0]
        squares = off.square().flatten(1).mean(1) if off.ndim > 1 else off.square()
        error, sigma = squares.mean().sqrt().item(), bandwidth / FIRST_BANDWIDTH
        self.say(f"bandwidth {sigma:.3g} Sigma_E, noise {noise:.0e}, {n} configurations: error {error:.4f}")
        return Choice(bandwidth, noise, error, squares)


def chosen(trials: Trials, n: int) -> Choice:
    """Bandwidth and noise of least error on few configurations, and on more of them where there are many.

    What is best for more than were tried follows by the rate at which bandwidths fall; the error is at least what is
    left if it falls as 1 / n.
    """
    tried = min(n, FEW)
    best = climbed(trials, tried, trials(tried, FIRST_BANDWIDTH, NOISE), COARSE)
    if n // 4 > tried:
        tried, first = n // 4, best.bandwidth * (4 * tried / n) ** FALL
        best = climbed(trials, tried, trials(tried, first, NOISE), FINE)
    for _ in range(MOST_STEPS):  # labels that are not exact; more noise wants a smaller bandwidth
        noisier = trials(tried, best.bandwidth / COARSE, MORE_NOISE * best.noise)
        if not is_clearly_better(noisier, best):
            break
        best = climbed(trials, tried, noisier, FINE)
    return best._replace(bandwidth=best.bandwidth * (tried / n) ** FALL, error=best.error * tried / n)


def is_clearly_better(one: Choice, other: Choice) -> bool:
    """Whether errors are smaller by more than their difference is uncertain, if it is known at which configurations."""
    if one.squares is None or other.squares is None:
        return one.error < other.error
    gain = other.squares - one.squares
    return bool(gain.mean() > CLEARLY * gain.std() / math.sqrt(len(gain)))


def climbed(trials: Trials, n: int, first: Choice, factor: float) -> Choice:
    """The best bandwidth, by trials that go up, or else down, from the first by a factor at a time while it is better.

    It is taken between the trials: where the parabola through the best of them and its two neighbours is least, the
    logarithm of the error over that of the bandwidth.
    """
    best, beside = first, list[Choice]()
    for direction in (factor, 1.0 / factor):
        for _ in range(MOST_STEPS):
            tried = trials(n, best.bandwidth * direction, first.noise)
            if not tried.error < best.error:
                beside.append(tried)
                break
            best, beside = tried, [best]
        if best is not first:
            break
    if len(beside) < 2:
        return best
    return best._replace(bandwidth=best.bandwidth * (beside[0].bandwidth / best.bandwidth) ** _vertex(best, *beside))


def _vertex(best: Choice, one: Choice, other: Choice) -> float:
    """Where the parabola is least: how far towards the one neighbour, from -1/2 to 1/2 of the way."""
    # Logarithms of how many times the error is larger there; not finite where a trial failed.
    tiny = torch.finfo(torch.float64).tiny
    rises = [math.log(max(each.error, tiny) / max(best.error, tiny)) for each in (one, other)]
    if not 0.0 < sum(rises) < math.inf:
        return 0.0
    return 0.5 * (rises[1] - rises[0]) / sum(rises)


def fitted(
    kernel: MolecularKernel, data: LabelledMolecules, labels: Labels, choice: Choice, *, tolerance: float | None = None
) -> MolecularExperts:
    """One expert, with lambda such that prior and labels have the same variance.

    Without a tolerance, conjugate gradients leave a small share of the error that is to be expected.
    """
    bandwidths = data.geometry.values.new_tensor([choice.bandwidth])
    hyperparameters = label_hyperparameters(data, kernel, labels, bandwidth=bandwidths[0], noise=choice.noise)
    if tolerance is None:
        deviation = math.sqrt(hyperparameters.noise.item() / choice.noise)  # of the labels
        tolerance = min(max(LEFT * choice.error / deviation, LEAST_LEFT), TRIED)
    ladder = Ladder(kernel=kernel, bandwidths=bandwidths, labels=labels)
    return molecular_experts(data, ladder, hyperparameters, tolerance=tolerance)
