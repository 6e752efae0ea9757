"""Labels that no model can be fitted with: typing errors, and numbers that stand for no result, such as 1e200."""

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from lobal.active.campaign.state import CampaignState
from lobal.mixture.units import LARGEST_SPREAD


def sentence_of_extreme_labels(state: CampaignState) -> str | None:
    """Which labels are so far from most others that variances are no numbers, and what to do; none if none are."""
    numbers, labels = state.ledger.labelled()
    columns = labels.reshape(len(labels), -1)
    are_extreme = extreme(columns)
    rows = np.flatnonzero(are_extreme.any(axis=1))
    if not len(rows):
        return None
    row = int(rows[0])
    value = columns[row][are_extreme[row]][0]
    (point,) = state.candidates.named(state.ledger.candidates([numbers[row]]), state.ledger.inputs([numbers[row]]))
    more = "" if len(rows) == 1 else f" and {len(rows) - 1} more labels, of rows {rows[1:].tolist()}"
    advice = (
        "take the call that told it back, with learner.undo() or `lobal campaign undo`, and tell the right label"
        if state.candidates.keeps_repeats
        else "tell the right label of the same point, which takes its place"
    )
    return (
        f"no model can be fitted with the label {value:g} of point {point}, row {row} of learner.labelled{more}: it is "
        f"more than {LARGEST_SPREAD:g} from the others, whose variance is then no floating-point number; {advice}"
    )


def extreme(columns: Float[ndarray, "n k"]) -> Bool[ndarray, "n k"]:
    """Which labels are too far from the median of their column; none of a column of which half of them are."""
    found = np.zeros(columns.shape, dtype=bool)
    for column, values in enumerate(columns.T):
        known = values[np.isfinite(values)]
        middle = float(np.median(known / 2.0)) if len(known) else 0.0  # halves, whose sums are numbers
        is_far = np.abs(values / 2.0 - middle) > LARGEST_SPREAD / 2.0
        found[:, column] = is_far & (np.abs(values / 2.0) > abs(middle)) & (2 * is_far.sum() < len(known))
    return found
