"""A campaign as one web page that needs nothing but itself: no scripts, no links, figures inside."""

import base64
import io
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from matplotlib.figure import Figure

from lobal import __version__
from lobal.learner import ActiveLearner
from lobal.record import write_atomically
from lobal.report.campaign_figures import (
    Curve,
    complexity_panels_figure,
    density_map_figure,
    learning_curve_figure,
    training_histogram_figure,
)
from lobal.report.figures import bandwidth_figure
from lobal.report.landscape import landscape
from lobal.report.savings import Savings, expectation

RESOLUTION = 110  # dots per inch: sharp on a page, small in a file
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")  # what the numbers depend on, besides lobal
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
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
figure { margin: 1.2rem 0; } figcaption { color: var(--quiet); font-size: .9rem; }
img { max-width: 100%; background: #ffffff; border-radius: .4rem; }
"""


class Lead(NamedTuple):
    """The sentence a reader should not miss."""

    text: str


class Rows(NamedTuple):
    """A table."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]


class Picture(NamedTuple):
    """A figure and what is to be seen in it."""

    figure: Figure
    caption: str


Block: TypeAlias = str | Lead | Rows | Picture


class Section(NamedTuple):
    """A part of a page under its heading."""

    heading: str
    blocks: Sequence[Block]


def campaign_page(title: str, sections: Sequence[Section]) -> str:
    """One self-contained HTML page; all text is escaped."""
    body = "\n".join(
        f"<section>\n<h2>{escape(heading)}</h2>\n" + "\n".join(map(_block, blocks)) + "\n</section>"
        for heading, blocks in sections
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


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
        path: the file; folders are made where they are missing.
        title: of the page.
        names: of the input columns.
        savings: measured against random labels, where there are any to compare with.
        notes: sentences to begin with, such as what was left out of the data.
    """
    sections = [
        Section("What there is to gain", _gain(learner, savings, notes)),
        Section("Where labels are worth most", list(_places(learner, names))),
        Section("History", list(_history(learner))),
        Section("Settings", [Rows(("setting", "value"), list(_flat(learner.settings)))]),
        Section("Versions", [Rows(("package", "version"), list(_versions().items()))]),
    ]
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, campaign_page(title, [section for section in sections if section.blocks]).encode())


def _gain(
    learner: ActiveLearner,
    savings: Savings | None,
    notes: Sequence[str],
) -> list[Block]:
    total, d = learner.candidates.X.shape
    columns = "one input column" if d == 1 else f"{d} input columns"
    counts = f"{len(learner.labelled.y)} labels so far; {total} candidates with {columns}."
    blocks: list[Block] = [counts, *notes]
    if learner.model is None:
        return [Lead("too few labels for a model yet: the next ones are drawn at random"), *blocks]
    attainable = learner.headroom()
    estimate = (
        f"Expected from the local complexity: rho = {attainable:.2f}, the share of random labels that reach the same "
        "error. It is an estimate, and its noise makes it optimistic."
    )
    leads = [expectation(attainable)] if savings is None else [savings.verdict(), expectation(attainable)]
    return [*map(Lead, leads), *blocks, estimate]


def _places(
    learner: ActiveLearner,
    names: Sequence[str] | None,
) -> Iterator[Block]:
    """Figures that fit the number of input columns."""
    if learner.model is None:
        return
    place = landscape(learner, names)
    if len(place.names) == 1:
        X, y = np.asarray(learner.labelled.X, dtype=np.float64), np.asarray(learner.labelled.y, dtype=np.float64)
        fitted = bandwidth_figure({"prediction": learner.model}, X, y)
        yield Picture(fitted, "The labels and the model; below, how far it can average: small means complex.")
        yield Picture(
            training_histogram_figure(place), "Where labels are, and the densities they do and should follow."
        )
    elif len(place.names) == 2:
        yield Picture(
            density_map_figure(place), "Small bandwidth means complex; bright is where labels are worth most."
        )
    else:
        caption = "How complexity is distributed, and its course along the two columns it depends on most."
        yield Picture(complexity_panels_figure(place), caption)


def _history(learner: ActiveLearner) -> Iterator[Block]:
    steps = learner.history.steps
    if not steps:
        return
    fields = ("number", "size", "batch", "gamma_1", "gamma_2", "validation_error", "noise", "attainable")
    header = (
        "step",
        "labels",
        "asked for",
        "gamma_1",
        "gamma_2",
        "validation error",
        "noise variance",
        "attainable rho",
    )
    yield Rows(header, [[getattr(step, field) for field in fields] for step in steps])
    known = {step.size: step.validation_error for step in steps if step.validation_error}
    if len(known) > 1:
        curve = Curve(list(known), np.array([list(known.values())]))
        caption = "The error on labels set aside, noise included: a rough guide, as they are few and change every step."
        yield Picture(learning_curve_figure({"validation error": curve}), caption)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), "lobal": __version__, **{name: version(name) for name in PACKAGES}}


def _block(block: Block) -> str:
    match block:
        case Lead(text):
            return f'<p class="lead">{escape(text[:1].upper() + text[1:])}</p>'
        case Rows(header, rows):
            lines = [_line("th", header), *(_line("td", row) for row in rows)]
            return '<div class="table"><table>\n' + "\n".join(lines) + "\n</table></div>"
        case Picture(figure, caption):
            return (
                f'<figure><img alt="{escape(caption)}" src="data:image/png;base64,{_png(figure)}">'
                f"<figcaption>{escape(caption)}</figcaption></figure>"
            )
        case text:
            return f"<p>{escape(text)}</p>"


def _line(tag: str, cells: Sequence[object]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(_cell(cell))}</{tag}>" for cell in cells) + "</tr>"


def _cell(value: object) -> str:
    if value is None:
        return "–"  # noqa: RUF001 - a dash, as nothing was measured
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _png(figure: Figure) -> str:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=RESOLUTION)
    return base64.b64encode(content.getvalue()).decode()
