"""Experts of a force field: Gaussian processes of energies and forces, and leave-one-out predictions in closed form.

With C = lambda K + v I over all labels and alpha = C^-1 (y - mu), leaving out *all labels of one configuration* i
takes the block P_i of C^-1 at these labels: they are predicted as y_i - P_i^-1 alpha_i. Forces are taken along the
directions in which a molecule changes shape (`directions`): a matrix of 22 labels in place of 28 per configuration of
malonaldehyde, and half of the time.
"""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.linalg import safe_cholesky
from lobal.molecules.field.kernel import covariance_along
from lobal.molecules.field.labels import EnergiesForces, Labels
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.problem import Problem
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


class ForceExperts(NamedTuple):
    """L Gaussian processes of energies and forces; predictions are weighted sums of covariances."""

    weights: Float[Tensor, "L m"]
    labels: Labels  # what the weights are of, at every configuration that is predicted with
    predictor: Predictor
    constants: Float[Tensor, " L"]  # added to energies

    @classmethod
    def of(cls, problem: Problem, weights: Float[Tensor, "L m"], geometry: Geometry, labels: Labels) -> "ForceExperts":
        """Experts with weights of labels at the configurations of `geometry`.

        The constants are mu; or, learned from forces alone, the mean difference between known energies and integrated
        forces. Where no energies are known they are mu on average: all experts then have the same zero of energy, as a
        gate needs.
        """
        predictor = Predictor.of(problem.kernel, geometry, weights, bandwidths=problem.bandwidths, labels=labels)
        data, mean = problem.data, problem.hyperparameters.mean
        if problem.labels.energies:
            return cls(weights, labels, predictor, mean.expand(len(weights)))
        known = mean if data.energies is None else data.energies
        return cls(weights, labels, predictor, (known - predictor.at(data.geometry).energies).mean(1))

    def with_weights(self, problem: Problem, weights: Float[Tensor, "L m"], constant: float) -> "ForceExperts":
        """Experts at the same configurations with other weights, and one constant for all."""
        geometry, labels = problem.data.geometry, self.labels
        predictor = Predictor.of(problem.kernel, geometry, weights, bandwidths=problem.bandwidths, labels=labels)
        return ForceExperts(weights, labels, predictor, torch.full_like(self.constants, constant))

    def only(self, number: int) -> "ForceExperts":
        """One of the experts alone."""
        one = slice(number, number + 1)
        return ForceExperts(self.weights[one], self.labels, self.predictor.experts(one), self.constants[one])

    def predict(self, R: Positions) -> EnergiesForces:
        """Posterior mean of energies and forces."""
        energies, forces = self.predictor.at(describe(R))
        return EnergiesForces(energies + self.constants[:, None], forces)


def dense_experts(problem: Problem, *, tolerance: float = TOLERANCE) -> ForceExperts:
    """Experts given all labels.

    Few labels take a Cholesky factor: O((n w)^3) time and memory of two kernel matrices. Weights of more labels come
    from `solver.solved`, to within the tolerance.
    """
    geometry = problem.data.geometry
    if problem.labels.width(geometry.number_of_atoms) * len(geometry.values) < FEWEST_ITERATED:
        return _assembled(problem, _factored(problem))
    alone = [replace(problem, bandwidths=sigma[None]) for sigma in problem.bandwidths]
    return _assembled(problem, [_iterated(each, tolerance) for each in alone])


class Tangents(NamedTuple):
    """Derivatives of the experts' predictions by hyperparameters that they share, as experts of their own."""

    mean: ForceExperts | None  # by mu; none where energies are no labels
    log_scale: ForceExperts  # by log lambda


def factored_experts(problem: Problem) -> ForceExperts:
    """Experts given all labels, by Cholesky factors however many there are."""
    return _assembled(problem, _factored(problem))


