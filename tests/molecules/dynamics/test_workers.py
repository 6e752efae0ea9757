"""Workers that crash, hang and fail: what can be labelled is labelled, and nothing twice."""

import inspect
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal import ActiveLearner
from lobal.active.oracles import NoWorkersError
from lobal.molecules.dynamics.workers import PATIENCE, Workers, processes
from lobal.molecules.space import MoleculePool
from lobal.molecules.surrogate import ForceFieldSurrogate
from tests.molecules.dynamics.moody import WAYS, Moody, numbered
from tests.molecules.setting import water
from tests.molecules.test_growing import QUICK

FATAL = {"crash", "be_killed", "hang", "leave"}  # to a worker
MILD = sorted(WAYS.keys() - FATAL)


def labelled(workers: Workers, *numbers: int) -> list[int]:
    """Numbers of the configurations that have a label; labels are right."""
    rows = workers.label(numbered(*numbers))
    is_label = ~torch.isnan(rows).any(1)
    found = [number for number, has in zip(numbers, is_label.tolist(), strict=True) if has]
    assert rows[is_label, 0].tolist() == [10.0 + number for number in found]
    assert rows[is_label, 1:].unique(dim=1).flatten().tolist() == found
    return found


# In this process.


@pytest.mark.parametrize("way", MILD)
def test_a_call_that_fails_once_has_a_label(way: str, tmp_path: Path) -> None:
    oracle = Moody(tmp_path / "log", {1: way}, times=1)
    with Workers(oracle) as workers:
        assert labelled(workers, 0, 1, 2) == [0, 1, 2]
    assert oracle.made() == [0, 1, 1, 2]


@pytest.mark.parametrize("way", MILD)
def test_a_call_that_fails_twice_has_none(way: str, tmp_path: Path) -> None:
    oracle, records = Moody(tmp_path / "log", {1: way}), dict[int, Any]()
    with Workers(oracle) as workers:
        rows = workers.label(numbered(0, 1, 2), record=records.__setitem__)
    assert torch.isnan(rows).all(1).tolist() == [False, True, False]
    assert records == {0: rows[0].tolist(), 1: None, 2: rows[2].tolist()}
    assert oracle.made() == [0, 1, 1, 2]


