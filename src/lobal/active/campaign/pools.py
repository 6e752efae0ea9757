"""Candidates that took the place of those a campaign began with, as files of its folder.

The journal says when: `{"event": "grown", "pool": 2, "n": 20000, "candidates": {...}}` is the second time, with the
fields that a header has of the first candidates. Points so far come first among the new candidates, in their order.
"""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.active.campaign.folder import Campaign
from lobal.active.campaign.ledger import GROWN, Event
from lobal.active.campaign.steps import CANDIDATES, KIND, resolved
from lobal.active.candidates import Candidates
from lobal.core.files import load_record
from lobal.core.schema import read_from, table, whole
from lobal.core.stored_tensors import StoredTensors

FIELDS = table({"pool": whole(1), "n": whole(1), "candidates": KIND})
WHAT = "the candidates of the campaign"


@final
class Pools:
    """The candidates after each growth that is in force, as far as they still matter: the last ones.

    `total` is how many growths there will have been once all events are replayed; nothing is read before the last.
    """

    def __init__(self, campaign: Campaign | None = None, *, total: int = 0, last: Candidates | None = None) -> None:
        self._campaign, self._last = campaign, last
        self.total = total

    def load(self, event: Event, drawn: Float[ndarray, "n d"]) -> Candidates:
        """The candidates of the last growth; `drawn` are the recorded inputs of the points so far.

        Raises:
            ValueError: the file is missing or damaged, or not that of the event.
        """
        if self._campaign is None:
            if self._last is None:
                raise ValueError("the candidates of a growth are known while the campaign is in memory only")
            return self._last
        path, fields = self._campaign.pool_path(event["pool"]), event["candidates"]
        try:
            tensors, _ = load_record(path)
        except (FileNotFoundError, ValueError) as error:
            raise ValueError(f"{path}, {WHAT}, cannot be read: {error}; restore it from a copy") from error
        kind = resolved(CANDIDATES, fields["kind"])
        with read_from(path, WHAT):
            kind.check_fields(fields)
            kind.check_tensors(StoredTensors(tensors), fields)
            candidates: Candidates = kind.from_tensors(tensors, fields, None)
            _check(candidates, event["n"], drawn)
        return candidates


def grown_event(number: int, candidates: Candidates) -> Event:
    """The event of the growth of that number, counted from one."""
    fields: Mapping[str, Any] = candidates.to_tensors()[1]
    return {"event": GROWN, "pool": number, "n": len(candidates), "candidates": {"kind": candidates.kind, **fields}}


def _check(candidates: Candidates, n: int, drawn: Float[ndarray, "n d"]) -> None:
    if len(candidates) != n:
        raise ValueError(f"there must be {n} candidates, got {len(candidates)}")
    first = np.arange(len(drawn))
    found = candidates.locate(candidates.batch(first, drawn))[1]
    if not np.array_equal(found, drawn):
        raise ValueError(f"its first {len(drawn)} candidates must be the points of the journal, got others")
