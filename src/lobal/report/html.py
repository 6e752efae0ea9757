"""A campaign as one self-contained web page: no links, figures inside; scripts only to turn a molecule."""

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
from lobal.active.outputs import Curve
from lobal.active.reasons import NEARBY, SHARES
from lobal.core.files import write_atomically
from lobal.report import overview
from lobal.report.batch import batch_rows, batch_table, earlier_points
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
from lobal.report.error_curve import error_curve_figure, error_rounds
from lobal.report.failures import failure_blocks
from lobal.report.line import line_figures
from lobal.report.maps import Pair, is_even, map_figures, named_pairs, telling_pairs
from lobal.report.model_sections import (
    Output,
    agreement_blocks,
    calibration_blocks,
    dependence_blocks,
    mixtures_of,
    output_names,
)
from lobal.report.record import record_blocks
from lobal.report.savings import Savings
from lobal.report.variables import Variable, row_name, variables_for

MOST_CANDIDATES = 2000  # that variables are ranked by

LINE_CAPTION = (
    "Above, labels and prediction. Below, the local bandwidth (LOB): the distance over which labels can be averaged "
    "without blurring the target. Where it is small, the target is complex. Grey lines: bandwidths of the experts."
)
SHARES_OF_RANGE = " Bandwidths are in shares of the variable's range."
HISTOGRAM_CAPTION = (
    "Bars: labelled inputs, and inputs suggested next. Black: the density that they were drawn from. Orange: the "
    "superior training density estimated from the labels so far."
)
MAP_CAPTION = (
    "The two variables that the local complexity depends on most; dots are candidates, and labels are most useful "
    "where complexity is bright."
)
EVEN_CAPTION = (
    "The two variables that the prediction depends on most; dots are candidates. The local complexity hardly varies so "
    "far: it favours no place."
)
CURVE_CAPTION = (
    "The error of every model so far, noise of the labels included; the band is one standard error, if known."
)
ONE_ROUND = "One model so far; with every round that is told, the curve gets a point."
NEARBY_CAPTION = f"Labels nearby are the {NEARBY} nearest; of these, the two that differ most are compared."
COMPLEXITY_CAPTION = "The complexity is in units of its median over the candidates."
CURVES = (
    "Labels are curves, each of many numbers: prediction against measurement, dependence on the inputs and calibration "
    "are shown for single numbers only."
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
    maps: Sequence[tuple[str, str]] = (),
) -> None:
    """Write the page of a campaign.

    That of a force field which simulates its own pools has sections of its own, for which names, variables, target,
    identifiers and maps do not matter.

    Args:
        learner: the `ActiveLearner`.
        path: the file; missing folders are created.
        title: title of the page.
        names: names of the input columns; those of a `SearchSpace` are known.
        savings: savings measured against random labels, if there are any.
        notes: further sentences for the first section, such as what was left out of the data.
        variables: the inputs as the user knows them, if they are not the columns, such as categories; then `names` are
            not needed.
        target: what the labels are, with their unit; outputs that have names of their own keep them.
        identifiers: names of the candidates of a pool; by default the labels of a table's rows, or row numbers.
        maps: pairs of names of inputs to map before those that the complexity depends on most.
    """
    if learner.candidates.kind == "molecules" and learner.candidates.n_columns:  # configurations may be replaced
        # Other pages do without the room of the molecules.
        from lobal.report.grown import grown_sections
        from lobal.report.labelled_molecules import STYLE

        content = campaign_page(title, grown_sections(learner, savings=savings, notes=notes), style=STYLE)
    else:
        known = variables_for(learner.candidates, names) if variables is None else tuple(variables)
        wanted = tuple(named_pairs(known, maps))
        page = Page(learner, known, target, None if identifiers is None else tuple(identifiers), wanted)
        content = campaign_page(title, page.sections(savings, notes))
    destination = Path(path)
    destination.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(destination, content.encode())


