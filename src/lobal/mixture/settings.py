"""What a mixture is made of, and how it is trained."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.kernels import Kernel, gaussian


class TrainingSettings:
    """Base class of the settings of each engine."""


@final
@dataclass(frozen=True, kw_only=True)
class MixtureSettings:
    """What the mixture is made of; defaults are the paper's where it names one."""

    bandwidths: Bandwidths  # sigma_l, ascending
    training: TrainingSettings  # its type selects the engine
    shared_bandwidth: Float[Tensor, "..."] | None = None  # Sigma_E: a number, one width per column, or a matrix
    gate_bandwidth: Float[Tensor, "..."] | None = None  # sigma_G I, likewise
    anisotropic: bool = False  # one width per column in the global expert's bandwidth
    column_groups: tuple[int, ...] | None = None  # columns of equal numbers share a width
    scale: float | None = None  # initial lambda_E; None: the global expert's
    kernel: Kernel | None = gaussian  # None: the global expert's choice
    exact: bool = False  # exact experts, the gate trained on leave-one-out predictions or on a gate set
    n_inducing: int = 512  # m_E
    n_gate_inducing: int = 128  # m_G
    inducing: str = "auto"  # how inducing points are chosen, a method of `lobal.inducing.select`
    refit: bool = True  # condition the experts once more under the trained gate
    exchange: bool = False  # replace the sparse experts by exact ones after training
    cache_bytes: int | None = None  # larger features are recomputed when needed; None: the default, 4 GiB
    pilot: bool = True  # find bandwidths, gate width and noise on a subset of the points first (analytic engine)
    adaptive: bool = False  # extend and trim the ladder of bandwidths to where it is used
