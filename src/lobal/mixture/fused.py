"""A step of Adam on a GPU as two kernels, written in Triton, which comes with torch wherever it runs on CUDA.

The step is that of `gradients`: its formulas in torch are some eighty operations on a few thousand numbers each, none
of which keeps a GPU busy for as long as it takes to start. Here one kernel has a program for every point of the batch,
which reads its features once and leaves the derivatives that belong to the point; the other has a program for every
piece of a parameter, which sums those up over the batch and moves the parameter by Adam's rule.

Features are in single precision, as everywhere in Adam's steps, all else is in double precision.
"""

# The language of kernels has no types that mypy or ruff would know.
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
# ruff: noqa: ANN001, ANN202

from typing import NamedTuple, final

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from lobal.arrays import Scalar
from lobal.mixture.gradients import Trainable

POINTS = 64  # of the batch, looked at together where derivatives are summed up
WIDTH = 64  # inducing values moved by one program
FEATURES = 256  # read together by the program of a point


@triton.jit(do_not_specialize=["B", "kappa"])
def _derivatives(
    rows,  # (B,) of the batch
    shaken,  # (B, L) noise on the channels
    phi,  # (n, L, m) features
    explained,  # (n, L) q
    y,  # (n,)
    weight,  # (n,)
    given_noise,  # (n,), or anything
    rounded,  # (L, m) whitened means in single precision
    mean,
    log_scale,
    log_noise,
    gate_phi,  # (n, m_G)
    gate_values,  # (L, m_G)
    gate_means,  # (L,)
    gate_root,  # sqrt of lambda_G
    prices,  # (L,)
    pushed,  # (B, L), left: derivative in the experts' means
    carried,  # (B, L), left: gate times the point's share of the weights
    slopes,  # (B, L), left: derivative in the channels
    sums,  # (B, 4), left: objective, and the derivatives in mean, log scale, log noise
    root,  # left: sqrt of lambda_E, before it moves
    step,  # counted on
    n,
    B,
    kappa,
    L: tl.constexpr,
    m: tl.constexpr,
    m_G: tl.constexpr,
    KNOWN: tl.constexpr,  # whether the noise is given
    LP: tl.constexpr,
    BF: tl.constexpr,
    BP: tl.constexpr,
):
    point = tl.program_id(0)
    row = tl.load(rows + point).to(tl.int64)
    level = tl.arange(0, LP)
    exists = level < L
    # The weight of the batch.
    total = tl.zeros([BP], tl.float64)
    for first in range(0, B, BP):
        others = first + tl.arange(0, BP)
        total += tl.load(weight + tl.load(rows + others, others < B, 0), others < B, 0.0)
    omega = tl.load(weight + row) / tl.sum(total)
    # The experts' answers, and the norms of their values.
    latent = tl.zeros([LP], tl.float32)
    norm = tl.zeros([LP], tl.float32)
    for first in range(0, m, BF):
        column = first + tl.arange(0, BF)
        inside = exists[:, None] & (column < m)[None, :]
        place = level[:, None] * m + column[None, :]
        values = tl.load(rounded + place, inside, 0.0)
        latent += tl.sum(values * tl.load(phi + row * L * m + place, inside, 0.0), 1)
        norm += tl.sum(values * values, 1)
    # The gate.
    channel = tl.zeros([LP], tl.float64)
    for first in range(0, m_G, BF):
        column = first + tl.arange(0, BF)
        features = tl.load(gate_phi + row * m_G + column, column < m_G, 0.0)
        inside = exists[:, None] & (column < m_G)[None, :]
        values = tl.load(gate_values + level[:, None] * m_G + column[None, :], inside, 0.0)
        channel += tl.sum(values * features[None, :], 1)
    channel = tl.load(gate_means + level, exists, 0.0) + tl.load(gate_root) * channel
    channel += tl.load(shaken + point * L + level, exists, 0.0)
    channel = tl.where(exists, channel, -float("inf"))
    above = channel[None, :] > channel[:, None]
    before = (channel[None, :] == channel[:, None]) & (level[None, :] < level[:, None])
    rank = tl.sum((above | before).to(tl.int32), 1)
    kept = tl.where(rank < kappa, tl.exp(channel - tl.max(channel, 0)), 0.0)
    gate = kept / tl.sum(kept, 0)
    # The objective, sum_b omega_b sum_l G_bl c_bl, and its derivatives.
    scale = tl.exp(tl.load(log_scale))
    noise = tl.load(given_noise + row) if KNOWN else tl.exp(tl.load(log_noise))
    answer = tl.sqrt(scale) * latent.to(tl.float64)
    beyond = scale * (1.0 - tl.load(explained + row * L + level, exists, 0.0))
    variance = beyond + noise
    residual = tl.load(y + row) - tl.load(mean) - answer
    pull = residual / variance
    divergence = 0.5 / n * norm.to(tl.float64)
    cost = 0.5 * (residual * pull + tl.log(variance)) + divergence + tl.load(prices + level, exists, 0.0)
    share = gate * omega
    weighted = share * cost
    objective = tl.sum(weighted, 0)
    push = share * pull
    widened = 0.5 * share * (1.0 / variance - pull * pull)
    place = point * L + level
    tl.store(pushed + place, push, exists)
    tl.store(carried + place, share, exists)
    tl.store(slopes + place, weighted - gate * objective, exists)
    tl.store(sums + 4 * point, objective)
    tl.store(sums + 4 * point + 1, -tl.sum(push, 0))
    tl.store(sums + 4 * point + 2, tl.sum(widened * beyond - 0.5 * push * answer, 0))
    tl.store(sums + 4 * point + 3, tl.sum(widened * noise, 0))
    if point == 0:
        tl.store(root, tl.sqrt(scale))
        tl.store(step, tl.load(step) + 1.0)


