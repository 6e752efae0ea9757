"""Noise with heavy tails: Student's t distribution, by expectation maximisation.

Student's noise of scale v is Gaussian noise of variance v / w_i, where w_i has a gamma distribution of mean one. Given
the noise e_i of a label, the expectation of w_i is (nu + 1) / (nu + e_i^2 / v), and the label counts as one of variance

    v_i = v (nu + e_i^2 / v) / (nu + 1),

so that labels far from their predictions count little (Lange et al. 1989). The noise itself is not observed. A label
that is left out differs from its prediction by r_i, noise and prediction error, which is of variance u_i
(`leave_one_out.py`). Given w_i, r_i is Gaussian of variance v / w_i + u_i, so likelihood and expectation of w_i are
sums over a grid of w; for u_i = 0 they give the formula above.

A first fit under Gaussian noise takes outliers for noise, or for a function of tiny bandwidth. Neither its v nor its u
can be trusted then, but z = r / sqrt(u + v) is large for outliers in units of the other z in either case.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.comparison import is_better
from lobal.core.dataset import LabelledSet
from lobal.experts.exact import ExactExperts
from lobal.mixture.leave_one_out import left_out_prediction
from lobal.mixture.model import Mixture, MixturePrediction

HEAVY_TAILS = "heavy_tails"  # the option `noise` that asks for it
# Degrees of freedom nu, the usual choice (Lange et al. 1989): the variance exists, a label ten standard deviations off
# counts a twentieth, and if the noise is Gaussian after all, n labels are worth 0.94 n.
FREEDOM = 4.0
VARIANCE = FREEDOM / (FREEDOM - 2.0)  # of the distribution, in units of its scale v
# Grid of w, equidistant in its logarithm: labels count no less than the smallest.
SMALLEST, LARGEST, NODES = 1e-7, 10.0, 80
SECTIONS = 30  # of the golden section search for log v: an interval of 20 shrinks to 1e-5
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
MOST_COMPARED = 4096  # labels: enough to know one number
QUARTILE = 0.6745  # median absolute value of a normal number
ROUNDS = 3  # of leave-one-out predictions and variances, with a mixture that stays as it is


class HeavyTails(NamedTuple):
    """Student's noise: its scale, and the labels' variances as Gaussian ones."""

    scale: Scalar  # v
    variances: Float[Tensor, " n"]  # v_i

    @property
    def variance(self) -> Scalar:
        """The variance of a new label's noise."""
        return VARIANCE * self.scale


class Residuals(NamedTuple):
    """Labels minus their leave-one-out predictions."""

    residual: Float[Tensor, " n"]  # r
    model_variance: Float[Tensor, " n"]  # u, the part of its variance that is not noise


class Weights(NamedTuple):
    """A distribution of w on a grid."""

    w: Float[Tensor, " k"]
    log_probability: Float[Tensor, " k"]

    def log_joint(self, residuals: Residuals, scale: Scalar) -> Float[Tensor, "k n"]:
        """log p(r_i, w) at the grid, less what is the same everywhere."""
        t = (scale / self.w)[:, None] + residuals.model_variance
        return self.log_probability[:, None] - 0.5 * (residuals.residual.square() / t + t.log())

    def log_likelihood(self, residuals: Residuals, scale: Scalar) -> Float[Tensor, " n"]:
        """log p(r_i), likewise."""
        return self.log_joint(residuals, scale).logsumexp(dim=0)


def student_weights(like: Tensor) -> Weights:
    """The weights of Student's noise: the gamma distribution with shape and rate nu / 2."""
    log_w = torch.linspace(math.log(SMALLEST), math.log(LARGEST), NODES).to(like)
    return Weights(log_w.exp(), (0.5 * FREEDOM * (log_w - log_w.exp())).log_softmax(dim=0))


def gaussian_weights(like: Tensor) -> Weights:
    """The weight of Gaussian noise, which is one."""
    return Weights(torch.ones(1).to(like), torch.zeros(1).to(like))


