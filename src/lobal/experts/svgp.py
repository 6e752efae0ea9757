"""Sparse variational experts, whitened: Eqs. (eq:predictiveMean), (eq:predictiveVar), (eq:elbo).

With u = mu + sqrt(lambda) L b, the prior of the whitened inducing values b is N(0, I) and the variational
distribution is N(whitened_mean, S). The paper sets S = 0; diagonal and full S are the alternatives.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Inputs
from lobal.core.kernels import WhitenedFeatures, kernel_matrix
from lobal.experts.interface import Experts, Hyperparameters, Posterior


class InducingCovariance(ABC):
    """S, the covariance of the whitened inducing values of every expert."""

    @classmethod
    @abstractmethod
    def best(cls, factor: Float[Tensor, "L m m"]) -> "InducingCovariance":
        """The S of this form that maximises the ELBO, given the Cholesky factor R of the normal matrix A."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Tensor]:
        """The tensors that hold S, by name: what training adapts and saving stores."""

    def snapshot(self) -> "InducingCovariance":
        """A copy that further training does not change."""
        return type(self)(**{name: tensor.detach().clone() for name, tensor in self.parameters.items()})

    @abstractmethod
    def quadratic(self, phi: Float[Tensor, "L n m"]) -> Float[Tensor, "L n"]:
        """phi^T S phi at every input."""

    @abstractmethod
    def rooted(self, phi: Float[Tensor, "n m"], expert: int) -> Float[Tensor, "n k"]:
        """phi^T T of one expert at every input, where S = T T^T."""

    @abstractmethod
    def divergence(self) -> Float[Tensor, " L"] | float:
        """(tr S - log |S| - m) / 2, the part of KL[Q || P] that S adds to half the squared mean."""


@final
@dataclass(frozen=True)
class ZeroCovariance(InducingCovariance):
    """S = 0, the paper's choice. KL is then minus the log density of the whitened prior, less its constant."""

    @classmethod
    def best(cls, factor: Float[Tensor, "L m m"]) -> "ZeroCovariance":
        del factor
        return cls()

    @property
    def parameters(self) -> dict[str, Tensor]:
        return {}

    def quadratic(self, phi: Float[Tensor, "L n m"]) -> Float[Tensor, "L n"]:
        return phi.new_zeros(phi.shape[:2])

    def rooted(self, phi: Float[Tensor, "n m"], expert: int) -> Float[Tensor, "n k"]:
        del expert
        return phi[:, :0]

    def divergence(self) -> float:
        return 0.0


@final
@dataclass(frozen=True)
class DiagonalCovariance(InducingCovariance):
    """S = diag(exp(log_variance))."""

    log_variance: Float[Tensor, "L m"]

    @classmethod
    def best(cls, factor: Float[Tensor, "L m m"]) -> "DiagonalCovariance":
        return cls(-factor.square().sum(-1).log())  # the reciprocal diagonal of A = R R^T

    @property
    def parameters(self) -> dict[str, Tensor]:
        return {"log_variance": self.log_variance}

    def quadratic(self, phi: Float[Tensor, "L n m"]) -> Float[Tensor, "L n"]:
        return torch.einsum("lnm,lm->ln", phi.square(), self.log_variance.exp())

    def rooted(self, phi: Float[Tensor, "n m"], expert: int) -> Float[Tensor, "n k"]:
        return phi * (0.5 * self.log_variance[expert]).exp()

    def divergence(self) -> Float[Tensor, " L"]:
        return 0.5 * (self.log_variance.exp() - self.log_variance - 1.0).sum(-1)


@final
@dataclass(frozen=True)
class FullCovariance(InducingCovariance):
    """S = T T^T with T upper triangular (what lies below is ignored): log |S| is read off its diagonal."""

    root: Float[Tensor, "L m m"]

    @classmethod
    def best(cls, factor: Float[Tensor, "L m m"]) -> "FullCovariance":
        """The posterior covariance A^-1 = R^-T R^-1."""
        identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        root = torch.linalg.solve_triangular(factor, identity, upper=False).mT
        return cls(root.contiguous())  # in the layout it is saved in, for the same bits after

    @property
    def parameters(self) -> dict[str, Tensor]:
        return {"root": self.root}

    def quadratic(self, phi: Float[Tensor, "L n m"]) -> Float[Tensor, "L n"]:
        return (phi @ self.root.triu()).square().sum(-1)

    def rooted(self, phi: Float[Tensor, "n m"], expert: int) -> Float[Tensor, "n k"]:
        return phi @ self.root[expert].triu()

    def divergence(self) -> Float[Tensor, " L"]:
        diagonal = self.root.diagonal(dim1=-2, dim2=-1)
        trace = self.root.triu().square().sum((-2, -1))
        return 0.5 * trace - diagonal.abs().log().sum(-1) - 0.5 * self.root.shape[-1]


