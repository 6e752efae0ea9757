"""The anisotropic bandwidth Sigma of a molecule: which pairs of atoms the energy depends on, and how closely.

Labels come without noise, so Sigma is tuned by the squared error (Sec. "Anisotropic bandwidths"): m configurations at a
time predict all others. With the labels y of the m, C = K + rho I, rho = v / lambda, alpha = C^-1 y and the errors
r = K_* alpha - y_* at the others,

    d |r|^2 = 2 r^T dK_* alpha - 2 beta^T dC alpha,    beta = C^-1 K_*^T r.

Here alpha, beta and r are held fixed: predictions are differentiated, which take no kernel matrix (see `prediction`),
and neither C nor its factor. A value with its gradient costs one factorisation of m (3 N - 5) labels.

By squared errors, a few configurations far from all others decide. A sum of other functions f(s_i) of the mean squares
s_i of the configurations' errors has the same derivative, with 2 f'(s_i) r / w of each in the place of 2 r, w labels
each.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.interrupts import prepare_optimisers
from lobal.molecules.field.directions import ShapeDirections
from lobal.molecules.field.expert import label_factor
from lobal.molecules.field.kernel import MolecularKernel, covariance_along
from lobal.molecules.field.labels import LabelledMolecules, Labels
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.radial import RadialKernel
from lobal.molecules.geometry.descriptor import Descriptors, Geometry
from lobal.molecules.geometry.permutations import Permutations, orbits, typical_distance

logger = logging.getLogger(__name__)

Loss: TypeAlias = Callable[[Float[Tensor, " k"]], Float[Tensor, " k"]]


def root(squares: Float[Tensor, " k"]) -> Float[Tensor, " k"]:
    """Roots of mean squares, with a derivative where there is no error at all."""
    return torch.sqrt(squares + torch.finfo(squares.dtype).tiny ** 0.5)


# Of the mean squared error of a configuration.
LOSSES: Mapping[str, Loss] = {"mse": torch.clone, "rmse": root}
# The noise by the prior variance of the labels.
NOISE = 2e-8
# The search starts from the isotropic bandwidth that is this multiple of the typical distance.
FIRST_BANDWIDTH = 8.0
# Squared deviations of log Sigma from its mean cost this much of the log error each: pairs that do not matter would
# drift to infinity otherwise, and pairs that do lose less than a hundredth of what they gain.
PRIOR = 1e-3
# Most configurations that each fold predicts: of malonaldehyde, 128 configurations do that in a second.
MOST_PREDICTED = 2000
# Free log bandwidths start apart by this: as the kernel is symmetric, it has no slope that would part equal ones.
APART = 0.3
# Log bandwidths stay this close to that of the start: a step of L-BFGS that is far too long then does no harm.
REACH = 5.0
# L-BFGS ends where the log of the mean loss changes by less, or after so many iterations.
TOLERANCE = 1e-4
MOST_ITERATIONS = 40


def isotropic_bandwidth(values: Descriptors, permutations: Permutations) -> Float[Tensor, " D"]:
    """The diagonal of Sigma without training: the same multiple of the typical distance for all pairs of atoms."""
    return (FIRST_BANDWIDTH * typical_distance(values, permutations)).expand(values.shape[1]).contiguous()


def trained_bandwidth(
    data: LabelledMolecules,
    radial: RadialKernel,
    permutations: Permutations,
    *,
    labels: Labels,
    generator: torch.Generator,
    m: int = 128,
    folds: int = 2,
    tied: bool = True,
    loss: str = "mse",
) -> Float[Tensor, " D"]:
    """The diagonal of Sigma with which m configurations predict the labels of all others best, by a loss of `LOSSES`.

    `folds` disjoint sets of m configurations are drawn, or of half of all if these are fewer. Pairs that the group
    maps onto each other share one entry if tied; then the kernel is a single sum over the group. Free entries are
    trained from the tied ones on. The size of Sigma is trained as well: sigma = 1 suits m configurations.

    Raises:
        ValueError: there are fewer than two configurations, or not the labels asked for.
    """
    drawn = drawn_folds(data, labels, m, folds, generator)
    error = partial(prediction_error, drawn, radial, permutations, loss=LOSSES[loss])
    first, orbit = isotropic_bandwidth(data.geometry.values, permutations).log(), orbits(permutations)
    log_bandwidth = _minimised(error, first, orbit, first[0])
    if not tied:
        apart = APART * torch.randn(len(orbit), dtype=first.dtype, generator=generator).to(first.device)
        every = torch.arange(len(orbit), device=orbit.device)
        log_bandwidth = _minimised(error, log_bandwidth + apart, every, first[0])
    return log_bandwidth.exp()


class Fold(NamedTuple):
    """Configurations that predict, and others that are predicted."""

    known: LabelledMolecules
    directions: ShapeDirections  # of the known ones
    others: LabelledMolecules
    labels: Labels


def drawn_folds(data: LabelledMolecules, labels: Labels, m: int, folds: int, generator: torch.Generator) -> list[Fold]:
    """Disjoint sets of m configurations at random, at most `folds`, each with the others to predict, up to a number."""
    n = len(data.geometry.values)
    if n < 2:
        raise ValueError(f"a bandwidth is trained on at least 2 configurations, got {n}")
    m, drawn = min(m, n // 2), []
    order = torch.randperm(n, generator=generator).to(data.geometry.values.device)
    for number in range(min(folds, n // m)):
        rows = order.roll(-number * m)
        known, others = data.part(rows[:m]), data.part(rows[m : m + MOST_PREDICTED])
        drawn.append(Fold(known, ShapeDirections.of(known.geometry, labels), others, labels))
    return drawn


def prediction_error(
    folds: list[Fold],
    radial: RadialKernel,
    permutations: Permutations,
    shared_bandwidth: Float[Tensor, " D"],
    *,
    loss: Loss = LOSSES["mse"],
) -> Scalar:
    """The mean loss of all folds at the diagonal of Sigma, of which it has the first derivative.

    All labels count alike, in the units they are in: energies are one label among 1 + 3 N. Where equivalent pairs have
    equal bandwidths, derivatives hold along changes that keep these equal only.
    """
    kernel = MolecularKernel(radial=radial, shared_bandwidth=shared_bandwidth, permutations=permutations)
    number = sum(len(fold.others.geometry.values) for fold in folds)
    return torch.stack([total_loss(kernel, fold, loss) for fold in folds]).sum() / number


def total_loss(kernel: MolecularKernel, fold: Fold, loss: Loss) -> Scalar:
    """Sum of the losses of all configurations that are predicted, with its derivative by Sigma."""
    known, directions, others, labels = fold
    mean = known.geometry.values.new_zeros(()) if known.energies is None else known.energies.mean()
    rho = NOISE * _prior_variance(kernel, fold)
    fixed = replace(kernel, shared_bandwidth=kernel.shared_bandwidth.detach())
    with torch.no_grad():
        C = covariance_along(fixed, directions.moves, bandwidths=rho.new_ones(1))[0]
        C.diagonal().add_(rho)
        factor = label_factor(C)
        alpha = _solved(factor, directions.reduced(known.residual(labels, mean)))
    weights = directions.expanded(alpha)
    predicted = _predicted(kernel, known.geometry, weights, others.geometry, labels)
    r = (predicted - others.residual(labels, mean)).detach()
    squares = r.square().mean(1).requires_grad_()
    value = loss(squares).sum()
    (slopes,) = torch.autograd.grad(value, squares)
    pull = 2.0 * slopes[:, None] * r / r.shape[1]
    with torch.no_grad():
        pulled = _predicted(fixed, others.geometry, pull, known.geometry, labels)
        beta = _solved(factor, directions.reduced(pulled))
    image = directions.reduced(_predicted(kernel, known.geometry, weights, known.geometry, labels)) + rho * alpha
    slope = (pull * predicted).sum() - (beta * image).sum()
    return value.detach() + (slope - slope.detach())  # the latter is zero, and has the derivative


def _solved(factor: Float[Tensor, "m m"], values: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    return torch.cholesky_solve(values.flatten()[:, None], factor).view_as(values)


def _predicted(
    kernel: MolecularKernel, known: Geometry, weights: Float[Tensor, "n w"], new: Geometry, labels: Labels
) -> Float[Tensor, "k w"]:
    """Covariances of the labels of new configurations with those of known ones, times weights of the latter."""
    one = weights.new_ones(1)
    energies, forces = Predictor.of(kernel, known, weights.flatten()[None], bandwidths=one, labels=labels).at(new)
    columns = [energies[0, :, None]] if labels.energies else []
    return torch.cat([*columns, forces[0].flatten(1)] if labels.forces else columns, dim=1)


def _prior_variance(kernel: MolecularKernel, fold: Fold) -> Scalar:
    """The variance under lambda = 1 of a force along one of the directions, on average; or that of the energy."""
    if not fold.labels.forces:
        return kernel.shared_bandwidth.new_ones(())
    slope = -2.0 * kernel.radial(kernel.shared_bandwidth.new_zeros(())).first
    return slope * (fold.directions.moves.jacobians / kernel.shared_bandwidth).square().sum(-1).mean()


def _minimised(
    error: Callable[[Tensor], Tensor], first: Float[Tensor, " D"], kinds: Int[Tensor, " D"], centre: Scalar
) -> Float[Tensor, " D"]:
    """The log of Sigma of least error by L-BFGS, equal for pairs of one kind, as in `first`."""
    number = int(kinds.max()) + 1
    reached = ((first - centre) / REACH).clamp(-0.9, 0.9).atanh()
    theta = torch.empty_like(first[:number]).index_copy_(0, kinds, REACH * reached).requires_grad_()
    prepare_optimisers()
    optimiser = torch.optim.LBFGS(
        [theta],
        max_iter=MOST_ITERATIONS,
        tolerance_change=TOLERANCE,
        tolerance_grad=0.1 * TOLERANCE,
        history_size=MOST_ITERATIONS,
        line_search_fn="strong_wolfe",
    )

    def log_bandwidth() -> Float[Tensor, " D"]:
        return centre + REACH * (theta / REACH).tanh()[kinds]

    def closure() -> Scalar:
        optimiser.zero_grad()
        values = log_bandwidth()
        mean_loss = error(values.exp())
        loss = mean_loss.log() + PRIOR * (values - values.mean()).square().sum()
        loss.backward()
        logger.info("bandwidths of %d kinds of pairs: loss %.4g", number, mean_loss.item())
        return loss.detach()

    optimiser.step(closure)
    return log_bandwidth().detach()
