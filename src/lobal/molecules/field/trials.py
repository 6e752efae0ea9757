"""Bandwidth and noise of one expert, by validation: the least error at configurations that are not learned from.

They are tried on few configurations first and then on more of them, since the best bandwidth falls with the number of
configurations. lambda is the variance of the labels by that of the prior, and the noise a share of the former. With
sGDML's lambda = 1e-10 and sigma = 15 that share is 2e-8 for malonaldehyde: forces are then exact to 0.15 meV/Angstrom.
"""

import logging
import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.comparison import is_better
from lobal.molecules.field.expert import ForceExperts, dense_experts
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.problem import Problem

logger = logging.getLogger(__name__)

# Configurations that the first trials learn from; a quarter of all, where that is more, those after.
FEW = 150
# Bandwidths are tried from Sigma_E on by these factors, up and down.
COARSE, FINE = 2.0, 2.0**0.5
# The noise by the variance of the labels, and the factor by which more of it is tried, for labels that are not exact.
NOISE = 2e-8
MORE_NOISE = 100.0
# The best bandwidth falls as n^-FALL: local ones of malonaldehyde did so from 512 to 2048 configurations.
FALL = 0.27
MOST_STEPS = 8  # in one direction
# Residuals that conjugate gradients leave, by the labels: in trials, where errors are then larger by 0.1% for
# malonaldehyde, and in the last fit, by the error that is to be expected, which then grows by 0.1%.
TRIED = 1e-3
FINAL = 0.05
SMALLEST_RESIDUAL = 1e-7  # what rounding allows


class Choice(NamedTuple):
    """A bandwidth and a noise."""

    bandwidth: float  # sigma, in units of Sigma_E
    noise: float  # v by the variance of the labels
    error: float  # root mean squared, expected


class Trial(NamedTuple):
    """A bandwidth and a noise that were tried."""

    bandwidth: float
    noise: float
    squares: Float[Tensor, " k"]  # mean squared errors at the validation configurations

    @property
    def error(self) -> float:
        """Root mean squared."""
        return self.squares.mean().sqrt().item()


# The trial of a bandwidth and a noise after learning from the first n configurations.
Trials: TypeAlias = Callable[[int, float, float], Trial]


def validation_trials(
    kernel: MolecularKernel, labels: Labels, data: LabelledMolecules, validation: LabelledMolecules
) -> Trials:
    """Trials of dense experts: validation errors after learning from the first n configurations."""

    def trial(n: int, bandwidth: float, noise: float) -> Trial:
        choice = Choice(bandwidth, noise, 0.0)
        experts = fitted_expert(kernel, data.part(slice(n)), labels, choice, tolerance=TRIED)
        energies, forces = experts.predictor.at(validation.geometry)
        if labels.forces and validation.forces is not None:
            off = (forces[0] - validation.forces).flatten(1)
        else:
            off = energies[0, :, None] - validation.residual(Labels.ENERGIES, experts.constants[0])
        tried = Trial(bandwidth, noise, off.square().mean(1))
        words = "bandwidth %.3g Sigma_E, noise %.0e, %d configurations: error %.4f"
        logger.info(words, bandwidth, noise, n, tried.error)
        return tried

    return trial


def best_choice(trials: Trials, n: int) -> Choice:
    """Bandwidth and noise of least error on few configurations, and on more of them where there are many.

    The best bandwidth for more configurations than were tried follows from the rate at which bandwidths fall; the
    error is the least that is left if it falls as 1 / n. More noise has to be better beyond chance: with few
    configurations it does little harm yet, and most of the error at noisy labels is these labels' own.
    """
    tried = min(n, FEW)
    best = best_bandwidth(trials, tried, trials(tried, 1.0, NOISE), COARSE)
    if n // 4 > tried:
        tried, first = n // 4, best.bandwidth * (4 * tried / n) ** FALL
        best = best_bandwidth(trials, tried, trials(tried, first, NOISE), FINE)
    for _ in range(MOST_STEPS):  # more noise asks for a smaller bandwidth
        noisier = trials(tried, best.bandwidth / COARSE, MORE_NOISE * best.noise)
        if not is_better(noisier.squares, best.squares):
            break
        best = best_bandwidth(trials, tried, noisier, FINE)
    return Choice(best.bandwidth * (tried / n) ** FALL, best.noise, best.error * tried / n)


def best_bandwidth(trials: Trials, n: int, first: Trial, factor: float) -> Trial:
    """The best bandwidth, by trials that go up, or else down, from the first by a factor at a time while it is better.

    It is interpolated: at the minimum of the parabola through the best trial and its two neighbours, the logarithm of
    the error over that of the bandwidth.
    """
    best, beside = first, list[Trial]()
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


def _vertex(best: Trial, one: Trial, other: Trial) -> float:
    """Where the parabola is least: the share of the way towards the one neighbour, from -1/2 to 1/2."""
    # Logarithms of how many times the error is larger there; not finite where a trial failed.
    tiny = torch.finfo(torch.float64).tiny
    rises = [math.log(max(each.error, tiny) / max(best.error, tiny)) for each in (one, other)]
    if not 0.0 < sum(rises) < math.inf:
        return 0.0
    return 0.5 * (rises[1] - rises[0]) / sum(rises)


def fitted_expert(
    kernel: MolecularKernel, data: LabelledMolecules, labels: Labels, choice: Choice, *, tolerance: float | None = None
) -> ForceExperts:
    """One dense expert, with lambda such that prior and labels have the same variance.

    Without a tolerance, conjugate gradients leave a small share of the expected error.
    """
    bandwidths = data.geometry.values.new_tensor([choice.bandwidth])
    problem = Problem.of(data, labels, kernel, bandwidths, noise=choice.noise)
    if tolerance is None:
        deviation = math.sqrt(problem.hyperparameters.noise.item() / choice.noise)  # of the labels
        tolerance = min(max(FINAL * choice.error / deviation, SMALLEST_RESIDUAL), TRIED)
    return dense_experts(problem, tolerance=tolerance)
