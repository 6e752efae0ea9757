"""Local polynomial fits, Eq. (eq:lpsPredictionGeneral), and Lepski's choice among their bandwidths.

A local polynomial is linear in the labels: m(x) = sum_i l_i(x) y_i. The weights l are found for every bandwidth of a
ladder, and with them mean, variance and leave-one-out predictions. Inputs are in units in which one bandwidth serves
all columns.
"""

import math
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.spatial import cKDTree
from torch import Tensor

from lobal.core.arrays import Bandwidths, Inputs
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import GPU_CHUNKS, gaussian

# How much of a monomial, squared and relative to its length, those before it must leave unexplained: the corrected
# weights then reproduce polynomials with errors of about 1e-12.
SMALLEST_PIVOT = 1e-10
RIDGE = 1e-8  # on all monomials but the constant, relative to their lengths, where no window has enough labels
MOST_VARIANCE = 1.0  # of a fit, in units of a label's: one with more is worth less than a single label
SMALLEST_REST = 1e-6  # 1 - leverage, below which nothing is left of a fit without the label
BLOCK_ENTRIES = 2**20  # kernel weights and monomials at a time, 8 MiB in float64: larger blocks leave the cache
RATIO = math.sqrt(2.0)  # of neighbouring bandwidths of a ladder
DENSEST = 0.1  # share of the inputs, where they are densest, that the smallest bandwidth is made for
MOST_BANDWIDTHS = 48  # from one end to the other of six orders of magnitude
MEDIAN_SQUARE = 0.4549364  # of a standard normal variable
SMALLEST_NOISE = 1e-12  # variance, relative to that of the labels: that of their rounding


class Basis(NamedTuple):
    """Monomials in d columns up to degree 2 Q; the first P of them, up to degree Q, are those of the polynomials."""

    factors: list[tuple[int, int]]  # an earlier monomial and the column it is multiplied by, for all but the constant
    products: Int[Tensor, "P P"]  # place of the product of two of the first P

    def __call__(self, U: Float[Tensor, "B n d"]) -> Float[Tensor, "B M n"]:
        """All monomials of the columns."""
        values = U.new_ones(len(U), 1 + len(self.factors), U.shape[1])
        for place, (earlier, column) in enumerate(self.factors, start=1):
            torch.mul(values[:, earlier], U[:, :, column], out=values[:, place])
        return values


def polynomial_basis(order: int, d: int, device: torch.device | None = None) -> Basis:
    """The monomials of P_Q(R^d), in the order of their degrees, and those that their products are."""
    terms = [term for degree in range(2 * order + 1) for term in combinations_with_replacement(range(d), degree)]
    place = {term: number for number, term in enumerate(terms)}
    own = terms[: math.comb(order + d, d)]
    products = [[place[tuple(sorted(a + b))] for b in own] for a in own]
    return Basis([(place[term[:-1]], term[-1]) for term in terms[1:]], torch.tensor(products, device=device))


class LocalWeights(NamedTuple):
    """Weights of the labels in the fits at some points under every bandwidth; they sum to one."""

    weights: Float[Tensor, "B L n"]  # zero where the labels are too few
    is_enough: Bool[Tensor, "B L"]  # whether the window has enough labels; the widest counts as if it had


