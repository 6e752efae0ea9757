"""The mixture: prediction, uncertainty and local bandwidth, all weighted by the gate."""

from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths, Inputs, Scalar
from lobal.core.kernels import Kernel
from lobal.core.linalg import Correlation, correlation
from lobal.core.superior_density import local_bandwidth
from lobal.experts.exact import ExactExperts
from lobal.experts.interface import Experts, Hyperparameters, Posterior
from lobal.experts.svgp import SparseExperts
from lobal.mixture.gate import Gate, gated_mean
from lobal.mixture.settings import TrainingSettings
from lobal.mixture.start import Start


class MixturePrediction(NamedTuple):
    """Mean and variance of the latent function under the mixture."""

    mean: Float[Tensor, " n"]
    variance: Float[Tensor, " n"]


@final
@dataclass(frozen=True, kw_only=True)
class Ruler:
    """What local bandwidths are measured by: a gate and its ladder of bandwidths."""

    gate: Gate
    bandwidths: Bandwidths  # sigma_l
    shared_bandwidth: Float[Tensor, "..."]  # Sigma_E

    def local_bandwidth(self, X: Inputs) -> Float[Tensor, " n"]:
        """sigma(x) |Sigma_E|^(1/d), Eq. (eq:gprLOB)."""
        return local_bandwidth(self.gate(X), self.bandwidths) * bandwidth_volume(self.shared_bandwidth)


@final
@dataclass(frozen=True, kw_only=True)
class Mixture:
    """A fitted sparse mixture of Gaussian processes, Eq. (eq:fMoE)."""

    experts: Experts
    gate: Gate
    bandwidths: Bandwidths  # sigma_l
    shared_bandwidth: Float[Tensor, "..."]  # Sigma_E
    # If local bandwidths are not measured by the gate, which selects the bandwidths that predict best: these are small
    # around regions of rapid change too, and those of a rough kernel hardly vary.
    other_ruler: Ruler | None = None

    @property
    def ruler(self) -> Ruler:
        """What local bandwidths are measured by."""
        own = Ruler(gate=self.gate, bandwidths=self.bandwidths, shared_bandwidth=self.shared_bandwidth)
        return own if self.other_ruler is None else self.other_ruler

    @property
    def kernel(self) -> Kernel:
        """The kernel of the experts."""
        if isinstance(self.experts, SparseExperts):
            return self.experts.features.kernel
        assert isinstance(self.experts, ExactExperts)  # there are no others
        return self.experts.kernel

    def mean(self, X: Inputs) -> Float[Tensor, " n"]:
        """Gate-weighted mean at every input, Eq. (eq:fMoE)."""
        return gated_mean(self.gate(X), self.experts.mean(X))

    def predict(self, X: Inputs) -> MixturePrediction:
        """Gate-weighted mean and the mixture's variance at every input."""
        return mixture_prediction(self.gate(X), self.experts.posterior(X))

    def correlation(self, X: Inputs) -> Correlation:
        """Correlation of the latent function between all inputs; O(n^2) memory.

        That of R(x, x') = sum_l G(x)_l G(x')_l C_l(x, x'), where C_l is the posterior covariance of expert l. Times the
        standard deviations of `predict` at both inputs it is the covariance of the mixture, whose diagonal therefore
        includes the spread of the experts' means.
        """
        gate, R = self.gate(X), X.new_zeros(len(X), len(X))
        for expert in gate.any(dim=0).nonzero()[:, 0].tolist():
            rows = gate[:, expert].nonzero()[:, 0]
            weight = gate[rows, expert]
            R[rows[:, None], rows] += weight * weight[:, None] * self.experts.joint_covariance(X[rows], expert)
        return correlation(R, prior=self.experts.hyperparameters.scale)

    def uncertainty(self, X: Inputs) -> Float[Tensor, " n"]:
        """MoGPU, Eq. (eq:MoGPU), less the label noise: the gate-weighted variance of the experts."""
        return gated_mean(self.gate(X), self.experts.posterior(X).variance)


class FittedMixture(NamedTuple):
    """A mixture and, if the engine computes them, its leave-one-out residuals."""

    mixture: Mixture
    residual: Float[Tensor, " n"] | None = None  # of all labels except those for validation
    start: Start | None = None  # where the fit started
    measure: TrainingSettings | None = None  # by which the gate compares experts; None: it selects one everywhere
    tail_noise: Scalar | None = None  # variance of a new label's noise if it has heavy tails
    label_noise: Float[Tensor, " n"] | None = None  # and the variances that the training labels count with

    @property
    def hyperparameters(self) -> Hyperparameters:
        """Mean, scale and noise of the experts."""
        return self.mixture.experts.hyperparameters

    @property
    def noise(self) -> float:
        """The variance of a new label's noise, on average."""
        return float(self.hyperparameters.noise.mean() if self.tail_noise is None else self.tail_noise)


def mixture_prediction(gate: Float[Tensor, "n L"], posterior: Posterior) -> MixturePrediction:
    """Mean and variance of a mixture of Gaussians by the law of total variance.

    The variance is the gate-weighted variance plus the gate-weighted spread of the experts' means.
    """
    mean = gated_mean(gate, posterior.mean)
    spread = (posterior.mean - mean).square()
    return MixturePrediction(mean, gated_mean(gate, posterior.variance + spread))


def bandwidth_volume(shared_bandwidth: Float[Tensor, "..."]) -> Float[Tensor, ""]:
    """|Sigma_E|^(1/d), the geometric mean width of the shared bandwidth matrix."""
    if shared_bandwidth.ndim == 2:
        determinant: Tensor = torch.linalg.det(shared_bandwidth)
        return determinant.pow(1.0 / len(shared_bandwidth))
    return shared_bandwidth.log().mean().exp()
