"""Growing campaigns that are killed at random instants: no label is lost, none is made twice, the points are the same.

`LOBAL_FAULTS=long` kills each ten times, and also one that has a Dask cluster of its own; otherwise twice.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import pytest

from lobal import ActiveLearner
from lobal.active.campaign.journal import parse_journal
from lobal.molecules.dynamics.workers import Workers
from tests.faults.counting import counted, is_long
from tests.faults.growing_campaign import BUDGET, FIRST, NUMBER, Logged, grow, name_of, potential

Undisturbed: TypeAlias = Callable[[int], ActiveLearner]

ROOT = Path(__file__).parents[2]
PROGRAM = "from tests.faults.growing_campaign import main; main()"
KILLS = 10 if is_long() else 2
# Seconds from when workers can take calls to a kill, at most. A campaign that is not killed takes about 4, so that ten
# kills fall into all parts of it.
LATEST = 1.8


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The campaign of a seed in this process."""

    @cache
    def grown(seed: int) -> ActiveLearner:
        folder = tmp_path_factory.mktemp("undisturbed") / "campaign"
        with Workers(potential) as workers:
            grow(folder, workers, seed)
        return ActiveLearner.read(folder)

    return grown


@final
@dataclass
class Disturbed:
    """A campaign in processes that are killed."""

    root: Path
    seed: int
    workers: str
    chance: random.Random
    kills: int = 0
    workers_killed: int = 0
    before: list[dict[Any, Any]] = field(default_factory=list)  # labels on disk at each kill

    @property
    def folder(self) -> Path:
        return self.root / "campaign"

    @property
    def calls(self) -> list[str]:
        return Logged(self.root / "log").made()

    def run(self, most: int) -> None:
        """Let the campaign get to its end, killed so many times on the way; fewer if that comes sooner."""
        while self.kills < most:
            with self._begun() as (process, pids):
                if self._ends_within(LATEST * self.chance.random(), process, pids):
                    return
            self.kills += 1
            self.before.append(labels_in(self.folder))
        with self._begun() as (process, _):
            assert process.wait(120) == 0, (self.root / "errors").read_text()

    @contextmanager
    def _begun(self) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
        """The campaign's process, whose workers can take calls, and their numbers; all are killed at the end."""
        arguments = (self.folder, self.root / "log", self.seed, self.workers)
        words = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "cwd": ROOT, "start_new_session": True}
        with (self.root / "errors").open("a") as errors, subprocess.Popen(words, stderr=errors, **options) as process:
            try:
                ready = process.stdout.readline().split() if process.stdout else []
                assert ready[:1] == ["ready"], (self.root / "errors").read_text()
                yield process, [int(word) for word in ready[1:]]
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def _ends_within(self, seconds: float, process: subprocess.Popen[str], pids: list[int]) -> bool:
        """Whether the campaign does; before that, a worker whose number is known may be killed."""
        if pids and self.chance.random() < 0.5:
            share = self.chance.random()
            time.sleep(share * seconds)
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(pids), signal.SIGKILL)
                self.workers_killed += 1
            seconds *= 1.0 - share
        try:
            assert process.wait(seconds) == 0, (self.root / "errors").read_text()
        except subprocess.TimeoutExpired:
            return False
        return True


def labels_in(folder: Path) -> dict[Any, Any]:
    """The labels on disk by their place, each of which has one at most."""
    labels: dict[Any, Any] = {}
    for path in (folder / "start.jsonl", folder / "journal.jsonl"):
        events = parse_journal(path.read_bytes(), path, is_checked=True).events if path.exists() else []
        for event in events:
            if event["event"] == "call":
                found = [((event["step"], event["walker"]), event["row"])]
            else:
                found = list(zip(event.get("points", []), event.get("labels", []), strict=True))
            assert labels.keys().isdisjoint(place for place, _ in found)
            labels.update(found)
    return labels


def assert_nothing_is_lost_or_repeated(campaign: Disturbed) -> None:
    labels = labels_in(campaign.folder)
    for before in campaign.before:
        assert before == {place: labels.get(place) for place in before}
    n_made = len(labels) - FIRST  # the first ones to learn from are frames of the start
    in_flight = NUMBER * (campaign.kills + campaign.workers_killed)
    assert n_made <= len(campaign.calls) <= n_made + in_flight


def assert_labels_are_right(learner: ActiveLearner, calls: list[str]) -> None:
    R, rows = learner.labelled.X, learner.labelled.y
    names = [name_of(each) for each in R[FIRST:]]
    assert len(set(names)) == len(names) == BUDGET - FIRST
    assert set(names) <= set(calls)
    energies, forces = potential(R)
    np.testing.assert_array_equal(rows, np.column_stack([energies, forces.reshape(len(R), -1)]))


def assert_the_same(learner: ActiveLearner, other: ActiveLearner) -> None:
    """Points, labels, and what is said of every pool but how long it took."""
    np.testing.assert_array_equal(learner.labelled.X, other.labelled.X)
    np.testing.assert_array_equal(learner.labelled.y, other.labelled.y)
    mine, theirs = ([{**each, "seconds": 0.0} for each in one.growths] for one in (learner, other))
    assert mine == theirs


def assert_goes_on(root: Path, workers: str, chance: random.Random, undisturbed: Undisturbed) -> None:
    """Whatever is killed, a campaign ends with the same labels; further ones follow until there were enough kills."""
    kills = 0
    for seed in range(KILLS + 1):
        folder = root / str(seed)
        folder.mkdir()
        campaign = Disturbed(folder, seed, workers, chance)
        campaign.run(KILLS - kills)
        kills += campaign.kills
        counted("kills of growing campaigns", campaign.kills)
        counted("kills of their Dask workers", campaign.workers_killed)
        learner = ActiveLearner.read(campaign.folder)
        assert_nothing_is_lost_or_repeated(campaign)
        assert_labels_are_right(learner, campaign.calls)
        assert_the_same(learner, undisturbed(seed))
        if kills == KILLS:
            return
    raise AssertionError(f"{kills} kills, expected {KILLS}: campaigns end too soon")


def test_with_processes(tmp_path: Path, undisturbed: Undisturbed) -> None:
    assert_goes_on(tmp_path, "processes", random.Random(0), undisturbed)


def test_with_a_dask_cluster_that_stays_and_whose_workers_are_killed(tmp_path: Path, undisturbed: Undisturbed) -> None:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": NUMBER, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(processes=True, **options) as cluster:
        assert_goes_on(tmp_path, cluster.scheduler_address, random.Random(1), undisturbed)


@pytest.mark.skipif(not is_long(), reason="takes a minute; LOBAL_FAULTS=long")
def test_with_a_dask_cluster_that_is_killed_too(tmp_path: Path, undisturbed: Undisturbed) -> None:
    pytest.importorskip("distributed")
    assert_goes_on(tmp_path, "dask", random.Random(2), undisturbed)
