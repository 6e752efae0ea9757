"""Several outputs as one surrogate: a mixture for each, and one complexity that all of them are worth labels by.

The squared error of output j at x is proportional to LFC_j (v_j / p)^s with s = 2 tau (Theorem 1). The weighted sum of
all errors, each in units of the variance of its labels, is the error of one output of the complexity

    LFC = sum_j w_j c_j LFC_j v_j^s

under noise of variance 1, and the superior density of that complexity minimises it. The constants c_j, which Theorem 1
leaves open, are such that the mean error over the labelled points, weighted by q / p_k, is the error that the model of
output j has found itself to have. All LFC_j have the same factor in p_k, so the bandwidth h of that complexity is

    h^-delta = sum_j w_j c_j v_j^s h_j^-delta.

docs/outputs.md has the derivation. A curve is the outputs that its principal components are, weighted by their share of
the variance. Models share neither hyperparameters nor inducing points.
"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy import ndarray
from torch import Tensor

from lobal.active.candidates import Candidates, Metric
from lobal.active.mixture_surrogate import FittedMixtureSurrogate, MixtureSurrogate
from lobal.active.output_models import CurveBasis, OutputModels, models_from_record, models_record, target_names
from lobal.active.outputs import Curve, Outputs, check_outputs, outputs_from_json, outputs_to_json
from lobal.active.surrogate import FitTask, FittedSurrogate, NoiseFunction, Process, Surrogate, Validation
from lobal.core.files import load_record, save_record
from lobal.core.kernels import squared_distances
from lobal.core.schema import FINITE, TINY, anything, list_of, read_from, real, table
from lobal.core.superior_density import learning_rate
from lobal.mixture.estimator import SMALLEST_TRAINING_SET, MixtureRegressor

LEAST = 1e-12  # of relative squared errors: those of labels that are predicted exactly
_NUMBER = real(0.0, FINITE)
_SUMMARY = table({"weight": _NUMBER, "variance": real(TINY, FINITE), "excess": _NUMBER, "log_factor": real()})
FIELDS = table(
    {"models": list_of(anything), "summaries": list_of(_SUMMARY), "rate": real(0.0, 1.0), "dimension": real(1e-6, 1e6)}
)


@final
@dataclass(frozen=True, kw_only=True)
class Summary:
    """How one output enters the common complexity."""

    weight: float  # w_j
    variance: float  # of its labels
    excess: float  # the model's squared error less the noise, in units of that variance
    log_factor: float  # log (w_j c_j), finite also where w_j is zero, which `weight` tells


class OutputReport(NamedTuple):
    """What is known of one output, in units of its labels; None while it has fewer than ten."""

    name: str
    model: MixtureRegressor | None
    validation_error: float | None  # root mean squared
    standard_error: float | None  # of the validation error
    noise: float | None  # variance of the labels' noise


@final
class FittedOutputs(FittedSurrogate):
    """A fitted mixture for each output.

    `validation_error`, `relative_error` and `noise` are those of all outputs together, in units of the spread of each
    output's labels: sqrt(sum_j w_j err_j^2 / var_j / sum_j w_j), and the mean of v_j / var_j weighted likewise.
    """

    def __init__(
        self, model: OutputModels, summaries: Sequence[Summary], *, rate: float, dimension: float, rows: list[ndarray]
    ) -> None:
        self.model: OutputModels = model
        self.summaries, self.rate, self.dimension = tuple(summaries), rate, dimension
        self._rows = rows  # of the labels that each model was fitted to, for outliers
        parts = [(each.weight, fitted, each.variance) for each, fitted in self._counted]
        total = sum(weight for weight, *_ in parts)
        squared = sum(w * (fitted.validation_error / math.sqrt(var)) ** 2 for w, fitted, var in parts)
        self.validation_error: float = math.sqrt(squared / total)
        self.noise: float = sum(w * fitted.noise / var for w, fitted, var in parts) / total

    @property
    def _fitted(self) -> list[FittedMixtureSurrogate | None]:
        """One for each output, in order."""
        found = (self.model.models.get(name) for name in self.model.names)
        return [None if each is None else FittedMixtureSurrogate(each, {}) for each in found]

    @property
    def _counted(self) -> list[tuple[Summary, FittedMixtureSurrogate]]:
        """The outputs that have a model and a weight above zero."""
        pairs = zip(self.summaries, self._fitted, strict=True)
        return [(summary, fitted) for summary, fitted in pairs if fitted is not None and summary.weight > 0.0]

    @property
    def output_errors(self) -> dict[str, tuple[float, float | None]]:
        if isinstance(self.model.outputs, Curve):
            (error,) = self.errors
            return {} if error is None else {self.model.outputs.name: (error, None)}
        found = ((each.name, each.validation_error, each.standard_error) for each in self.outputs)
        return {name: (error, sure) for name, error, sure in found if error is not None}

    def standard_deviation(self, X: ndarray) -> ndarray | None:
        return np.asarray(self.model.predict(X, return_std=True)[1])

    def interval(self, X: ndarray, probability: float) -> tuple[ndarray, ndarray] | None:
        """Of each output for itself; none of curves."""
        return self.model.intervals(X, probability)

    @property
    def outputs(self) -> list[OutputReport]:
        """What is known of every output, or of every component of a curve."""
        return [_report(name, self.model.models.get(name)) for name in self.model.names]

    @property
    def errors(self) -> tuple[float | None, ...]:
        """The validation error of every output in units of its labels, or of the numbers of a curve."""
        found = [report.validation_error for report in self.outputs]
        if self.model.basis is None:
            return tuple(found)
        squared = np.square([error for error in found if error is not None]).sum() + self.model.basis.left_out.sum()
        return (math.sqrt(squared / len(self.model.basis.mean)),)

    def predict(self, X: ndarray) -> ndarray:
        return np.asarray(self.model.predict(X))

    def processes(self) -> list[Process]:
        """One for each output that counts; each has its share of the sum of all squared errors."""
        return [
            replace(process, weight=summary.weight * max(summary.excess, LEAST))
            for summary, fitted in self._counted
            for process in fitted.processes()
        ]

    def local_bandwidth(self, X: ndarray) -> Float[ndarray, " n"]:
        """That of the common complexity, up to a constant factor."""
        logs = [
            summary.log_factor + log_complexity(fitted, X, rate=self.rate, dimension=self.dimension)
            for summary, fitted in self._counted
        ]
        combined = np.logaddexp.reduce(logs, axis=0)
        return np.asarray(np.exp((combined.max() - combined) / self.dimension))

    def noise_variance(self, X: ndarray) -> Float[ndarray, " n"]:
        """One: the noise of every output is part of its complexity."""
        return np.ones(len(X))

    def metric(self, candidates: Candidates) -> Metric:
        """Precisions Sigma_E^-2 of the outputs, averaged by their shares w_j excess_j of the common error."""
        shares = np.array([summary.weight * max(summary.excess, LEAST) for summary, _ in self._counted])
        metrics = [fitted.metric(candidates) for _, fitted in self._counted]
        factors = np.sqrt(shares / shares.sum())

        def coordinates(X: ndarray) -> torch.Tensor:
            parts = [factor * metric.coordinates(X) for factor, metric in zip(factors, metrics, strict=True)]
            return torch.cat(parts, dim=1)

        return Metric(coordinates, squared_distances)

    def relative_error(self, labels: ndarray) -> float | None:
        del labels  # the error is in units of their spread already
        return self.validation_error

    def squared_errors(self, X: ndarray, y: ndarray) -> Float[ndarray, " n"] | None:
        """The mean over the outputs that a point has, weighted, in units of each output's variance."""
        targets = y if self.model.basis is None else self.model.basis.scores(y)
        total, weights = np.zeros(len(y)), np.zeros(len(y))
        for column, (summary, fitted) in enumerate(zip(self.summaries, self._fitted, strict=True)):
            if fitted is None or summary.weight == 0.0:
                continue
            has_label = np.isfinite(targets[:, column])
            found = fitted.squared_errors(X[has_label], targets[has_label, column])
            if found is None:
                return None
            total[has_label] += summary.weight * (found / summary.variance)
            weights[has_label] += summary.weight
        is_known = weights > 0.0
        mean = total[is_known] / weights[is_known]
        errors = np.full(len(y), mean.mean())  # a point whose outputs have no model yet is like the others
        errors[is_known] = mean
        return errors

    @property
    def standard_errors(self) -> tuple[float | None, ...]:
        """Of `errors`; none of curves, whose errors are those of their components."""
        return tuple(output.standard_error for output in self.outputs) if self.model.basis is None else ()

    @property
    def outliers(self) -> tuple[int, ...]:
        found = zip(self._rows, self._fitted, strict=True)
        rows = [rows[list(fitted.outliers)] for rows, fitted in found if fitted is not None and len(rows)]
        return tuple(np.unique(np.concatenate(rows)).tolist()) if rows else ()

    def record(self) -> dict[str, Any]:
        decisions = [each for fitted in self._fitted if fitted is not None for each in fitted.record()["decisions"]]
        return {"decisions": tuple(decisions), "errors": self.errors, "standard_errors": self.standard_errors}

    def kept(self) -> dict[str, Tensor]:
        """Those of every output, under its name."""
        found = ((name, fitted.kept()) for name, fitted in zip(self.model.names, self._fitted, strict=True) if fitted)
        return {_kept_of(name) + key: tensor for name, kept in found for key, tensor in kept.items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        tensors, fields = models_record(self.model)
        for place, rows in enumerate(self._rows):
            tensors[f"rows.{place}"] = torch.as_tensor(rows, dtype=torch.long)
        summaries = [vars(summary) for summary in self.summaries]
        save_record(path, tensors, {**fields, "summaries": summaries, "rate": self.rate, "dimension": self.dimension})


@final
class OutputSurrogate(Surrogate):
    """Fits a clone of a `MixtureRegressor` to each output at every step.

    Args:
        outputs: what is measured; labels have one column for each, or are curves.
        model: the unfitted model whose options every fit takes; by default `MixtureRegressor()`.
    """

    kind: ClassVar[str] = "outputs"

    def __init__(self, outputs: Outputs, model: MixtureRegressor | None = None) -> None:
        self.outputs: Outputs = outputs
        self._each = MixtureSurrogate(model)

    def is_enough(self, labels: ndarray) -> bool:
        """Whether some output that counts has ten labels."""
        if isinstance(self.outputs, Curve):
            return True
        counts = np.isfinite(labels).sum(axis=0)
        counted = [n for n, output in zip(counts, self.outputs, strict=True) if output.weight > 0.0]
        return bool(max(counted) >= SMALLEST_TRAINING_SET)

    def fit(self, task: FitTask) -> FittedOutputs:
        """Each output's model is fitted to the labels that have that output."""
        basis = CurveBasis.of(task.y, self.outputs.variance) if isinstance(self.outputs, Curve) else None
        targets = task.y if basis is None else basis.scores(task.y)
        names, weights = target_names(self.outputs, basis), self._weights(targets)
        rate = 2.0 * learning_rate(smoothness=task.smoothness, dimension=task.dimension)
        models: dict[str, MixtureRegressor] = {}
        summaries, all_rows = [], []
        for column, (name, weight) in enumerate(zip(names, weights, strict=True)):
            has_label = np.isfinite(targets[:, column])
            part = _part_of(task, targets[:, column], has_label, name, _validation(task.validation, basis, column))
            fitted = self._each.fit(part) if (part.weight > 0.0).sum() >= SMALLEST_TRAINING_SET else None
            if fitted is not None:
                models[name] = fitted.model
            summaries.append(summary_of(fitted, part, weight=weight, rate=rate))
            all_rows.append(np.flatnonzero(has_label))
        if not any(name in models and weight > 0.0 for name, weight in zip(names, weights, strict=True)):
            raise ValueError(
                f"need {SMALLEST_TRAINING_SET} labels of positive weight of some output, got fewer of each of {names}; "
                "label more points where the test density is above zero"
            )
        model = OutputModels(self.outputs, models, basis)
        return FittedOutputs(model, summaries, rate=rate, dimension=task.dimension, rows=all_rows)

    def _weights(self, targets: Float[ndarray, "n k"]) -> list[float]:
        if not isinstance(self.outputs, Curve):
            return [output.weight for output in self.outputs]
        variances = np.maximum(targets.var(axis=0), TINY)
        return [float(share) for share in variances / variances.sum()]

    def load(self, path: str | os.PathLike[str]) -> FittedOutputs:
        tensors, fields = load_record(path)
        with read_from(path, "a model of several outputs"):
            FIELDS(fields, "fields")
            model = models_from_record(tensors, fields, self.outputs, self._each.model.device)
            summaries = [Summary(**{key: float(part[key]) for key in vars(EMPTY)}) for part in fields["summaries"]]
            if len(summaries) != len(model.names) or not any(
                summary.weight > 0.0 and name in model.models
                for name, summary in zip(model.names, summaries, strict=True)
            ):
                raise ValueError(f"fields.summaries must be those of {len(model.names)} outputs, got {summaries}")
            rows = [tensors[f"rows.{place}"].numpy() for place in range(len(summaries))]
        for each in model.models.values():
            each.noise = self._each.model.noise
        scales = {"rate": float(fields["rate"]), "dimension": float(fields["dimension"])}
        return FittedOutputs(model, summaries, rows=rows, **scales)

    def use_device(self, device: str) -> None:
        self._each.use_device(device)

    def to_settings(self) -> dict[str, Any]:
        return {**self._each.to_settings(), "outputs": outputs_to_json(self.outputs)}

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any], n_columns: int) -> None:
        table({"outputs": check_outputs})(settings, "surrogate")
        MixtureSurrogate.check_settings(settings, n_columns)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, noise: NoiseFunction | None = None) -> "OutputSurrogate":
        each = MixtureSurrogate.from_settings(settings, noise=noise)
        return cls(outputs_from_json(settings["outputs"]), each.model)

    @property
    def changed_options(self) -> dict[str, Any]:
        return self._each.changed_options


