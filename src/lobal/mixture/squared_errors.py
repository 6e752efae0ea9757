"""What labels say about their noise: the squares they leave when they are predicted from the others.

A label that is left out misses its prediction by r = noise + error of the prediction, and the two are independent:
E[r^2] = v + u, where u is the variance, and squared bias, of the prediction without the label. For a linear smoother
with leverage h and noise that hardly changes nearby, the variance is about v h / (1 - h). The fit knows u as its own
latent variance, which in a Gaussian process counts the bias to be expected too. It is kept beside r^2 and not
subtracted from it, which might leave nothing. On the Doppler function it takes away most of the error: residuals alone
take the fast waves for noise.

What the model misses without knowing, because inducing points or labels are too few, counts as noise, as it does for
whoever predicts the next label. Repeated labels at one input are free of it: k of them leave their own mean by squares
with k - 1 degrees of freedom and u = 0, whatever the model.
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


class SquaredErrors(NamedTuple):
    """Sums of squares at inputs, and what is known about them."""

    X: Inputs
    total: Float[Tensor, " n"]  # S, above zero
    freedom: Float[Tensor, " n"]  # nu, degrees of freedom
    model_variance: Float[Tensor, " n"]  # u, variance that is not noise

    def at(self, rows: Tensor) -> "SquaredErrors":
        """Those in the given rows."""
        return SquaredErrors(*(part[rows] for part in self))


def squared_errors(
    X: Inputs,
    residual: Float[Tensor, " n"],
    *,
    labels: Float[Tensor, " n"] | None = None,
    model_variance: Float[Tensor, " n"] | None = None,
) -> SquaredErrors:
    """The squares of leave-one-out residuals; with `labels`, inputs that are repeated speak for themselves.

    The squared distances of k labels at one input to their own mean take the place of the residuals there.
    """
    u = torch.zeros_like(residual) if model_variance is None else model_variance
    single = SquaredErrors(X, _above_zero(residual.square()), torch.ones_like(residual), u)
    if labels is None:
        return single
    distinct, place, count = torch.unique(X, dim=0, return_inverse=True, return_counts=True)
    mean = labels.new_zeros(len(distinct)).index_add(0, place, labels) / count
    within = labels.new_zeros(len(distinct)).index_add(0, place, (labels - mean[place]).square())
    several = count > 1
    repeated = SquaredErrors(distinct, _above_zero(within), (count - 1).to(labels), torch.zeros_like(within))
    parts = zip(single.at(~several[place]), repeated.at(several), strict=True)
    return SquaredErrors(*(torch.cat(both) for both in parts))


def left_out_errors(mixture: Mixture, points: LabelledSet, *, pool_repeated: bool = True) -> SquaredErrors:
    """What a mixture leaves of the points it was fitted to, each of them predicted from all others.

    The model's variance is that of the mixture, the spread of the experts' answers included. Unless `pool_repeated`,
    inputs that are repeated count one by one like the others. Importance weights do not count.
    """
    mean, variance = left_out_prediction(mixture, points)
    labels = points.y if pool_repeated else None
    return squared_errors(points.X, points.y - mean, labels=labels, model_variance=variance)


def left_out_prediction(mixture: Mixture, points: LabelledSet) -> MixturePrediction:
    """What a mixture says at each of the points it was fitted to, from all others; importance weights do not count."""
    points = replace(points, weight=torch.ones_like(points.weight))
    answers = left_out_answers(mixture, points)
    noise = mixture.experts.hyperparameters.noise if points.noise is None else points.noise
    posterior = Posterior(answers.mean, answers.variance - noise)
    mean, variance = mixture_prediction(mixture.gate(points.X), posterior)
    return MixturePrediction(mean, variance.clamp_min(0.0))


def left_out_answers(mixture: Mixture, points: LabelledSet) -> LeaveOneOut:
    """What each expert of the mixture says at each of the points it was fitted to, from all others."""
    match mixture.experts:
        case SparseExperts() as experts:
            stored, shared = StoredFeatures(experts.features, points.X), experts.hyperparameters
            if points.noise is not None:
                shared = shared._replace(noise=points.noise)
            return sparse_leave_one_out(stored, points, shared, condition(stored, points, shared))
        case ExactExperts() as experts:
            rows = _rows_of(points, experts)
            return LeaveOneOut(*(values[:, rows] for values in exact_leave_one_out(experts)))
    raise TypeError(f"experts must be sparse or exact to leave labels out, got {type(mixture.experts).__name__}")


def _rows_of(points: LabelledSet, experts: ExactExperts) -> Int[Tensor, " n"]:
    """Where the experts have the points; those that are repeated, label and all, are alike."""
    theirs = torch.cat([experts.inputs, experts.labels[:, None]], dim=1)
    ours = torch.cat([points.X, points.y[:, None]], dim=1)
    place = torch.unique(torch.cat([theirs, ours]), dim=0, return_inverse=True)[1]
    known, asked = (part.sort(stable=True) for part in (place[: len(theirs)], place[len(theirs) :]))
    if not torch.equal(known.values, asked.values):
        raise ValueError("exact experts know what they leave of their own labels only: ask for all of these, no others")
    return torch.empty_like(known.indices).index_copy(0, asked.indices, known.indices)


def _above_zero(squares: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Squares that have a logarithm; the bound is far below what rounding leaves of any label."""
    return squares.clamp_min(torch.finfo(squares.dtype).tiny ** 0.5)
