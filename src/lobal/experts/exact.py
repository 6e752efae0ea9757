"""Exact experts: Gaussian process regression, with leave-one-out predictions in closed form."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Bandwidths, Inputs
from lobal.core.kernels import Kernel, gram_matrices, kernel_matrix, rows_at_once, scale_inputs, squared_distances
from lobal.core.linalg import safe_cholesky
from lobal.experts.interface import Experts, Hyperparameters, Posterior


@final
@dataclass(frozen=True, kw_only=True)
class ExactExperts(Experts):
    """Full Gaussian processes on the n training points (Appendix, "Classical Gaussian process regression")."""

    inputs: Inputs
    labels: Float[Tensor, " n"]
    bandwidths: Bandwidths
    shared_bandwidth: Float[Tensor, "..."]  # Sigma_E
    kernel: Kernel
    hyperparameters: Hyperparameters
    factor: Float[Tensor, "L n n"]  # Cholesky factor of C = lambda K + diag(v)
    weights: Float[Tensor, "L n"]  # C^-1 (y - mu)

    def mean(self, X: Inputs) -> Float[Tensor, "L n"]:
        return torch.cat([self._mean(C_nx) for C_nx in self._covariances_with(X)], dim=-1)

    def posterior(self, X: Inputs) -> Posterior:
        parts = [Posterior(self._mean(C_nx), self._variance(C_nx)) for C_nx in self._covariances_with(X)]
        return Posterior(*(torch.cat(columns, dim=-1) for columns in zip(*parts, strict=True)))

    def joint_covariance(self, X: Inputs, expert: int) -> Float[Tensor, "n n"]:
        width, scale = self.bandwidths[expert] * self.shared_bandwidth, self.hyperparameters.scale
        C_nx, C_xx = (scale * kernel_matrix(part, X, width, self.kernel) for part in (self.inputs, X))
        root: Tensor = torch.linalg.solve_triangular(self.factor[expert], C_nx, upper=False)
        return C_xx.sub_(root.mT @ root)

    def _mean(self, C_nx: Float[Tensor, "L n x"]) -> Float[Tensor, "L x"]:
        return self.hyperparameters.mean + torch.einsum("lnx,ln->lx", C_nx, self.weights)

    def _variance(self, C_nx: Float[Tensor, "L n x"]) -> Float[Tensor, "L x"]:
        root: Tensor = torch.linalg.solve_triangular(self.factor, C_nx, upper=False)
        return (self.hyperparameters.scale - root.square().sum(-2)).clamp_min(0.0)

    def _covariances_with(self, X: Inputs) -> Iterator[Float[Tensor, "L n x"]]:
        """Covariances of the training points with consecutive inputs."""
        scaled = scale_inputs(self.inputs, self.shared_bandwidth)
        for part in X.split(rows_at_once(len(self.bandwidths) * len(self.inputs), X.device)):
            squared = squared_distances(scaled, scale_inputs(part, self.shared_bandwidth))
            yield self.hyperparameters.scale * gram_matrices(squared, self.bandwidths, self.kernel)

    def leave_one_out(self) -> Posterior:
        """Each label's predictive distribution had that label been left out; the variance includes its noise.

        mean_i = y_i - [C^-1 (y - mu)]_i / [C^-1]_ii and variance_i = 1 / [C^-1]_ii.
        """
        precision = torch.stack([torch.cholesky_inverse(factor).diagonal() for factor in self.factor])
        return Posterior(self.labels - self.weights / precision, 1.0 / precision)

    def log_marginal_likelihood(self) -> Float[Tensor, " L"]:
        """log N(y; mu, C) of every expert."""
        fit = (self.labels - self.hyperparameters.mean) * self.weights
        log_determinant = 2.0 * self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return -0.5 * (fit.sum(-1) + log_determinant + len(self.labels) * math.log(2.0 * math.pi))


def exact_experts(
    X: Inputs,
    y: Float[Tensor, " n"],
    hyperparameters: Hyperparameters,
    *,
    bandwidths: Bandwidths,
    shared_bandwidth: Float[Tensor, "..."],
    kernel: Kernel,
) -> ExactExperts:
    """Full Gaussian processes conditioned on all labels; O(L n^3) time and O(L n^2) memory."""
    factor = X.new_empty(len(bandwidths), len(X), len(X))
    scaled = scale_inputs(X, shared_bandwidth)
    squared = squared_distances(scaled, scaled)
    for number in range(len(bandwidths)):  # one at a time: intermediate matrices take as much memory as a factor
        one = bandwidths[number : number + 1]
        factor[number] = safe_cholesky(label_covariances(squared, hyperparameters, one, kernel)[0]).lower
    residual = (y - hyperparameters.mean).expand(len(bandwidths), -1)
    return ExactExperts(
        inputs=X,
        labels=y,
        bandwidths=bandwidths,
        shared_bandwidth=shared_bandwidth,
        kernel=kernel,
        hyperparameters=hyperparameters,
        factor=factor,
        weights=torch.cholesky_solve(residual[:, :, None], factor)[:, :, 0],
    )


def label_covariances(
    squared: Float[Tensor, "n n"], hyperparameters: Hyperparameters, bandwidths: Bandwidths, kernel: Kernel
) -> Float[Tensor, "L n n"]:
    """lambda K_l + diag(v), the covariance of the labels under every expert, from squared scaled distances."""
    C = hyperparameters.scale * gram_matrices(squared, bandwidths, kernel)
    C.diagonal(dim1=-2, dim2=-1).add_(hyperparameters.noise.expand(len(squared)))
    return C


def neighbourhoods(X: Float[Tensor, "n d"], most: int) -> list[Int[Tensor, " rows"]]:
    """The rows of X in groups of no more than `most` nearby points: halves along the widest column, again and again.

    For computations that cost the cube of their number. The labels of a random subset of the same cost are further
    apart, and what they do not resolve looks like noise or a smaller bandwidth.
    """
    if len(X) <= most:
        return [torch.arange(len(X), device=X.device)]
    order = X[:, X.std(dim=0).argmax()].argsort()
    halves = order[: len(X) // 2], order[len(X) // 2 :]
    return [half[rows] for half in halves for rows in neighbourhoods(X[half], most)]
