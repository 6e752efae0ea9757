"""Kills, power cuts and errors of the disk at the operations of a campaign: no label is lost, the points are the same.

`LOBAL_FAULTS=long` tries every operation, otherwise some.
"""

import contextlib
import errno
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lobal import ActiveLearner
from tests.faults.counting import counted, is_long
from tests.faults.disk import Disk, Killed, failing
from tests.faults.setting import SIZES, answered, go_on, label, let_go, opened, state_of

# A process that was killed has closed nothing.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
CUTS = [{"all_names": names, "zeros": zeros} for names, zeros in ((False, False), (True, False), (True, True))]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[object], int]:
    """The state at the end of an undisturbed campaign, and the number of its operations."""
    folder = tmp_path_factory.mktemp("undisturbed")
    disk = Disk(folder)
    with disk.in_use():
        go_on(folder / "campaign", [])
    return state_of(ActiveLearner.read(folder / "campaign")), disk.operations


def places(operations: int, step: int) -> Iterator[int]:
    return iter(range(0, operations, 1 if is_long() else step))


def disturbed(root: Path, disk: Disk) -> list[float]:
    """Run the campaign until the fault; returns the inputs whose labels are acknowledged."""
    bought: list[float] = []
    root.mkdir(exist_ok=True)
    with disk.in_use(), pytest.raises((Killed, OSError)):
        go_on(root / "campaign", bought)
    let_go()
    return bought[:-1]


def assert_goes_on(folder: Path, acknowledged: list[float], expected: list[object]) -> None:
    if (folder / "header.json").exists():
        with ActiveLearner.load(folder) as learner:
            assert set(acknowledged) <= answered(learner)
    else:
        assert not acknowledged
    with Disk(folder).in_use():  # without real flushes
        go_on(folder, [])
    assert state_of(ActiveLearner.read(folder)) == expected


def test_killed_at_any_operation_a_campaign_goes_on(tmp_path: Path, undisturbed: tuple[list[object], int]) -> None:
    expected, operations = undisturbed
    for place in places(operations, 7):
        disk = Disk(tmp_path / str(place), fault_at=place, fault=Disk.die)
        acknowledged = disturbed(tmp_path / str(place), disk)
        assert_goes_on(tmp_path / str(place) / "campaign", acknowledged, expected)
        counted("kills")


def test_killed_again_and_again_a_campaign_goes_on(tmp_path: Path, undisturbed: tuple[list[object], int]) -> None:
    expected, _ = undisturbed
    for gap in range(9, 60, 1 if is_long() else 25):
        root, acknowledged = tmp_path / str(gap), list[float]()
        for place in itertools.count(gap, 3):  # further every time: the campaign gets to its end
            disk = Disk(root, fault_at=place, fault=Disk.die)
            bought: list[float] = []
            root.mkdir(exist_ok=True)
            try:
                with disk.in_use():
                    go_on(root / "campaign", bought)
                break
            except Killed:
                acknowledged += bought[:-1]
                let_go()
                counted("kills")
        assert_goes_on(root / "campaign", acknowledged, expected)


@pytest.mark.parametrize("left", CUTS, ids=["flushed", "names", "zeros"])
def test_after_a_power_cut_a_campaign_goes_on(
    left: dict[str, bool], tmp_path: Path, undisturbed: tuple[list[object], int]
) -> None:
    expected, operations = undisturbed
    for place in places(operations, 17):
        root, remains = tmp_path / str(place), tmp_path / f"{place} after"

        def cut(disk: Disk, remains: Path = remains) -> None:
            disk.write_remains(remains, **left)
            disk.die()

        acknowledged = disturbed(root, Disk(root, fault_at=place, fault=cut))
        assert_goes_on(remains / "campaign", acknowledged, expected)
        counted("power cuts")


@pytest.mark.parametrize("times", [1, 6])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_disk_that_fails_for_a_while_loses_nothing_in_the_process_and_after(
    number: int, times: int, tmp_path: Path, undisturbed: tuple[list[object], int]
) -> None:
    expected, operations = undisturbed
    for place in places(operations, 17):
        root = tmp_path / f"{number} {place}"
        root.mkdir()
        with Disk(root, fault_at=place, fault=failing(number), times=times).in_use():
            learner = None
            for _ in range(times + 1):
                try:
                    learner = opened(root / "campaign") if learner is None else learner
                    learner.run(label, sizes=SIZES)
                except OSError as error:
                    if os.strerror(number) not in str(error):
                        raise
            assert learner is not None
            with contextlib.suppress(OSError):
                learner.close()
        assert state_of(ActiveLearner.read(root / "campaign")) == expected
        counted("disk errors")
