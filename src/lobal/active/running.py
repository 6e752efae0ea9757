"""A run: asking and labelling until a number of labels is reached."""

import logging
from collections.abc import Callable
from typing import final

from lobal.active.campaign.state import CampaignState
from lobal.active.labelling import Labelling

logger = logging.getLogger(__name__)

MOST_IN_VAIN = 3  # rounds one after the other in which points that make up for failures all fail


@final
class Run:
    """Reaches sizes, one after the other.

    Args:
        state: of the campaign.
        ask: asks for so many points, with the size that is aimed at; returns how many the budget allowed.
        labelling: has pending points labelled.
        show: takes an activity, for a status line.
    """

    def __init__(
        self,
        state: CampaignState,
        ask: Callable[[int, int], int],
        labelling: Labelling,
        show: Callable[[str], None],
    ) -> None:
        self._state, self._ask_for, self._labelling, self._show = state, ask, labelling, show
        self.is_spent = False  # whether the budget did not allow all points

    def reach(self, size: int, *, is_exact: bool) -> bool:
        """Ask and label up to that size, and make up for failures if it has to be exact; whether points were labelled.

        Points that were asked for in an earlier run to that size are labelled first: what comes then is the same.
        """
        missing = size - self._state.ledger.size
        if missing > 0 and not self._state.is_under_way(size):
            self._ask(missing, size)
        before = len(self._state.ledger.answered)
        self._label()
        if is_exact:
            self._make_up(size)
        return len(self._state.ledger.answered) > before

    def _make_up(self, size: int) -> None:
        """Ask for points in place of those that failed."""
        ledger, in_vain = self._state.ledger, 0
        while (missing := size - ledger.size) > 0 and not self.is_spent:
            n = min(missing, self._state.n_left(missing))
            if n == 0 or in_vain == MOST_IN_VAIN:
                reason = "the pool has no points left" if n == 0 else f"{in_vain} rounds of further points all failed"
                logger.warning("%d labels in place of %d: %s; run again to go on", size - missing, size, reason)
                return
            self._ask(n, size)
            before = ledger.n_labels
            self._label()
            in_vain = 0 if ledger.n_labels > before else in_vain + 1

    def _ask(self, n: int, size: int) -> None:
        self._show("fitting the model, choosing points")
        self.is_spent = self._ask_for(n, size) < n

    def _label(self) -> None:
        if self._state.ledger.pending:
            self._labelling.label_pending(lambda: self._show("waiting for labels"))
