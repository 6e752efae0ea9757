"""Local polynomial fits under many bandwidths, Eq. (eq:lpsPredictionGeneral).

A local polynomial is linear in the labels: m(x) = sum_i l_i(x) y_i. The weights l are found for every bandwidth, and
with them mean, variance and leave-one-out predictions. Inputs are in units in which one bandwidth serves all columns.
"""

import math
from itertools import combinations_with_replacement
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lobal.core.arrays import Bandwidths, Inputs
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import GPU_CHUNKS, gaussian

# Trace of the inverse of scaled equations, beyond which they count as singular: below, corrected weights reproduce
# polynomials with errors of at most about 1e-8, and of 1e-13 in ordinary windows.
LARGEST_INVERSE = 1e8
RIDGE = 1e-8  # on all monomials but the constant, relative to their lengths, where all windows have too few labels
MOST_VARIANCE = 1.0  # of a fit, in units of a label's: one with more is worth less than a single label
SMALLEST_REST = 1e-6  # 1 - leverage, below which nothing is left of a fit without the label
BLOCK_ENTRIES = 2**19  # kernel weights and monomials at a time, 4 MiB in float64: larger blocks leave the cache
GROUP = 4  # bandwidths that are fitted together, to the labels that the widest of them reaches
REACH = 9.0  # bandwidths from the nearest label on; beyond, kernel weights are below 3e-18


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

    weights: Float[Tensor, "B L n"]  # zero where the equations are singular
    is_enough: Bool[Tensor, "B L"]  # whether the window has enough labels


class _Equations(NamedTuple):
    """Kernel weights K and monomials Phi around points, and A = Phi^T K Phi scaled to a diagonal of one."""

    K: Float[Tensor, "B L n"]
    Phi: Float[Tensor, "B P n"]
    A: Float[Tensor, "B L P P"]
    length: Float[Tensor, "B L P"]

    def weights(self, c: Float[Tensor, "B L P"]) -> Float[Tensor, "B L n"]:
        """K Phi c."""
        return self.K * (c @ self.Phi)

    def solved(self, right: Float[Tensor, "B L P"], factor: Float[Tensor, "B L P P"]) -> Float[Tensor, "B L P"]:
        """c with Phi^T K Phi c = right, by Cholesky factors of A."""
        return torch.cholesky_solve((right / self.length)[..., None], factor)[..., 0] / self.length

    @property
    def first(self) -> Float[Tensor, "B L P"]:
        """e_1, the constant."""
        unit = torch.zeros_like(self.length)
        unit[..., 0] = 1.0
        return unit


def _equations(at: Float[Tensor, "B d"], X: Inputs, bandwidths: Bandwidths, basis: Basis) -> _Equations:
    U, tiny = X - at[:, None], torch.finfo(X.dtype).tiny
    K = gaussian(_further_than_nearest(U)[:, None] / bandwidths.square()[:, None])
    monomials = basis(U / U.abs().amax((1, 2), keepdim=True).clamp_min(tiny))
    A = (K @ monomials.mT)[:, :, basis.products]
    length = A.diagonal(dim1=-2, dim2=-1).clamp_min(tiny).sqrt()
    scaled = A / (length[..., :, None] * length[..., None, :])
    return _Equations(K, monomials[:, : len(basis.products)], scaled, length)


def _further_than_nearest(U: Float[Tensor, "B n d"]) -> Float[Tensor, "B n"]:
    """Squared lengths less the smallest of each point.

    Kernel weights are relative to that of the nearest label: a common factor does not matter, and might vanish.
    """
    squared = U.square().sum(2)
    return squared - squared.amin(1, keepdim=True)


def local_weights(at: Float[Tensor, "B d"], X: Inputs, bandwidths: Bandwidths, basis: Basis) -> LocalWeights:
    """Weights l(x) of the labels in m_Q^Sigma(x), Eq. (eq:lpsPredictionGeneral), Sigma = sigma I.

    With kernel weights K and monomials Phi around x they are l = K Phi c with (Phi^T K Phi) c = e_1. These equations,
    scaled to a diagonal of one, are solved by their Cholesky factors. One correction makes the weights reproduce
    polynomials up to rounding, Phi^T l = e_1 (corrected seminormal equations, Bjoerck 1987).

    A window has too few labels if the equations are singular, or if the fit has a greater variance than a label.
    """
    equations = _equations(at, X, bandwidths, basis)
    factor, failed = torch.linalg.cholesky_ex(equations.A)
    identity = torch.eye(factor.shape[-1]).to(factor)
    factor = torch.where((failed == 0)[..., None, None], factor, identity)
    inverse: Tensor = torch.linalg.solve_triangular(factor, identity, upper=False)
    is_regular = (failed == 0) & (inverse.square().sum((-2, -1)) <= LARGEST_INVERSE)
    c = equations.solved(equations.first, factor)
    missing = equations.first - equations.weights(c) @ equations.Phi.mT
    c = torch.where(is_regular[..., None], c + equations.solved(missing, factor), 0.0)
    weights = equations.weights(c)
    return LocalWeights(weights, is_regular & (weights.square().sum(2) <= MOST_VARIANCE))


