"""The experts during training: their predictions at the points that the gate learns from.

Sparse experts are trained together with the gate. Exact experts are fixed; the gate learns from their leave-one-out
predictions at their own training points, or from their predictions on a separate gate set. Either way no label is
predicted from itself (Appendix, "Design choices").
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import NamedTuple, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures
from lobal.experts.exact import ExactExperts
from lobal.experts.features import StoredFeatures
from lobal.experts.fitc import Moments, fitc_variance, moments
from lobal.experts.interface import Experts, Hyperparameters
from lobal.experts.leave_one_out import condition
from lobal.experts.svgp import (
    FullCovariance,
    InducingCovariance,
    SparseExperts,
    ZeroCovariance,
    expected_log_likelihood,
    kl_divergence,
    nystroem_diagonal,
    predictive_mean,
)
from lobal.mixture.adam.gradients import Parameters, elbo_gradients
from lobal.mixture.gate import Gate

Rows: TypeAlias = Int[Tensor, " b"] | slice


class Response(NamedTuple):
    """The experts' means at a batch and the log-likelihoods P_bl of its labels."""

    mean: Float[Tensor, "L b"]
    log_likelihood: Float[Tensor, "L b"]


class Responses(ABC):
    """The experts during training; `points` are those that the gate learns from."""

    points: LabelledSet
    validation: LabelledSet
    is_shuffled: bool = False  # whether the points are in random order, so that consecutive ones are a sample

    @abstractmethod
    def leaves(self) -> tuple[list[Tensor], list[Tensor]]:
        """Leaf tensors learned at rate eta, the inducing values first, and at rate eta_H eta."""

    @abstractmethod
    def at(self, rows: Rows) -> Response:
        """Means and log-likelihoods at some of the points, differentiable."""

    @abstractmethod
    def divergence(self) -> Float[Tensor, " L"]:
        """KL_l of every expert; zero if nothing is learned."""

    @abstractmethod
    def validation_mean(self) -> Float[Tensor, "L n"]:
        """Means at the validation points."""

    @abstractmethod
    def experts(self) -> Experts:
        """The experts in their present state, which further training does not change."""


