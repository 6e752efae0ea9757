import errno
import fcntl
import logging
import os
import socket
from pathlib import Path

import pytest

from lobal.active.campaign.lock import Lock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_the_file_names_the_process_that_holds_it(path: Path) -> None:
    path.write_text("99999999999\nan earlier holder with a longer text" + "x" * 200)
    lock = Lock(path, "this")
    assert path.read_text().split("\n")[0] == str(os.getpid())
    assert "earlier" not in path.read_text()
    lock.release()


def test_a_second_lock_on_the_file_is_refused_naming_the_holder(path: Path) -> None:
    lock = Lock(path, "this")
    with pytest.raises(BlockingIOError, match=f"^this is in use by process {os.getpid()}; close it there first$"):
        Lock(path, "this")
    os.truncate(path, 0)  # as if the holder had not written its number yet
    with pytest.raises(BlockingIOError, match=r"^this is in use by another process; close it there first$"):
        Lock(path, "this")
    assert lock.is_held
    lock.release()


def test_a_released_lock_can_be_taken_and_released_again(path: Path) -> None:
    first = Lock(path, "this")
    first.release()
    second = Lock(path, "this")
    first.release()
    assert (first.is_held, second.is_held) == (False, True)
    second.forget()
    assert not second.is_held
    Lock(path, "this").release()  # a forgotten lock that nobody else has is free


def test_a_released_lock_is_free_although_a_forked_process_has_its_file_open(path: Path) -> None:
    lock = Lock(path, "this")
    forked = os.dup(lock._file.fileno())  # what a forked process has
    lock.release()
    Lock(path, "this").release()
    os.close(forked)


def test_the_file_names_the_machine_and_is_emptied_on_release(path: Path) -> None:
    lock = Lock(path, "this")
    assert path.read_text().split("\n")[1] == socket.gethostname()
    assert len(path.read_text().split("\n")[2]) > 0  # the boot id, or a dash
    lock.release()
    assert path.read_text() == ""


def test_a_lock_that_another_machine_did_not_release_is_taken_with_a_warning(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text("123\nelsewhere\nanother-boot\nnote\n")
    with caplog.at_level(logging.WARNING):
        Lock(path, "this").release()
        assert caplog.messages == [
            "this was not closed by process 123 on elsewhere; make sure that it does not run any more"
        ]
        Lock(path, "this").release()
    assert len(caplog.messages) == 1


def test_a_lock_that_is_another_file_as_well_is_not_written_over(path: Path, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("ssh-ed25519 AAAA")
    path.hardlink_to(tmp_path / "keys")
    with pytest.raises(ValueError, match=r"lock is a hard link to another file; remove it if nobody uses this"):
        Lock(path, "this")
    assert (tmp_path / "keys").read_text() == "ssh-ed25519 AAAA"


def test_a_file_system_without_locks_is_named_with_advice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(_: object, operation: int) -> None:
        if operation != fcntl.LOCK_UN:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(OSError, match=r"this cannot be opened for writing, .*; use a folder on a local disk") as caught:
        Lock(path, "this")
    assert caught.value.errno == errno.ENOLCK
