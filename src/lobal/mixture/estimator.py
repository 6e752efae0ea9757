"""The scikit-learn face of the mixture."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from lobal.core.arrays import as_column, resolve_device
from lobal.core.complexity import local_complexity
from lobal.core.dataset import LabelledSet
from lobal.core.density import KernelDensity, intrinsic_dimension
from lobal.core.files import load_record, save_record
from lobal.core.kernels import kernel_named
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.analytic.settings import GATE_SCALE, AnalyticSettings
from lobal.mixture.data import TrainingData, split_labels
from lobal.mixture.fit import fit_mixture, validation_error
from lobal.mixture.heteroscedastic import fit_with_estimated_noise
from lobal.mixture.leave_one_out import left_out_prediction
from lobal.mixture.model import FittedMixture, bandwidth_volume
from lobal.mixture.noise import NoiseModel
from lobal.mixture.options import (
    COVARIANCES,
    N_INDUCING,
    OBJECTIVES,
    are_exact,
    ascending,
    bandwidth_matrix,
    choice,
    default_bandwidths,
    default_penalty,
    plain_options,
    positive,
    share_of,
    unless_estimated,
    whole,
)
from lobal.mixture.progress import Epoch, progress_display
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.smoothness import smoothness_by_mixtures
from lobal.mixture.storage import FittedParts, parts_from, parts_tensors
from lobal.mixture.tuning import TUNINGS
from lobal.mixture.tuning_record import Decision, decisions_as_json, decisions_from_json

NoiseFunction: TypeAlias = Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]

SMALLEST_TRAINING_SET = 10
LARGEST_VALIDATION_SET = 1024  # more hardly sharpens the choice of a state
SCALARS = (
    "label_mean_",
    "label_scale_",
    "noise_",
    "scale_",
    "smoothness_",
    "intrinsic_dimension_",
    "validation_error_",
    "n_features_in_",
)


class MixtureRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A sparse mixture of Gaussian processes that knows its local bandwidth.

    Every option may stay as it is: widths then follow the spread of the input columns, variances that of the
    labels, and the rest the paper. Widths and bandwidths are in units of the inputs.

    Args:
        bandwidths: ascending factors sigma_l of the shared bandwidth, one per expert; seven around it by default.
        shared_bandwidth: Sigma_E as a number, one width per column, or a positive definite matrix; by default the
            bandwidth of the best single Gaussian process.
        anisotropic: give that Gaussian process one bandwidth per column, not one for all in standard deviations.
        kernel: "gaussian", "matern12", "matern32" or "matern52".
        experts: "exact" experts know every label, at a cost of O(n^3); "sparse" ones see it through inducing points.
            "auto" is "exact" for up to 2048 labels in more than one column under the analytic engine, unless
            `n_inducing` or `exchange` is given; else "sparse".
        n_inducing: inducing points of sparse experts, m_E; 512 by default.
        n_gate_inducing: inducing points of the gate, m_G.
        gate_bandwidth: sigma_G, by default a multiple of the bandwidth of the best single Gaussian process: 3 under
            Adam; 30, 10 or 3, whichever serves held-out points best, under the analytic engine.
        engine: "analytic" solves for the experts, fits an ordinal gate to their leave-one-out answers and moves the
            default ladder of bandwidths to where it is used; "adam" is the paper's joint training of experts and gate.
        tuning: how far settings are looked for. "off": not at all; "fast": what a fit finds by itself (under Adam the
            same as "off"); "full": trainings are compared first, for Adam those of the paper's Algorithm 2, for the
            analytic engine a grid of gates. `tuning_` has the decisions.
        gate_scale: lambda_G; by default 10 for Adam's softmax gate (the paper's), 4 squared steps for the ordinal one.
        sparsity: kappa, the most experts that answer at one point; two under the analytic engine.
        penalty: theta, the price of small bandwidths. By default the analytic engine prices leverage instead, and
            Adam's theta falls with the number of labels.
        noise: label noise variance if known, a number or a function of the inputs; by default a constant is learned.
            "estimate" lets it differ from place to place, where leave-one-out errors speak for that, at the price of a
            second fit (analytic engine only). Errors that the model does not know of count as noise: label some inputs
            twice where they may exceed it.
        scale: initial lambda_E; by default that of the best single Gaussian process.
        weighted: whether sample_weight acts on the training, or on `validation_error_` alone; by default the former
            under Adam, where it always does, and the latter under the analytic engine, which is more exact without.
        objective: "elbo", or "mse" for labels (almost) without noise.
        covariance: how training treats the inducing values' covariance: "zero" (the paper), "diagonal" or "full".
        refit: condition the experts once more on all labels under the trained gate, with their full posterior.
        exchange: put exact experts in the place of the sparse ones at the end.
        smoothness: alpha, how often the target is differentiable. "estimate" compares Matern kernels of different
            order, at the price of four more fits. Give the noise if it is known: roughness is easily taken for noise,
            and inducing points that are too few look like roughness.
        intrinsic_dimension: delta; estimated from the inputs by default.
        learning_rate: eta_0.
        hyperparameter_rate: eta_H, relative to the learning rate.
        gate_rate: eta_G, relative to the learning rate.
        gate_noise: s_0.
        batch_size: B; by default a quarter of the training set, at most 512.
        patience: epochs without improvement before the learning rate is halved.
        max_epochs: the most epochs to train.
        validation_fraction: share of the labels that steers training (at most 1024 of them).
        gate_fraction: share of the labels set aside to train the gate of exact experts; none means leave-one-out.
        device: "cpu", "cuda", "cuda:N" or "auto".
        cache_bytes: memory that the features of the training inputs may take, 4 GiB by default; where they would take
            more, they are computed again whenever they are needed.
        random_state: seed of everything random.
        verbose: show progress.
    """

    def __init__(
        self,
        *,
        bandwidths: ArrayLike | None = None,
        shared_bandwidth: ArrayLike | None = None,
        anisotropic: bool = True,
        kernel: str = "gaussian",
        experts: Literal["auto", "sparse", "exact"] = "auto",
        n_inducing: int | None = None,
        n_gate_inducing: int = 128,
        gate_bandwidth: float | None = None,
        engine: Literal["analytic", "adam"] = "analytic",
        tuning: Literal["off", "fast", "full"] = "fast",
        gate_scale: float | None = None,
        sparsity: int = 2,
        penalty: float | None = None,
        noise: float | NoiseFunction | Literal["estimate"] | None = None,
        scale: float | None = None,
        weighted: bool | None = None,
        objective: Literal["elbo", "mse"] = "elbo",
        covariance: Literal["zero", "diagonal", "full"] = "zero",
        refit: bool = True,
        exchange: bool = False,
        smoothness: float | Literal["estimate"] = math.inf,
        intrinsic_dimension: float | None = None,
        learning_rate: float = 0.01,
        hyperparameter_rate: float = 0.2,
        gate_rate: float = 1.0,
        gate_noise: float = 0.1,
        batch_size: int | None = None,
        patience: int = 10,
        max_epochs: int = 1000,
        validation_fraction: float = 0.2,
        gate_fraction: float = 0.0,
        device: str | None = None,
        cache_bytes: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.bandwidths = bandwidths
        self.shared_bandwidth = shared_bandwidth
        self.anisotropic = anisotropic
        self.kernel = kernel
        self.experts = experts
        self.n_inducing = n_inducing
        self.n_gate_inducing = n_gate_inducing
        self.gate_bandwidth = gate_bandwidth
        self.engine = engine
        self.tuning = tuning
        self.gate_scale = gate_scale
        self.sparsity = sparsity
        self.penalty = penalty
        self.noise = noise
        self.scale = scale
        self.weighted = weighted
        self.objective = objective
        self.covariance = covariance
        self.refit = refit
        self.exchange = exchange
        self.smoothness = smoothness
        self.intrinsic_dimension = intrinsic_dimension
        self.learning_rate = learning_rate
        self.hyperparameter_rate = hyperparameter_rate
        self.gate_rate = gate_rate
        self.gate_noise = gate_noise
        self.batch_size = batch_size
        self.patience = patience
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.gate_fraction = gate_fraction
        self.device = device
        self.cache_bytes = cache_bytes
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        noise_variance: ArrayLike | None = None,
        inducing_weight: ArrayLike | None = None,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> "MixtureRegressor":
        """Fit the mixture.

        Args:
            X: inputs, (n, d).
            y: labels, (n,).
            sample_weight: importance weights w = q/p, (n,); only their ratios matter.
            noise_variance: known noise variance of every label, (n,), in the place of `noise`.
            inducing_weight: weights of the points among which inducing points are chosen, (n,): their target density
                over the density of X.
            validation: inputs and labels to measure `validation_error_` on and, under Adam, to steer training by, in
                the place of a share of X and y. They are used for nothing else, whereas that share joins the data in
                the end. The analytic engine needs none: its error is leave-one-out.
        """
        inputs, labels = validate_data(
            self, X, y, y_numeric=True, dtype=np.float64, ensure_min_samples=SMALLEST_TRAINING_SET
        )
        self.noise_model_: NoiseModel | None = None  # v(x) in units of the labels; none where it is constant or known
        generator = torch.Generator().manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))
        labels = np.asarray(labels, dtype=np.float64)
        weights = as_column(1.0 if sample_weight is None else sample_weight, name="sample_weight", length=len(labels))
        counted = weights > 0
        if counted.sum() < SMALLEST_TRAINING_SET:
            raise ValueError(
                f"at least {SMALLEST_TRAINING_SET} points need a sample_weight above zero, got {counted.sum()}"
            )
        self._measure(inputs[counted], labels[counted], generator)
        given = unless_estimated("noise", self.noise, otherwise="a variance, a function of the inputs, None")
        noise = given if noise_variance is None else noise_variance
        labelled = self._labelled(inputs, labels, weights, noise, inducing_weight)
        data = self._training_data(labelled, validation, generator)
        settings = self._settings(len(data.points))
        self._measure_smoothness(data, settings, generator)
        settings, decisions = choice("tuning", self.tuning, TUNINGS)(data, settings, generator)
        self.tuning_: list[Decision] = [decision.scaled(self.label_scale_) for decision in decisions]
        fitted = self._train(data, settings, generator)
        self.mixture_, hyperparameters = fitted.mixture, fitted.hyperparameters
        self.validation_error_ = validation_error(data, fitted, self.history_, scale=self.label_scale_)
        self.noise_ = self.label_scale_**2 * float(hyperparameters.noise.mean())
        self.scale_ = self.label_scale_**2 * float(hyperparameters.scale)
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> Float[ndarray, " n"] | tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
        """The mixture's mean and, on request, the standard deviation of a new label, noise included.

        Where noise was given label by label, a new label is taken to have the average noise.
        """
        inputs = self._inputs(X)
        if not return_std:
            return self.label_mean_ + self.label_scale_ * _array(self.mixture_.mean(inputs))
        prediction = self.mixture_.predict(inputs)
        mean = self.label_mean_ + self.label_scale_ * _array(prediction.mean)
        return mean, np.sqrt(self.label_scale_**2 * _array(prediction.variance) + self.noise_variance(X))

    def gate(self, X: ArrayLike) -> Float[ndarray, "n L"]:
        """Probability of every expert at every input; rows sum to one."""
        return _array(self.mixture_.gate(self._inputs(X)))

    def local_bandwidth(self, X: ArrayLike) -> Float[ndarray, " n"]:
        """Locally optimal bandwidth (LOB), Eq. (eq:gprLOB), in units of the inputs.

        |Sigma(x)|^(1/d): the width itself in one dimension, the geometric mean of the widths in more.
        """
        return _array(self._local_bandwidth(self._inputs(X)))

    def local_complexity(self, X: ArrayLike, density: ArrayLike | None = None) -> Float[ndarray, " n"]:
        """Local function complexity (LFC), Eq. (eq:isotropicComplexityGPR), up to a constant factor.

        `density` is the training density at X; it matters for finite smoothness only, and is estimated from the
        training inputs where it is not given.
        """
        inputs = self._inputs(X)
        if density is not None:
            values = self._tensor(as_column(density, name="density", length=len(inputs), positive=True))
        elif self.density_ is None:
            values = torch.ones_like(inputs[:, 0])
        else:
            values = self.density_(inputs).clamp_min(self.density_.floor)
        bandwidth = self._local_bandwidth(inputs)
        return _array(
            local_complexity(bandwidth, values, smoothness=self.smoothness_, dimension=self.intrinsic_dimension_)
        )

    def uncertainty(self, X: ArrayLike) -> Float[ndarray, " n"]:
        """Mixture of Gaussian process uncertainties, Eq. (eq:MoGPU): gate-weighted variance of a new label."""
        inputs = self._inputs(X)
        variance = self.label_scale_**2 * _array(self.mixture_.uncertainty(inputs))
        return np.asarray(variance + self.noise_variance(X))

    def noise_variance(self, X: ArrayLike) -> Float[ndarray, " n"]:
        """Variance of the noise of a new label: learned, given, or the average of what was given label by label."""
        inputs = self._inputs(X)
        if self.noise_model_ is not None:
            return _array(self.noise_model_(inputs))
        return _known_noise(self.noise if callable(self.noise) else self.noise_, _array(inputs))

    def leave_one_out(self, X: ArrayLike, y: ArrayLike) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
        """What `predict` with `return_std` would say at each of the labels it was fitted to, had it not been there.

        In closed form, under hyperparameters and a gate that have seen the label. Exact experts know it of the labels
        they were fitted to, in any order, and of no others.
        """
        check_is_fitted(self)
        inputs, labels = validate_data(self, X, y, reset=False, y_numeric=True, dtype=np.float64)
        noise = self.noise_variance(inputs)
        points = self._labelled(inputs, np.asarray(labels, dtype=np.float64), None, noise)
        prediction = left_out_prediction(self.mixture_, points)
        mean = self.label_mean_ + self.label_scale_ * _array(prediction.mean)
        return mean, np.sqrt(self.label_scale_**2 * _array(prediction.variance) + noise)

    @property
    def has_constant_noise(self) -> bool:
        """Whether the noise of a new label is the same everywhere."""
        check_is_fitted(self)
        return self.noise_model_ is None and not callable(self.noise)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, without pickle."""
        check_is_fitted(self)
        tensors, mixture = parts_tensors(FittedParts(self.mixture_, self.density_, self.noise_model_))
        scalars = {name: getattr(self, name) for name in SCALARS}
        scalars["feature_names"] = list(getattr(self, "feature_names_in_", []))
        save_record(
            path,
            tensors,
            {
                "mixture": mixture,
                "parameters": plain_options(self.get_params()),
                "history": self.history_,
                "tuning": decisions_as_json(self.tuning_),
                **scalars,
            },
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str | None = None) -> "MixtureRegressor":
        """The model that `save` wrote, on the given device."""
        tensors, fields = load_record(path)
        tensors = {name: tensor.to(resolve_device(device)) for name, tensor in tensors.items()}
        model = cls(**{**fields["parameters"], "device": device})
        fields = {"smoothness_": model.smoothness, **fields}  # format 1 has it among the parameters only
        for name in SCALARS:
            setattr(model, name, fields[name])
        if fields["feature_names"]:
            model.feature_names_in_ = np.asarray(fields["feature_names"], dtype=object)
        model.history_ = [Epoch(*epoch) for epoch in fields["history"]]
        model.tuning_ = decisions_from_json(fields.get("tuning", "[]"))
        model.mixture_, model.density_, model.noise_model_ = parts_from(tensors, fields["mixture"])
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "mixture_")

    def _tensor(self, values: ArrayLike) -> Float[Tensor, "..."]:
        return torch.tensor(np.array(values, order="C"), dtype=torch.float64, device=resolve_device(self.device))

    def _inputs(self, X: ArrayLike) -> Float[Tensor, "n d"]:
        check_is_fitted(self)
        return self._tensor(validate_data(self, X, reset=False, dtype=np.float64))

    def _local_bandwidth(self, inputs: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        return self.mixture_.local_bandwidth(inputs) * bandwidth_volume(self.mixture_.shared_bandwidth)

    def _measure(self, X: Float[ndarray, "n d"], y: Float[ndarray, " n"], generator: torch.Generator) -> None:
        """The labels' mean and spread, and the inputs' intrinsic dimension."""
        spread = float(y.std())
        self.label_mean_ = float(y.mean())
        self.label_scale_ = spread if spread > 1e-12 * np.abs(y).max() else 1.0
        inputs = self._tensor(X)
        self.intrinsic_dimension_ = (
            intrinsic_dimension(inputs, generator=generator)
            if self.intrinsic_dimension is None
            else positive("intrinsic_dimension", self.intrinsic_dimension)
        )

    def _measure_smoothness(self, data: TrainingData, settings: MixtureSettings, generator: torch.Generator) -> None:
        """alpha, estimated on request, and where it is finite the density of the inputs."""
        alpha = unless_estimated("smoothness", self.smoothness, otherwise="a number above zero")
        if alpha is None:
            analytic = replace(settings, training=self._analytic())
            alpha = smoothness_by_mixtures(data, analytic, generator).alpha
        self.smoothness_ = float(alpha)
        self.density_: KernelDensity | None = None
        if self.smoothness_ != math.inf:
            positive("smoothness", self.smoothness_)
            self.density_ = KernelDensity.fit(data.for_final_fit().X, generator=generator)

    def _train(self, data: TrainingData, settings: MixtureSettings, generator: torch.Generator) -> FittedMixture:
        """The mixture, and on request the noise model that goes with it."""
        self.history_: list[Epoch] = []
        with progress_display(self.verbose, self.max_epochs, is_adam=self.engine == "adam") as show:
            note = partial(self._note, show=show)
            if not isinstance(self.noise, str) or data.points.noise is not None:
                return fit_mixture(data, settings, generator, note)
            if settings.training.__class__ is not AnalyticSettings:
                raise ValueError(
                    "noise='estimate' needs engine='analytic', got 'adam', whose gate is not fitted to labels left "
                    "out; take the analytic engine, or give the noise as a number or a function of the inputs"
                )
            fitted, noise = fit_with_estimated_noise(data, settings, generator, note)
        self.noise_model_ = None if noise is None else noise.scaled(self.label_scale_**2)
        return fitted

    def _labelled(
        self,
        X: Float[ndarray, "n d"],
        y: Float[ndarray, " n"],
        weight: ArrayLike | None,
        noise: ArrayLike | NoiseFunction | None,
        inducing_weight: ArrayLike | None = None,
    ) -> LabelledSet:
        """Labels in units of their spread; points of weight zero are left out."""
        weights = as_column(1.0 if weight is None else weight, name="sample_weight", length=len(y))
        rows = weights > 0
        variances = None if noise is None else _known_noise(noise, X) / self.label_scale_**2
        spread = None
        if inducing_weight is not None:
            spread = as_column(inducing_weight, name="inducing_weight", length=len(y), positive=True)
        return LabelledSet(
            X=self._tensor(X[rows]),
            y=self._tensor((y[rows] - self.label_mean_) / self.label_scale_),
            weight=self._tensor(weights[rows]),
            noise=None if variances is None else self._tensor(variances[rows]),
            spread=None if spread is None else self._tensor(spread[rows]),
        )

    def _training_data(
        self,
        labelled: LabelledSet,
        validation: tuple[ArrayLike, ArrayLike] | None,
        generator: torch.Generator,
    ) -> TrainingData:
        """The labels split into those that train, those that steer and, on request, those the gate learns from."""
        n_gate = share_of(self.gate_fraction, len(labelled), "gate_fraction") if self.experts == "exact" else 0
        share = share_of(self.validation_fraction, len(labelled), "validation_fraction")
        steering: LabelledSet | int | None
        if validation is not None:
            X, y = validate_data(self, *validation, reset=False, y_numeric=True, dtype=np.float64)
            steering = self._labelled(X, y, None, self.noise if callable(self.noise) else None)
        else:
            steering = None if self.engine == "analytic" else min(max(share, 2), LARGEST_VALIDATION_SET)
        return split_labels(labelled, n_gate=n_gate, validation=steering, generator=generator)

    def _settings(self, n: int) -> MixtureSettings:
        """The options in the mixture's own terms: objects for names, labels in units of their spread."""
        bandwidths = default_bandwidths(self.intrinsic_dimension_) if self.bandwidths is None else self.bandwidths
        # Both, whichever is taken: an option out of its range is a mistake under either engine.
        engines: dict[str, AdamSettings | AnalyticSettings] = {"analytic": self._analytic(), "adam": self._adam(n)}
        return MixtureSettings(
            bandwidths=self._tensor(ascending(bandwidths)),
            shared_bandwidth=self._width("shared_bandwidth"),
            gate_bandwidth=self._width("gate_bandwidth"),
            anisotropic=self.anisotropic,
            scale=None if self.scale is None else positive("scale", self.scale) / self.label_scale_**2,
            kernel=kernel_named(self.kernel),
            exact=are_exact(self.experts, n, self.n_features_in_, may_be=self._may_be_exact),
            n_inducing=N_INDUCING if self.n_inducing is None else whole("n_inducing", self.n_inducing),
            n_gate_inducing=whole("n_gate_inducing", self.n_gate_inducing),
            refit=self.refit,
            exchange=self.exchange,
            training=choice("engine", self.engine, engines),
            adaptive=self.bandwidths is None,
            cache_bytes=None if self.cache_bytes is None else whole("cache_bytes", self.cache_bytes),
        )

    @property
    def _may_be_exact(self) -> bool:
        """Whether nothing asks for sparse experts: the paper's engine, a number of inducing points, an exchange."""
        return self.engine == "analytic" and self.n_inducing is None and not self.exchange

    def _width(self, name: str) -> Float[Tensor, "..."] | None:
        width = bandwidth_matrix(name, getattr(self, name), self.n_features_in_)
        return None if width is None else self._tensor(width)

    def _analytic(self) -> AnalyticSettings:
        return AnalyticSettings(
            penalty=self.penalty,
            gate_scale=GATE_SCALE if self.gate_scale is None else positive("gate_scale", self.gate_scale),
            weighted=False if self.weighted is None else self.weighted,
            squared=self.objective == "mse",
        )

    def _adam(self, n: int) -> AdamSettings:
        return AdamSettings(
            kappa=whole("sparsity", self.sparsity),
            penalty=default_penalty(n, self.objective) if self.penalty is None else self.penalty,
            batch_size=min(512, max(16, n // 4)) if self.batch_size is None else whole("batch_size", self.batch_size),
            learning_rate=self.learning_rate,
            hyperparameter_rate=self.hyperparameter_rate,
            gate_rate=self.gate_rate,
            gate_noise=self.gate_noise,
            gate_scale=10.0 if self.gate_scale is None else positive("gate_scale", self.gate_scale),
            covariance=choice("covariance", self.covariance, COVARIANCES),
            objective=choice("objective", self.objective, OBJECTIVES),
            patience=whole("patience", self.patience),
            max_epochs=whole("max_epochs", self.max_epochs),
        )

    def _note(self, epoch: Epoch, *, show: Callable[[Epoch], None]) -> None:
        """Keep and show what an epoch saw, its error in units of the labels."""
        epoch = epoch._replace(validation_error=self.label_scale_ * epoch.validation_error)
        self.history_.append(epoch)
        show(epoch)


def _known_noise(noise: ArrayLike | NoiseFunction, X: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """Noise variances at X from a number, a column, or a function of the inputs."""
    return as_column(noise(X) if callable(noise) else noise, name="noise variance", length=len(X), positive=True)


def _array(values: Float[Tensor, "..."]) -> Float[ndarray, "..."]:
    result: ndarray[Any, Any] = values.detach().cpu().numpy()
    return result
