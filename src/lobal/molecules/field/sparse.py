"""Sparse sGDML experts: Gaussian processes of energies and forces that speak through m inducing configurations.

Inducing values are the energies and forces of these, the forces along the directions that change the shape. With
R R^T = K_zz, the whitened features Phi = K_nz R^-T of all labels and their noise V = diag(v),

    A = I + lambda Phi^T V^-1 Phi = T T^T,    f = mu + lambda phi^T A^-1 Phi^T V^-1 (y - mu),

the optimum of the collapsed bound of Titsias (see `experts.fitc`) and, where all configurations are inducing, what
dense experts say. A is conditioned like the C of those, and R only ever solved with, so noise may be as small.

Leaving out *all labels of one configuration* i, the inducing ones as they are, takes the block of leverages
H_i = lambda V_i^-1/2 Phi_i A^-1 Phi_i^T V_i^-1/2: in units of the noise, labels are missed by (I - H_i)^-1 r_i. Their
covariance is V_i^1/2 (I - H_i)^-1 V_i^1/2 and the share of the prior that inducing values do not explain.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Inputs, Scalar
from lobal.core.kernels import rows_at_once, whitened
from lobal.experts.interface import Hyperparameters, Posterior
from lobal.molecules.field.expert import ForceExperts, Ladder, LeftOut, directions, energy_constants, factored
from lobal.molecules.field.kernel import MolecularKernel, Moves, along_coordinates, covariance_along, energy_variances
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.product import Internal
from lobal.molecules.geometry.descriptor import Geometry, describe

logger = logging.getLogger(__name__)

# K_zz is factored with this share of v / lambda on its diagonal: inducing values need not be better known than labels.
JITTER = 1e-2
# Configurations whose covariances with each other are computed at a time, for those of each with itself.
BLOCKS_TOGETHER = 8


class Features(NamedTuple):
    """The map from labels to whitened features, for one bandwidth; there are p = m (3 N - 5) inducing values."""

    kernel: MolecularKernel
    bandwidth: Scalar
    inducing: Moves
    factor: Float[Tensor, "p p"]  # R

    @classmethod
    def at(cls, kernel: MolecularKernel, inducing: Moves, *, bandwidth: Scalar, jitter: Scalar) -> "Features":
        """Factors the covariance of the inducing values, with the jitter on its diagonal."""
        K_zz = covariance_along(kernel, inducing, bandwidths=bandwidth[None])[0]
        K_zz.diagonal().add_(jitter)
        return cls(kernel, bandwidth, inducing, factored(K_zz))

    def __call__(self, moves: Moves) -> Float[Tensor, "labels p"]:
        """Phi, sorted like `covariance`."""
        K_nz = covariance_along(self.kernel, moves, self.inducing, bandwidths=self.bandwidth[None])
        return whitened(self.factor[None], K_nz)[0]


class Part(NamedTuple):
    """Some configurations, their labels in units of the noise."""

    moves: Moves
    y: Float[Tensor, "k v"]  # V^-1/2 (y - mu), forces along the directions
    deviation: Float[Tensor, "k v"]  # v^1/2


class Solved(NamedTuple):
    """One expert given all labels: A and the whitened inducing values, of prior variance one."""

    factor: Float[Tensor, "p p"]  # T
    values: Float[Tensor, " p"]  # lambda^1/2 A^-1 Phi^T V^-1 (y - mu)
    weights: Float[Tensor, " p"]  # lambda^1/2 R^-T times them: of covariances with inducing values


class Factors(NamedTuple):
    """What variances take: O(L (m N)^2) memory."""

    prior: Float[Tensor, "L p p"]  # R
    posterior: Float[Tensor, "L p p"]  # T


@final
@dataclass(frozen=True, kw_only=True)
class SparseMolecularExperts(ForceExperts):
    """Sparse experts, all on the same inducing configurations, whose energies and forces have the weights."""

    inducing: Internal  # Z
    factors: Factors | None

    def only(self, number: int) -> "SparseMolecularExperts":
        one = slice(number, number + 1)
        factors = None if self.factors is None else Factors(*(part[one] for part in self.factors))
        return replace(self, **self._part(one), factors=factors)

    def posterior(self, X: Inputs) -> Posterior:
        if self.factors is None:
            raise ValueError("these experts were fitted without their factors; variances need keep_factors=True")
        geometry = describe(X.unflatten(1, (-1, 3)))
        step = rows_at_once(self.factors.prior.shape[1], X.device)
        starts = range(0, max(1, len(X)), step)
        parts = [self._variance(geometry.at(slice(i, i + step)), self.factors) for i in starts]
        return Posterior(self.mean(X), torch.cat(parts, dim=1))

    def _variance(self, geometry: Geometry, factors: Factors) -> Float[Tensor, "L n"]:
        kernel, bandwidths, scale = self.ladder.kernel, self.ladder.bandwidths, self.hyperparameters.scale
        moves, rows = along_coordinates(geometry, Labels.ENERGIES), []
        for sigma, R, T in zip(bandwidths, *factors, strict=True):
            phi = Features(kernel, sigma, self.inducing.moves, R)(moves)
            rows.append(whitened(T[None], phi[None])[0].square().sum(1) - phi.square().sum(1))
        prior = energy_variances(kernel, geometry, bandwidths=bandwidths)
        return (scale * (prior + torch.stack(rows))).clamp_min(0.0)


def sparse_molecular_experts(
    data: LabelledMolecules,
    inducing: Geometry,
    ladder: Ladder,
    hyperparameters: Hyperparameters,
    *,
    keep_factors: bool = False,
) -> SparseMolecularExperts:
    """Experts given all labels, through inducing configurations: O(n m^2 N^3) time, and memory without any n m.

    Raises:
        ValueError: there are no inducing configurations, they or the data are of another molecule than the kernel, or
            the noise is neither a number above zero nor one for each label.
    """
    weights, kept = [], list[tuple[Tensor, Tensor]]()
    fit = _Fit.of(data, inducing, ladder, hyperparameters)
    for sigma in ladder.bandwidths:
        features = fit.features(sigma)
        solved = fit.solved(features)
        weights.append(solved.weights)
        if keep_factors:
            kept.append((features.factor, solved.factor))
    factors = Factors(*(torch.stack(each) for each in zip(*kept, strict=True))) if kept else None
    return fit.assembled(inducing, weights, factors)


def sparse_experts_and_left_out(
    data: LabelledMolecules,
    inducing: Geometry,
    ladder: Ladder,
    hyperparameters: Hyperparameters,
    say: Callable[[str], None] = logger.info,
) -> tuple[SparseMolecularExperts, LeftOut]:
    """Experts, and what they say about each configuration without its labels; inducing ones stay inducing.

    Raises:
        ValueError: as `sparse_molecular_experts`.
    """
    fit, n = _Fit.of(data, inducing, ladder, hyperparameters), len(data.geometry.values)
    weights, means, covariances = [], [], []
    for number, sigma in enumerate(ladder.bandwidths):
        say(f"expert {number + 1} of {len(ladder.bandwidths)}: leaving out each of {n} configurations")
        features = fit.features(sigma)
        solved = fit.solved(features)
        weights.append(solved.weights)
        mean, covariance = fit.left_out(features, solved)
        means.append(mean)
        covariances.append(covariance)
    mean = torch.stack(means)
    if ladder.labels.energies:
        mean[..., 0] += hyperparameters.mean
    return fit.assembled(inducing, weights), LeftOut(mean, torch.stack(covariances))


@dataclass(frozen=True)
class _Fit:
    """All that the experts of a ladder have in common."""

    data: LabelledMolecules
    internal: Internal  # of the data
    inducing: Internal
    ladder: Ladder
    hyperparameters: Hyperparameters

    @classmethod
    def of(
        cls, data: LabelledMolecules, inducing: Geometry, ladder: Ladder, hyperparameters: Hyperparameters
    ) -> "_Fit":
        for geometry in (data.geometry, inducing):
            ladder.kernel.check(geometry)
        if len(inducing.values) == 0:
            raise ValueError("sparse experts need at least one inducing configuration, got none")
        n, w = len(data.geometry.values), ladder.labels.width(data.geometry.number_of_atoms)
        noise = hyperparameters.noise
        if noise.shape not in ((), (1,), (n * w,)) or not (noise > 0.0).all():
            raise ValueError(
                f"the noise of sparse experts must be above zero, one number or one for each of {n} x {w} labels, "
                f"got shape {tuple(noise.shape)} and at the least {noise.min().item():g}"
            )
        internal = directions(data, ladder, hyperparameters)
        return cls(data, internal, Internal.of(inducing, Labels.BOTH), ladder, hyperparameters)

    def features(self, bandwidth: Scalar) -> Features:
        jitter = JITTER * self.hyperparameters.noise.min() / self.hyperparameters.scale
        return Features.at(self.ladder.kernel, self.inducing.moves, bandwidth=bandwidth, jitter=jitter)

    def parts(self) -> Iterator[Part]:
        """As many configurations at a time as have features in so much memory."""
        residual = self.internal.reduced(self.data.residual(self.ladder.labels, self.hyperparameters.mean))
        deviation = self.hyperparameters.noise.sqrt().expand(residual.numel()).view_as(residual)
        inducing_values = self.inducing.moves.width * len(self.inducing.moves.values)
        step = rows_at_once(inducing_values * residual.shape[1], residual.device)
        for start in range(0, len(residual), step):
            rows = slice(start, start + step)
            yield Part(self.internal.moves.at(rows), residual[rows] / deviation[rows], deviation[rows])

    def scaled(self, features: Features, part: Part) -> Float[Tensor, "labels p"]:
        """lambda^1/2 V^-1/2 Phi."""
        scale = self.hyperparameters.scale.sqrt() / part.deviation.flatten()
        return features(part.moves) * scale[:, None]

    def solved(self, features: Features) -> Solved:
        A = torch.eye(len(features.factor), dtype=features.factor.dtype, device=features.factor.device)
        right_side = A.new_zeros(len(A))
        for part in self.parts():
            Phi = self.scaled(features, part)
            A.addmm_(Phi.mT, Phi)
            right_side.addmv_(Phi.mT, part.y.flatten())
        T = factored(A)
        values = torch.cholesky_solve(right_side[:, None], T)
        weights: Tensor = torch.linalg.solve_triangular(features.factor.mT, values, upper=True)
        return Solved(T, values[:, 0], self.hyperparameters.scale.sqrt() * weights[:, 0])

    def left_out(self, features: Features, solved: Solved) -> tuple[Float[Tensor, "n w"], Float[Tensor, "n w w"]]:
        """Labels less mu, and their covariance."""
        parts = [self._left_out(features, solved, part) for part in self.parts()]
        mean, covariance = (torch.cat(each) for each in zip(*parts, strict=True))
        labels = self.internal.expanded(mean)
        noise = self.hyperparameters.noise.expand(labels.numel()).view_as(labels)
        return labels, self.internal.expanded_covariance(covariance, noise)

    def _left_out(
        self, features: Features, solved: Solved, part: Part
    ) -> tuple[Float[Tensor, "k v"], Float[Tensor, "k v v"]]:
        """The same of some configurations, along the directions."""
        Phi = self.scaled(features, part)
        H = _own_products(whitened(solved.factor[None], Phi[None])[0], part.y.shape[1])
        explained = _own_products(Phi, part.y.shape[1])
        inverse = _inverse_of_rest(H, explained)
        missed = inverse @ (part.y - (Phi @ solved.values).view_as(part.y))[..., None]
        units = part.deviation[:, :, None] * part.deviation[:, None]
        prior = own_covariances(features.kernel, part.moves, features.bandwidth)
        covariance = self.hyperparameters.scale * prior + units * (inverse - explained)
        return part.deviation * (part.y - missed[..., 0]), covariance

    def assembled(
        self, geometry: Geometry, weights: list[Float[Tensor, " p"]], factors: Factors | None = None
    ) -> SparseMolecularExperts:
        """The experts of the given weights, which the predictor takes along coordinates."""
        rows = [self.inducing.expanded(row.view(len(geometry.values), -1)).flatten() for row in weights]
        each, kernel, bandwidths = torch.stack(rows), self.ladder.kernel, self.ladder.bandwidths
        predictor = Predictor.of(kernel, geometry, each, bandwidths=bandwidths, labels=Labels.BOTH)
        return SparseMolecularExperts(
            ladder=self.ladder,
            hyperparameters=self.hyperparameters,
            inducing=self.inducing,
            factors=factors,
            weights=each,
            weighted=Labels.BOTH,
            predictor=predictor,
            constants=energy_constants(predictor, self.data, self.hyperparameters.mean, self.ladder.labels),
        )


def _own_products(rows: Float[Tensor, "labels p"], width: int) -> Float[Tensor, "k w w"]:
    """Products of the rows of each configuration with each other."""
    each: Tensor = rows.unflatten(0, (-1, width))
    return each @ each.mT


def _inverse_of_rest(H: Float[Tensor, "k w w"], explained: Float[Tensor, "k w w"]) -> Float[Tensor, "k w w"]:
    """(I - H)^-1, whose eigenvalues exceed those of the prior, one and what is explained, by rounding only."""
    leverage, vectors = torch.linalg.eigh(H)
    most = 1.0 + explained.diagonal(dim1=1, dim2=2).sum(1)
    rest = torch.maximum(1.0 - leverage, most.reciprocal()[:, None])
    inverse: Tensor = (vectors / rest[:, None]) @ vectors.mT
    return inverse


def own_covariances(kernel: MolecularKernel, moves: Moves, bandwidth: Scalar) -> Float[Tensor, "n w w"]:
    """Prior covariances, under lambda = 1, of the labels of each configuration with each other."""
    blocks = []
    for start in range(0, len(moves.values), BLOCKS_TOGETHER):
        some = moves.at(slice(start, start + BLOCKS_TOGETHER))
        K = covariance_along(kernel, some, bandwidths=bandwidth[None])[0]
        each = K.view(len(some.values), some.width, len(some.values), some.width)
        blocks.append(each.diagonal(dim1=0, dim2=2).permute(2, 0, 1))
    return torch.cat(blocks)
