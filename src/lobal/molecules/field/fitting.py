"""From labelled configurations to a mixture of force fields: symmetries, Sigma_E, a ladder of bandwidths, a gate."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import resolve_device
from lobal.molecules.field.anisotropy import FIRST_BANDWIDTH, trained_bandwidth
from lobal.molecules.field.expert import ForceExperts, Ladder, experts_and_left_out
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.gate import MolecularGate
from lobal.molecules.field.hyperparameters import label_hyperparameters
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.mixture import GateSettings, Misses, fit_gate, misses_of
from lobal.molecules.field.radial import radial_kernel_named
from lobal.molecules.field.sparse import sparse_experts_and_left_out
from lobal.molecules.geometry.clustering import inducing_rows, number_distinct
from lobal.molecules.geometry.descriptor import Geometry
from lobal.molecules.geometry.permutations import Permutations, symmetrised_bandwidth, typical_distance
from lobal.molecules.geometry.symmetry import permutation_group
from lobal.molecules.geometry.trajectory import Trajectory

logger = logging.getLogger(__name__)

# sigma_l by Sigma_E: half octaves. Sigma_E suits some hundred configurations, and more ask for less: 0.5 at 2048.
BANDWIDTHS = tuple(2.0 ** (0.5 * step) for step in range(-5, 3))


@final
@dataclass(frozen=True, kw_only=True)
class FieldSettings:
    """How to learn a mixture of force fields."""

    kernel: str = "gaussian"
    labels: str = Labels.BOTH.name
    bandwidths: tuple[float, ...] = BANDWIDTHS
    mixture: bool = True  # of all bandwidths; otherwise the one of least leave-one-out error is taken
    sparse: int | None = None  # inducing configurations that experts speak through, at most all; none: they are dense
    anisotropic: bool = True  # train Sigma_E; otherwise it is a multiple of the typical distance
    inducing: int = 128  # configurations at a time that Sigma_E is trained with, and how many times
    folds: int = 2
    # By the variance of the labels; the paper's. Experts interpolate, and no smaller number is told from rounding.
    noise: float = 1e-9
    gate: GateSettings = field(default_factory=GateSettings)
    device: str | None = None

    def __post_init__(self) -> None:
        radial_kernel_named(self.kernel)
        if self.labels not in Labels.__members__:
            raise ValueError(f"labels must be one of {', '.join(Labels.__members__)}, got {self.labels!r}")
        rising = all(0.0 < a < b < math.inf for a, b in pairwise(self.bandwidths))
        if len(self.bandwidths) < 2 or not rising:
            raise ValueError(f"bandwidths must be two or more, positive and increasing, got {self.bandwidths}")
        if not 0.0 < self.noise < math.inf:
            raise ValueError(f"noise must be positive and finite, got {self.noise}")
        if self.inducing < 1 or self.folds < 1:
            raise ValueError(f"inducing and folds must be at least 1, got {self.inducing} and {self.folds}")
        if self.sparse is not None and self.sparse < 1:
            raise ValueError(f"sparse experts need at least 1 inducing configuration, got {self.sparse}")


def fit_force_field(
    learned: Trajectory,
    settings: FieldSettings,
    *,
    shared: Float[Tensor, " D"] | None = None,
    permutations: Permutations | None = None,
    generator: torch.Generator,
    say: Callable[[str], None] = logger.info,
) -> ForceField:
    """Experts given all labels, dense or sparse, a mixture of them or the best.

    `shared` is Sigma_E, and `permutations` the symmetries, where these are known already.

    Raises:
        ValueError: there are too few configurations, or not the labels that are asked for.
    """
    device = resolve_device(settings.device)
    data = learned.labelled(device)
    if permutations is None:
        say(f"looking for symmetries of {len(learned)} configurations")
        permutations = permutation_group(learned.R, learned.species)
    permutations = permutations.to(device)
    if shared is None:
        shared = _shared(data, permutations, settings, generator=generator, say=say)
    radial, labels = radial_kernel_named(settings.kernel), Labels[settings.labels]
    kernel = MolecularKernel(radial=radial, shared=shared.to(data.geometry.values), permutations=permutations)
    bandwidths = kernel.shared.new_tensor(settings.bandwidths)
    ladder = Ladder(kernel=kernel, bandwidths=bandwidths, labels=labels)
    middle = bandwidths[len(bandwidths) // 2]
    hyperparameters = label_hyperparameters(data, kernel, labels, bandwidth=middle, noise=settings.noise)
    experts: ForceExperts
    if settings.sparse is None:
        rows = None
        experts, left_out = experts_and_left_out(data, ladder, hyperparameters, say)
    else:
        rows = spread_out(data.geometry, settings.sparse, kernel, generator=generator)
        experts, left_out = sparse_experts_and_left_out(data, data.geometry.at(rows), ladder, hyperparameters, say)
    misses, gate = misses_of(left_out, data, labels), None
    about = _about(learned, settings, kernel, misses)
    if settings.mixture:
        say(f"fitting the gate to {len(learned)} configurations")
        gate = fit_gate(misses, data.geometry, permutations, settings.gate, generator=generator)
        about |= _about_gate(gate, data.geometry)
    else:
        experts = experts.only(misses.best_expert())
        about |= {"bandwidth": experts.ladder.bandwidths.item()}
    positions, species = learned.R.to(device), learned.species.to(device)
    if rows is None:
        return ForceField.of(experts, gate, positions=positions, species=species, about=about)
    about |= {"inducing": len(rows)}
    return ForceField.of(experts, gate, positions=positions[rows], species=species, about=about, learned=positions)


def _shared(
    data: LabelledMolecules,
    permutations: Permutations,
    settings: FieldSettings,
    *,
    generator: torch.Generator,
    say: Callable[[str], None],
) -> Float[Tensor, " D"]:
    """Sigma_E: trained, or a multiple of the typical distance."""
    values = data.geometry.values
    if not settings.anisotropic:
        return (FIRST_BANDWIDTH * typical_distance(values, permutations)).expand(values.shape[1]).contiguous()
    say("training the bandwidths of all pairs of atoms")
    return trained_bandwidth(
        data,
        radial_kernel_named(settings.kernel),
        permutations,
        labels=Labels[settings.labels],
        m=settings.inducing,
        folds=settings.folds,
        generator=generator,
        say=say,
    )


def spread_out(geometry: Geometry, m: int, kernel: MolecularKernel, *, generator: torch.Generator) -> Int[Tensor, " m"]:
    """The rows of m inducing configurations as the kernel sees distances; where fewer differ, of those.

    Like the gate, too small for a GPU to be of use, and done on the CPU.
    """
    permutations = kernel.permutations.cpu()
    values = geometry.values.cpu() / symmetrised_bandwidth(kernel.shared.cpu(), permutations)
    number = number_distinct(values, permutations, most=m)
    return inducing_rows(values, number, permutations, generator=generator).to(geometry.values.device)


def _about(learned: Trajectory, settings: FieldSettings, kernel: MolecularKernel, misses: Misses) -> dict[str, Any]:
    return {
        "source": Path(learned.source).name,
        "configurations": len(learned),
        "symmetries": len(kernel.permutations),
        "labels": settings.labels,
        "bandwidths": list(settings.bandwidths),
        "best_expert": misses.best_expert(),
        "noise": settings.noise,
    }


def _about_gate(gate: MolecularGate, geometry: Geometry) -> dict[str, Any]:
    return {
        "shares": gate.at(geometry).mean(0).tolist(),
        "gate_width": gate.features.kernel.shared[0].item(),
        "gate_scale": gate.scale.item(),
    }