def local_weights(at: Float[Tensor, "B d"], X: Inputs, bandwidths: Bandwidths, basis: Basis) -> LocalWeights:
    """Weights l(x) of the labels in m_Q^Sigma(x), Eq. (eq:lpsPredictionGeneral), Sigma = sigma I.

    With kernel weights K and monomials Phi around x they are l = K Phi c with (Phi^T K Phi) c = e_1. These equations,
    scaled to a diagonal of one, are solved by their Cholesky factors. One correction makes the weights reproduce
    polynomials up to rounding, Phi^T l = e_1 (corrected seminormal equations, Bjoerck 1987).

    Where a window has too few labels, the equations are singular, or the fit has a greater variance than a label. Where
    that is so for the widest window too, it gets a ridge on all monomials but the constant: in the extreme, the fit is
    a weighted mean.
    """
    U = X - at[:, None]
    squared = U.square().sum(2)
    # Relative to the kernel weight of the nearest label: a common factor does not matter, and might vanish.
    squared = squared - squared.amin(1, keepdim=True)
    K = gaussian(squared[:, None] / bandwidths.square()[:, None])
    monomials = basis(U / U.abs().amax((1, 2), keepdim=True).clamp_min(torch.finfo(U.dtype).tiny))
    Phi = monomials[:, : len(basis.products)]
    A = (K @ monomials.mT)[:, :, basis.products]
    length = A.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(U.dtype).tiny).sqrt()
    factor, is_regular = _factors(A / (length[..., :, None] * length[..., None, :]))

    def solved(right: Float[Tensor, "B L P"]) -> Float[Tensor, "B L P"]:
        return torch.cholesky_solve((right / length)[..., None], factor)[..., 0] / length

    first = torch.zeros_like(length)
    first[..., 0] = 1.0  # e_1
    c = solved(first)
    missing = first - (K * (c @ Phi)) @ Phi.mT
    c = torch.where(is_regular[..., None], c + solved(missing), c)
    c[:, :-1] = torch.where(is_regular[:, :-1, None], c[:, :-1], 0.0)
    weights = K * (c @ Phi)
    is_enough = is_regular & (weights.square().sum(2) <= MOST_VARIANCE)
    is_enough[:, -1] = True
    return LocalWeights(weights, is_enough)


def _factors(A: Float[Tensor, "B L P P"]) -> tuple[Float[Tensor, "B L P P"], Bool[Tensor, "B L"]]:
    """Cholesky factors, and which matrices are regular; of the others, that of the widest window has a ridge."""
    factor, failed = torch.linalg.cholesky_ex(A)
    is_regular = (failed == 0) & (factor.diagonal(dim1=-2, dim2=-1).square().amin(-1) >= SMALLEST_PIVOT)
    identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    ridge = RIDGE * identity
    ridge[0, 0] = 0.0
    widest, _ = torch.linalg.cholesky_ex(A[:, -1] + ridge)
    factor = torch.where(is_regular[..., None, None], factor, identity)
    factor[:, -1] = torch.where(is_regular[:, -1, None, None], factor[:, -1], widest)
    return factor, is_regular


class Fits(NamedTuple):
    """Local polynomials at some points under every bandwidth."""

    mean: Float[Tensor, "m L"]
    variance: Float[Tensor, "m L"]  # of the mean, due to the noise of the labels
    is_enough: Bool[Tensor, "m L"]

    @property
    def smallest(self) -> Int[Tensor, " m"]:
        """The smallest bandwidth whose window has enough labels, by number."""
        return self.is_enough.int().argmax(1)

    def under(self, choice: Int[Tensor, " m"]) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
        """Mean and variance under one bandwidth at each point."""
        return self.mean.gather(1, choice[:, None])[:, 0], self.variance.gather(1, choice[:, None])[:, 0]


def local_fits(at: Float[Tensor, "m d"], labels: LabelledSet, bandwidths: Bandwidths, basis: Basis) -> Fits:
    """Local polynomials of labels of known noise at any points, computed in blocks of them."""
    blocks = at.split(_rows_at_once(labels, bandwidths, basis))
    return _joined([_fits(*local_weights(block, labels.X, bandwidths, basis), labels) for block in blocks])


def left_out_fits(rows: Int[Tensor, " m"], labels: LabelledSet, bandwidths: Bandwidths, basis: Basis) -> Fits:
    """The same at the inputs of labels, each without its own label.

    Without a label of leverage h the others' weights are l / (1 - h): no fit is repeated.
    """
    parts = []
    for block in rows.split(_rows_at_once(labels, bandwidths, basis)):
        weights, is_enough = local_weights(labels.X[block], labels.X, bandwidths, basis)
        own = block[:, None, None].expand(-1, len(bandwidths), 1)
        rest = 1.0 - weights.gather(2, own)
        has_rest = rest > SMALLEST_REST
        others = torch.where(has_rest, weights / rest, 0.0).scatter(2, own, 0.0)
        is_enough &= has_rest[..., 0] & (others.square().sum(2) <= MOST_VARIANCE)
        is_enough[:, -1] = True
        parts.append(_fits(others, is_enough, labels))
    return _joined(parts)