@final
class SparseResponses(Responses):
    """Sparse variational experts, trained together with the gate.

    Inducing points and bandwidths are fixed, so the features are computed once. Pre-training is a linear system.
    """

    def __init__(
        self,
        points: LabelledSet,
        validation: LabelledSet,
        features: WhitenedFeatures,
        initial: Hyperparameters,
        *,
        covariance: type[InducingCovariance] = ZeroCovariance,
        cache_bytes: int | None = None,
        is_shuffled: bool = False,
    ) -> None:
        self.points, self.validation, self.is_shuffled = points, validation, is_shuffled
        self._stored = StoredFeatures(features, points.X, cache_bytes)
        self._phi_validation = features(validation.X)
        self._mean = initial.mean.detach().clone().requires_grad_()
        self._log_scale = initial.scale.detach().log().requires_grad_()
        self._log_noise = initial.noise.detach().log().requires_grad_(points.noise is None)
        with torch.no_grad():
            factor, self._whitened_mean = condition(self._stored, points, self._current(points.noise))
        self._covariance = covariance.best(factor)
        for tensor in self.leaves()[0]:
            tensor.requires_grad_()

    def _current(self, noise: Float[Tensor, " b"] | None) -> Hyperparameters:
        """Hyperparameters with the noise of some labels where it is given."""
        return Hyperparameters(self._mean, self._log_scale.exp(), self._log_noise.exp() if noise is None else noise)

    def leaves(self) -> tuple[list[Tensor], list[Tensor]]:
        inducing = [self._whitened_mean, *self._covariance.parameters.values()]
        return inducing, [leaf for leaf in (self._mean, self._log_scale, self._log_noise) if leaf.requires_grad]

    def at(self, rows: Rows) -> Response:
        phi, batch = self._stored[rows], self.points[rows]
        hyperparameters = self._current(batch.noise)
        mean = predictive_mean(phi, self._whitened_mean, hyperparameters.mean, hyperparameters.scale)
        log_likelihood = expected_log_likelihood(
            batch.y - mean,
            fitc_variance(self._stored.explained[:, rows], hyperparameters),
            hyperparameters.scale * self._covariance.quadratic(phi),
        )
        return Response(mean, log_likelihood)

    @property
    def has_closed_form(self) -> bool:
        """Whether `elbo_gradients` is available."""
        return isinstance(self._covariance, ZeroCovariance)

    def elbo_gradients(
        self, rows: Rows, gate: Float[Tensor, "b L"], prices: Float[Tensor, " L"]
    ) -> tuple[Scalar, Float[Tensor, "b L"]]:
        """The gated negative ELBO of a batch and its derivative in the gate's channels.

        The gradients of the experts' own tensors are stored in these.
        """
        parameters = Parameters(self._whitened_mean, self._mean, self._log_scale, self._log_noise)
        phi, explained = self._stored.in_single_precision(rows), self._stored.explained[:, rows]
        found = elbo_gradients(self.points[rows], phi, explained, gate, parameters, prices, len(self.points))
        objective, channels, slopes = found
        for leaf, slope in zip(parameters, slopes, strict=True):
            if leaf.requires_grad:
                leaf.grad = slope
        return objective, channels

    def divergence(self) -> Float[Tensor, " L"]:
        return kl_divergence(self._whitened_mean, self._covariance)

    def validation_mean(self) -> Float[Tensor, "L n"]:
        return predictive_mean(self._phi_validation, self._whitened_mean, self._mean, self._log_scale.exp())

    def experts(self) -> SparseExperts:
        hyperparameters = self._current(self.points.noise)
        return SparseExperts(
            features=self._stored.features,
            hyperparameters=Hyperparameters(*(tensor.detach().clone() for tensor in hyperparameters)),
            whitened_mean=self._whitened_mean.detach().clone(),
            covariance=self._covariance.snapshot(),
        )

    @torch.no_grad()
    def refit(self, gate: Gate, *, with_validation: bool) -> SparseExperts:
        """The experts conditioned on the points under the fixed gate: post-processing of Appendix "Design choices"."""
        points, others = self.points, [self._validation_moments(gate)] if with_validation else []
        factor, mean = condition(self._stored, points, self._current(points.noise), gate(points.X), others)
        return replace(self.experts(), whitened_mean=mean, covariance=FullCovariance.best(factor))

    def _validation_moments(self, gate: Gate) -> Moments:
        validation, phi = self.validation, self._phi_validation
        hyperparameters = self._current(validation.noise)
        weights = gate(validation.X).mT * validation.weight / self.points.weight.mean()
        precision = weights / fitc_variance(nystroem_diagonal(phi), hyperparameters)
        return moments(phi, validation.y, hyperparameters, precision=precision)


@final
class FixedResponses(Responses):
    """Exact experts, which stay as they are: only the gate is trained.

    It learns from the points of the experts, each predicted from the others, or from a gate set of other labels.
    """

    def __init__(
        self,
        points: LabelledSet,
        validation: LabelledSet,
        experts: ExactExperts,
        gate_set: LabelledSet | None = None,
    ) -> None:
        self.points, self.validation, self._experts = points, validation, experts
        mean, variance = experts.leave_one_out() if gate_set is None else experts.posterior(gate_set.X)
        if gate_set is not None:
            self.points = gate_set
            variance = variance + (experts.hyperparameters.noise.mean() if gate_set.noise is None else gate_set.noise)
        log_likelihood = expected_log_likelihood(self.points.y - mean, variance, torch.zeros_like(mean))
        self._predictions = Response(mean, log_likelihood)
        self._validation_mean = experts.mean(validation.X)

    def leaves(self) -> tuple[list[Tensor], list[Tensor]]:
        return [], []

    def at(self, rows: Rows) -> Response:
        return Response(self._predictions.mean[:, rows], self._predictions.log_likelihood[:, rows])

    def divergence(self) -> Float[Tensor, " L"]:
        return torch.zeros_like(self._predictions.mean[:, 0])

    def validation_mean(self) -> Float[Tensor, "L n"]:
        return self._validation_mean

    def experts(self) -> ExactExperts:
        return self._experts