@final
@dataclass(frozen=True)
class Page:
    """The sections of the page, each as its blocks."""

    learner: ActiveLearner
    variables: tuple[Variable, ...]
    target: str
    identifiers: tuple[str, ...] | None = None
    maps: tuple[Pair, ...] = ()

    def sections(self, savings: Savings | None, notes: Sequence[str]) -> dict[str, Iterator[str]]:
        """All sections, by their headings."""
        return {
            "Where the campaign stands": self.standing(savings, notes),
            "What to label next": self.batch(),
            "Error over the rounds": self.curve(),
            "Prediction against measurement": self.agreement(),
            "Where labels are worth most": self.places(),
            "What prediction and complexity depend on": self.dependence(),
            "Failures": self.failures(),
            "Calibration of the intervals": self.calibration(),
            "History, settings and versions": self.record(),
        }

    def name(self, candidate: int) -> str | None:
        """What a candidate of a pool is called; none where points are not rows of anything."""
        named = row_name(self.learner.candidates, candidate)
        return named if named is None or self.identifiers is None else self.identifiers[candidate]

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """The models of all outputs; none where they are no mixtures, or there is none yet."""
        learner, X = self.learner, np.asarray(self.learner.labelled.X)
        candidates = learner.labelled.candidate.tolist()
        names = np.array([self.name(each) or f"label {place + 1}" for place, each in enumerate(candidates)])
        return tuple(
            Output.of(name, model, X, y, label_names=names, variables=self.variables)
            for name, model, y in mixtures_of(learner, self.target)
        )

    @cached_property
    def landscape(self) -> Landscape:
        """What the model says about the candidates."""
        return landscape(self.learner, self.variables, {output.name: output.model for output in self.outputs})

    @cached_property
    def sample(self) -> Float[ndarray, "n d"]:
        """Model inputs of some candidates."""
        rows = np.random.default_rng(0).permutation(len(self.learner.candidates))[:MOST_CANDIDATES]
        return np.asarray(self.learner.candidates.inputs_at(torch.from_numpy(np.sort(rows))), dtype=np.float64)

    def standing(self, savings: Savings | None, notes: Sequence[str]) -> Iterator[str]:
        """What there is, the error and its trend, savings and advice."""
        learner, summary = self.learner, self.learner.summary()
        yield lead_block(overview.counts(learner, summary, len(self.variables)))
        if learner.fitted is None:
            yield text_block(overview.NO_MODEL)
        yield facts_block({topic: " ".join(found) for topic, found in summary.topics(self.target).items() if found})
        if savings is not None and learner.fitted is not None:
            yield lead_block(f"measured against random labels: {savings.verdict()}")
        followed = overview.follows(learner) and learner.fitted is not None and is_even(self.landscape)
        yield from map(text_block, [*overview.practice(learner), *[overview.EVEN] * followed, *notes])
        if learner.fitted is not None:
            yield details_block("How the expected savings are estimated", [text_block(overview.caution(learner))])

    def batch(self) -> Iterator[str]:
        """The points of the last step that have no label yet, and those of earlier steps by name."""
        rows = batch_rows(self.learner, self.variables, self.name)
        waiting = earlier_points(self.learner, self.name)
        if waiting:
            yield text_block(waiting)
        if not rows:
            return
        yield batch_table(rows, self.variables, output_names(self.learner, self.target))
        shares = {row.reason.share for row in rows}
        yield from (text_block(f"{share}: {words}.") for share, words in SHARES.items() if share in shares)
        known = [NEARBY_CAPTION] * any(row.reason.between is not None for row in rows)
        known += [COMPLEXITY_CAPTION] * (self.learner.fitted is not None)
        yield from [text_block(" ".join(known))] if known else []

    def curve(self) -> Iterator[str]:
        """The error of every model, output by output."""
        curves = error_rounds(self.learner, self.target)
        if curves:
            figures = {f"error of {name}": error_curve_figure(rounds, name) for name, rounds in curves.items()}
            yield figures_block(figures, CURVE_CAPTION)
            if max(map(len, curves.values())) == 1:
                yield text_block(ONE_ROUND)

    def agreement(self) -> Iterator[str]:
        """Prediction against measurement."""
        if self.learner.fitted is not None and isinstance(self.learner.candidates.outputs, Curve):
            yield text_block(CURVES)
        yield from self._each(lambda output: agreement_blocks(output, output.left_out))

    def places(self) -> Iterator[str]:
        """Maps over pairs of variables; of one variable, prediction, bandwidth and training density."""
        if self.learner.fitted is None:
            return
        if len(self.variables) > 1:
            for pair in self.maps:
                yield figures_block(
                    map_figures(self.landscape, pair), f"{pair[0].name} and {pair[1].name}, as asked for."
                )
            first, *others = telling_pairs(self.landscape)
            yield figures_block(
                map_figures(self.landscape, first), EVEN_CAPTION if is_even(self.landscape) else MAP_CAPTION
            )
            for pair in others:
                figures = map_figures(self.landscape, pair)
                yield details_block(f"{pair[0].name} and {pair[1].name}", [figures_block(figures)])
            return
        variable = self.variables[0]
        if variable.levels:
            return
        for output in self.outputs:
            figures = line_figures(output.model, output.X, output.y, variable=variable, target=output.name)
            yield figures_block(figures, LINE_CAPTION + SHARES_OF_RANGE * (variable.values is not None))
        if not variable.is_whole:
            yield figure_block(training_histogram_figure(self.landscape), HISTOGRAM_CAPTION)

    def dependence(self) -> Iterator[str]:
        """Partial dependence; of one number, "Where labels are worth most" shows it already."""
        if len(self.variables) > 1 or self.variables[0].levels:
            yield from self._each(lambda output: dependence_blocks(output, self.sample))

    def failures(self) -> Iterator[str]:
        """Where labels failed."""
        ledger = self.learner.ledger
        candidates = ledger.candidates(ledger.failed).tolist()
        names = [self.name(each) or f"point {place + 1}" for place, each in enumerate(candidates)]
        yield from failure_blocks(self.learner, self.variables, names)

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
