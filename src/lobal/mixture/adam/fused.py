"""A step of Adam on a GPU as two kernels, written in Triton, which comes with torch wherever it runs on CUDA.

The step is that of `gradients`: its formulas in torch are some eighty operations on a few thousand numbers each, none
of which keeps a GPU busy for as long as it takes to start. Here one kernel has a program for every point of the batch,
which reads its features once and leaves the derivatives that belong to the point; the other has a program for every
piece of a parameter, which sums those up over the batch and moves the parameter by Adam's rule. Trainings of several
candidates are a second axis of programs: those of a point read the same features, from the cache but for the first.

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

from lobal.core.arrays import Scalar
from lobal.mixture.adam.gradients import Trainable

POINTS = 256  # of the batch, looked at together where derivatives are summed up
WIDTH = 64  # inducing values moved by one program
FEATURES = 256  # read together by the program of a point


@triton.jit(do_not_specialize=["B"])
def _derivatives(
    rows,  # (B,) of the batch
    shaken,  # (B, L) noise on the channels
    shaking,  # (C,) its factor
    kappas,  # (C,)
    phi,  # (n, L, m) features
    explained,  # (n, L) q
    y,  # (n,)
    weight,  # (n,)
    given_noise,  # (n,), or anything
    rounded,  # (C, L, m) whitened means in single precision
    mean,  # (C,)
    log_scale,  # (C,)
    log_noise,  # (C,)
    gate_phi,  # (n, m_G) or (C, n, m_G)
    gate_values,  # (C, L, m_G)
    gate_means,  # (C, L)
    gate_root,  # (C,) sqrt of lambda_G
    prices,  # (C, L)
    pushed,  # (C, B, L), left: derivative in the experts' means
    carried,  # (C, B, L), left: gate times the point's share of the weights
    slopes,  # (C, B, L), left: derivative in the channels
    sums,  # (C, B, 4), left: objective, and the derivatives in mean, log scale, log noise
    root,  # (C,), left: sqrt of lambda_E, before it moves
    step,  # counted on
    n,
    B,
    apart,  # from what a candidate moves to the same of the next
    gate_apart,  # from the gate's features of a candidate to those of the next
    L: tl.constexpr,
    m: tl.constexpr,
    m_G: tl.constexpr,
    KNOWN: tl.constexpr,  # whether the noise is given
    LP: tl.constexpr,
    BF: tl.constexpr,
    BP: tl.constexpr,
):
    point = tl.program_id(0)
    candidate = tl.program_id(1).to(tl.int64)
    moved = candidate * apart
    gate_phi += candidate * gate_apart
    own = candidate * B + point  # among the points of all candidates
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
        values = tl.load(rounded + candidate * L * m + place, inside, 0.0)
        latent += tl.sum(values * tl.load(phi + row * L * m + place, inside, 0.0), 1)
        norm += tl.sum(values * values, 1)
    # The gate.
    channel = tl.zeros([LP], tl.float64)
    for first in range(0, m_G, BF):
        column = first + tl.arange(0, BF)
        features = tl.load(gate_phi + row * m_G + column, column < m_G, 0.0)
        inside = exists[:, None] & (column < m_G)[None, :]
        values = tl.load(gate_values + moved + level[:, None] * m_G + column[None, :], inside, 0.0)
        channel += tl.sum(values * features[None, :], 1)
    channel = tl.load(gate_means + moved + level, exists, 0.0) + tl.load(gate_root + candidate) * channel
    channel += tl.load(shaking + candidate) * tl.load(shaken + point * L + level, exists, 0.0)
    channel = tl.where(exists, channel, -float("inf"))
    above = channel[None, :] > channel[:, None]
    before = (channel[None, :] == channel[:, None]) & (level[None, :] < level[:, None])
    rank = tl.sum((above | before).to(tl.int32), 1)
    kept = tl.where(rank < tl.load(kappas + candidate), tl.exp(channel - tl.max(channel, 0)), 0.0)
    gate = kept / tl.sum(kept, 0)
    # The objective, sum_b omega_b sum_l G_bl c_bl, and its derivatives.
    scale = tl.exp(tl.load(log_scale + moved))
    noise = tl.load(given_noise + row) if KNOWN else tl.exp(tl.load(log_noise + moved))
    answer = tl.sqrt(scale) * latent.to(tl.float64)
    beyond = scale * (1.0 - tl.load(explained + row * L + level, exists, 0.0))
    variance = beyond + noise
    residual = tl.load(y + row) - tl.load(mean + moved) - answer
    pull = residual / variance
    divergence = 0.5 / n * norm.to(tl.float64)
    price = tl.load(prices + candidate * L + level, exists, 0.0)
    cost = 0.5 * (residual * pull + tl.log(variance)) + divergence + price
    share = gate * omega
    weighted = share * cost
    objective = tl.sum(weighted, 0)
    push = share * pull
    widened = 0.5 * share * (1.0 / variance - pull * pull)
    place = own * L + level
    tl.store(pushed + place, push, exists)
    tl.store(carried + place, share, exists)
    tl.store(slopes + place, weighted - gate * objective, exists)
    tl.store(sums + 4 * own, objective)
    tl.store(sums + 4 * own + 1, -tl.sum(push, 0))
    tl.store(sums + 4 * own + 2, tl.sum(widened * beyond - 0.5 * push * answer, 0))
    tl.store(sums + 4 * own + 3, tl.sum(widened * noise, 0))
    if point == 0:
        tl.store(root + candidate, tl.sqrt(scale))
        if candidate == 0:
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
    rates,  # (C, 4) of inducing values, hyperparameters, the gate's values, the gate's means
    values,  # (C, L, m)
    values_1,
    values_2,
    rounded,
    gate_values,  # (C, L, m_G)
    gate_values_1,
    gate_values_2,
    gate_means,  # (C, L)
    gate_means_1,
    gate_means_2,
    mean,
    log_scale,
    log_noise,
    shared_1,  # (C, 3)
    shared_2,
    objective,  # (C,), left
    n,
    B,
    apart,
    gate_apart,
    L: tl.constexpr,
    m: tl.constexpr,
    m_G: tl.constexpr,
    KNOWN: tl.constexpr,
    LP: tl.constexpr,
    BP: tl.constexpr,
    BW: tl.constexpr,
):
    piece = tl.program_id(0)
    candidate = tl.program_id(1).to(tl.int64)
    moved = candidate * apart
    gate_phi += candidate * gate_apart
    pushed += candidate * B * L
    carried += candidate * B * L
    slopes += candidate * B * L
    sums += candidate * B * 4
    rates += candidate * 4
    n_pieces: tl.constexpr = (m + BW - 1) // BW
    n_gate_pieces: tl.constexpr = (m_G + BW - 1) // BW
    t = tl.load(step)
    if piece < L * n_pieces:
        level = piece // n_pieces
        column = (piece % n_pieces) * BW + tl.arange(0, BW)
        inside = column < m
        place = moved + level * m + column
        share = tl.sum(_sums(carried, level + tl.zeros([1], tl.int32), tl.full([1], True, tl.int1), B, L, BP, 1), 0)
        product = _product(rows, phi + level * m, column, inside, pushed, level, B, L, L * m, BP, BW, tl.float32)
        slope = share / n * tl.load(values + place, inside, 0.0) - tl.load(root + candidate) * product
        after = _moved(values + place, slope, values_1 + place, values_2 + place, inside, tl.load(rates), t)
        tl.store(rounded + candidate * L * m + level * m + column, after.to(tl.float32), inside)
    elif piece < L * (n_pieces + n_gate_pieces):
        gate_piece = piece - L * n_pieces
        channel = gate_piece // n_gate_pieces
        gate_column = (gate_piece % n_gate_pieces) * BW + tl.arange(0, BW)
        gate_inside = gate_column < m_G
        gate_place = moved + channel * m_G + gate_column
        gate_slope = tl.load(gate_root + candidate) * _product(
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
        places = moved + levels
        _moved(gate_means + places, means_slope, gate_means_1 + places, gate_means_2 + places, exists, pace, t)
        totals = _sums(sums, tl.arange(0, 4), tl.arange(0, 4) < 4, B, 4, BP, 4)
        tl.store(objective + candidate, _number(totals, 0))
        rate = tl.load(rates + 1)
        shared_1 += moved
        shared_2 += moved
        _moved(mean + moved, _number(totals, 1), shared_1, shared_2, True, rate, t)
        _moved(log_scale + moved, _number(totals, 2), shared_1 + 1, shared_2 + 1, True, rate, t)
        if not KNOWN:
            _moved(log_noise + moved, _number(totals, 3), shared_1 + 2, shared_2 + 2, True, rate, t)


class GateTensors(NamedTuple):
    """What a step reads of the gate, and what it moves: values and means."""

    phi: Float[Tensor, "*own n m_G"]  # of each candidate, or of all
    root: Float[Tensor, "..."]  # sqrt of lambda_G
    values: Float[Tensor, "*C L m_G"]
    means: Float[Tensor, "*C L"]


class Controls(NamedTuple):
    """How to step; the values may change between steps."""

    rates: Float[Tensor, "*C 4"]  # of inducing values, hyperparameters, the gate's values, the gate's means
    prices: Float[Tensor, "*C L"]
    noise: Float[Tensor, "..."]  # factor of the noise on the channels
    kappa: Int[Tensor, "*C"]


class Moments(NamedTuple):
    """Adam's running means of the derivatives, or of their squares."""

    values: Float[Tensor, "*C L m"]
    shared: Float[Tensor, "*C 3"]  # of mean, log scale, log noise
    gate_values: Float[Tensor, "*C L m_G"]
    gate_means: Float[Tensor, "*C L"]

    @staticmethod
    def zero(experts: Trainable, gate: GateTensors) -> "Moments":
        """Those of one training at its beginning."""
        like = experts.whitened_mean.detach()
        sizes = (like.shape, (3,), gate.values.shape, gate.means.shape)
        return Moments(*(like.new_zeros(size) for size in sizes))


