"""Where labels failed."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.active.learner import ActiveLearner
from lobal.report.blocks import details_block, table_block, text_block
from lobal.report.campaign_figures import inputs_of
from lobal.report.variables import Variable

MIDDLE = "median, or most frequent"
MOST_LISTED = 50  # failed points in the table


def failure_blocks(learner: ActiveLearner, variables: Sequence[Variable], names: Sequence[str | None]) -> Iterator[str]:
    """The share of points that failed, where they lie against those with labels, and each of them."""
    failed, labelled = inputs_of(learner, learner.ledger.failed), learner.labelled
    if not len(failed):
        return
    done = len(failed) + len(labelled.y)
    yield text_block(
        f"{len(failed)} of {done} labels failed ({len(failed) / done:.0%}). They are not learned from and not asked "
        "for again; crosses in the maps."
    )
    others = np.asarray(labelled.X if learner.is_box else learner.candidates.X[labelled.candidate], dtype=np.float64)
    header = ("variable", "failed: lowest", MIDDLE, "highest", "labelled: lowest", MIDDLE, "highest")
    yield table_block(header, (_extent(variable, failed, others) for variable in variables))
    listed = [[name, *_inputs(variables, row)] for name, row in zip(names, failed[:MOST_LISTED], strict=False)]
    yield details_block(
        f"The {'first ' if len(failed) > MOST_LISTED else ''}{len(listed)} points that failed",
        [table_block(("point", *(variable.title for variable in variables)), listed)],
    )


def _extent(variable: Variable, *groups: Float[ndarray, "_ d"]) -> list[object]:
    """Lowest, median and highest value in each group; the most frequent level of a category instead."""
    cells: list[object] = [variable.title]
    for points in groups:
        values = variable.at(points)
        if variable.levels or not len(values):
            most = (
                [None, variable.levels[np.bincount(values.astype(int)).argmax()], None] if len(values) else [None] * 3
            )
            cells += most
        else:
            cells += [float(each) for each in np.quantile(values, [0.0, 0.5, 1.0])]
    return cells


def _inputs(variables: Sequence[Variable], row: Float[ndarray, " d"]) -> list[object]:
    return [variable.shown(float(variable.at(row[None])[0])) for variable in variables]
