"""`MixtureRegressor`, the mixture as a scikit-learn estimator."""

import math
import os
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from lobal.core.arrays import as_column, resolve_device
from lobal.core.checks import whole_number
from lobal.core.dataset import LabelledSet
from lobal.core.density import intrinsic_dimension
from lobal.core.presets import check_preset, takes_preset
from lobal.core.schema import read_from
from lobal.core.superior_density import local_complexity
from lobal.core.units import Units, stored_type, warn_of_unusable
from lobal.mixture.checks import at_most_one, checked_data, positive, probability
from lobal.mixture.complete_fit import complete_fit, given_noise
from lobal.mixture.data import TrainingData, checked_weights, split_labels
from lobal.mixture.engine import EngineOptions
from lobal.mixture.options import engine_options, misplaced, names_engine_options
from lobal.mixture.outliers import left_out_labels, outliers_among, warn_of_outliers
from lobal.mixture.prediction import LabelPrediction, in_label_units
from lobal.mixture.presets import PRESETS
from lobal.mixture.storage import (
    SavedModel,
    fitted_attributes,
    load_model,
    model_of_record,
    model_record,
    save_model,
    saved_model,
)
from lobal.mixture.stored_options import check_options
from lobal.mixture.tuned_params import tuned_params
from lobal.mixture.units import NoiseFunction, as_array, as_tensor, known_noise, label_units, labelled_set

SMALLEST_TRAINING_SET = 10