COVARIANCES: dict[str, type[InducingCovariance]] = {
    "zero": ZeroCovariance,
    "diagonal": DiagonalCovariance,
    "full": FullCovariance,
}


@final
@dataclass(frozen=True, kw_only=True)
class SparseExperts(Experts):
    """Sparse Gaussian processes on common inducing points, fitted by Adam or in closed form."""

    features: WhitenedFeatures
    hyperparameters: Hyperparameters
    whitened_mean: Float[Tensor, "L m"]  # b
    covariance: InducingCovariance = ZeroCovariance()

    def mean(self, X: Inputs) -> Float[Tensor, "L n"]:
        mean, scale, _ = self.hyperparameters
        return mean + scale.sqrt() * self.features.products(X, self.whitened_mean[:, :, None])[:, :, 0]

    def posterior(self, X: Inputs) -> Posterior:
        mean, scale, _ = self.hyperparameters
        parts = []
        for phi in self.features.chunks(X):
            unexplained = 1.0 - nystroem_diagonal(phi) + self.covariance.quadratic(phi)
            parts.append((predictive_mean(phi, self.whitened_mean, mean, scale), scale * unexplained))
        return Posterior(*(torch.cat(columns, dim=-1) for columns in zip(*parts, strict=True)))

    def joint_covariance(self, X: Inputs, expert: int) -> Float[Tensor, "n n"]:
        one = self.features.alone(expert)
        phi = one(X)[0]
        root = self.covariance.rooted(phi, expert)
        K_xx = kernel_matrix(X, X, one.bandwidths[0] * one.shared_bandwidth, one.kernel)
        return K_xx.addmm_(phi, phi.mT, alpha=-1.0).addmm_(root, root.mT).mul_(self.hyperparameters.scale)


def predictive_mean(
    phi: Float[Tensor, "L n m"],
    whitened_mean: Float[Tensor, "L m"],
    mean: Float[Tensor, ""],
    scale: Float[Tensor, ""],
) -> Float[Tensor, "L n"]:
    """mu + sqrt(lambda) phi^T b, Eq. (eq:predictiveMean)."""
    # Rows times matrices: on a CPU, including the gradient, a tenth of the time of matrices times columns.
    return mean + scale.sqrt() * torch.bmm(whitened_mean[:, None], phi.mT)[:, 0]


def nystroem_diagonal(phi: Float[Tensor, "L n m"]) -> Float[Tensor, "L n"]:
    """q(x) = k(x, Z) k(Z, Z)^-1 k(Z, x): how much of the prior variance the inducing points explain, at most 1."""
    norm: Tensor = torch.linalg.vector_norm(phi, dim=-1)
    return norm.square().clamp_max(1.0)


def kl_divergence(whitened_mean: Float[Tensor, "L m"], covariance: InducingCovariance) -> Float[Tensor, " L"]:
    """KL[Q_l || P_l] of every expert, less the constant m log(2 pi) / 2 where S = 0."""
    return 0.5 * whitened_mean.square().sum(-1) + covariance.divergence()


def expected_log_likelihood(
    residual: Float[Tensor, "L n"],
    label_variance: Float[Tensor, "L n"],
    uncertainty: Float[Tensor, "L n"],
) -> Float[Tensor, "L n"]:
    """P_b of Eq. (eq:predLogLik): E_Q log N(y; f(u), label_variance), less log(2 pi) / 2.

    `label_variance` is lambda (1 - q) + v, the variance of a label given the inducing values; `uncertainty` is
    lambda phi^T S phi, the variance of the mean under Q.
    """
    return -0.5 * ((residual.square() + uncertainty) / label_variance + label_variance.log())
