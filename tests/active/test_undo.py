"""Taking back the last call: all is as it was before it, in memory and on disk."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lobal import ActiveLearner, Box, MixtureRegressor
from lobal.active.campaign import steps
from tests.faults.setting import X, begun, label, state_of


def told(learner: ActiveLearner, n: int) -> None:
    batch = learner.ask(n)
    learner.tell(batch, np.sin(9.0 * X[batch, 0]))


def two_others(learner: ActiveLearner) -> list[int]:
    """Rows that are neither labelled nor pending; which these are depends on torch's random numbers."""
    known = {*learner.labelled.candidate.tolist(), *learner.pending.tolist()}
    return [row for row in range(len(X)) if row not in known][-2:]


CALLS = {
    "ask": lambda learner: learner.ask(3),
    "tell": lambda learner: learner.tell(learner.pending, [1.0, np.nan, 2.0]),
    "tell others": lambda learner: learner.tell(range(50, 60), [*range(9), np.nan]),
    "expect": lambda learner: learner.expect(two_others(learner)),
    "give up": lambda learner: learner.give_up(),
    "give up others": lambda learner: learner.give_up(two_others(learner)),
}
SENTENCES = {
    "ask": "Undone: the request for 3 points; none of them had a label",
    "tell": "Undone: 2 labels, 1 failure",
    "tell others": "Undone: 9 labels, 1 failure, ",
    "expect": "Undone: 2 points that had been expected",
    "give up": "Undone: 3 failures",
    "give up others": "Undone: 2 failures, 2 points that nobody had asked for",
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_saved", [True, False])
def test_all_is_as_it_was_before_the_call(name: str, is_saved: bool, tmp_path: Path) -> None:
    learner = begun(tmp_path / "campaign" if is_saved else None)
    told(learner, 12)
    learner.ask(3)
    before = state_of(learner)
    CALLS[name](learner)
    assert state_of(learner) != before
    assert learner.undo().startswith(SENTENCES[name])
    assert state_of(learner) == before
    if is_saved:
        assert state_of(ActiveLearner.read(tmp_path / "campaign")) == before
    learner.close()


@pytest.mark.parametrize("is_loaded", [True, False])
def test_repeated_it_goes_back_to_the_beginning(is_loaded: bool, tmp_path: Path) -> None:
    learner, past = begun(tmp_path / "campaign"), []
    for _ in range(4):
        past.append(state_of(learner))
        batch = learner.ask(6)
        past.append(state_of(learner))
        learner.tell(batch, label(X[batch]))
    for state in reversed(past):
        if is_loaded:
            learner.close()
            learner = ActiveLearner.load(tmp_path / "campaign")
        learner.undo()
        assert state_of(learner) == state
    with pytest.raises(ValueError, match="there is nothing to undo"):
        learner.undo()
    learner.close()


@pytest.mark.parametrize("is_saved", [True, False])
def test_the_same_points_are_asked_for_again(is_saved: bool, tmp_path: Path) -> None:
    model = MixtureRegressor(n_inducing=16, n_gate_inducing=8)
    path = tmp_path / "campaign" if is_saved else None
    with ActiveLearner(Box(0.0, 1.0, n_candidates=64), path=path, model=model) as learner:
        x = learner.ask(16)
        learner.tell(x, np.sin(9.0 * x[:, 0]))
        first, second = learner.ask(4), learner.ask(4)
        learner.undo()
        assert learner.ask(4).tolist() == second.tolist()
        learner.undo()
        learner.undo()
        assert learner.ask(4).tolist() == first.tolist()


def test_after_a_change_others_are_asked_for() -> None:
    learner = begun()
    told(learner, 12)
    batch = learner.ask(6)
    learner.undo()
    learner.tell([3, 5, 7], [30.0, 20.0, 10.0])
    assert learner.ask(6).tolist() != batch.tolist()


def test_nothing_is_deleted_from_the_journal(tmp_path: Path) -> None:
    with begun(tmp_path / "campaign") as learner:
        learner.tell([3], [7.25])
        before = (tmp_path / "campaign" / "journal.jsonl").read_bytes()
        learner.undo()
    after = (tmp_path / "campaign" / "journal.jsonl").read_bytes()
    assert after.startswith(before)
    event = json.loads(after.splitlines()[-1])
    assert (event["event"], event["events"], event["steps"]) == ("undone", 2, 0)


def test_a_campaign_saved_after_undoing_can_be_undone_further(tmp_path: Path) -> None:
    learner = begun()
    told(learner, 6)
    before = state_of(learner)
    for n in (12, 3):
        told(learner, n)
    learner.undo()
    learner.undo()
    learner.save(tmp_path / "campaign")
    learner.close()
    with ActiveLearner.load(tmp_path / "campaign") as learner:
        learner.undo()
        learner.undo()
        assert state_of(learner) == before


def test_a_step_without_a_model_leaves_none_of_an_undone_one(tmp_path: Path) -> None:
    with begun(tmp_path / "campaign") as learner:
        told(learner, 12)
        learner.ask(2)
        for _ in range(2):
            learner.undo()
        learner.give_up()
        learner.ask(2)
    with ActiveLearner.load(tmp_path / "campaign") as learner:
        assert learner.model is None
        assert len(learner.history) == 2


@pytest.mark.parametrize("is_saved", [True, False])
def test_what_is_too_long_ago_is_refused(is_saved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_KEPT", 3)
    learner = begun(tmp_path / "campaign" if is_saved else None)
    for _ in range(6):
        learner.ask(2)
    for _ in range(2):
        learner.undo()
    before = state_of(learner)
    with pytest.raises(ValueError, match=r"what was known after step 2 is not kept any more.*learner.give_up\(\)"):
        learner.undo()
    assert state_of(learner) == before
    learner.close()


IMPOSSIBLE = [
    ({"events": 9, "steps": 0}, "expected at most 2 events to be undone, got 9"),
    ({"events": 1, "steps": 1}, "expected 0 steps to be undone, got 1"),
    ({"events": 0, "steps": 0}, "undone.events must be a whole number from 1"),
    ({"events": 1}, "undone must have the entry 'steps'"),
]


@pytest.mark.parametrize(("fields", "message"), IMPOSSIBLE)
def test_an_event_that_cannot_be_undone_is_refused_with_its_line(
    fields: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with begun(tmp_path / "campaign") as learner:
        told(learner, 6)
        learner._state._record({"event": "undone", **fields})
    with pytest.raises(ValueError, match=rf"journal.jsonl, line 3 cannot be: {message}"):
        ActiveLearner.load(tmp_path / "campaign")


# The time of events.


def test_points_are_pending_since_they_were_asked_for(tmp_path: Path) -> None:
    begin = datetime.now(UTC) - timedelta(seconds=1)
    with begun(tmp_path / "campaign") as learner:
        learner.ask(2)
        learner.expect([59])
        since = learner.pending_since()
    with ActiveLearner.load(tmp_path / "campaign") as learner:
        assert learner.pending_since() == since
        learner.tell(learner.pending[:1], [1.0])
        assert learner.pending_since() == since[1:]
    assert all(time is not None and begin <= time <= datetime.now(UTC) for time in since)


def test_journals_without_times_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with begun(tmp_path / "campaign") as learner:
        monkeypatch.setattr("lobal.active.campaign.state.time.time", lambda: 5.0)
        learner.ask(1)
        event = {"event": "added", "candidates": [59], "inputs": [X[59].tolist()]}
        learner._state._campaign.append(event)  # type: ignore[union-attr]  # it has a folder
    assert ActiveLearner.read(tmp_path / "campaign").pending_since() == [datetime.fromtimestamp(5.0, UTC), None]


def test_a_time_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with begun(tmp_path / "campaign") as learner:
        event = {"event": "added", "candidates": [59], "inputs": [X[59].tolist()], "time": -1.0}
        learner._state._campaign.append(event)  # type: ignore[union-attr]  # it has a folder
    with pytest.raises(ValueError, match=r"line 1 cannot be: event.time must be a number from 0"):
        ActiveLearner.read(tmp_path / "campaign")