@triton.jit
def _moved(value, slope, first, second, inside, rate, step):
    """Adam's rule, for the values at these places; what they are afterwards."""
    momentum = 0.9 * tl.load(first, inside, 0.0) + (1.0 - 0.9) * slope
    square = 0.999 * tl.load(second, inside, 0.0) + (1.0 - 0.999) * slope * slope
    tl.store(first, momentum, inside)
    tl.store(second, square, inside)
    # 1 - beta^t by the logarithms of 0.9 and 0.999
    unbiased = momentum / (1.0 - tl.exp(-0.10536051565782630 * step))
    spread = tl.sqrt(square / (1.0 - tl.exp(-0.0010005003335835335 * step)))
    moved = tl.load(value, inside, 0.0) - rate * unbiased / (spread + 1e-8)
    tl.store(value, moved, inside)
    return moved


@triton.jit
def _product(
    rows, features, column, inside, factors, level, B, L, width, BP: tl.constexpr, BW: tl.constexpr, kind: tl.constexpr
):
    """Sum over the batch of the features in these columns, (rows, width), times the factors (B, L) of a level."""
    product = tl.zeros([BW], kind)
    for first in range(0, B, BP):
        point = first + tl.arange(0, BP)
        there = point < B
        row = tl.load(rows + point, there, 0).to(tl.int64)
        factor = tl.load(factors + point * L + level, there, 0.0).to(kind)
        place = row[:, None] * width + column[None, :]
        product += tl.sum(tl.load(features + place, there[:, None] & inside[None, :], 0.0) * factor[:, None], 0)
    return product.to(tl.float64)


@triton.jit
def _sums(values, places, exists, B, width, BP: tl.constexpr, BW: tl.constexpr):
    """Sums over the batch of the values (B, width) at these places."""
    total = tl.zeros([BW], tl.float64)
    for first in range(0, B, BP):
        point = first + tl.arange(0, BP)
        inside = (point < B)[:, None] & exists[None, :]
        total += tl.sum(tl.load(values + point[:, None] * width + places[None, :], inside, 0.0), 0)
    return total


@triton.jit
def _number(values, which):
    """One of four numbers."""
    return tl.sum(tl.where(tl.arange(0, 4) == which, values, 0.0), 0)


@triton.jit(do_not_specialize=["B"])
def _moves(
    rows,
    phi,
    gate_phi,
    pushed,
    carried,
    slopes,
    sums,
    root,
    gate_root,
    step,
    rates,  # (4,) of inducing values, hyperparameters, the gate's values, the gate's means
    values,  # (L, m)
    values_1,
    values_2,
    rounded,
    gate_values,  # (L, m_G)
    gate_values_1,
    gate_values_2,
    gate_means,  # (L,)
    gate_means_1,
    gate_means_2,
    mean,
    log_scale,
    log_noise,
    shared_1,  # (3,)
    shared_2,
    objective,  # left
    n,
    B,
    L: tl.constexpr,
    m: tl.constexpr,
    m_G: tl.constexpr,
    KNOWN: tl.constexpr,
    LP: tl.constexpr,
    BP: tl.constexpr,
    BW: tl.constexpr,
):
    piece = tl.program_id(0)
    n_pieces: tl.constexpr = (m + BW - 1) // BW
    n_gate_pieces: tl.constexpr = (m_G + BW - 1) // BW
    t = tl.load(step)
    if piece < L * n_pieces:
        level = piece // n_pieces
        column = (piece % n_pieces) * BW + tl.arange(0, BW)
        inside = column < m
        place = level * m + column
        share = tl.sum(_sums(carried, level + tl.zeros([1], tl.int32), tl.full([1], True, tl.int1), B, L, BP, 1), 0)
        product = _product(rows, phi + level * m, column, inside, pushed, level, B, L, L * m, BP, BW, tl.float32)
        slope = share / n * tl.load(values + place, inside, 0.0) - tl.load(root) * product
        moved = _moved(values + place, slope, values_1 + place, values_2 + place, inside, tl.load(rates), t)
        tl.store(rounded + place, moved.to(tl.float32), inside)
    elif piece < L * (n_pieces + n_gate_pieces):
        gate_piece = piece - L * n_pieces
        channel = gate_piece // n_gate_pieces
        gate_column = (gate_piece % n_gate_pieces) * BW + tl.arange(0, BW)
        gate_inside = gate_column < m_G
        gate_place = channel * m_G + gate_column
        gate_slope = tl.load(gate_root) * _product(
            rows, gate_phi, gate_column, gate_inside, slopes, channel, B, L, m_G, BP, BW, tl.float64
        )
        _moved(
            gate_values + gate_place,
            gate_slope,
            gate_values_1 + gate_place,
            gate_values_2 + gate_place,
            gate_inside,
            tl.load(rates + 2),
            t,
        )
    else:
        levels = tl.arange(0, LP)
        exists = levels < L
        means_slope = _sums(slopes, levels, exists, B, L, BP, LP)
        pace = tl.load(rates + 3)
        _moved(gate_means + levels, means_slope, gate_means_1 + levels, gate_means_2 + levels, exists, pace, t)
        totals = _sums(sums, tl.arange(0, 4), tl.arange(0, 4) < 4, B, 4, BP, 4)
        tl.store(objective, _number(totals, 0))
        rate = tl.load(rates + 1)
        _moved(mean, _number(totals, 1), shared_1, shared_2, True, rate, t)
        _moved(log_scale, _number(totals, 2), shared_1 + 1, shared_2 + 1, True, rate, t)
        if not KNOWN:
            _moved(log_noise, _number(totals, 3), shared_1 + 2, shared_2 + 2, True, rate, t)