def residuals_of(mixture: Mixture, points: LabelledSet) -> Residuals:
    """The leave-one-out residuals of the training points."""
    mean, variance = left_out_prediction(mixture, points)
    return Residuals(points.y - mean, variance)


def first_heavy_tails(residuals: Residuals, noise: Float[Tensor, "..."]) -> HeavyTails | None:
    """Student's noise from the residuals of a fit under Gaussian noise; None if their z are about normal."""
    r, u = residuals
    z = Residuals(r / (u + noise).sqrt(), torch.zeros_like(r))
    few, floor = _few(z), SMALLEST * z.residual.square().mean().item()
    if not floor > 0.0:
        return None
    student, gaussian = (
        weights.log_likelihood(few, best_scale(few, weights, smallest=floor))
        for weights in (student_weights(r), gaussian_weights(r))
    )
    if not is_better(-student, -gaussian):
        return None
    relative = heavy_tails(z, smallest=floor)
    scale = (r.abs().median() / QUARTILE).square()
    return HeavyTails(scale, scale + (relative.variances - relative.scale).clamp_min(0.0) * (u + noise))


def heavy_tails(residuals: Residuals, *, smallest: float) -> HeavyTails:
    """Student's noise of greatest likelihood; its scale is not below `smallest`."""
    scale = best_scale(_few(residuals), student_weights(residuals.residual), smallest=smallest)
    return HeavyTails(scale, label_variances(residuals, scale))


def student_likelihood(residuals: Residuals, noise: HeavyTails) -> Float[Tensor, " n"]:
    """log p(r_i) under Student's noise, less log(2 pi) / 2."""
    return student_weights(residuals.residual).log_likelihood(residuals, noise.scale)


def gaussian_likelihood(residuals: Residuals, noise: Float[Tensor, "..."]) -> Float[Tensor, " n"]:
    """log p(r_i) under Gaussian noise, likewise."""
    t = residuals.model_variance + noise
    return -0.5 * (residuals.residual.square() / t + t.log())


def label_variances(residuals: Residuals, scale: Scalar) -> Float[Tensor, " n"]:
    """v_i, the scale divided by the expectation of w_i."""
    weights = student_weights(residuals.residual)
    parts = zip(*(part.split(MOST_COMPARED) for part in residuals), strict=True)
    expected = [weights.w @ weights.log_joint(Residuals(*part), scale).softmax(dim=0) for part in parts]
    return scale / torch.cat(expected)


def best_scale(residuals: Residuals, weights: Weights, *, smallest: float) -> Scalar:
    """v of greatest likelihood, by golden section search between the smallest and the mean square."""
    r = residuals.residual

    def likelihood(log_v: float) -> float:
        return weights.log_likelihood(residuals, r.new_tensor(log_v).exp()).sum().item()

    low = math.log(smallest)
    high = max(math.log(max(r.square().mean().item(), smallest)), low)
    for _ in range(SECTIONS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, right) if likelihood(left) > likelihood(right) else (left, high)
    return r.new_tensor(0.5 * (low + high)).exp()


def left_out_with_heavy_tails(mixture: Mixture, points: LabelledSet) -> MixturePrediction:
    """The prediction at each training point from all others, where `points.noise` is that of new labels.

    Exact experts know the variances that their labels count with; those of sparse experts are found again.
    """
    if isinstance(mixture.experts, ExactExperts) or points.noise is None:
        return left_out_prediction(mixture, points)
    scale = points.noise.mean() / VARIANCE
    counted = replace(points, noise=scale.expand(len(points)))
    for _ in range(ROUNDS):
        counted = replace(points, noise=label_variances(residuals_of(mixture, counted), scale))
    return left_out_prediction(mixture, counted)


def _few(residuals: Residuals) -> Residuals:
    """Some of the labels, evenly taken from their order."""
    step = math.ceil(len(residuals.residual) / MOST_COMPARED)
    return Residuals(*(part[::step] for part in residuals))
