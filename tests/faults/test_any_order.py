"""A learner does what a model of a few lines says, whatever the order of its calls, of kills and of restarts."""

import copy
import math
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lobal import ActiveLearner
from tests.faults.counting import counted, is_long
from tests.faults.disk import Disk, Killed
from tests.faults.setting import X, begun, let_go, state_of

ROWS = st.integers(0, len(X) - 1)
LABELS = st.floats(-10.0, 10.0) | st.just(math.nan)


class Model:
    """Points in the order they came, each with its labels; those without any are pending or failed."""

    def __init__(self) -> None:
        self.labels: dict[int, list[float]] = {}
        self.failed: set[int] = set()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and (self.labels, self.failed) == (other.labels, other.failed)

    __hash__ = None  # type: ignore[assignment]

    def expect(self, rows: list[int]) -> None:
        for row in rows:
            self.labels.setdefault(row, [])

    def tell(self, rows: list[int], labels: list[float]) -> None:
        self.expect(rows)
        for row, label in zip(rows, labels, strict=True):
            if math.isfinite(label):
                self.labels[row].append(label)
                self.failed.discard(row)
        self.give_up([row for row, label in zip(rows, labels, strict=True) if not math.isfinite(label)])

    def give_up(self, rows: list[int]) -> None:
        self.expect(rows)
        self.failed |= {row for row in rows if not self.labels[row]}

    @property
    def seen(self) -> tuple[list[tuple[int, float]], list[int], list[int]]:
        labelled = [(row, label) for row, labels in self.labels.items() for label in labels]
        pending = [row for row, labels in self.labels.items() if not labels and row not in self.failed]
        return labelled, pending, [row for row in self.labels if row in self.failed]


def seen(learner: ActiveLearner) -> tuple[list[tuple[int, float]], list[int], list[int]]:
    _, y, rows = learner.labelled
    return list(zip(rows.tolist(), y.tolist(), strict=True)), learner.pending.tolist(), learner.failed.tolist()


class AnyOrder(RuleBasedStateMachine):
    @initialize(is_saved=st.booleans())
    def begin(self, is_saved: bool) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.disk = Disk(self.folder)
        self.patch = self.disk.in_use()
        self.patch.__enter__()
        self.path = self.folder / "campaign"
        self.learner, self.model, self.is_saved = begun(self.path if is_saved else None), Model(), is_saved
        self.past: list[tuple[Model, list[Any]]] = []  # before each of the calls that changed something

    def changed(self, before: tuple[Model, list[Any]]) -> None:
        if self.model != before[0]:
            self.past.append(before)

    @property
    def now(self) -> tuple[Model, list[Any]]:
        return copy.deepcopy(self.model), state_of(self.learner)

    @precondition(lambda self: len(self.model.labels) < 50)
    @rule(n=st.integers(1, 6))
    def ask(self, n: int) -> None:
        before = self.now
        batch = self.learner.ask(n).tolist()
        assert len(set(batch)) == n
        assert not set(batch) & set(self.model.labels)
        self.model.expect(batch)
        self.changed(before)

    @rule(labels=st.lists(st.tuples(ROWS, LABELS), max_size=5))
    def tell(self, labels: list[tuple[int, float]]) -> None:
        rows, values = [row for row, _ in labels], [value for _, value in labels]
        before = self.now
        self.learner.tell(rows, values)
        self.model.tell(rows, values)
        self.changed(before)

    @rule(values=st.lists(LABELS, max_size=6))
    def tell_pending(self, values: list[float]) -> None:
        rows = self.learner.pending.tolist()[: len(values)]
        before = self.now
        self.learner.tell(rows, values[: len(rows)])
        self.model.tell(rows, values[: len(rows)])
        self.changed(before)

    @rule(rows=st.lists(ROWS, max_size=4))
    def expect(self, rows: list[int]) -> None:
        before = self.now
        self.learner.expect(rows)
        self.model.expect(rows)
        self.changed(before)

    @rule(row=ROWS)
    def give_up(self, row: int) -> None:
        before = self.now
        self.learner.give_up([row])
        self.model.give_up([row])
        self.changed(before)

    @rule()
    def give_up_all(self) -> None:
        before = self.now
        self.learner.give_up()
        self.model.give_up(self.model.seen[1])
        self.changed(before)

    @precondition(lambda self: self.past)
    @rule(times=st.integers(1, 3))
    def undo(self, times: int) -> None:
        for _ in range(min(times, len(self.past))):
            self.model, state = self.past.pop()
            assert self.learner.undo().startswith("Undone: ")
            assert state_of(self.learner) == state

    @precondition(lambda self: not self.past)
    @rule()
    def undo_nothing(self) -> None:
        with pytest.raises(ValueError, match="there is nothing to undo"):
            self.learner.undo()

    @precondition(lambda self: self.is_saved and self.past)
    @rule(place=st.integers(0, 6))
    def killed_undoing(self, place: int) -> None:
        """The event is undone as a whole, or not at all."""
        now = self.now
        try:
            with Disk(self.folder, fault_at=place, fault=Disk.die).in_use():
                self.learner.undo()
        except Killed:
            counted("kills")
        let_go()
        self.learner = ActiveLearner.load(self.path)
        state = state_of(self.learner)
        assert state in (now[1], self.past[-1][1])
        if state != now[1]:
            self.model, _ = self.past.pop()

    @precondition(lambda self: not self.is_saved)
    @rule()
    def save(self) -> None:
        self.learner.save(self.path)
        self.is_saved = True

    @precondition(lambda self: self.is_saved)
    @rule(is_closed=st.booleans())
    def load(self, is_closed: bool) -> None:
        self.learner.close() if is_closed else let_go()
        self.learner = ActiveLearner.load(self.path)

    @precondition(lambda self: self.is_saved and len(self.model.labels) < 50)
    @rule(place=st.integers(0, 12), row=ROWS, label=LABELS, is_asked=st.booleans())
    def killed(self, place: int, row: int, label: float, is_asked: bool) -> None:
        """Of the events of a call that was killed, those on disk count, in their order."""
        now = self.now
        before, after = self.model, copy.deepcopy(self.model)
        work: Callable[[], Any] = lambda: self.learner.tell([row], [label])  # noqa: E731
        if is_asked:
            work = lambda: self.learner.ask(2)  # noqa: E731
        entered = copy.deepcopy(before)
        entered.expect([row])
        after.tell([row], [label])
        try:
            with Disk(self.folder, fault_at=place, fault=Disk.die).in_use():
                work()
        except Killed:
            counted("kills")
        let_go()
        self.learner = ActiveLearner.load(self.path)
        if is_asked:
            batch = self.learner.pending.tolist()[len(before.seen[1]) :]
            assert len(batch) in (0, 2)
            before.expect(batch)
        else:
            (self.model,) = [model for model in (before, after, entered) if model.seen == seen(self.learner)][:1]
        self.changed(now)

    @invariant()
    def is_as_the_model_says(self) -> None:
        if not hasattr(self, "learner"):
            return
        assert seen(self.learner) == self.model.seen
        if self.is_saved:
            assert seen(ActiveLearner.read(self.path)) == self.model.seen
        counted("states in any order")

    def teardown(self) -> None:
        if hasattr(self, "learner"):
            self.learner.close()
            self.patch.__exit__(None, None, None)
            shutil.rmtree(self.folder)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=150 if is_long() else 30,
    stateful_step_count=30 if is_long() else 12,
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
TestAnyOrder = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")(
    TestAnyOrder
)
