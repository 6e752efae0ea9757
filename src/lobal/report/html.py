"""A campaign as one self-contained web page: no scripts, no links, figures inside."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from lobal.active.learner import ActiveLearner
from lobal.core.files import write_atomically
from lobal.report import overview
from lobal.report.batch import SHARES, batch_rows, batch_table
from lobal.report.blocks import (
    campaign_page,
    details_block,
    facts_block,
    figure_block,
    figures_block,
    heading_block,
    lead_block,
    text_block,
)
from lobal.report.campaign_figures import Landscape, landscape, training_histogram_figure
from lobal.report.error_curve import Round, error_curve_figure, error_rounds
from lobal.report.failures import failure_blocks
from lobal.report.line import line_figures
from lobal.report.maps import map_figures, telling_pairs
from lobal.report.model_sections import Output, agreement_blocks, calibration_blocks, dependence_blocks, mixtures_of
from lobal.report.record import record_blocks
from lobal.report.savings import Savings
from lobal.report.variables import Variable, variables_of

MOST_CANDIDATES = 2000  # that variables are ranked by

LINE_CAPTION = (
    "Above, labels and prediction. Below, the local bandwidth (LOB): the distance over which labels can be averaged "
    "without blurring the target. Where it is small, the target is complex. Grey lines: bandwidths of the experts."
)
HISTOGRAM_CAPTION = (
    "Bars: labelled inputs, and inputs suggested next. Black: the density that they were drawn from. Orange: the "
    "superior training density estimated from the labels so far."
)
MAP_CAPTION = (
    "The two variables that the local complexity or, if it hardly varies, the prediction depends on most; "
    "dots are candidates, and labels are most useful where complexity is bright."
)
CURVE_CAPTION = "The error of every model so far, noise of the labels included; the band is one standard error."
ONE_ROUND = "One model so far; with every round that is told, the curve gets a point."
NEAREST = (
    "The distance to the nearest label is in units of the usual distance from label to label; the complexity, once "
    "there is a model, in units of its median over the candidates."
)


def campaign_report(
    learner: ActiveLearner,
    path: str | os.PathLike[str],
    *,
    title: str = "Active learning campaign",
    names: Sequence[str] | None = None,
    savings: Savings | None = None,
    notes: Sequence[str] = (),
    variables: Sequence[Variable] | None = None,
    target: str = "target",
    identifiers: Sequence[str] | None = None,
) -> None:
    """Write the page of a campaign.

    Args:
        learner: the `ActiveLearner`.
        path: the file; missing folders are created.
        title: title of the page.
        names: names of the input columns.
        savings: savings measured against random labels, if there are any.
        notes: further sentences for the first section, such as what was left out of the data.
        variables: the inputs as the user knows them, if they are not the columns, such as categories; then `names` are
            not needed.
        target: what the labels are, with their unit.
        identifiers: names of the candidates of a pool; by default their row numbers.
    """
    known = variables_of(learner.candidates.X.shape[1], names) if variables is None else tuple(variables)
    page = Page(learner, known, target, None if identifiers is None else tuple(identifiers))
    destination = Path(path)
    destination.parent.mkdir(parents=True, exist_ok=True)
    sections = {
        "Where the campaign stands": page.standing(savings, notes),
        "What to label next": page.batch(),
        "Error over the rounds": page.curve(),
        "Prediction against measurement": page.agreement(),
        "Where labels are worth most": page.places(),
        "What prediction and complexity depend on": page.dependence(),
        "Failures": page.failures(),
        "Calibration of the intervals": page.calibration(),
        "History, settings and versions": page.record(),
    }
    write_atomically(destination, campaign_page(title, sections).encode())


@final
@dataclass(frozen=True)
class Page:
    """The sections of the page, each as its blocks."""

    learner: ActiveLearner
    variables: tuple[Variable, ...]
    target: str
    identifiers: tuple[str, ...] | None = None

    def name(self, candidate: int) -> str:
        """What a candidate of a pool is called."""
        return f"row {candidate}" if self.identifiers is None else self.identifiers[candidate]

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """All models whose error is known."""
        return error_rounds(self.learner)

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """The models of all outputs; none where they are no mixtures, or there is none yet."""
        learner, X = self.learner, np.asarray(self.learner.labelled.X)
        numbers = range(len(X)) if learner.is_box else learner.labelled.candidate.tolist()
        names = np.array([f"label {n}" if learner.is_box else self.name(n) for n in numbers])
        return tuple(
            Output.of(name, model, X, y, label_names=names, variables=self.variables)
            for name, model, y in mixtures_of(learner, self.target)
        )

    @cached_property
    def landscape(self) -> Landscape:
        """What the model says about the candidates."""
        return landscape(self.learner, self.variables)

    @cached_property
    def sample(self) -> Float[ndarray, "n d"]:
        """Model inputs of some candidates."""
        rows = np.random.default_rng(0).permutation(len(self.learner.candidates))[:MOST_CANDIDATES]
        return np.asarray(self.learner.candidates.inputs_at(torch.from_numpy(np.sort(rows))), dtype=np.float64)

    def standing(self, savings: Savings | None, notes: Sequence[str]) -> Iterator[str]:
        """What there is, the error and its trend, savings and advice."""
        learner = self.learner
        yield lead_block(overview.counts(learner, len(self.variables)))
        if learner.fitted is None:
            yield text_block(overview.NO_MODEL)
        name = overview.error_name(learner)
        facts = {"Error now": overview.error_now(self.rounds, name, self.target)}
        facts["Trend"] = overview.error_trend(self.rounds)
        facts["Expected savings"] = overview.savings_now(learner)
        facts["Go on or stop?"] = overview.stopping_advice(
            self.rounds, None if learner.fitted is None else learner.fitted.noise
        )
        yield facts_block(facts)
        if savings is not None and learner.fitted is not None:
            yield lead_block(f"measured against random labels: {savings.verdict()}")
        yield from map(text_block, [*overview.practice(learner), *notes])
        if learner.fitted is not None:
            yield details_block("How the expected savings are estimated", [text_block(overview.caution(learner))])

    def batch(self) -> Iterator[str]:
        """The points of the last step that have no label yet."""
        models = {output.name: output.model for output in self.outputs}
        rows = batch_rows(self.learner, self.variables, self.name, models)
        if not rows:
            return
        yield batch_table(rows, self.variables)
        shares = {row.share for row in rows}
        yield from (text_block(f"{words}.") for share, words in SHARES.items() if share in shares)
        yield text_block(NEAREST)

    def curve(self) -> Iterator[str]:
        """The error of every model."""
        if self.rounds:
            yield figure_block(error_curve_figure(self.rounds, self.target), CURVE_CAPTION)
            if len(self.rounds) == 1:
                yield text_block(ONE_ROUND)

    def agreement(self) -> Iterator[str]:
        """Prediction against measurement."""
        yield from self._each(lambda output: agreement_blocks(output, output.left_out))

    def places(self) -> Iterator[str]:
        """Maps over pairs of variables; of one variable, prediction, bandwidth and training density."""
        if self.learner.fitted is None:
            return
        if len(self.variables) > 1:
            first, *others = telling_pairs(self.landscape)
            yield figures_block(map_figures(self.landscape, first), MAP_CAPTION)
            for pair in others:
                figures = map_figures(self.landscape, pair)
                yield details_block(f"{pair[0].name} and {pair[1].name}", [figures_block(figures)])
            return
        for output in self.outputs:
            names = {"column": self.variables[0].label, "target": output.name}
            yield figures_block(line_figures(output.model, output.X, output.y, **names), LINE_CAPTION)
        yield figure_block(training_histogram_figure(self.landscape), HISTOGRAM_CAPTION)

    def dependence(self) -> Iterator[str]:
        """Partial dependence; of one variable the map shows it already."""
        if len(self.variables) > 1:
            yield from self._each(lambda output: dependence_blocks(output, self.sample))

    def failures(self) -> Iterator[str]:
        """Where labels failed."""
        learner = self.learner
        numbers = learner.candidates.locate(learner.failed)[0]
        names = [f"point {row + 1}" if learner.is_box else self.name(number) for row, number in enumerate(numbers)]
        yield from failure_blocks(learner, self.variables, names)

    def calibration(self) -> Iterator[str]:
        """Whether intervals contain what they promise."""
        yield from self._each(lambda output: calibration_blocks(output.left_out))

    def record(self) -> Iterator[str]:
        """History, settings and versions."""
        yield from record_blocks(self.learner)

    def _each(self, blocks: Callable[[Output], Iterator[str]]) -> Iterator[str]:
        """Blocks of every output, under its name if there are several."""
        for output in self.outputs:
            if len(self.outputs) > 1:
                yield heading_block(output.name)
            yield from blocks(output)