def log_complexity(
    fitted: FittedMixtureSurrogate, X: ndarray, *, rate: float, dimension: float
) -> Float[ndarray, " n"]:
    """log (v^s h^-delta) at every input: LFC v^s without the factor in the density."""
    bandwidth, noise = fitted.local_bandwidth(X), fitted.noise_variance(X)
    return np.asarray(rate * np.log(np.maximum(noise, TINY)) - dimension * np.log(np.maximum(bandwidth, TINY)))


def summary_of(fitted: FittedMixtureSurrogate | None, task: FitTask, *, weight: float, rate: float) -> Summary:
    """How an output enters the common complexity.

    Its error over p_k, sum_i weight_i c_j v_j^s h_j^-delta / p_k(x_i) / sum_i weight_i, is the model's own squared
    error less the noise, in units of the variance. As a difference that may be due to chance, the error is taken to be
    no less than the standard error of a mean of n squared normal errors.
    """
    variance = max(float(task.y.var()), TINY) if len(task.y) else 1.0
    if fitted is None:
        return replace(EMPTY, weight=weight, variance=variance)
    squared = fitted.validation_error**2 / variance
    excess = max(squared - fitted.noise / variance, squared * math.sqrt(2.0 / len(task.y)), LEAST)
    density = np.ones(len(task.y)) if task.density is None else np.maximum(task.density, TINY)
    logs = log_complexity(fitted, task.X, rate=rate, dimension=task.dimension) - np.log(density)
    counted = task.weight > 0.0
    mean = np.logaddexp.reduce(logs[counted] + np.log(task.weight[counted])) - math.log(task.weight.sum())
    log_weight = math.log(weight) if weight > 0.0 else 0.0
    return Summary(
        weight=weight, variance=variance, excess=excess, log_factor=log_weight + math.log(excess) - float(mean)
    )


