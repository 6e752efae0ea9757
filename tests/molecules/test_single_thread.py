"""One thread for libraries while a calculation runs, and as many as before afterwards."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from lobal.molecules.single_thread import SingleThread

MANY = 3
# Files of libraries that have one thread whatever is asked of them: under OPENBLAS_NUM_THREADS=1 the old OpenBLAS that
# PySCF brings, where another test has loaded it.
STUCK: set[str] = set()


def threads(api: str) -> set[int]:
    """The numbers of threads of this process's libraries of a kind, as this thread has them."""
    libraries = [library for library in ThreadpoolController().info() if library["filepath"] not in STUCK]
    return {library["num_threads"] for library in libraries if library["user_api"] == api}


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> Iterator[SingleThread]:
    """In a process whose libraries have several threads, where OMP_NUM_THREADS says nothing."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    np.ones((2, 2)) @ np.ones((2, 2))  # loads BLAS
    if not (threads("blas") and threads("openmp")):
        pytest.skip("this version of threadpoolctl does not know the libraries here")
    with ThreadpoolController().limit(limits=MANY):
        STUCK.update(each["filepath"] for each in ThreadpoolController().info() if each["num_threads"] != MANY)
        single = SingleThread()
        single.look_for_libraries()
        yield single


def test_the_libraries_have_one_thread_in_a_calculation_and_as_many_as_before_after_it(single: SingleThread) -> None:
    assert (threads("blas"), threads("openmp")) == ({MANY}, {MANY})
    for _ in range(2):
        with single.calculation():
            assert (threads("blas"), threads("openmp")) == ({1}, {1})
        assert (threads("blas"), threads("openmp")) == ({MANY}, {MANY})


def test_a_calculation_that_fails_leaves_them_as_they_were(single: SingleThread) -> None:
    def fail() -> None:
        with single.calculation():
            raise RuntimeError("diverged")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="diverged"):
            fail()
    assert (threads("blas"), threads("openmp")) == ({MANY}, {MANY})


def test_omp_num_threads_decides_where_it_is_set(single: SingleThread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with single.calculation():
        assert (threads("blas"), threads("openmp")) == ({MANY}, {MANY})


def test_blas_has_one_thread_until_the_last_of_several_calculations_has_ended(single: SingleThread) -> None:
    begun, may_end, seen = threading.Event(), threading.Event(), list[set[int]]()

    def calculate() -> None:
        with single.calculation():
            seen.append(threads("openmp"))
            begun.set()
            may_end.wait()

    other = threading.Thread(target=calculate)
    with single.calculation():
        other.start()
        begun.wait()
    seen += [threads("blas"), threads("openmp")]
    may_end.set()
    other.join()
    assert seen == [{1}, {1}, {MANY}]  # BLAS is limited for the process, OpenMP for each thread
    assert threads("blas") == {MANY}


def test_many_threads_that_calculate_at_once_leave_them_as_they_were(single: SingleThread) -> None:
    seen: list[set[int]] = []

    def calculate() -> None:
        for _ in range(20):
            with single.calculation():
                seen.append(threads("blas") | threads("openmp"))

    together = [threading.Thread(target=calculate) for _ in range(4)]
    for each in together:
        each.start()
    for each in together:
        each.join()
    assert seen == [{1}] * 80
    assert (threads("blas"), threads("openmp")) == ({MANY}, {MANY})
