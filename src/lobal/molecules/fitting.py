"""From labelled configurations to a mixture of force fields: symmetries, Sigma_E, a ladder of bandwidths, a gate."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.arrays import resolve_device
from lobal.molecules.anisotropy import FIRST_BANDWIDTH, trained_bandwidth
from lobal.molecules.expert import Ladder
from lobal.molecules.forcefield import ForceField
from lobal.molecules.hyperparameters import label_hyperparameters
from lobal.molecules.kernel import MolecularKernel
from lobal.molecules.labels import Labels
from lobal.molecules.mixture import GateSettings, MolecularMixture, fit_mixture
from lobal.molecules.permutations import typical_distance
from lobal.molecules.radial import radial_kernel_named
from lobal.molecules.symmetry import permutation_group
from lobal.molecules.trajectory import Trajectory

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
    anisotropic: bool = True  # train Sigma_E; otherwise it is a multiple of the typical distance
    inducing: int = 128  # configurations that Sigma_E is trained with
    # By the variance of the labels; the paper's. Experts interpolate, and no smaller number is told from rounding.
    noise: float = 1e-9
    gate: GateSettings = field(default_factory=GateSettings)
    device: str | None = None

    def __post_init__(self) -> None:
        radial_kernel_named(self.kernel)
        if self.labels not in Labels.__members__:
            raise ValueError(f"labels must be one of {', '.join(Labels.__members__)}, got {self.labels!r}")
        if len(self.bandwidths) < 2 or list(self.bandwidths) != sorted({*self.bandwidths}) or self.bandwidths[0] <= 0.0:
            raise ValueError(f"bandwidths must be two or more, positive and increasing, got {self.bandwidths}")
        if not 0.0 < self.noise < math.inf:
            raise ValueError(f"noise must be positive and finite, got {self.noise}")


def fit_force_field(
    learned: Trajectory,
    settings: FieldSettings,
    *,
    shared: Float[Tensor, " D"] | None = None,
    generator: torch.Generator,
    say: Callable[[str], None] = logger.info,
) -> ForceField:
    """A mixture of dense experts given all labels; `shared` is Sigma_E if it is known from an earlier fit.

    Raises:
        ValueError: there are too few configurations, or not the labels that are asked for.
    """
    device = resolve_device(settings.device)
    data = learned.labelled(device)
    say(f"looking for symmetries of {len(learned)} configurations")
    permutations = permutation_group(learned.R, learned.species).to(device)
    radial, labels = radial_kernel_named(settings.kernel), Labels[settings.labels]
    if shared is None and settings.anisotropic:
        say("training the bandwidths of all pairs of atoms")
        shared = trained_bandwidth(
            data, radial, permutations, labels=labels, m=settings.inducing, generator=generator, say=say
        )
    elif shared is None:
        values = data.geometry.values
        shared = (FIRST_BANDWIDTH * typical_distance(values, permutations)).expand(values.shape[1]).contiguous()
    kernel = MolecularKernel(radial=radial, shared=shared.to(data.geometry.values), permutations=permutations)
    bandwidths = kernel.shared.new_tensor(settings.bandwidths)
    ladder = Ladder(kernel=kernel, bandwidths=bandwidths, labels=labels)
    middle = bandwidths[len(bandwidths) // 2]
    hyperparameters = label_hyperparameters(data, kernel, labels, bandwidth=middle, noise=settings.noise)
    mixture = fit_mixture(data, ladder, hyperparameters, settings=settings.gate, generator=generator, say=say)
    return ForceField.of(
        mixture.experts,
        mixture.gate,
        positions=learned.R.to(device),
        species=learned.species.to(device),
        about=_about(mixture, learned, settings),
    )


def _about(mixture: MolecularMixture, learned: Trajectory, settings: FieldSettings) -> dict[str, Any]:
    gate, losses = mixture.gate, mixture.misses.losses(mixture.misses.units())
    kernel = mixture.experts.ladder.kernel
    return {
        "source": Path(learned.source).name,
        "configurations": len(learned),
        "symmetries": len(kernel.permutations),
        "experts": list(settings.bandwidths),
        "shares": gate.at(mixture.experts.data.geometry).mean(0).tolist(),
        "best_expert": settings.bandwidths[int(losses.mean(1).argmin())],
        "gate_width": gate.features.kernel.shared[0].item(),
        "noise": settings.noise,
    }