EMPTY = Summary(weight=0.0, variance=1.0, excess=0.0, log_factor=0.0)


def _part_of(
    task: FitTask,
    target: Float[ndarray, " n"],
    has_label: Bool[ndarray, " n"],
    name: str,
    validation: Validation | None,
) -> FitTask:
    """The task of one output."""
    rows, own = np.flatnonzero(has_label), _kept_of(name)
    known = np.flatnonzero(np.isin(rows, list(task.known_outliers)))
    return replace(
        task,
        X=task.X[has_label],
        y=target[has_label],
        weight=task.weight[has_label],
        density=None if task.density is None else task.density[has_label],
        inducing_weight=None if task.inducing_weight is None else task.inducing_weight[has_label],
        validation=validation,
        rows_of=f"the labels of {name!r}",
        known_outliers=frozenset(known.tolist()),
        kept={key.removeprefix(own): tensor for key, tensor in task.kept.items() if key.startswith(own)},
    )


def _kept_of(name: str) -> str:
    """Before the names of tensors that an output keeps."""
    return f"output {name}: "


def _validation(validation: Validation | None, basis: CurveBasis | None, column: int) -> Validation | None:
    if validation is None:
        return None
    targets = validation.y if basis is None else basis.scores(validation.y)
    return validation._replace(y=targets[:, column])


def _report(name: str, model: MixtureRegressor | None) -> OutputReport:
    if model is None:
        return OutputReport(name, None, None, None, None)
    return OutputReport(name, model, model.validation_error_, model.validation_standard_error_, model.noise_)
