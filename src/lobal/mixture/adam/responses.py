"""The experts during training: their predictions at the points that the gate learns from.

Sparse experts are trained together with the gate. Exact experts are fixed; the gate learns from their leave-one-out
predictions at their own training points, or from their predictions on a separate gate set. Either way no label is
predicted from itself (Appendix, "Design choices").
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
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
from lobal.experts.fitc import (
    Moments,
    NormalEquations,
    fitc_variance,
    inducing_covariance,
    inducing_mean,
    moments,
    normal_equations,
)
from lobal.experts.interface import Experts, Hyperparameters, Posterior
from lobal.experts.svgp import (
    DiagonalCovariance,
    InducingCovariance,
    SparseExperts,
    ZeroCovariance,
    expected_log_likelihood,
    kl_divergence,
    nystroem_diagonal,
    predictive_mean,
)
from lobal.mixture.adam.gradients import Batch, Parameters, elbo_gradients
from lobal.mixture.gate import Gate

Rows: TypeAlias = Int[Tensor, " b"] | slice
CovarianceModel: TypeAlias = Callable[[NormalEquations], InducingCovariance]


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
    def inducing_parameters(self) -> list[Tensor]:
        """Leaf tensors learned at rate eta."""

    @abstractmethod
    def hyperparameters(self) -> list[Tensor]:
        """Leaf tensors learned at rate eta_H eta."""

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

    @property
    def has_closed_form(self) -> bool:
        """Whether `elbo_gradients` is available."""
        return False

    def elbo_gradients(
        self, rows: Rows, gate: Float[Tensor, "b L"], prices: Float[Tensor, " L"]
    ) -> tuple[Scalar, Float[Tensor, "b L"]]:
        """The gated negative ELBO of a batch and its derivative in the gate's channels.

        The gradients of the experts' own tensors are stored in these.
        """
        raise NotImplementedError("these experts are trained by autograd")


def zero_covariance(_: NormalEquations) -> InducingCovariance:
    """S = 0, as the paper trains."""
    return ZeroCovariance()


def diagonal_covariance(equations: NormalEquations) -> InducingCovariance:
    """The best diagonal S: the reciprocal diagonal of A."""
    precision = equations.factor.square().sum(-1)  # diag(R R^T)
    return DiagonalCovariance(-precision.log())


def full_covariance(equations: NormalEquations) -> InducingCovariance:
    """The best S: the inverse of A."""
    return inducing_covariance(equations)


@final
class SparseResponses(Responses):
    """Sparse variational experts, trained together with the gate.

    Inducing points and bandwidths are fixed, so the features are computed once and no matrix is factored during
    training. Pre-training is exact: given the hyperparameters, the best inducing values of each expert on all points
    solve a linear system.
    """

    def __init__(
        self,
        points: LabelledSet,
        validation: LabelledSet,
        features: WhitenedFeatures,
        initial: Hyperparameters,
        *,
        covariance: CovarianceModel = zero_covariance,
        cache_bytes: int | None = None,
        is_shuffled: bool = False,
    ) -> None:
        self.points, self.validation, self.is_shuffled = points, validation, is_shuffled
        self._stored = StoredFeatures(features, points.X, cache_bytes)
        self._phi_validation = features(validation.X)
        self._mean = initial.mean.detach().clone().requires_grad_()
        self._log_scale = initial.scale.detach().log().requires_grad_()
        self._given_noise = points.noise
        self._log_noise = initial.noise.detach().log().requires_grad_(points.noise is None)
        everything = points.y.new_ones(len(points), len(features.bandwidths))
        with torch.no_grad():
            equations = normal_equations(self._moments(self._gate_weights(everything)))
        self._whitened_mean = inducing_mean(equations)
        self._covariance = covariance(equations)
        for tensor in self.inducing_parameters():
            tensor.requires_grad_()

    def _moments(self, weights: Float[Tensor, "L n"]) -> Iterator[Moments]:
        hyperparameters = self._current(slice(None))
        precision = weights / fitc_variance(self._stored.explained, hyperparameters)
        for part, phi in self._stored.slices():
            yield moments(phi, self.points.y[part], hyperparameters, precision=precision[:, part])

    def _current(self, rows: Rows) -> Hyperparameters:
        noise = self._log_noise.exp() if self._given_noise is None else self._given_noise[rows]
        return Hyperparameters(self._mean, self._log_scale.exp(), noise)

    def inducing_parameters(self) -> list[Tensor]:
        return [self._whitened_mean, *self._covariance.parameters.values()]

    def hyperparameters(self) -> list[Tensor]:
        learned = [self._mean, self._log_scale]
        return learned if self._given_noise is not None else [*learned, self._log_noise]

    def at(self, rows: Rows) -> Response:
        phi = self._stored[rows]
        hyperparameters = self._current(rows)
        mean = predictive_mean(phi, self._whitened_mean, hyperparameters.mean, hyperparameters.scale)
        log_likelihood = expected_log_likelihood(
            self.points.y[rows] - mean,
            fitc_variance(self._stored.explained[:, rows], hyperparameters),
            hyperparameters.scale * self._covariance.quadratic(phi),
        )
        return Response(mean, log_likelihood)

    @property
    def has_closed_form(self) -> bool:
        return isinstance(self._covariance, ZeroCovariance)

    def elbo_gradients(
        self, rows: Rows, gate: Float[Tensor, "b L"], prices: Float[Tensor, " L"]
    ) -> tuple[Scalar, Float[Tensor, "b L"]]:
        parameters = Parameters(self._whitened_mean, self._mean, self._log_scale, self._log_noise)
        points, noise = self.points, None if self._given_noise is None else self._given_noise[rows]
        phi, explained = self._stored.in_single_precision(rows), self._stored.explained[:, rows]
        batch = Batch(phi, explained, points.y[rows], points.weight[rows], noise)
        found = elbo_gradients(batch, gate, parameters, prices, len(points))
        for leaf, slope in zip(parameters, found.parameters, strict=True):
            if leaf.requires_grad:
                leaf.grad = slope
        return found.objective, found.channels

    def divergence(self) -> Float[Tensor, " L"]:
        return kl_divergence(self._whitened_mean, self._covariance)

    def validation_mean(self) -> Float[Tensor, "L n"]:
        return predictive_mean(self._phi_validation, self._whitened_mean, self._mean, self._log_scale.exp())

    def experts(self) -> SparseExperts:
        hyperparameters = self._current(slice(None))
        return SparseExperts(
            features=self._stored.features,
            hyperparameters=Hyperparameters(*(tensor.detach().clone() for tensor in hyperparameters)),
            whitened_mean=self._whitened_mean.detach().clone(),
            covariance=self._covariance.snapshot(),
        )

    @torch.no_grad()
    def refit(self, gate: Gate, *, with_validation: bool) -> SparseExperts:
        """The experts conditioned on the points under the fixed gate, in closed form, with their full posterior.

        This is the post-processing of the paper's Appendix "Design choices". With `with_validation` the validation
        labels are used too.
        """
        parts = [self._moments(self._gate_weights(gate(self.points.X)))]
        if with_validation:
            parts.append(self._validation_moments(gate))
        equations = normal_equations(part for group in parts for part in group)
        return replace(
            self.experts(), whitened_mean=inducing_mean(equations), covariance=inducing_covariance(equations)
        )

    def _validation_moments(self, gate: Gate) -> Iterator[Moments]:
        validation = self.validation
        noise = self._log_noise.exp() if validation.noise is None else validation.noise
        hyperparameters = Hyperparameters(self._mean, self._log_scale.exp(), noise)
        weights = gate(validation.X).mT * validation.weight / self.points.weight.mean()
        precision = weights / fitc_variance(nystroem_diagonal(self._phi_validation), hyperparameters)
        yield moments(self._phi_validation, validation.y, hyperparameters, precision=precision)

    def _gate_weights(self, gate: Float[Tensor, "n L"]) -> Float[Tensor, "L n"]:
        return gate.mT * (self.points.weight / self.points.weight.mean())


@final
class FixedResponses(Responses):
    """Fixed experts: only the gate is trained."""

    def __init__(
        self, points: LabelledSet, validation: LabelledSet, experts: ExactExperts, predictions: Posterior
    ) -> None:
        self.points, self.validation = points, validation
        self._experts = experts
        log_likelihood = expected_log_likelihood(
            points.y - predictions.mean, predictions.variance, torch.zeros_like(predictions.mean)
        )
        self._predictions = Response(predictions.mean, log_likelihood)
        self._validation_mean = experts.mean(validation.X)

    @classmethod
    def leave_one_out(cls, points: LabelledSet, validation: LabelledSet, experts: ExactExperts) -> "FixedResponses":
        """The gate learns from the experts' own training points, each predicted from the others."""
        return cls(points, validation, experts, experts.leave_one_out())

    @classmethod
    def on_gate_set(cls, gate_set: LabelledSet, validation: LabelledSet, experts: ExactExperts) -> "FixedResponses":
        """The gate learns from labelled points that the experts were not trained on."""
        mean, variance = experts.posterior(gate_set.X)
        noise = experts.hyperparameters.noise.mean() if gate_set.noise is None else gate_set.noise
        return cls(gate_set, validation, experts, Posterior(mean, variance + noise))

    def inducing_parameters(self) -> list[Tensor]:
        return []

    def hyperparameters(self) -> list[Tensor]:
        return []

    def at(self, rows: Rows) -> Response:
        return Response(self._predictions.mean[:, rows], self._predictions.log_likelihood[:, rows])

    def divergence(self) -> Float[Tensor, " L"]:
        return torch.zeros_like(self._predictions.mean[:, 0])

    def validation_mean(self) -> Float[Tensor, "L n"]:
        return self._validation_mean

    def experts(self) -> ExactExperts:
        return self._experts