@takes_preset(PRESETS)
class MixtureRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """A sparse mixture of Gaussian processes with a bandwidth for every place.

    The defaults adapt to the data: bandwidths to the standard deviations of the input columns, variances to that of the
    labels. Bandwidths are in units of the inputs.

    Args:
        preset (str or None): "paper" for the paper's mixture: Adam with the settings of Sec. 5.1, inducing points by
            "svgd", `tuning="once"`. Options that are given beside it take the place of its own, an engine as a whole.
        bandwidths (list or None): Ascending factors sigma_l of the shared bandwidth, one per expert. By default seven
            around one, which a fit extends and trims to where they are used.
        shared_bandwidth (float, array or None): Sigma_E: a number, one width per column, or a positive definite matrix;
            by default the bandwidth of the best single Gaussian process.
        anisotropic (bool): Whether that process has a bandwidth per column, or one for all in standard deviations,
            which suits many columns and few labels.
        column_groups (list of int or None): A number for every column; columns of equal numbers share a bandwidth. For
            columns that belong together, such as those of the levels of one category. By default none do.
        kernel (str): "gaussian", "matern52", "matern32" or "matern12"; "auto" is the one of the first three that
            predicts labels best from the others, and the Gaussian under Adam or without tuning.
        experts (str): "exact" experts use every label and cost O(n^3); "sparse" ones use inducing points. "auto" is
            "exact" under the analytic engine for up to 2048 labels in several columns, unless `n_inducing` or
            `exchange` is given, and "sparse" otherwise.
        n_inducing (int or None): Number m_E of inducing points of sparse experts; 512 by default.
        n_gate_inducing (int): Number of inducing points m_G of the gate.
        inducing (str): How inducing points are chosen, a method of `lobal.inducing.select`: "auto", "quantiles" (one
            column), "cells", "kmeans", "svgd", "distributional" or "random". "auto" is "quantiles" in one column,
            "cells" in up to seven (with weights, otherwise "kmeans"), and "kmeans" in more.
        gate_bandwidth (float, array or None): sigma_G. By default a multiple of the bandwidth of the best single
            Gaussian process: 3 under Adam; 30, 10 or 3 under the analytic engine, whichever predicts held-out points
            best.
        engine (str or object): How the mixture is trained: "analytic" or `lobal.Analytic(...)`, in closed form; "adam"
            or `lobal.Adam(...)`, the paper's joint training. The objects hold the options of each engine.
        tuning (str): "off" uses the settings as they are, "fast" lets the fit adapt them, "full" compares trainings
            before the fit: Algorithm 2 under Adam, a grid of gates under the analytic engine. "once", under Adam, is
            "full" that a campaign does at its first step only, as in Algorithm 1: later steps keep what it found and
            Sigma_E. The attribute `tuning_` holds the decisions, and under Adam `tuned_params_` the options found.
        noise (float, callable, "estimate", "heavy_tails" or None): Variance of the label noise, if known: a number or a
            function of the inputs. By default a constant is learned. "estimate" lets it vary over the inputs if
            leave-one-out residuals do, at the cost of a second fit. Errors that the model is not aware of count as
            noise, unless some inputs are labelled repeatedly. "heavy_tails" is Student's noise, which outliers do not
            distort, if residuals are not normal, at the cost of two more fits.
        scale (float or None): Initial lambda_E; by default that of the best single Gaussian process.
        objective (str): "elbo", or "mse" for labels (almost) without noise.
        refit (bool): Whether sparse experts are conditioned once more under the trained gate.
        exchange (bool): Whether exact experts replace the sparse ones after training.
        smoothness (float or "estimate"): alpha, how often the target is differentiable. "estimate" compares Matern
            kernels, at the cost of four more fits; give the noise if it is known, it resembles roughness.
        intrinsic_dimension (float or None): delta; estimated from the inputs by default.
        device (str or None): "cpu" (the default), "cuda", "cuda:N" or "auto".
        cache_bytes (int or None): Memory for the features of the training inputs, by default 4 GiB; larger ones are
            recomputed when needed.
        random_state (int, RandomState or None): Seed.
        verbose (bool): Whether to show progress.

    Example:
        >>> import numpy as np, lobal
        >>> X = np.linspace(0.0, 1.0, 100)[:, None]
        >>> model = lobal.MixtureRegressor(random_state=0).fit(X, np.sin(9.0 * X[:, 0]))
        >>> model.local_bandwidth(X).shape, model.validation_error_ < 0.01
        ((100,), True)
    """

    @names_engine_options
    def __init__(
        self,
        *,
        preset: str | None = None,
        bandwidths: ArrayLike | None = None,
        shared_bandwidth: ArrayLike | None = None,
        anisotropic: bool = True,
        column_groups: ArrayLike | None = None,
        kernel: str = "auto",
        experts: Literal["auto", "sparse", "exact"] = "auto",
        n_inducing: int | None = None,
        n_gate_inducing: int = 128,
        inducing: str = "auto",
        gate_bandwidth: ArrayLike | None = None,
        engine: Literal["analytic", "adam"] | EngineOptions = "analytic",
        tuning: Literal["off", "fast", "full", "once"] = "fast",
        noise: float | NoiseFunction | Literal["estimate", "heavy_tails"] | None = None,
        scale: float | None = None,
        objective: Literal["elbo", "mse"] = "elbo",
        refit: bool = True,
        exchange: bool = False,
        smoothness: float | Literal["estimate"] = math.inf,
        intrinsic_dimension: float | None = None,
        device: str | None = None,
        cache_bytes: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.preset = preset
        self.bandwidths = bandwidths
        self.shared_bandwidth = shared_bandwidth
        self.anisotropic = anisotropic
        self.column_groups = column_groups
        self.kernel = kernel
        self.experts = experts
        self.n_inducing = n_inducing
        self.n_gate_inducing = n_gate_inducing
        self.inducing = inducing
        self.gate_bandwidth = gate_bandwidth
        self.engine = engine
        self.tuning = tuning
        self.noise = noise
        self.scale = scale
        self.objective = objective
        self.refit = refit
        self.exchange = exchange
        self.smoothness = smoothness
        self.intrinsic_dimension = intrinsic_dimension
        self.device = device
        self.cache_bytes = cache_bytes
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **params: Any) -> "MixtureRegressor":  # noqa: ANN401 - values of any option
        """Set options, those of the engine as `engine__name`; an engine given by name becomes an object then.

        Another preset sets all of its options, except for those that are given with it; None sets them to their
        defaults.
        """
        if message := misplaced(params):
            raise ValueError(message)
        own = {name for options in PRESETS.values() for name in options}
        if own - params.keys() and params.get("preset", self.preset) != self.preset:
            of_preset = type(self)(preset=params["preset"]).get_params(deep=False)
            params = {name: of_preset[name] for name in own} | params
        is_nested = any(key.startswith("engine__") for key in params)
        if isinstance(self.engine, str) and "engine" not in params and is_nested:
            self.engine = engine_options(self.engine)
        super().set_params(**params)
        return self

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        noise_variance: ArrayLike | None = None,
        inducing_weight: ArrayLike | None = None,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
        test_inputs: ArrayLike | None = None,
    ) -> "MixtureRegressor":
        """Fit the mixture.

        Args:
            X: Inputs, (n, d).
            y: Labels, (n,).
            sample_weight: Importance weights w = q/p, (n,); only their ratios matter.
            noise_variance: Known noise variance of every label, (n,), instead of `noise`.
            inducing_weight: Density of the inducing points divided by the density of X, (n,).
            validation: Inputs and labels on which `validation_error_` is measured and by which Adam decides when to
                stop, instead of a share of X and y. They are used for nothing else. Without them, the analytic engine
                measures the leave-one-out error.
            test_inputs: Inputs that are drawn from the test density and have no labels, for which the analytic engine
                computes the `validation_error_` to expect. Labels that were chosen far apart are harder to predict from
                each other than new ones.

        Returns:
            The fitted model.

        Raises:
            ValueError: There are fewer than 10 labels of positive weight, arrays have wrong shapes or are not finite,
                or an option is out of range or has no effect.

        Warns:
            OutlierWarning: Labels contradict the others, as those in other units do; `outliers_` has their rows.
        """
        check_preset(self.preset, PRESETS)
        inputs, y = checked_data(self, X, y, ensure_min_samples=SMALLEST_TRAINING_SET)
        generator = torch.Generator().manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))
        labels = np.asarray(y, dtype=np.float64)
        weights = checked_weights(sample_weight, len(labels), fewest=SMALLEST_TRAINING_SET)
        counted = weights > 0
        warn_of_unusable(inputs.astype(stored_type(X)), name="X")
        self._measure(inputs[counted], labels[counted], generator)
        noise = given_noise(self.noise) if noise_variance is None else noise_variance
        labelled = self._labelled(inputs, labels, weight=weights, noise=noise, inducing_weight=inducing_weight)
        data = self._training_data(labelled, validation, generator)
        measured = {"dimension": self.intrinsic_dimension_, "label_scale": self.label_scale_}
        fitted = complete_fit(data, self.get_params(deep=False), generator, **measured)
        self.mixture_, self.noise_model_, errors = fitted[:3]
        self.validation_error_, self.validation_standard_error_, self.calibration_ = errors
        self.smoothness_, self.density_, self.tuning_, self.history_, self.noise_, self.heavy_tails_ = fitted[3:-1]
        tuned = fitted.tuned
        self.tuned_params_ = {} if tuned is None else tuned_params(self.mixture_, tuned, self.input_units_)
        self.scale_ = self.label_scale_**2 * float(self.mixture_.experts.hyperparameters.scale)
        if test_inputs is not None and validation is None and self.validation_standard_error_ is not None:
            deviation = self._uncalibrated(self._inputs(test_inputs)).std
            self.validation_error_, self.validation_standard_error_ = self.calibration_.expected_error(deviation)
        self._outliers = outliers_among(labelled, np.flatnonzero(counted), self)
        self.outliers_ = self._outliers.rows
        warn_of_outliers(self)
        return self

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        include_noise: bool = True,
        return_interval: float | None = None,
    ) -> Float[ndarray, " n"] | tuple[Float[ndarray, "..."], ...]:
        """The mixture's mean and, on request, its standard deviation, covariance or intervals.

        Standard deviations of labels are the model's, times the factor by which the errors of labels predicted from the
        others exceed them, if they do.

        Args:
            X: Inputs, (n, d).
            return_std: Whether to return the standard deviation, (n,), of a new label at each input.
            return_cov: Whether to return the covariance, (n, n), of new labels at all inputs; O(n^2) memory.
            include_noise: Whether these include the noise of the labels, which is independent from label to label;
                otherwise they are those of the function. If the noise was given label by label, that of a new label is
                their average.
            return_interval: Probability, such as 0.95, with which each interval contains a new label, over inputs drawn
                from the test density; conformal, from the errors of labels predicted from the others. If the noise has
                heavy tails, a new label that is no outlier.

        Returns:
            The mean, (n,); with `return_std` or `return_cov` a pair, with `return_interval` mean, lower and upper ends.

        Raises:
            ValueError: More than one of them is asked for, or X is not finite or has a wrong shape.
        """
        at_most_one(return_std=return_std, return_cov=return_cov, return_interval=return_interval is not None)
        inputs = self._inputs(X)
        if not (return_std or return_cov or return_interval is not None):
            return self.label_mean_ + self.label_scale_ * as_array(self.mixture_.mean(inputs))
        prediction = self._prediction(inputs, include_noise)
        if return_interval is not None:
            half = self.calibration_.half_width(probability("return_interval", return_interval))
            return prediction.mean, *prediction.interval(half / self.calibration_.factor)
        if return_std:
            return prediction.mean, prediction.std
        return prediction.mean, prediction.covariance(self.mixture_.correlation(inputs))

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        include_noise: bool = False,
    ) -> Float[ndarray, "n n_samples"]:
        """Draw paths: normal samples with the mean and the covariance of `predict` at the inputs.

        Args:
            X: Inputs, (n, d); O(n^2) memory and O(n^3) time.
            n_samples: Number of paths.
            random_state: Seed; the same seed gives the same paths, with or without noise.
            include_noise: Whether to draw labels, with noise, instead of the function.

        Returns:
            One path per column, (n, n_samples).
        """
        n, inputs = whole_number("n_samples", n_samples, least=1), self._inputs(X)
        prediction = self._prediction(inputs, include_noise)
        return prediction.paths(self.mixture_.correlation(inputs), n, check_random_state(random_state))

    def gate(self, X: ArrayLike) -> Float[ndarray, "n L"]:
        """Weight of every expert at every input; rows sum to one."""
        return as_array(self.mixture_.gate(self._inputs(X)))

    def local_bandwidth(self, X: ArrayLike) -> Float[ndarray, " n"]:
        """Locally optimal bandwidth (LOB), Eq. (eq:gprLOB), in units of the inputs.

        |Sigma(x)|^(1/d): the width itself in one dimension, the geometric mean of the widths in more. It is that of
        Gaussian experts, unless another kernel was asked for.
        """
        return self.input_units_.volume * as_array(self.mixture_.ruler.local_bandwidth(self._inputs(X)))

    def local_complexity(self, X: ArrayLike, density: ArrayLike | None = None) -> Float[ndarray, " n"]:
        """Local function complexity (LFC), Eq. (eq:isotropicComplexityGPR), up to a constant factor.

        `density` is the training density at X, by default estimated from the training inputs. It matters only if the
        smoothness is finite.
        """
        inputs = self._inputs(X)
        if density is not None:
            values = self._tensor(as_column(density, name="density", length=len(inputs), positive=True))
        elif self.density_ is None:
            values = torch.ones_like(inputs[:, 0])
        else:
            values = self.density_(inputs).clamp_min(self.density_.floor)
        orders = {"smoothness": self.smoothness_, "dimension": self.intrinsic_dimension_}
        return as_array(local_complexity(self.mixture_.ruler.local_bandwidth(inputs), values, **orders))

    def uncertainty(self, X: ArrayLike) -> Float[ndarray, " n"]:
        """Mixture of Gaussian process uncertainties, Eq. (eq:MoGPU): gate-weighted variance of a new label."""
        inputs = self._inputs(X)
        latent = self.label_scale_**2 * as_array(self.mixture_.uncertainty(inputs))
        return np.asarray(latent + self._noise(inputs))

    def noise_variance(self, X: ArrayLike) -> Float[ndarray, " n"]:
        """Noise variance of a new label: learned, given, or the average of what was given label by label."""
        return self._noise(self._inputs(X))

    def leave_one_out(self, X: ArrayLike, y: ArrayLike) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
        """Mean and standard deviation, as of `predict`, of each training label predicted from all others.

        In closed form; hyperparameters and gate are those of the fit. With exact experts, pass exactly the training X
        and y, in any order.
        """
        check_is_fitted(self)
        inputs, labels = checked_data(self, X, y, reset=False)
        noise = self._noise(self._in_units(inputs))
        prediction = left_out_labels(self._labelled(inputs, labels, noise=noise), self)
        prediction = prediction.widened(self.calibration_.factor)
        return prediction.mean, prediction.std

    @property
    def has_constant_noise(self) -> bool:
        """Whether the noise of a new label is the same everywhere."""
        check_is_fitted(self)
        return self.noise_model_ is None and not callable(self.noise)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, without pickle. Functions among the options are not saved."""
        check_is_fitted(self)
        save_model(path, saved_model(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str | None = None) -> "MixtureRegressor":
        """The model that `save` wrote, on the given device.

        Raises:
            ValueError: The file is damaged, no model, or a newer version of lobal wrote it.
        """
        saved = load_model(path, resolve_device(device))
        with read_from(path, "a model"):
            return cls.from_saved(saved, device)

    def to_record(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON fields of the fitted model, for files that hold more than it."""
        check_is_fitted(self)
        return model_record(saved_model(self))

    @classmethod
    def from_record(
        cls, tensors: dict[str, Tensor], fields: dict[str, Any], *, device: str | None = None
    ) -> "MixtureRegressor":
        """The model that `to_record` took apart, checked as `load` does.

        Raises:
            ValueError: They are not those of a model.
        """
        return cls.from_saved(model_of_record(tensors, fields, resolve_device(device)), device)

    @classmethod
    def from_saved(cls, saved: SavedModel, device: str | None) -> "MixtureRegressor":
        model = cls(**{**saved.options, "device": device})
        check_options(model.get_params(deep=False), d=saved.attributes["n_features_in_"])
        for name, value in fitted_attributes(saved).items():
            setattr(model, name, value)
        return model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "mixture_")

    def _tensor(self, values: ArrayLike) -> Float[Tensor, "..."]:
        return as_tensor(values, resolve_device(self.device))

    def _inputs(self, X: ArrayLike) -> Float[Tensor, "n d"]:
        check_is_fitted(self)
        return self._in_units(checked_data(self, X, reset=False))

    def _in_units(self, X: Float[ndarray, "n d"]) -> Float[Tensor, "n d"]:
        """Inputs as the mixture sees them."""
        return self._tensor(self.input_units_(X))

    @property
    def _units(self) -> tuple[float, float]:
        """Mean and standard deviation of the labels."""
        return self.label_mean_, self.label_scale_

    def _prediction(self, inputs: Float[Tensor, "n d"], include_noise: bool) -> LabelPrediction:
        prediction = self._uncalibrated(inputs).widened(self.calibration_.factor)
        return prediction if include_noise else prediction.of_the_function()

    def _uncalibrated(self, inputs: Float[Tensor, "n d"]) -> LabelPrediction:
        return in_label_units(self.mixture_.predict(inputs), self._units, self._noise(inputs))

    def _noise(self, inputs: Float[Tensor, "n d"]) -> Float[ndarray, " n"]:
        if self.noise_model_ is not None:
            return as_array(self.noise_model_(inputs))
        return known_noise(
            self.noise if callable(self.noise) else self.noise_, self.input_units_.back(as_array(inputs))
        )

    def _measure(self, X: Float[ndarray, "n d"], y: Float[ndarray, " n"], generator: torch.Generator) -> None:
        """Mean and standard deviation of the labels, units and intrinsic dimension of the inputs."""
        self.label_mean_, self.label_scale_ = label_units(y)
        units, given = Units.of(X), self.intrinsic_dimension
        has_widths = self.shared_bandwidth is not None or self.gate_bandwidth is not None
        self.input_units_ = units.without_scale() if has_widths else units
        found = intrinsic_dimension(self._in_units(X), generator=generator) if given is None else given
        self.intrinsic_dimension_ = positive("intrinsic_dimension", found)

    def _labelled(self, X: Float[ndarray, "n d"], y: Float[ndarray, " n"], **columns: Any) -> LabelledSet:  # noqa: ANN401
        """The labels as the mixture sees them, with the given weights and noise."""
        if callable(columns.get("noise")):
            columns["noise"] = columns["noise"](X)
        labels, device = np.asarray(y, dtype=np.float64), resolve_device(self.device)
        return labelled_set(self.input_units_(X), labels, self._units, device, **columns)

    def _training_data(
        self, labelled: LabelledSet, validation: tuple[ArrayLike, ArrayLike] | None, generator: torch.Generator
    ) -> TrainingData:
        """The labels split into those for the experts, for validation and for the gate."""
        n_gate, share = engine_options(self.engine).split(len(labelled))
        held_out: LabelledSet | int | None = share
        if validation is not None:
            X, y = checked_data(self, *validation, reset=False)
            held_out = self._labelled(X, y, noise=self.noise if callable(self.noise) else None)
        n_gate = n_gate if self.experts == "exact" else 0
        return split_labels(labelled, n_gate=n_gate, validation=held_out, generator=generator)