def ridge_weights(at: Float[Tensor, "B d"], X: Inputs, bandwidth: Bandwidths, basis: Basis) -> Float[Tensor, "B 1 n"]:
    """Weights where the equations of every window are singular: with a ridge on all monomials but the constant.

    Where labels lie on a line they are followed along it; in the extreme the fit is a weighted mean.
    """
    equations = _equations(at, X, bandwidth, basis)
    ridge = RIDGE * torch.eye(equations.A.shape[-1]).to(equations.A)
    ridge[0, 0] = 0.0
    factor, _ = torch.linalg.cholesky_ex(equations.A + ridge)
    return equations.weights(equations.solved(equations.first, factor))


class Fits(NamedTuple):
    """Local polynomials at some points under every bandwidth."""

    mean: Float[Tensor, "m L"]
    variance: Float[Tensor, "m L"]  # of the mean, due to the noise of the labels
    is_enough: Bool[Tensor, "m L"]  # whether the window has enough labels; if none has, the widest counts as if it had

    @property
    def smallest(self) -> Int[Tensor, " m"]:
        """The smallest bandwidth whose window has enough labels, by number."""
        return self.is_enough.int().argmax(1)

    def under(self, choice: Int[Tensor, " m"]) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
        """Mean and variance under one bandwidth at each point."""
        return self.mean.gather(1, choice[:, None])[:, 0], self.variance.gather(1, choice[:, None])[:, 0]


def local_fits(at: Float[Tensor, "m d"], labels: LabelledSet, bandwidths: Bandwidths, basis: Basis) -> Fits:
    """Local polynomials of labels of known noise at any points."""
    return _in_blocks(at, None, labels, bandwidths, basis)


def left_out_fits(rows: Int[Tensor, " m"], labels: LabelledSet, bandwidths: Bandwidths, basis: Basis) -> Fits:
    """The same at the inputs of labels, each without its own label.

    Without a label of leverage h the others' weights are l / (1 - h): no fit is repeated.
    """
    own = rows.to(labels.X.device)
    return _in_blocks(labels.X[own], own, labels, bandwidths, basis)


def _in_blocks(
    at: Float[Tensor, "m d"],
    rows: Int[Tensor, " m"] | None,
    labels: LabelledSet,
    bandwidths: Bandwidths,
    basis: Basis,
) -> Fits:
    """Fits at points that lie close together at a time; `rows` are the labels to leave out."""
    at_once = BLOCK_ENTRIES * (GPU_CHUNKS**2 if at.device.type == "cuda" else 1)
    size = max(1, at_once // (len(labels) * (GROUP + 1 + len(basis.factors))))
    order = at[:, (at.amax(0) - at.amin(0)).argmax()].argsort()
    parts = [
        _fits(at[block], None if rows is None else rows[block], labels, bandwidths, basis)
        for block in order.split(size)
    ]
    return Fits(*(torch.cat(part)[order.argsort()] for part in zip(*parts, strict=True)))


def _fits(
    at: Float[Tensor, "B d"],
    rows: Int[Tensor, " B"] | None,
    labels: LabelledSet,
    bandwidths: Bandwidths,
    basis: Basis,
) -> Fits:
    nearest = _further_than_nearest(labels.X - at[:, None]).amin(0)
    parts = []
    for group in bandwidths.split(GROUP):
        near = (nearest <= (REACH * group[-1]).square()).nonzero()[:, 0]
        found = local_weights(at, labels.X[near], group, basis)
        if rows is not None:
            found = _left_out(found, torch.searchsorted(near, rows))
        parts.append(_sums(*found, labels[near]))
    fits = Fits(*(torch.cat(part, dim=1) for part in zip(*parts, strict=True)))
    is_alone = ~fits.is_enough.any(1)
    fits.is_enough[is_alone, -1] = True
    lonely = (is_alone & (fits.variance[:, -1] == 0.0)).nonzero()[:, 0]  # where no equations could be solved
    if len(lonely):
        found = LocalWeights(ridge_weights(at[lonely], labels.X, bandwidths[-1:], basis), fits.is_enough[lonely, -1:])
        if rows is not None:
            found = _left_out(found, rows[lonely])
        sums = _sums(*found, labels)
        fits.mean[lonely, -1], fits.variance[lonely, -1] = sums.mean[:, 0], sums.variance[:, 0]
    return fits


def _left_out(found: LocalWeights, own: Int[Tensor, " B"]) -> LocalWeights:
    """The weights of all labels but one at each point, which is left out."""
    place = own[:, None, None].expand(-1, found.weights.shape[1], 1)
    rest = 1.0 - found.weights.gather(2, place)
    has_rest = rest > SMALLEST_REST
    others = torch.where(has_rest, found.weights / rest, 0.0).scatter(2, place, 0.0)
    is_enough = found.is_enough & has_rest[..., 0] & (others.square().sum(2) <= MOST_VARIANCE)
    return LocalWeights(others, is_enough)


def _sums(weights: Float[Tensor, "B L n"], is_enough: Bool[Tensor, "B L"], labels: LabelledSet) -> Fits:
    assert labels.noise is not None  # callers know it
    return Fits(weights @ labels.y, weights.square() @ labels.noise, is_enough)
