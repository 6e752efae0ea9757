"""Leave-one-out predictions of a mixture, and the squared residuals they leave.

A label that is left out differs from its prediction by r = noise + prediction error, and the two are independent:
E[r^2] = v + u, where u is the variance and squared bias of the prediction without the label. For a linear smoother with
leverage h and noise that varies slowly, the variance is about v h / (1 - h). The model's own latent variance estimates
u, including the expected bias. It is kept beside r^2 and not subtracted, since the difference may be negative. On the
Doppler function it removes most of the error: from residuals alone, fast waves look like noise.

Errors that the model is not aware of, because inducing points or labels are too few, count as noise, as they do in the
prediction of a new label. Repeated labels at one input are free of them: the squared deviations of k labels from their
own mean have k - 1 degrees of freedom and u = 0, whatever the model.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Inputs
from lobal.core.dataset import LabelledSet
from lobal.experts.exact import ExactExperts
from lobal.experts.features import StoredFeatures
from lobal.experts.interface import Posterior
from lobal.experts.leave_one_out import LeaveOneOut, condition, exact_leave_one_out, sparse_leave_one_out
from lobal.experts.svgp import SparseExperts
from lobal.mixture.model import Mixture, MixturePrediction, mixture_prediction


class SquaredResiduals(NamedTuple):
    """Sums of squared residuals at inputs."""

    X: Inputs
    total: Float[Tensor, " n"]  # S, above zero
    freedom: Float[Tensor, " n"]  # nu, degrees of freedom
    model_variance: Float[Tensor, " n"]  # u, variance that is not noise

    def at(self, rows: Tensor) -> "SquaredResiduals":
        """Those in the given rows."""
        return SquaredResiduals(*(part[rows] for part in self))


def squared_residuals(
    points: LabelledSet, residual: Float[Tensor, " n"], model_variance: Float[Tensor, " n"]
) -> SquaredResiduals:
    """The squares of leave-one-out residuals, or of the deviations of repeated labels at one input from their mean."""
    y = points.y
    single = SquaredResiduals(points.X, _above_zero(residual.square()), torch.ones_like(residual), model_variance)
    distinct, place, count = torch.unique(points.X, dim=0, return_inverse=True, return_counts=True)
    mean = y.new_zeros(len(distinct)).index_add(0, place, y) / count
    within = y.new_zeros(len(distinct)).index_add(0, place, (y - mean[place]).square())
    several = count > 1
    repeated = SquaredResiduals(distinct, _above_zero(within), (count - 1).to(y), torch.zeros_like(within))
    parts = zip(single.at(~several[place]), repeated.at(several), strict=True)
    return SquaredResiduals(*(torch.cat(both) for both in parts))


def left_out_residuals(mixture: Mixture, points: LabelledSet) -> SquaredResiduals:
    """Squared residuals of the training points, each predicted from all others; importance weights are ignored.

    The model's variance is that of the mixture, including the spread of the experts' means.
    """
    mean, variance = left_out_prediction(mixture, points)
    return squared_residuals(points, points.y - mean, variance)


def left_out_prediction(mixture: Mixture, points: LabelledSet) -> MixturePrediction:
    """The mixture's prediction at each training point from all others; importance weights are ignored."""
    points = replace(points, weight=torch.ones_like(points.weight))
    predictions = left_out_by_expert(mixture, points)
    posterior = Posterior(predictions.mean, predictions.variance - _noise_in(mixture, points))
    mean, variance = mixture_prediction(mixture.gate(points.X), posterior)
    return MixturePrediction(mean, variance.clamp_min(0.0))


def left_out_by_expert(mixture: Mixture, points: LabelledSet) -> LeaveOneOut:
    """Each expert's prediction at each training point from all others."""
    match mixture.experts:
        case SparseExperts() as experts:
            stored, hyperparameters = StoredFeatures(experts.features, points.X), experts.hyperparameters
            if points.noise is not None:
                hyperparameters = hyperparameters._replace(noise=points.noise)
            conditioned = condition(stored, points, hyperparameters)
            return sparse_leave_one_out(stored, points, hyperparameters, conditioned)
        case ExactExperts() as experts:
            rows = _rows_of(points, experts)
            return LeaveOneOut(*(values[:, rows] for values in exact_leave_one_out(experts)))
    raise TypeError(f"leave-one-out needs sparse or exact experts, got {type(mixture.experts).__name__}")


def _noise_in(mixture: Mixture, points: LabelledSet) -> Float[Tensor, "..."]:
    """The noise that is part of the predictions' variances; exact experts have that of their own labels in them."""
    noise = mixture.experts.hyperparameters.noise
    if isinstance(mixture.experts, ExactExperts):
        return noise if noise.ndim == 0 else noise[_rows_of(points, mixture.experts)]
    return noise if points.noise is None else points.noise


def _rows_of(points: LabelledSet, experts: ExactExperts) -> Int[Tensor, " n"]:
    """The rows of the experts' training set that hold the points; exact repetitions are interchangeable."""
    theirs = torch.cat([experts.inputs, experts.labels[:, None]], dim=1)
    ours = torch.cat([points.X, points.y[:, None]], dim=1)
    place = torch.unique(torch.cat([theirs, ours]), dim=0, return_inverse=True)[1]
    known, asked = (part.sort(stable=True) for part in (place[: len(theirs)], place[len(theirs) :]))
    if not torch.equal(known.values, asked.values):
        raise ValueError(
            f"leave-one-out of exact experts needs exactly the training X and y ({len(theirs)} labels, in any order), "
            f"got {len(ours)} labels that differ from them"
        )
    return torch.empty_like(known.indices).index_copy(0, asked.indices, known.indices)


def _above_zero(squares: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Squares that have a logarithm; the bound is far below the rounding error of any label."""
    return squares.clamp_min(torch.finfo(squares.dtype).tiny ** 0.5)