def dense_experts_and_tangents(problem: Problem) -> tuple[ForceExperts, Tangents]:
    """Experts given all labels, and the derivatives of their predictions by mu and by log lambda.

    With C = lambda K + v I, f = mu + lambda k C^-1 (y - mu) is linear in mu, with slope 1 - lambda k C^-1 1, where 1 is
    one for energies and zero for forces; its derivative by log lambda is v lambda k C^-1 alpha.
    """
    directions, scale, noise = problem.directions, problem.hyperparameters.scale, problem.hyperparameters.noise
    ones = torch.zeros_like(problem.residual)
    ones[:, 0] = float(problem.labels.energies)
    columns = list[tuple[Tensor, ...]]()
    for factor, alpha in conditioned(problem):
        solved_for = torch.stack([ones.flatten(), alpha.flatten()], dim=1)
        each = torch.cholesky_solve(solved_for, factor).mT.unflatten(1, ones.shape)
        columns.append(tuple(directions.expanded(part).flatten() for part in (alpha, -each[0], noise * each[1])))
        del factor  # before the next is made
    weights, by_mean, by_log_scale = (scale * torch.stack(parts) for parts in zip(*columns, strict=True))
    experts = ForceExperts.of(problem, weights, problem.data.geometry, problem.labels)
    tangents = [experts.with_weights(problem, each, shift) for each, shift in ((by_mean, 1.0), (by_log_scale, 0.0))]
    return experts, Tangents(tangents[0] if problem.labels.energies else None, tangents[1])


def dense_experts_and_left_out(problem: Problem) -> tuple[ForceExperts, Float[Tensor, "L n w"]]:
    """Experts, and their predictions of all labels of each configuration without it."""
    directions, residual = problem.directions, problem.residual
    weights, left_out = list[Tensor](), list[Tensor]()
    for factor, alpha in conditioned(problem):
        number = len(weights) + 1
        logger.info("expert %d of %d: %d configurations left out", number, len(problem.bandwidths), len(residual))
        weights.append(directions.expanded(alpha).flatten())
        covariance = torch.cholesky_inverse(torch.linalg.cholesky(precision_blocks(factor, residual.shape[1])))
        left_out.append(directions.expanded(residual - (covariance @ alpha[..., None])[..., 0]))
        del factor  # before the next is made
    return _assembled(problem, weights), with_mean(problem, torch.stack(left_out))


def with_mean(problem: Problem, left_out: Float[Tensor, "L n w"]) -> Float[Tensor, "L n w"]:
    """Predictions less mu, with mu added in place."""
    if problem.labels.energies:
        left_out[..., 0] += problem.hyperparameters.mean
    return left_out


def _assembled(problem: Problem, weights: list[Float[Tensor, " m"]]) -> ForceExperts:
    scaled = problem.hyperparameters.scale * torch.stack(weights)
    return ForceExperts.of(problem, scaled, problem.data.geometry, problem.labels)


def _factored(problem: Problem) -> list[Float[Tensor, " m"]]:
    """alpha of every expert by a Cholesky factor."""
    weights = []
    for factor, alpha in conditioned(problem):
        weights.append(problem.directions.expanded(alpha).flatten())
        del factor  # before the next is made
    return weights


def _iterated(problem: Problem, tolerance: float) -> Float[Tensor, " m"]:
    """alpha of one expert by conjugate gradients or, where these do not converge, by a factor."""
    weights, residual, iterations = solved(problem, tolerance=tolerance)
    if residual <= SLACK * tolerance:
        return weights
    message = "conjugate gradients have a residual of %.1e after %d iterations; using a Cholesky factor"
    logger.warning(message, residual, iterations)
    return _factored(problem)[0]


def conditioned(problem: Problem) -> Iterator[tuple[Float[Tensor, "m m"], Float[Tensor, "n v"]]]:
    """The lower Cholesky factor of C and alpha, forces along the directions in which molecules change shape.

    One expert comes after the other, so that at most one factor has to be in memory.
    """
    residual = problem.residual
    at_once = max(1, MATRIX_ENTRIES // residual.numel() ** 2)
    for some in problem.bandwidths.split(at_once):
        K = covariance_along(problem.kernel, problem.directions.moves, bandwidths=some)
        for C in K.mul_(problem.hyperparameters.scale):
            C.diagonal().add_(problem.hyperparameters.noise)
            factor = label_factor(C)
            weights = torch.cholesky_solve(residual.flatten()[:, None], factor)[:, 0]
            yield factor, weights.view_as(residual)
            del factor
        del K, C


def label_factor(C: Float[Tensor, "m m"]) -> Float[Tensor, "m m"]:
    """The lower Cholesky factor of C, with jitter on its diagonal only where needed.

    No copy of C is made: these matrices are the largest there are, and their noise may be as small as jitter.
    """
    return safe_cholesky(C, first_jitter=0.0, in_place=True).lower


def precision_blocks(factor: Float[Tensor, "m m"], width: int) -> Float[Tensor, "n w w"]:
    """Diagonal blocks of C^-1, of `width` labels each, from the factor R: sums over the rows of R^-1.

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
