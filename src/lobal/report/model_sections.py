"""What a page says about one model of one output: its errors, its dependence on the inputs, its calibration."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.active.learner import ActiveLearner
from lobal.active.output_models import OutputModels
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.blocks import figure_block, figures_block, table_block, text_block
from lobal.report.dependence import dependence_figures, dependences
from lobal.report.left_out import (
    LeftOut,
    agreement_figure,
    coverage_figure,
    coverage_sentence,
    left_out,
    ranks_figure,
)
from lobal.report.variables import Variable, telling_variables, titled

MOST_VARIABLES = 8  # with a figure each
NOT_KNOWN = "This model does not know what it would predict for its labels without them."
AGREEMENT_CAPTION = (
    "Each label against what the model predicts for it from all other labels. Bars are two standard deviations, noise "
    "of the labels included. On the line, prediction and measurement agree."
)
DEPENDENCE_CAPTION = (
    "How prediction (above) and local complexity (below, median of the candidates = 1) change with one variable, while "
    "all others are as in the candidates: mean, and band of the middle 80% of the candidates. Values that do not occur "
    "together are shown too. The variable that prediction and complexity depend on most comes first."
)
BOUND_CAPTION = (
    "None of {names} can change alone, as a constraint binds them together: for these, mean and band are those of the "
    "candidates around each value, whose other variables change with it."
)
CALIBRATION_CAPTION = (
    "First: the share of labels that lie within intervals of every probability; above the line intervals are wider "
    "than they need be, below it they are too narrow. Second: where labels lie in the normal distributions predicted "
    "for them from all others; bars of equal height mean that these are right, high bars at the ends that they are too "
    "narrow, high bars in the middle that they are too wide."
)


@final
@dataclass(frozen=True, kw_only=True)
class Output:
    """One output of a campaign: the model, and the labels it was fitted to."""

    name: str  # with its unit
    model: MixtureRegressor
    X: Float[ndarray, "n d"]
    y: Float[ndarray, " n"]
    label_names: tuple[str, ...]  # of the n labels
    variables: tuple[Variable, ...]

    @classmethod
    def of(
        cls,
        name: str,
        model: MixtureRegressor,
        X: ndarray,
        y: Float[ndarray, " n"],
        *,
        label_names: ndarray,
        variables: tuple[Variable, ...],
    ) -> "Output":
        """The output with the labels that it has; others are NaN."""
        rows = np.flatnonzero(np.isfinite(y))
        inputs, names = np.asarray(X[rows], dtype=np.float64), tuple(label_names[rows].tolist())
        return cls(name=name, model=model, X=inputs, y=y[rows], label_names=names, variables=variables)

    @cached_property
    def left_out(self) -> LeftOut | None:
        """Every label predicted from all others; none where the model does not know."""
        return left_out(self.model, self.X, self.y)


def mixtures_of(learner: ActiveLearner, target: str) -> Iterator[tuple[str, MixtureRegressor, Float[ndarray, " n"]]]:
    """Name, model and labels of every output that has a mixture; none for other models, or before there is one.

    None for curves either: the mixtures are those of their components.
    """
    model, y = learner.model, learner.labelled.y
    if isinstance(model, MixtureRegressor):
        yield target, model, np.asarray(y, dtype=np.float64)
    elif isinstance(model, OutputModels) and isinstance(model.outputs, tuple):
        for place, output in enumerate(model.outputs):
            if output.name in model.models:
                yield titled(output.name, output.unit), model.models[output.name], np.asarray(y[:, place])


def output_names(learner: ActiveLearner, target: str) -> list[str]:
    """Names of the numbers that a label has; none of curves and other labels of many numbers."""
    outputs, y = learner.candidates.outputs, learner.labelled.y
    if isinstance(outputs, tuple):
        return [titled(output.name, output.unit) for output in outputs]
    return [target] if outputs is None and y.ndim == 1 else []


def agreement_blocks(output: Output, labels: LeftOut | None) -> Iterator[str]:
    """Prediction against measurement, and a table of the labels that contradict the others."""
    if labels is None:
        yield text_block(NOT_KNOWN)
        return
    yield figure_block(agreement_figure(labels, dict(enumerate(output.label_names)), output.name), AGREEMENT_CAPTION)
    if not len(labels.outliers):
        yield text_block("No label contradicts the others.")
        return
    number = len(labels.outliers)
    yield text_block(
        f"{number} label{'s contradict' if number > 1 else ' contradicts'} the others. Check units, signs and decimal "
        "points; a second measurement of the same point tells most."
    )
    header = (
        "label",
        *(each.title for each in output.variables),
        "measured",
        "predicted without it",
        "standard deviation",
    )
    yield table_block(header, (_outlier(output, labels, int(row)) for row in labels.outliers))


def _outlier(output: Output, labels: LeftOut, row: int) -> list[object]:
    inputs = [each.shown(float(each.at(output.X[[row]])[0])) for each in output.variables]
    values = [float(each[row]) for each in (labels.measured, labels.mean, labels.std)]
    return [output.label_names[row], *inputs, *values]


def dependence_blocks(output: Output, points: Float[ndarray, "n d"]) -> Iterator[str]:
    """Partial dependence on the most telling variables."""
    chosen = important_variables(output, points)
    bound = [variable.name for variable in chosen if variable.is_bound]
    caption = " ".join([DEPENDENCE_CAPTION, *([BOUND_CAPTION.format(names=", ".join(bound))] if bound else [])])
    yield figures_block(dependence_figures(dependences(output.model, chosen, points), output.name), caption)
    left = len(output.variables) - len(chosen)
    if left:
        yield text_block(f"{left} more variables, which both depend on less, are not shown.")


def important_variables(output: Output, points: Float[ndarray, "n d"]) -> Sequence[Variable]:
    """Those that prediction and complexity depend on most."""
    values = np.asarray(output.model.predict(points)), np.log(output.model.local_complexity(points))
    order = telling_variables(output.variables, points, *values)
    return [output.variables[j] for j in order[:MOST_VARIABLES]]


def calibration_blocks(labels: LeftOut | None) -> Iterator[str]:
    """Whether intervals contain as many labels as they promise."""
    if labels is None:
        yield text_block(NOT_KNOWN)
        return
    yield text_block(coverage_sentence(labels))
    figures = {"coverage of intervals": coverage_figure(labels), "histogram of places": ranks_figure(labels)}
    yield figures_block(figures, CALIBRATION_CAPTION)
