import errno
import json
import os
import pickle
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from lobal.core.files import FORMAT_VERSION, load_record, make_folder, remove_unfinished, save_record, write_atomically

FIELDS = {"kernel": "gaussian", "kappa": 2, "scores": [0.5, 0.25], "nested": {"empty": None, "alpha": float("inf")}}


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    tensors = {
        "double": torch.linspace(0.0, 1.0, 6, dtype=torch.float64).reshape(2, 3),
        "single": torch.tensor([float("nan"), -0.0]),
        "scalar": torch.tensor(3.0, dtype=torch.float64),
        "whole": torch.arange(3),
        "empty": torch.zeros(0, 4),
        "transposed": torch.arange(6.0).reshape(2, 3).mT,
    }
    for path, expected in ((tmp_path / "model", tensors), (str(tmp_path / "model"), {})):
        save_record(path, expected, FIELDS)
        loaded, fields = load_record(path)
        torch.testing.assert_close(loaded, expected, rtol=0.0, atol=0.0, equal_nan=True)
        assert fields == {"format": FORMAT_VERSION, **FIELDS}


def test_a_write_that_fails_midway_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_record(tmp_path / "model", {}, {"value": "old"})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="disk full"):
            save_record(tmp_path / "model", {}, {"value": "new"})
    assert load_record(tmp_path / "model")[1]["value"] == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def failing(*_: object) -> None:
    raise OSError("disk full")


def failing_on_folders(number: int) -> Callable[[int], None]:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, "broken")

    return fsync


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The files and folders flushed, in order."""
    inodes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: inodes.append(os.fstat(descriptor).st_ino))
    return inodes


def test_fields_that_json_cannot_hold_leave_no_file(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        save_record(tmp_path / "model", {}, {"value": object()})
    assert not list(tmp_path.iterdir())


def test_readers_never_see_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "text", []
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(path.read_bytes()))
    write_atomically(path, b"new")
    assert seen == [b"old", b"new"]  # the content is flushed before the move, the name after it
    assert path.read_bytes() == b"new"


def test_file_systems_need_not_be_able_to_flush_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing_on_folders(errno.EINVAL))
    write_atomically(tmp_path / "text", b"new")
    monkeypatch.setattr(os, "fsync", failing_on_folders(errno.EIO))
    with pytest.raises(OSError, match="broken"):
        write_atomically(tmp_path / "text", b"new")


def test_the_name_of_a_written_file_is_flushed_with_its_folder(tmp_path: Path, flushed: list[int]) -> None:
    write_atomically(tmp_path / "text", b"new")
    assert flushed == [(tmp_path / "text").stat().st_ino, tmp_path.stat().st_ino]


def test_a_made_folder_is_flushed_with_all_that_were_made_above_it(tmp_path: Path, flushed: list[int]) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
    assert flushed == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]


def test_what_killed_writers_leave_is_removed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".hidden", "model", ".hidden.model", "0123456789abcdef", ".mine.0123456789abcdef"):
        write_atomically(tmp_path / name, b"mine")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing)
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        with pytest.raises(OSError, match="disk full"):
            write_atomically(tmp_path / "model", b"killed")
    before = {file.name for file in tmp_path.iterdir()}
    remove_unfinished(tmp_path, re.compile("model"))
    (removed,) = before - {file.name for file in tmp_path.iterdir()}
    assert removed.startswith(".model.")


def test_folders_and_links_are_not_taken_for_what_killed_writers_leave(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    (tmp_path / ".model.0123456789abcdef").mkdir()
    (tmp_path / ".model.fedcba9876543210").symlink_to(tmp_path / "notes")
    remove_unfinished(tmp_path, re.compile("model"))
    assert len(list(tmp_path.iterdir())) == 3


def test_a_saved_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    write_atomically(tmp_path / "model", b"new")
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)


def test_a_newer_format_is_refused_with_advice(tmp_path: Path) -> None:
    metadata = {"lobal": json.dumps({"format": FORMAT_VERSION + 1})}
    (tmp_path / "model").write_bytes(save({}, metadata))
    expected = f"has format {FORMAT_VERSION + 1}, this lobal reads up to {FORMAT_VERSION}; install a newer lobal"
    with pytest.raises(ValueError, match=re.escape(expected)):
        load_record(tmp_path / "model")


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return sys.exit, ("unpickled",)


GARBAGE = {
    "nothing": b"",
    "text": b"this is a poem, not a model, and a long one at that",
    "binary": bytes(range(256)) * 4,
    "huge header": b"\xff" * 64,
    "a header that is no table": (2).to_bytes(8, "little") + b"[]",
    "tensors that lobal did not save": save({"weight": torch.ones(2)}),
    "foreign metadata": save({}, {"lobal": "hello"}),
    "fields that are no table": save({}, {"lobal": "[1]"}),
    "fields without a format": save({}, {"lobal": "{}"}),
    "a format that is no number": save({}, {"lobal": '{"format": "one"}'}),
    "a truncated record": save({"weight": torch.ones(100)}, {"lobal": '{"format": 1}'})[:-8],
    "a pickle": pickle.dumps(Bomb()),
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE.keys())
def test_what_lobal_did_not_save_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ValueError, match="model' is not a file that lobal saved"):
        load_record(tmp_path / "model")


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_record(tmp_path / "nowhere")
