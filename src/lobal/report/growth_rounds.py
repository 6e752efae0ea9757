"""The rounds of a force field that simulated its own pools, as a table and as a learning curve."""

from collections.abc import Iterator

from lobal.molecules.dynamics.growth import Round
from lobal.report.blocks import details_block, facts_block, figure_block, table_block, text_block
from lobal.report.error_curve import Round as Point
from lobal.report.error_curve import error_curve_figure

FORCES = "forces (meV/Å)"
COLUMNS = (
    "round",
    "labels",
    "force error (meV/Å)",
    "energy error (meV)",
    "pool (configurations)",
    "resets",
    "coverage",
    "expected savings",
    "time (s)",
)
KEY = {
    "Labels": "Configurations whose energy and forces were computed, and which the force field was fitted to.",
    "Errors": "Root mean square, of each component of the forces, at configurations that no force field has learned "
    "from.",
    "Pool": "Configurations that the force field simulated, to choose the next labels from.",
    "Resets": "How often a simulated molecule left what the labels know and was set back to a labelled configuration.",
    "Coverage": "Share of the pool that is as near to a label as labels are to each other. It is about 90% where the "
    "simulation stays among the labels.",
    "Expected savings": "Share of the labels that choosing by complexity is expected to save against random ones.",
    "Time": "Of fit and simulation, without the labels.",
}
CAPTION = (
    "The error of the forces, root mean square, at configurations that no force field has learned from, against the "
    "number of labels that it has learned from."
)
UNKNOWN = "Pools were replaced without a record of the rounds."


def rounds_blocks(rounds: tuple[Round, ...], curve: tuple[Point, ...]) -> Iterator[str]:
    """The table, the key to it, and the curve of force errors in eV / Angstrom."""
    if rounds:
        yield table_block(COLUMNS, map(_line, rounds))
        yield details_block("What the columns are", [facts_block(KEY)])
    else:
        yield text_block(UNKNOWN)
    if curve:
        points = tuple(Point(labels=each.labels, error=1e3 * each.error) for each in curve)
        yield figure_block(error_curve_figure(points, FORCES), CAPTION)


def _line(each: Round) -> list[object]:
    return [
        each.number,
        each.labels,
        None if each.force_rmse is None else thousandths(each.force_rmse),
        None if each.energy_rmse is None else thousandths(each.energy_rmse),
        each.pool,
        each.resets,
        _percent(each.coverage),
        _percent(each.savings),
        f"{each.seconds:.0f}" if each.seconds else None,
    ]


def thousandths(value: float) -> str:
    """An error in eV or eV / Angstrom as a number of thousandths: 370.9, 0.0127."""
    return f"{1e3 * value:.1f}" if abs(value) >= 0.01 else f"{1e3 * value:.3g}"


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
