"""A campaign as one self-contained web page: no scripts, no links, figures inside."""

import base64
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from lobal.active.learner import ActiveLearner
from lobal.core.files import write_atomically
from lobal.core.versions import versions
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.campaign_figures import (
    Curve,
    complexity_panels_figure,
    landscape,
    learning_curve_figure,
    training_histogram_figure,
)
from lobal.report.figures import bandwidth_figure
from lobal.report.savings import Savings, expectation

RESOLUTION = 110  # dots per inch: sharp on a page, small in a file

CAUTION = (
    "The share of the labels that following the local complexity saves, for the same error, against points that follow "
    "an even density in the same way. It is estimated from the errors of the labels so far, each predicted from all "
    "others, and from how fast errors fall in the limit of many labels; ± is one standard error, of chance and of this "
    "prediction. What spreading the points evenly saves against random labels is not part of it and is not predicted: "
    "docs/peers.md has what it saved in tests. Use it to tell a lot from nothing, not to plan a budget."
)
FORMULA_CAUTION = (
    "The share of the labels that active learning saves against random labels for the same error, expected from how "
    "much the local complexity varies, since the errors of the labels are not known. It is correct in the limit of "
    "many labels, and optimistic for few, since errors of the estimated complexity look like variation. Use it to tell "
    "a lot from nothing, not to plan a budget."
)
# What the learner does, by the trust of the last step, with designs that follow the superior density.
PRACTICE = {
    0.0: "The last points were spread as if the target were equally complex everywhere: the errors of the labels do "
    "not show that following the local complexity pays.",
    0.5: "The last points follow half of the local complexity (its square root): the errors of the labels do not show "
    "that more or less of it pays.",
    1.0: "The last points follow the local complexity.",
}
AS_SET = "The last points were spread as if the target were equally complex everywhere, as the settings say."
LINE_CAPTION = (
    "Above, labels and prediction. Below, the local bandwidth (LOB): the distance over which labels can be averaged "
    "without blurring the target. Where it is small, the target is complex. Grey lines: bandwidths of the experts."
)
HISTOGRAM_CAPTION = (
    "Bars: labelled inputs, and inputs suggested next. Black: the density that they were drawn from. Orange: the "
    "superior training density estimated from the labels so far."
)
PANELS_CAPTION = (
    "Above, the distribution of the local complexity over the candidates, and the complexity against the two columns "
    "it depends on most: dots are candidates, lines their mean. Below, the candidates in these two columns; labels are "
    "most useful where the superior training density is bright."
)
CURVE_CAPTION = "The validation error of every step, noise of the labels included."
# Columns of the history, and the fields of a step they show.
HISTORY = {
    "step": "number",
    "labels before": "size",
    "asked for": "batch",
    "validation error": "validation_error",
    "noise variance": "noise",
    "rho": "attainable",
    "trust": "trust",
    "check points": "check",
    "gamma_1": "gamma_1",
    "gamma_2": "gamma_2",
}
HISTORY_KEY = (
    "Validation error, noise variance, rho and trust are those of the model at the start of the step. rho: the "
    "relative sample size that the superior density reaches, against random labels, if the estimated complexity is "
    "right. trust: how far the points follow the local complexity; 0 not at all, 0.5 its square root, 1 all of it. "
    "check points: how many of the points asked for were drawn from the test density, to check what the others gain. "
    "gamma_1: the largest ratio of the training density to the target density. gamma_2: the share of the old training "
    "density in the new one; 0 means that the target density was reached."
)
STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --quiet: #5c5c5c; --page: #fff; --line: #d9d9d9; --lead: #eef4f8; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --quiet: #a3a3a3; --page: #17191c; --line: #3a3d42; --lead: #202a31; }
}
body { margin: 2rem auto; max-width: 62rem; padding: 0 1.2rem; color: var(--text); background: var(--page);
       font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.lead { background: var(--lead); padding: .8rem 1rem; border-radius: .4rem; font-size: 1.1rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .25rem 1.1rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
figure { margin: 1.2rem 0; } figcaption { color: var(--quiet); font-size: .9rem; }
img { max-width: 100%; background: #ffffff; border-radius: .4rem; }
"""


def campaign_page(title: str, sections: Mapping[str, Iterable[str]]) -> str:
    """One self-contained HTML page: the blocks of every section under its heading; empty sections are left out."""
    parts = {escape(heading): "\n".join(blocks) for heading, blocks in sections.items()}
    body = "\n".join(f"<section>\n<h2>{name}</h2>\n{part}\n</section>" for name, part in parts.items() if part)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def text_block(text: str) -> str:
    """A paragraph."""
    return f"<p>{escape(text)}</p>"


def lead_block(text: str) -> str:
    """The main statement of a section."""
    return f'<p class="lead">{escape(text[:1].upper() + text[1:])}</p>'


def table_block(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table."""
    lines = [_line("th", header), *(_line("td", row) for row in rows)]
    return '<div class="table"><table>\n' + "\n".join(lines) + "\n</table></div>"


def figure_block(figure: Figure, caption: str) -> str:
    """A figure and its caption."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=RESOLUTION)
    source = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"
    words = escape(caption)
    return f'<figure><img alt="{words}" src="{source}"><figcaption>{words}</figcaption></figure>'


def campaign_report(
    learner: ActiveLearner,
    path: str | os.PathLike[str],
    *,
    title: str = "Active learning campaign",
    names: Sequence[str] | None = None,
    savings: Savings | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the page of a campaign.

    Args:
        learner: the `ActiveLearner`.
        path: the file; missing folders are created.
        title: title of the page.
        names: names of the input columns.
        savings: savings measured against random labels, if there are any.
        notes: further sentences for the first section, such as what was left out of the data.
    """
    sections = {
        "What there is to gain": _gain(learner, savings, notes),
        "Where labels are worth most": _places(learner, names),
        "History": _history(learner),
        "Settings": _settings(learner),
        "Versions": [table_block(("package", "version"), versions().items())],
    }
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, campaign_page(title, sections).encode())


def _gain(learner: ActiveLearner, savings: Savings | None, notes: Sequence[str]) -> Iterator[str]:
    """Expected savings with a caution and what the learner does, then measured ones."""
    if learner.fitted is None:
        yield lead_block("too few labels for a model yet: the next points do not depend on the labels")
    else:
        expected = learner.expected_savings()
        yield lead_block(f"expected: {expectation(expected)}")
        yield text_block(CAUTION if expected is None or expected.by_chance is not None else FORMULA_CAUTION)
        yield from map(text_block, _practice(learner))
        if savings is not None:
            yield lead_block(f"measured against random labels: {savings.verdict()}")
    yield from map(text_block, [_counts(learner), *notes])


def _practice(learner: ActiveLearner) -> list[str]:
    """What the points of the last step follow, in one sentence; none before there was a model."""
    trust = learner.history[-1].trust if len(learner.history) else None
    if trust is None or learner.settings.exploration == 1.0:
        return []
    return [AS_SET if learner.settings.complexity == "constant" else PRACTICE[trust]]


def _counts(learner: ActiveLearner) -> str:
    total, d = learner.candidates.X.shape
    numbers = {"labels so far": len(learner.labelled.y), "to come": len(learner.pending), "failed": len(learner.failed)}
    counted = ", ".join(f"{number} {name}" for name, number in numbers.items() if number or name == "labels so far")
    return f"{counted}; {total} candidates with {'one input column' if d == 1 else f'{d} input columns'}."


def _places(learner: ActiveLearner, names: Sequence[str] | None) -> Iterator[str]:
    """The figures for this number of input columns."""
    if learner.fitted is None:
        return
    place = landscape(learner, names)
    if len(place.names) > 1:
        yield figure_block(complexity_panels_figure(place), PANELS_CAPTION)
        return
    if isinstance(learner.model, MixtureRegressor):
        X, y = (np.asarray(values, dtype=np.float64) for values in learner.labelled[:2])
        yield figure_block(bandwidth_figure({"mixture": learner.model}, X, y, column=place.names[0]), LINE_CAPTION)
    yield figure_block(training_histogram_figure(place), HISTOGRAM_CAPTION)


def _history(learner: ActiveLearner) -> Iterator[str]:
    steps = learner.history.steps
    if not steps:
        return
    yield table_block(HISTORY, [[getattr(step, field) for field in HISTORY.values()] for step in steps])
    yield text_block(HISTORY_KEY)
    known = {step.size: step.validation_error for step in steps if step.validation_error}
    if len(known) > 1:
        curve = Curve(list(known), np.array([list(known.values())]))
        yield figure_block(learning_curve_figure({"validation error": curve}), CURVE_CAPTION)


def _settings(learner: ActiveLearner) -> Iterator[str]:
    """The settings of the learner, and options of the model that differ from their defaults."""
    changed = learner.surrogate.changed_options
    rows = [*learner.settings.to_fields().items(), *((f"model.{name}", value) for name, value in changed.items())]
    yield table_block(("setting", "value"), rows)
    yield text_block("All other options of the model have their default values.")


def _line(tag: str, cells: Iterable[object]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(_cell(cell))}</{tag}>" for cell in cells) + "</tr>"


def _cell(value: object) -> str:
    if value is None:
        return "–"  # noqa: RUF001 - a dash, as nothing was measured
    return f"{value:.4g}" if isinstance(value, float) else str(value)