class GateTensors(NamedTuple):
    """What a step reads of the gate, and what it moves: values and means."""

    phi: Float[Tensor, "n m_G"]
    scale: Scalar  # lambda_G
    values: Float[Tensor, "L m_G"]
    means: Float[Tensor, " L"]


class _Moments(NamedTuple):
    """Adam's running means of a parameter's derivatives and of their squares."""

    first: Tensor
    second: Tensor

    @staticmethod
    def like(parameter: Tensor) -> "_Moments":
        return _Moments(torch.zeros_like(parameter), torch.zeros_like(parameter))


@final
class FusedStep:
    """Steps of Adam that move the tensors of experts and gate in place; `rates` may change between them."""

    def __init__(self, experts: Trainable, gate: GateTensors, prices: Float[Tensor, " L"]) -> None:
        self._experts, self._gate, self._prices = experts, gate, prices
        like = experts.whitened_mean.detach()
        self._values = _Moments.like(like)
        self._gate_values, self._gate_means = _Moments.like(gate.values.detach()), _Moments.like(gate.means.detach())
        self._shared = _Moments.like(like.new_empty(3))
        self._rounded = like.float()
        self._gate_root = gate.scale.sqrt()
        self._count, self._root = like.new_zeros(()), like.new_zeros(())
        self.rates = like.new_zeros(4)  # of inducing values, hyperparameters, the gate's values, the gate's means

    def __call__(self, rows: Int[Tensor, " b"], shaken: Float[Tensor, "b L"], kappa: int) -> Scalar:
        """One step for a batch of the points, with this noise on the channels; the objective before it."""
        experts, gate = self._experts, self._gate
        B, (n, L, m), m_G = len(rows), experts.phi.shape, gate.phi.shape[1]
        pushed, carried, slopes = (self._prices.new_empty(B, L) for _ in range(3))
        sums, objective = self._prices.new_empty(B, 4), self._prices.new_empty(())
        is_known = experts.given_noise is not None
        noise = experts.given_noise if experts.given_noise is not None else experts.log_noise
        sizes = {"L": L, "m": m, "m_G": m_G, "KNOWN": is_known, "LP": triton.next_power_of_2(L), "BP": POINTS}
        _derivatives[(B,)](
            *(rows, shaken, experts.phi, experts.explained, experts.y, experts.weight, noise, self._rounded),
            *(experts.mean, experts.log_scale, experts.log_noise),
            *(gate.phi, gate.values, gate.means, self._gate_root, self._prices),
            *(pushed, carried, slopes, sums, self._root, self._count),
            *(float(n), B, kappa),
            **sizes,
            BF=FEATURES,
        )
        pieces = L * (triton.cdiv(m, WIDTH) + triton.cdiv(m_G, WIDTH)) + 1
        _moves[(pieces,)](
            *(rows, experts.phi, gate.phi, pushed, carried, slopes, sums, self._root, self._gate_root),
            *(self._count, self.rates, experts.whitened_mean, *self._values, self._rounded),
            *(gate.values, *self._gate_values, gate.means, *self._gate_means),
            *(experts.mean, experts.log_scale, experts.log_noise, *self._shared, objective),
            *(float(n), B),
            **sizes,
            BW=WIDTH,
        )
        return objective
