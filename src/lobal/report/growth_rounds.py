"""The rounds of a force field that simulated its own pools, as a table and as a learning curve."""

from collections.abc import Iterator

from lobal.molecules.dynamics.growth import Round
from lobal.report.blocks import details_block, figure_block, table_block, text_block
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
KEY = (
    "Labels: configurations whose energy and forces were computed and learned from before the round. Errors: root mean "
    "square, of each component of the forces, at configurations that no force field has learned from. Pool: "
    "configurations that the force field of the round simulated, to choose the next labels from. Resets: how often a "
    "simulated molecule left what is known and was set back. Coverage: share of the pool that is as near to a label as "
    "labels are to each other; about 90% where the simulation stays among the labels. Expected savings: share of the "
    "labels that choosing by complexity is expected to save against random ones. Time: of fit and simulation."
)
CAPTION = (
    "The error of the forces, root mean square, at configurations that no force field has learned from, against the "
    "number of labels that it has learned from."
)
UNKNOWN = "Pools were replaced without a record of the rounds."


def rounds_blocks(rounds: tuple[Round, ...], curve: tuple[Point, ...]) -> Iterator[str]:
    """The table, the key to it, and the curve of force errors in eV / Angstrom."""
    if rounds:
        yield table_block(COLUMNS, map(_line, rounds))
        yield details_block("What the columns are", [text_block(KEY)])
    else:
        yield text_block(UNKNOWN)
    if curve:
        points = tuple(Point(labels=each.labels, error=1e3 * each.error) for each in curve)
        yield figure_block(error_curve_figure(points, FORCES), CAPTION)


def _line(each: Round) -> list[object]:
    return [
        each.number,
        each.labels,
        _thousandths(each.force_rmse),
        _thousandths(each.energy_rmse),
        each.pool,
        each.resets,
        _percent(each.coverage),
        _percent(each.savings),
        f"{each.seconds:.0f}" if each.seconds else None,
    ]


def _thousandths(value: float | None) -> str | None:
    return None if value is None else f"{1e3 * value:.1f}"


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