def test_an_oracle_that_works_no_more_is_noticed_and_no_further_point_fails(tmp_path: Path) -> None:
    works, broken = Moody(tmp_path / "works"), Moody(tmp_path / "broken", {-1: "diverge"})
    records: dict[int, Any] = {}
    with Workers(works) as workers:
        assert labelled(workers, 7) == [7]
        workers.oracle = broken
        with pytest.raises(NoWorkersError, match=r"10 attempts failed .* worked before and fails now too; .*diverged"):
            workers.label(numbered(*range(20)), record=records.__setitem__)
    assert records == dict.fromkeys(range(PATIENCE // 2 - 1))
    assert broken.made()[-1] == 7  # the call that had worked


def test_many_bad_points_in_a_row_are_not_taken_for_a_broken_oracle(tmp_path: Path) -> None:
    oracle = Moody(tmp_path / "log", dict.fromkeys(range(1, 13), "diverge"))
    with Workers(oracle) as workers:
        assert labelled(workers, *range(14)) == [0, 13]
    assert oracle.made().count(0) == 3  # asked twice whether it still works


def test_labels_of_wrong_shape_end_it(tmp_path: Path) -> None:
    with Workers(lambda _: (np.zeros(1), np.zeros((1, 2, 3)))) as workers, pytest.raises(ValueError, match="forces"):
        workers.label(numbered(0))


def test_options_that_calls_in_this_process_cannot_have_are_refused(tmp_path: Path) -> None:
    for options in ({"number": 2}, {"timeout": 1.0}):
        with pytest.raises(ValueError, match="need make_executor, such as lobal"):
            Workers(Moody(tmp_path / "log"), **options)
    with pytest.raises(ValueError, match="number of workers must be"):
        Workers(Moody(tmp_path / "log"), processes, 0)
    with pytest.raises(ValueError, match=r"timeout must be above 0, got -1"):
        Workers(Moody(tmp_path / "log"), processes, timeout=-1.0)


def test_an_executor_in_place_of_what_makes_one_is_refused(tmp_path: Path) -> None:
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(TypeError, match=r"make_executor must be a function that returns an executor, .* got <conc"),
    ):
        inspect.unwrap(Workers.__init__)(Workers.__new__(Workers), Moody(tmp_path / "log"), executor)


# In other processes.


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_worker_that_fails_in_any_way_costs_one_label(way: str, tmp_path: Path) -> None:
    oracle = Moody(tmp_path / "log", {1: way})
    with Workers(oracle, processes, 2, timeout=5.0 if way != "hang" else 0.5) as workers:
        assert labelled(workers, *range(5)) == [0, 2, 3, 4]
    assert sorted(oracle.made()) == [0, 1, 1, 2, 3, 4]  # no other call is made twice


@pytest.mark.parametrize("way", sorted(FATAL))
def test_a_worker_that_is_lost_once_costs_no_label(way: str, tmp_path: Path) -> None:
    oracle = Moody(tmp_path / "log", {1: way}, times=1)
    with Workers(oracle, processes, timeout=0.5) as workers:
        assert labelled(workers, 0, 1, 2) == [0, 1, 2]
    assert oracle.made() == [0, 1, 1, 2]


def test_workers_that_all_die_end_a_run_and_leave_points_as_they_are(tmp_path: Path) -> None:
    oracle, records = Moody(tmp_path / "log", {-1: "crash"}), dict[int, Any]()
    with Workers(oracle, processes) as workers, pytest.raises(NoWorkersError, match=r"never worked since .* is lost"):
        workers.label(numbered(*range(20)), record=records.__setitem__)
    assert records == dict.fromkeys(range(PATIENCE // 2 - 1))


def test_an_oracle_that_cannot_be_sent_is_said_to_be_the_reason(tmp_path: Path) -> None:
    with Workers(lambda R: R, processes) as workers, pytest.raises(NoWorkersError, match="lambda"):
        workers.label(numbered(*range(9)))


def threads_and_signal(R: np.ndarray) -> Any:
    """Whether OMP_NUM_THREADS is set, and whether Ctrl-C is ignored."""
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return np.array([float("OMP_NUM_THREADS" in os.environ)]), np.full((1, 3, 3), float(is_ignored))


def test_processes_have_one_thread_and_leave_an_interrupt_to_the_campaign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    with Workers(threads_and_signal, processes) as workers:
        assert workers.label(numbered(0)).tolist() == [[0.0, *[1.0] * 9]]


def test_calls_in_threads_are_given_up_too(tmp_path: Path) -> None:
    is_over = threading.Event()

    def oracle(R: np.ndarray) -> Any:
        if R[0, 0, 0] == 1:
            is_over.wait()
        return np.zeros(1), np.zeros((1, 3, 3))

    with Workers(oracle, partial(ThreadPoolExecutor, 1), 2, timeout=0.2) as workers:
        rows = workers.label(numbered(0, 1, 2))
        is_over.set()
    assert torch.isnan(rows).any(1).tolist() == [False, True, False]


def test_what_hangs_is_ended_with_the_workers(tmp_path: Path) -> None:
    oracle = Moody(tmp_path / "log", {0: "hang"})
    errors: list[BaseException] = []

    def label() -> None:
        try:
            workers.label(numbered(0))
        except RuntimeError as error:
            errors.append(error)

    with Workers(oracle, processes) as workers:
        thread = threading.Thread(target=label)
        thread.start()
        while not oracle.made():
            time.sleep(0.01)
    thread.join()
    assert "the workers were closed" in str(errors[0])


# Campaigns.


def campaign(path: Path | None) -> ActiveLearner:
    """Twelve labels, to be had of configurations whose first coordinates are their numbers."""
    pool = water(40)
    R = pool.R - pool.R[:, :1] + numbered(*range(40))[:, :1]
    learner = ActiveLearner(
        MoleculePool(type(pool)(source="water", units="eV and Ang", species=pool.species, R=R)),
        path=path,
        model=ForceFieldSurrogate(QUICK),
        intrinsic_dimension=2.0,
    )
    learner.tell(np.arange(12), (pool.energies[:12], pool.forces[:12]))  # type: ignore[index]  # it has labels
    return learner


def test_a_campaign_records_failures_and_makes_up_for_them(tmp_path: Path) -> None:
    with campaign(tmp_path / "campaign") as learner:
        first = learner.ask(4)
        oracle = Moody(tmp_path / "log", {first[1]: "crash", first[2]: "not_a_number"})
        with Workers(oracle, processes, 2) as workers:
            workers.run(learner, 16)
    again = ActiveLearner.read(tmp_path / "campaign")
    assert len(again.labelled.y) == 16
    assert sorted(again.failed) == sorted(first[1:3])
    assert sorted(oracle.made()) == sorted([*again.labelled_points[12:], *2 * first[1:3].tolist()])


def test_a_failure_in_a_campaign_without_a_folder_costs_one_label_too(tmp_path: Path) -> None:
    learner = campaign(None)
    first = learner.ask(4)
    oracle = Moody(tmp_path / "log", {first[1]: "diverge"})
    with Workers(oracle) as workers:
        workers.run(learner, 16)
    assert learner.failed.tolist() == [first[1]]
    assert sorted(oracle.made()) == sorted([*learner.labelled_points[12:], first[1], first[1]])


def test_a_campaign_whose_oracle_is_broken_ends_and_goes_on_with_the_same_points(tmp_path: Path) -> None:
    with campaign(tmp_path / "campaign") as learner:
        broken = Workers(Moody(tmp_path / "broken", {-1: "crash"}), processes, 2)
        with broken, pytest.raises(RuntimeError, match="the oracle failed at all 4 points; none is given up"):
            broken.run(learner, 16)
        pending = learner.pending.tolist()
        assert len(pending) == 4
        with Workers(Moody(tmp_path / "log")) as workers:
            workers.run(learner, 16)
        assert learner.labelled_points[12:].tolist() == pending


class Stillborn(Executor):
    """Its worker was killed a moment ago, as by the call of another."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:  # type: ignore[override]  # whatever is to be called
        future: Future[Any] = Future()
        future.set_exception(BrokenExecutor("killed"))
        return future


def test_a_worker_that_dies_before_it_has_a_call_costs_no_attempt(tmp_path: Path) -> None:
    executors = iter([Stillborn()])
    oracle = Moody(tmp_path / "log", {1: "diverge"}, times=1)
    with Workers(oracle, lambda: next(executors, None) or ThreadPoolExecutor(1)) as workers:
        assert labelled(workers, 1, 2) == [1, 2]
    assert oracle.made() == [1, 1, 2]


# On a Dask cluster.


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Of a cluster of two processes, where a call whose worker dies is not begun again by Dask itself."""
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
        with distributed.LocalCluster(processes=True, **options) as cluster, distributed.Client(cluster) as client:
            yield client


@pytest.mark.parametrize("way", ["crash", "diverge", "hang"])
def test_a_dask_worker_that_fails_in_any_way_costs_one_label(way: str, client: Any, tmp_path: Path) -> None:
    oracle = Moody(tmp_path / "log", {1: way})
    make = partial(client.get_executor, pure=False)
    with Workers(oracle, make, 2, timeout=20.0 if way != "hang" else 1.0) as workers:
        assert labelled(workers, *range(6)) == [0, 2, 3, 4, 5]
        assert oracle.made().count(1) == 2
        assert labelled(workers, 6, 7) == [6, 7]


def test_dask_workers_that_are_killed_from_outside_cost_no_label(client: Any, tmp_path: Path) -> None:
    oracle, kills = Moody(tmp_path / "log", seconds=0.05), 0

    def kill(number: int, row: list[float] | None) -> None:
        nonlocal kills
        if number in (5, 15):
            kills += 1
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)

    with Workers(oracle, partial(client.get_executor, pure=False), 2) as workers:
        rows = workers.label(numbered(*range(25)), record=kill)
    assert rows[:, 0].tolist() == [10.0 + number for number in range(25)]
    assert kills == 2
    assert len(oracle.made()) <= 25 + kills


def test_a_label_that_was_had_from_a_dask_worker_is_not_made_again_when_that_is_killed(
    client: Any, tmp_path: Path
) -> None:
    oracle, make = Moody(tmp_path / "log", seconds=0.2), partial(client.get_executor, pure=False)
    with Workers(oracle, make) as idle, Workers(oracle, make) as busy:
        assert labelled(idle, 0) == [0]
        for first, pid in zip((1, 5), client.run(os.getpid).values(), strict=True):
            os.kill(pid, signal.SIGKILL)
            assert labelled(busy, *range(first, first + 4)) == [*range(first, first + 4)]
    assert oracle.made() == [*range(9)]
