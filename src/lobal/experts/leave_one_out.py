"""Leave-one-out predictions in closed form: every expert at each of its points, without that label.

For a linear smoother no expert has to be fitted again. With A = I + lambda Phi^T diag(w / s) Phi the label i has the
leverage h_i = lambda phi_i^T A^-1 phi_i w_i / s_i; left out, its residual grows by 1 / (1 - h_i) and the variance of
its prediction by as much. The leverages of an expert sum to its effective number of parameters.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.core.linalg import whitened
from lobal.experts.exact import ExactExperts
from lobal.experts.features import StoredFeatures
from lobal.experts.fitc import Conditioned, Moments, conditioned, fitc_variance, moments
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import predictive_mean

# A label that its expert interpolates has leverage one, and its leave-one-out prediction is not defined.
LARGEST_LEVERAGE = 1.0 - 1e-9


class LeaveOneOut(NamedTuple):
    """Every expert's prediction of every label from all others; the variance includes the label's noise."""

    mean: Float[Tensor, "L n"]
    variance: Float[Tensor, "L n"]
    leverage: Float[Tensor, "L n"]

    def log_likelihood(self, y: Float[Tensor, " n"]) -> Float[Tensor, "L n"]:
        """log N(y; mean, variance), less log(2 pi) / 2."""
        return -0.5 * ((y - self.mean).square() / self.variance + self.variance.log())


def condition(
    stored: StoredFeatures,
    points: LabelledSet,
    hyperparameters: Hyperparameters,
    gate: Float[Tensor, "n L"] | None = None,
    others: Iterable[Moments] = (),
) -> Conditioned:
    """The experts' posterior given all points, weighted by a gate or equally, and given further moments."""
    weight = relative_weights(points)
    weights = weight.expand(len(stored.features.bandwidths), -1) if gate is None else gate.mT * weight
    precision = weights / fitc_variance(stored.explained, hyperparameters)
    parts = (
        moments(phi, points.y[part], hyperparameters, precision=precision[:, part]) for part, phi in stored.slices()
    )
    return conditioned(itertools.chain(parts, others))


def sparse_leave_one_out(
    stored: StoredFeatures, points: LabelledSet, hyperparameters: Hyperparameters, experts: Conditioned
) -> LeaveOneOut:
    """The predictions of sparse experts that were conditioned on all points equally."""
    weight = relative_weights(points)
    columns = [
        _part(phi, stored.explained[:, part], points.y[part], weight[part], at(hyperparameters, part), experts)
        for part, phi in stored.slices()
    ]
    return LeaveOneOut(*(torch.cat(parts, dim=1) for parts in zip(*columns, strict=True)))


def _part(
    phi: Float[Tensor, "L b m"],
    q: Float[Tensor, "L b"],
    y: Float[Tensor, " b"],
    weight: Float[Tensor, " b"],
    hyperparameters: Hyperparameters,
    experts: Conditioned,
) -> LeaveOneOut:
    root = whitened(experts.factor, phi)
    latent = hyperparameters.scale * torch.linalg.vector_norm(root, dim=-1).square()
    s = fitc_variance(q, hyperparameters)
    leverage = (latent * weight / s).clamp_max(LARGEST_LEVERAGE)
    residual = y - predictive_mean(phi, experts.whitened_mean, hyperparameters.mean, hyperparameters.scale)
    return LeaveOneOut(y - residual / (1.0 - leverage), s + latent / (1.0 - leverage), leverage)


def exact_leave_one_out(experts: ExactExperts) -> LeaveOneOut:
    """The predictions of exact experts at their own points."""
    mean, variance = experts.leave_one_out()
    leverage = 1.0 - experts.hyperparameters.noise / variance
    return LeaveOneOut(mean, variance, leverage.clamp(0.0, LARGEST_LEVERAGE))


def leave_one_out_among_neighbours(
    points: LabelledSet,
    hyperparameters: Hyperparameters,
    groups: Sequence[Int[Tensor, " _"]],
    fitted: Callable[[LabelledSet, Hyperparameters], ExactExperts],
) -> LeaveOneOut:
    """The predictions of exact experts that are fitted to each group of the points alone."""
    parts = [exact_leave_one_out(fitted(points[rows], at(hyperparameters, rows))) for rows in groups]
    order = torch.cat([*groups]).argsort()
    return LeaveOneOut(*(torch.cat(columns, dim=1)[:, order] for columns in zip(*parts, strict=True)))


def relative_weights(points: LabelledSet) -> Float[Tensor, " n"]:
    """Importance weights with mean one."""
    return points.weight / points.weight.mean()


def at(hyperparameters: Hyperparameters, rows: slice | Tensor) -> Hyperparameters:
    """Hyperparameters for some of the points: their own noise variances if these differ."""
    noise = hyperparameters.noise
    return hyperparameters if noise.ndim == 0 else hyperparameters._replace(noise=noise[rows])
