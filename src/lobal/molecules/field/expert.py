"""Dense sGDML experts: Gaussian processes of energies and forces, with leave-one-out answers in closed form.

With C = lambda K + diag(v) over all labels and alpha = C^-1 (y - mu), leaving out *all labels of one configuration* i
takes the block P_i of C^-1 at these labels: they are predicted as y_i - P_i^-1 alpha_i, with covariance P_i^-1, noise
included. Forces are taken along the ways in which a molecule changes shape (`product.Internal`): a matrix of 22 labels
in place of 28 a configuration of malonaldehyde, and half of the time.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Bandwidths, Inputs, Scalar
from lobal.core.kernels import LARGEST_JITTER, SMALLEST_JITTER, rows_at_once
from lobal.experts.interface import Experts, Hyperparameters, Posterior
from lobal.molecules.field.kernel import MolecularKernel, along_coordinates, covariance_along, energy_variances
from lobal.molecules.field.labels import EnergiesForces, LabelledMolecules, Labels
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.product import Internal
from lobal.molecules.field.solver import TOLERANCE, solved
from lobal.molecules.geometry.descriptor import Geometry, Positions, describe

logger = logging.getLogger(__name__)

# Kernel matrices of several bandwidths share distances and Jacobian products where they fit in so many numbers (1 GiB).
MATRIX_ENTRIES = 2**27
# From so many labels on, conjugate gradients take no more time than a factorisation (malonaldehyde, both kernels).
FEWEST_ITERATED = 5000
# Residuals computed step by step drift from those computed at the end, by this much at the most if all is well.
SLACK = 10.0
# Columns of the inverse factor computed at a time; a GPU is a fifth faster with more.
PANEL, GPU_PANEL = 1024, 4096


@final
@dataclass(frozen=True, kw_only=True)
class Ladder:
    """One kernel at L bandwidths, and the labels that it is to learn from."""

    kernel: MolecularKernel
    bandwidths: Bandwidths  # sigma_1 < ... < sigma_L, in units of the kernel's Sigma
    labels: Labels


class LeftOut(NamedTuple):
    """What each expert says about all labels of a configuration had it not seen that configuration."""

    mean: Float[Tensor, "L n w"]
    covariance: Float[Tensor, "L n w w"]  # noise included


class Conditioned(NamedTuple):
    """One expert given all labels, forces along the ways in which molecules change shape."""

    factor: Float[Tensor, "m m"]  # lower Cholesky factor of C
    weights: Float[Tensor, "n v"]  # alpha


@dataclass(frozen=True, kw_only=True)
class ForceExperts(Experts):
    """L Gaussian processes of energies and forces.

    As `Experts` they speak of energies, at positions flattened to rows (n, 3 N). The prior variance is lambda_E times
    `energy_variances`, not lambda_E. Learned from forces alone, energies are known up to a constant, which `constants`
    holds.
    """

    ladder: Ladder
    hyperparameters: Hyperparameters
    weights: Float[Tensor, "L m"]  # of the covariances that predictions are sums of
    weighted: Labels  # what these are covariances with
    predictor: Predictor
    constants: Float[Tensor, " L"]

    @abstractmethod
    def only(self, number: int) -> "ForceExperts":
        """One of the experts alone."""

    def at(self, geometry: Geometry) -> EnergiesForces:
        """Posterior mean of energies and forces, without a kernel matrix."""
        energies, forces = self.predictor.at(geometry)
        return EnergiesForces(energies + self.constants[:, None], forces)

    def predict(self, R: Positions) -> EnergiesForces:
        """The same at positions."""
        return self.at(describe(R))

    def mean(self, X: Inputs) -> Float[Tensor, "L n"]:
        return self.predict(X.unflatten(1, (-1, 3))).energies

    def _part(self, some: slice) -> dict[str, Any]:
        """What all kinds of experts hold, of some of them."""
        return {
            "ladder": replace(self.ladder, bandwidths=self.ladder.bandwidths[some]),
            "weights": self.weights[some],
            "predictor": self.predictor.experts(some),
            "constants": self.constants[some],
        }


@final
@dataclass(frozen=True, kw_only=True)
class MolecularExperts(ForceExperts):
    """Dense experts, on the configurations they were given; weights are lambda alpha."""

    data: LabelledMolecules
    internal: Internal
    factor: Float[Tensor, "L r r"] | None  # takes O(L n^2 N^2) memory; needed for variances only

    def only(self, number: int) -> "MolecularExperts":
        one = slice(number, number + 1)
        return replace(self, **self._part(one), factor=None if self.factor is None else self.factor[one])

    def posterior(self, X: Inputs) -> Posterior:
        if self.factor is None:
            raise ValueError(
                "these experts were fitted without keeping their factors; variances need keep_factors=True"
            )
        geometry = describe(X.unflatten(1, (-1, 3)))
        step = rows_at_once(self.factor[..., 0].numel(), X.device)
        parts = [self._variance(geometry.at(slice(i, i + step))) for i in range(0, max(1, len(X)), step)]
        return Posterior(self.mean(X), torch.cat(parts, dim=1))

    def _variance(self, geometry: Geometry) -> Float[Tensor, "L n"]:
        kernel, bandwidths, scale = self.ladder.kernel, self.ladder.bandwidths, self.hyperparameters.scale
        prior = scale * energy_variances(kernel, geometry, bandwidths=bandwidths)
        energies = along_coordinates(geometry, Labels.ENERGIES)
        K_nx = covariance_along(kernel, self.internal.moves, energies, bandwidths=bandwidths)
        root: Tensor = torch.linalg.solve_triangular(self.factor, scale * K_nx, upper=False)
        return (prior - root.square().sum(-2)).clamp_min(0.0)


def molecular_experts(
    data: LabelledMolecules,
    ladder: Ladder,
    hyperparameters: Hyperparameters,
    *,
    keep_factors: bool = False,
    tolerance: float = TOLERANCE,
) -> MolecularExperts:
    """Experts given all labels.

    Few labels, those with a noise of their own, and whatever factors are kept for, take a Cholesky factor: O((n w)^3)
    time and memory of two kernel matrices. Other weights come from `solver.solved`, to within the tolerance.
    """
    internal = directions(data, ladder, hyperparameters)
    if not keep_factors and _is_worth_iterating(data, ladder, hyperparameters):
        weights = _solved(data, ladder, hyperparameters, tolerance)
        return _assembled(data, ladder, hyperparameters, internal, torch.stack(weights))
    factors, weights = [], []
    for expert in conditioned(data, ladder, hyperparameters, internal):
        weights.append(internal.expanded(expert.weights).flatten())
        if keep_factors:
            factors.append(expert.factor)
        del expert  # its factor, before the next is made
    factor = torch.stack(factors) if keep_factors else None
    return _assembled(data, ladder, hyperparameters, internal, torch.stack(weights), factor)


def directions(data: LabelledMolecules, ladder: Ladder, hyperparameters: Hyperparameters) -> Internal:
    """The ways that forces are taken along: those that change shape if the noise is the same along all."""
    along = Internal.of if hyperparameters.noise.numel() == 1 else Internal.coordinates
    return along(data.geometry, ladder.labels)


def _is_worth_iterating(data: LabelledMolecules, ladder: Ladder, hyperparameters: Hyperparameters) -> bool:
    number = ladder.labels.width(data.geometry.number_of_atoms) * len(data.geometry.values)
    return number >= FEWEST_ITERATED and hyperparameters.noise.numel() == 1


def _solved(
    data: LabelledMolecules, ladder: Ladder, hyperparameters: Hyperparameters, tolerance: float
) -> list[Float[Tensor, " m"]]:
    """Weights of every expert by conjugate gradients or, where these do not get there, by a factor."""
    weights = []
    for sigma in ladder.bandwidths:
        solution = solved(
            data,
            ladder.kernel,
            bandwidth=sigma,
            labels=ladder.labels,
            hyperparameters=hyperparameters,
            tolerance=tolerance,
        )
        if not solution.residual <= SLACK * tolerance:
            logger.warning(
                "conjugate gradients left a residual of %.1e after %d iterations; factoring instead",
                solution.residual,
                solution.iterations,
            )
            alone = replace(ladder, bandwidths=sigma[None])
            internal = directions(data, alone, hyperparameters)
            expert = next(conditioned(data, alone, hyperparameters, internal))
            weights.append(internal.expanded(expert.weights).flatten())
        else:
            weights.append(solution.weights)
    return weights


def experts_and_left_out(
    data: LabelledMolecules, ladder: Ladder, hyperparameters: Hyperparameters, say: Callable[[str], None] = logger.info
) -> tuple[MolecularExperts, LeftOut]:
    """Experts, and what they say about each configuration without it; one factor in memory at a time."""
    internal = directions(data, ladder, hyperparameters)
    labels = data.residual(ladder.labels, hyperparameters.mean)
    residual = internal.reduced(labels)
    noise = hyperparameters.noise.expand(labels.numel()).view_as(labels)
    weights, means, covariances = [], [], []
    for number, expert in enumerate(conditioned(data, ladder, hyperparameters, internal)):
        say(f"expert {number + 1} of {len(ladder.bandwidths)}: leaving out each of {len(labels)} configurations")
        weights.append(internal.expanded(expert.weights).flatten())
        covariance = torch.cholesky_inverse(torch.linalg.cholesky(precision_blocks(expert.factor, residual.shape[1])))
        means.append(internal.expanded(residual - (covariance @ expert.weights[..., None])[..., 0]))
        covariances.append(internal.expanded_covariance(covariance, noise))
        del expert  # its factor, before the next is made
    mean = torch.stack(means)
    if ladder.labels.energies:
        mean[..., 0] += hyperparameters.mean
    experts = _assembled(data, ladder, hyperparameters, internal, torch.stack(weights))
    return experts, LeftOut(mean, torch.stack(covariances))


def _assembled(
    data: LabelledMolecules,
    ladder: Ladder,
    hyperparameters: Hyperparameters,
    internal: Internal,
    weights: Float[Tensor, "L m"],
    factor: Float[Tensor, "L r r"] | None = None,
) -> MolecularExperts:
    scaled = hyperparameters.scale * weights
    predictor = Predictor.of(ladder.kernel, data.geometry, scaled, bandwidths=ladder.bandwidths, labels=ladder.labels)
    return MolecularExperts(
        ladder=ladder,
        hyperparameters=hyperparameters,
        data=data,
        internal=internal,
        factor=factor,
        weights=scaled,
        weighted=ladder.labels,
        predictor=predictor,
        constants=energy_constants(predictor, data, hyperparameters.mean, ladder.labels),
    )


def energy_constants(
    predictor: Predictor, data: LabelledMolecules, mean: Scalar, labels: Labels
) -> Float[Tensor, " L"]:
    """mu; or, learned from forces alone, what the energies that are known exceed the integrated forces by.

    Where none are known they are mu on average: all experts then have the same zero of energy, which a gate needs.
    """
    if labels.energies:
        return mean.expand(len(predictor.bandwidths))
    known = mean if data.energies is None else data.energies
    return (known - predictor.at(data.geometry).energies).mean(1)


def conditioned(
    data: LabelledMolecules, ladder: Ladder, hyperparameters: Hyperparameters, internal: Internal
) -> Iterator[Conditioned]:
    """One expert after the other, so that at most one factor need be in memory."""
    residual = internal.reduced(data.residual(ladder.labels, hyperparameters.mean))
    together = max(1, MATRIX_ENTRIES // residual.numel() ** 2)
    for some in ladder.bandwidths.split(together):
        K = covariance_along(ladder.kernel, internal.moves, bandwidths=some)
        for C in K.mul_(hyperparameters.scale):
            C.diagonal().add_(hyperparameters.noise)
            factor = factored(C)
            weights = torch.cholesky_solve(residual.flatten()[:, None], factor)[:, 0]
            yield Conditioned(factor, weights.view_as(residual))
            del factor
        del K, C


def factored(C: Float[Tensor, "m m"]) -> Float[Tensor, "m m"]:
    """The lower Cholesky factor of C, to whose diagonal as little is added, in place, as makes it one.

    Like `kernels.safe_cholesky`, but nothing is added where nothing is needed, and no copy of C is made: these
    matrices are the largest there are.
    """
    added = 0.0
    while True:
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(C)
        if not failed:
            return factor
        step = max(10.0 * added, SMALLEST_JITTER)
        if not step <= LARGEST_JITTER or not torch.isfinite(C.diagonal()).all():
            raise ValueError(
                f"the covariance of {len(C)} labels is not positive definite with jitter {LARGEST_JITTER:g}; "
                "remove duplicate configurations or raise the noise"
            )
        C.diagonal().mul_((1.0 + step) / (1.0 + added))
        added = step
        logger.info("Cholesky factorisation of %d labels needs jitter %.0e", len(C), added)


def precision_blocks(factor: Float[Tensor, "m m"], width: int) -> Float[Tensor, "n w w"]:
    """Diagonal blocks of C^-1, so many labels each, from the factor R: sums over the rows of R^-1.

    R^-1 is lower triangular, so of its columns from j on only the rows from j on are solved for: (n w)^3 / 3 in all,
    and no second matrix of that size.
    """
    blocks = []
    step = max(1, (GPU_PANEL if factor.is_cuda else PANEL) // width) * width
    for start in range(0, len(factor), step):
        stop = min(start + step, len(factor))
        unit = torch.eye(len(factor) - start, stop - start, dtype=factor.dtype, device=factor.device)
        columns: Tensor = torch.linalg.solve_triangular(factor[start:, start:], unit, upper=False)
        each = columns.unflatten(1, (-1, width)).permute(1, 2, 0)
        blocks.append(each @ each.mT)
    return torch.cat(blocks)