def _fits(weights: Float[Tensor, "B L n"], is_enough: Bool[Tensor, "B L"], labels: LabelledSet) -> Fits:
    assert labels.noise is not None  # callers know it
    return Fits(weights @ labels.y, weights.square() @ labels.noise, is_enough)


def _joined(parts: list[Fits]) -> Fits:
    return Fits(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _rows_at_once(labels: LabelledSet, bandwidths: Bandwidths, basis: Basis) -> int:
    entries = BLOCK_ENTRIES * (GPU_CHUNKS**2 if labels.X.device.type == "cuda" else 1)
    return max(1, entries // (len(labels) * (len(bandwidths) + len(basis.factors))))


def lepski_choice(fits: Fits, threshold: float) -> Int[Tensor, " m"]:
    """The largest bandwidth, by number, up to which fits agree (Lepski 1991; Lepski, Mammen and Spokoiny 1997).

    A fit agrees with those of smaller bandwidths if it lies within `threshold` standard deviations of each; all
    bandwidths up to the chosen one do. Windows with too few labels have no say.
    """
    deviation = threshold * fits.variance.sqrt()
    lower = torch.where(fits.is_enough, fits.mean - deviation, -math.inf).cummax(1).values.roll(1, dims=1)
    upper = torch.where(fits.is_enough, fits.mean + deviation, math.inf).cummin(1).values.roll(1, dims=1)
    lower[:, 0], upper[:, 0] = -math.inf, math.inf
    agrees = ((lower <= fits.mean) & (fits.mean <= upper)) | ~fits.is_enough
    reached = (agrees.cumprod(1) > 0) & fits.is_enough
    return torch.where(reached, torch.arange(reached.shape[1], device=reached.device), 0).amax(1)


def optimal_choice(fits: Fits, threshold: float, *, order: int, d: int) -> Int[Tensor, " m"]:
    """The bandwidth of least mean squared error, Eq. (eq:lpsLOBDefinition), by number, from Lepski's.

    Lepski's bandwidth is where the bias reaches `threshold` standard deviations. The error is least where bias^2 =
    d / (2 (Q + 1)) variance. Bias over deviation grows by the power Q + 1 + d/2 of the bandwidth, Eq.
    (eq:asymptoticBiasofLPS), which says how many steps of the ladder lie between them.
    """
    excess = threshold / math.sqrt(max(d, 1) / (2.0 * (order + 1)))
    steps = round(math.log(excess) / (order + 1 + 0.5 * d) / math.log(RATIO))
    return torch.maximum(lepski_choice(fits, threshold) - max(0, steps), fits.smallest)


def bandwidth_ladder(X: Inputs, basis: Basis) -> Bandwidths:
    """Bandwidths from where windows begin to have enough labels to the extent of all labels, by factors of sqrt(2)."""
    distinct = torch.unique(X, dim=0)
    largest = (distinct - distinct.mean(0)).square().sum(1).max().sqrt().item()
    if largest == 0.0:
        return X.new_ones(1)
    points, k = distinct.cpu().numpy(), min(len(basis.products), len(distinct) - 1)
    reach, _ = cKDTree(points).query(points, k=[k + 1])  # the nearest point is the point itself
    smallest = 0.5 * float(np.quantile(reach, DENSEST))
    steps = math.ceil(max(0.0, math.log(largest / smallest) / math.log(RATIO)))
    return largest * RATIO ** torch.arange(-min(steps, MOST_BANDWIDTHS - 1), 1, dtype=X.dtype, device=X.device)


def estimated_noise(fits: Fits, y: Float[Tensor, " m"]) -> float:
    """The variance of the labels' noise, from fits without each label whose noise is taken to be one.

    A label differs from the fit of the smallest window that has enough others by noise of variance v (1 + variance).
    The median of the squares, which assumes normal noise, ignores regions where such windows are too large for the
    function.
    """
    mean, variance = fits.under(fits.smallest)
    squares = (y - mean).square() / (1.0 + variance)
    found = squares.median().item() / MEDIAN_SQUARE or squares.mean().item()
    return max(found, SMALLEST_NOISE * y.square().mean().item(), torch.finfo(y.dtype).tiny)
