import os
from pathlib import Path

import pytest

from lobal.active.campaign.lock import Lock


def test_the_file_names_the_process_that_holds_it(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("99999999999\nan earlier holder with a longer text" + "x" * 200)
    lock = Lock(tmp_path / "lock", "this")
    assert (tmp_path / "lock").read_text().split("\n")[0] == str(os.getpid())
    assert "earlier" not in (tmp_path / "lock").read_text()
    lock.release()


def test_a_second_lock_on_the_file_is_refused_naming_the_holder(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock", "this")
    with pytest.raises(BlockingIOError, match=f"^this is in use by process {os.getpid()}; close it there first$"):
        Lock(tmp_path / "lock", "this")
    assert lock.is_held
    lock.release()


def test_a_holder_that_has_not_written_its_number_yet_is_another_process(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock", "this")
    os.truncate(tmp_path / "lock", 0)
    with pytest.raises(BlockingIOError, match=r"^this is in use by another process; close it there first$"):
        Lock(tmp_path / "lock", "this")
    lock.release()


def test_a_released_lock_can_be_taken_and_released_again(tmp_path: Path) -> None:
    first = Lock(tmp_path / "lock", "this")
    first.release()
    second = Lock(tmp_path / "lock", "this")
    first.release()
    assert (first.is_held, second.is_held) == (False, True)
    second.release()


def test_a_forgotten_lock_that_nobody_else_has_is_free(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock", "this")
    lock.forget()
    assert not lock.is_held
    Lock(tmp_path / "lock", "this").release()
