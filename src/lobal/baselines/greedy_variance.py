"""Points of greatest variance under full Gaussian processes, each given all points before it, without any refit.

A process is kept in one of two forms. The covariance of a point with all candidates follows from what the points so far
say about every candidate, which grows with their number. If they are many and the kernel is smooth, fewer features than
points explain the process wherever its gate is open: then the posterior covariance of the features is updated instead.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Bandwidths, Inputs, Scalar
from lobal.core.kernels import Kernel, WhitenedFeatures, gram_matrices, scale_inputs, squared_distances
from lobal.core.linalg import SMALLEST_JITTER, safe_cholesky
from lobal.experts.svgp import nystroem_diagonal
from lobal.inducing.greedy import variance_points

FEWEST_FEATURES = 64  # that are tried, then twice as many
# Features are used if so few explain the process: an update then takes a fraction of the time.
POINTS_PER_FEATURE = 4
# Share of the prior variance that features may leave unexplained; variances of thousands of labels are a thousandth.
UNEXPLAINED = 1e-7
OUT_OF_REACH = 1e-9  # share of the prior variance below which a candidate has nothing to say about the features


@final
@dataclass(frozen=True, kw_only=True)
class Covariances:
    """Prior covariances lambda k_l of L full Gaussian processes."""

    bandwidths: Bandwidths  # sigma_l
    shared_bandwidth: Float[Tensor, "..."]  # Sigma_E
    scale: Scalar  # lambda
    kernel: Kernel

    def between(self, A: Inputs, B: Float[Tensor, "m d"], number: int) -> Float[Tensor, "n m"]:
        """The covariances of two sets of inputs under one of the processes."""
        squared = squared_distances(*(scale_inputs(points, self.shared_bandwidth) for points in (A, B)))
        return self.scale * gram_matrices(squared, self.bandwidths[number : number + 1], self.kernel)[0]

    def features_at(self, points: Inputs, number: int) -> WhitenedFeatures:
        """Features of one of the processes."""
        return WhitenedFeatures.at(
            points,
            bandwidths=self.bandwidths[number : number + 1],
            shared_bandwidth=self.shared_bandwidth,
            kernel=self.kernel,
        )


@final
@dataclass(frozen=True, kw_only=True)
class Places:
    """Candidates and points that are known already, with the noise variance of their labels."""

    X: Float[Tensor, "N d"]
    known: Float[Tensor, "n d"]
    noise: Float[Tensor, " N"]
    known_noise: Float[Tensor, " n"]


class Process(ABC):
    """The posterior of one Gaussian process at the candidates."""

    variance: Float[Tensor, " N"]  # of the latent function; that of candidates outside of the gate may be too large

    @abstractmethod
    def observe(self, row: int) -> None:
        """Condition on a label of that candidate."""


@final
class FullProcess(Process):
    """Row j of W is what the j-th point says about every candidate: the posterior covariance is C - W^T W."""

    def __init__(self, places: Places, prior: Covariances, number: int, b: int) -> None:
        self._places, self._prior, self._number, self._n = places, prior, number, len(places.known)
        self._W = places.X.new_empty(self._n + b, len(places.X))
        if self._n:
            C = prior.between(places.known, places.known, number)
            C.diagonal().add_(places.known_noise)
            across = prior.between(places.known, places.X, number)
            self._W[: self._n] = torch.linalg.solve_triangular(safe_cholesky(C).lower, across, upper=False)
        self.variance = prior.scale - self._W[: self._n].square().sum(0)

    def observe(self, row: int) -> None:
        X, before = self._places.X, self._W[: self._n]
        column = self._prior.between(X[row][None], X, self._number)[0] - before[:, row] @ before
        label = (self.variance[row] + self._places.noise[row]).clamp_min(SMALLEST_JITTER * self._prior.scale)
        self._W[self._n] = column / label.sqrt()
        self.variance -= self._W[self._n].square()
        self._n += 1


@final
class FeatureProcess(Process):
    """The posterior covariance is V V^T of the candidates in reach, up to what the features leave unexplained."""

    def __init__(self, places: Places, prior: Covariances, features: WhitenedFeatures) -> None:
        phi, known = features.stacked(places.X)[0], features.stacked(places.known)[0]
        explained, of_known = (nystroem_diagonal(part[None])[0] for part in (phi, known))
        self._place = torch.full((len(phi),), -1)  # of a candidate in V
        self._reach = (explained > OUT_OF_REACH).nonzero()[:, 0]
        self._place[self._reach] = torch.arange(len(self._reach))
        scaled = prior.scale.sqrt() * known
        unexplained, of_known = (
            prior.scale * (1.0 - part).clamp_min(SMALLEST_JITTER) for part in (explained, of_known)
        )
        A = (scaled / (places.known_noise + of_known)[:, None]).mT @ scaled
        A.diagonal().add_(1.0)
        root = safe_cholesky(A).lower
        V = torch.linalg.solve_triangular(root, prior.scale.sqrt() * phi[self._reach].mT, upper=False)
        self._V = V.mT.contiguous()
        self._noise = places.noise + unexplained
        self.variance = unexplained
        self.variance[self._reach] += self._V.square().sum(1)

    def observe(self, row: int) -> None:
        place = int(self._place[row])
        if place < 0:
            return
        v = self._V[place].clone()
        noise = self._noise[row]
        label = noise + v @ v
        # V (I - v v^T / label) V^T, the factor being a symmetric root of the matrix in between.
        covariance = self._V @ v
        self.variance[self._reach] -= covariance.square() / label
        self._V.addr_(covariance, v, alpha=-1.0 / (label + (noise * label).sqrt()).item())


def process_for(
    places: Places, prior: Covariances, number: int, is_open: Float[Tensor, " N"], b: int
) -> FullProcess | FeatureProcess:
    """One of the processes in the form that is cheaper for b more points; only where its gate is open it counts."""
    inside = places.X[is_open > 0.0]
    m = min(FEWEST_FEATURES, len(inside))
    while POINTS_PER_FEATURE * m <= len(places.known) + b:
        chosen = variance_points(inside, m, kernel=lambda A, B: prior.between(A, B, number))
        features = prior.features_at(chosen, number)
        if (1.0 - nystroem_diagonal(features.stacked(inside))).max() < UNEXPLAINED:
            return FeatureProcess(places, prior, features)
        if m == len(inside):
            break
        m = min(2 * m, len(inside))
    return FullProcess(places, prior, number, b)


@torch.no_grad()
def greedy_rows(
    X: Float[Tensor, "N d"],
    known: Float[Tensor, "n d"],
    prior: Covariances,
    gate: Float[Tensor, "N L"],
    noise: Float[Tensor, " N+n"],
    b: int,
) -> Int[Tensor, " b"]:
    """b candidates, each of greatest gate-weighted variance of a label given the known points and those before it.

    O(L N (n + b) b) time after the O(L n^2 (n + N)) of known points, or O(L N r b) with r features.
    """
    places = Places(X=X, known=known, noise=noise[: len(X)], known_noise=noise[len(X) :])
    weights = [(number, gate[:, number].contiguous()) for number in range(gate.shape[1]) if gate[:, number].any()]
    processes = [(weight, process_for(places, prior, number, weight, b)) for number, weight in weights]
    rows = torch.empty(b, dtype=torch.long)
    for i in range(b):
        score = places.noise.clone()
        for weight, process in processes:
            score.addcmul_(weight, process.variance.clamp_min(0.0))
        score[rows[:i]] = -math.inf
        rows[i] = score.argmax()
        for _, process in processes:
            process.observe(int(rows[i]))
    return rows