@final
class FusedStep:
    """Steps of Adam that move the tensors of experts and gate in place.

    Of one training, or of several: then all that is moved, and the moments, lie equally far apart from candidate to
    candidate, as the columns of one matrix do.
    """

    def __init__(
        self,
        experts: Trainable,
        gate: GateTensors,
        controls: Controls,
        moments: tuple[Moments, Moments],
        count: Scalar,  # of steps so far
    ) -> None:
        self._experts, self._gate, self.controls = experts, gate, controls
        (self._first, self._second), self._count = moments, count
        self._C = controls.kappa.numel()
        self._rounded = experts.whitened_mean.detach().to(torch.float32, memory_format=torch.contiguous_format)
        self._root = self._rounded.new_zeros(self._C, dtype=count.dtype)
        self._apart = experts.mean.stride(0) if experts.mean.ndim else 0
        self._gate_apart = gate.phi.stride(0) if gate.phi.ndim > 2 else 0

    def __call__(self, rows: Int[Tensor, " b"], shaken: Float[Tensor, "b L"]) -> Float[Tensor, "*C"]:
        """One step for a batch of the points, with this noise on the channels; the objectives before it."""
        experts, gate, controls, C = self._experts, self._gate, self.controls, self._C
        B, (n, L, m), m_G = len(rows), experts.phi.shape, gate.phi.shape[-1]
        pushed, carried, slopes = (controls.prices.new_empty(C, B, L) for _ in range(3))
        sums, objective = controls.prices.new_empty(C, B, 4), torch.empty_like(experts.mean.detach())
        is_known = experts.given_noise is not None
        noise = experts.given_noise if experts.given_noise is not None else experts.log_noise
        sizes = {"L": L, "m": m, "m_G": m_G, "KNOWN": is_known, "LP": triton.next_power_of_2(L), "BP": POINTS}
        _derivatives[(B, C)](
            *(rows, shaken, controls.noise, controls.kappa),
            *(experts.phi, experts.explained, experts.y, experts.weight, noise, self._rounded),
            *(experts.mean, experts.log_scale, experts.log_noise),
            *(gate.phi, gate.values, gate.means, gate.root, controls.prices),
            *(pushed, carried, slopes, sums, self._root, self._count),
            *(float(n), B, self._apart, self._gate_apart),
            **sizes,
            BF=FEATURES,
        )
        pieces = L * (triton.cdiv(m, WIDTH) + triton.cdiv(m_G, WIDTH)) + 1
        first, second = self._first, self._second
        _moves[(pieces, C)](
            *(rows, experts.phi, gate.phi, pushed, carried, slopes, sums, self._root, gate.root),
            *(self._count, controls.rates, experts.whitened_mean, first.values, second.values, self._rounded),
            *(gate.values, first.gate_values, second.gate_values),
            *(gate.means, first.gate_means, second.gate_means),
            *(experts.mean, experts.log_scale, experts.log_noise, first.shared, second.shared, objective),
            *(float(n), B, self._apart, self._gate_apart),
            **sizes,
            BW=WIDTH,
        )
        return objective
