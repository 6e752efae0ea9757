import errno
import json
import logging
import math
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from lobal.active.campaign.journal import Journal, journal_content

FLOATS = [0.1 + 0.2, 5e-324, -0.0, 1.7976931348623157e308, 1 / 3]
EVENTS = [
    {"a": 0},
    {"text": "two\nlines, ünïcode \u2028"},
    {"floats": FLOATS, "nested": {"list": [[], {}, None, True]}},
]

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "journal").touch()
    return tmp_path / "journal"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    opened = Journal(path, is_checked=True)
    yield opened
    opened.close()


@pytest.fixture
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is flushed, which takes most of the time where hundreds of journals are written."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def events_in(path: Path, *, is_checked: bool = True) -> list[dict[str, Any]]:
    opened = Journal(path, is_checked=is_checked)
    opened.close()
    return opened.events


def written(path: Path, events: list[dict[str, Any]] = EVENTS) -> bytes:
    """The content of a journal of these events."""
    opened = Journal(path, is_checked=True)
    for event in events:
        opened.append(event)
    opened.close()
    assert repr(opened.events) == repr(events)  # repr tells 0.0 from -0.0, and 1 from 1.0
    return path.read_bytes()


def test_events_come_back_in_order_and_exactly_one_a_line(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = [json.loads(line) for line in written(path).decode().split("\n")[:-1]]
    assert [line.pop("seq") for line in lines] == [0, 1, 2]
    assert all(len(line.pop("check")) == 16 for line in lines)
    assert lines == EVENTS
    assert repr(events_in(path)) == repr(EVENTS)
    assert not caplog.messages


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(st.dictionaries(st.text(), VALUES), max_size=3))
def test_whatever_json_knows_comes_back_as_it_was(events: list[dict[str, Any]], path: Path, unflushed: None) -> None:
    path.write_bytes(b"")
    written(path, events)
    assert repr(events_in(path)) == repr(events)


def test_an_event_is_flushed_before_append_returns(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: flushed.append((os.fstat(descriptor).st_ino, path.read_bytes()))
    )
    journal.append({"a": 1})
    assert flushed == [(path.stat().st_ino, journal_content([{"a": 1}]))]


def test_a_journal_cut_anywhere_keeps_the_events_before_the_cut(path: Path, unflushed: None) -> None:
    content = written(path)
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = content[: cut + 1].count(b"\n")  # an event of which only the newline is missing is whole
        assert events_in(path) == EVENTS[:whole]
        assert path.read_bytes() == b"".join(content.splitlines(keepends=True)[:whole])


def test_events_appended_after_a_cut_anywhere_in_the_last_line_are_right(path: Path, unflushed: None) -> None:
    content = written(path)
    last_line = content[:-1].rindex(b"\n") + 1
    for cut in range(last_line, len(content) - 1):
        path.write_bytes(content[:cut])
        opened = Journal(path, is_checked=True)
        opened.append({"after": cut})
        opened.close()
        assert opened.events == events_in(path) == [*EVENTS[:-1], {"after": cut}]


FIRST = journal_content([{"a": 0}])


def test_a_dropped_line_is_logged_with_what_it_held(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(FIRST + b'{"label": 3.2')
    with caplog.at_level(logging.WARNING):
        assert events_in(path) == [{"a": 0}]
    (message,) = caplog.messages
    assert message == f"""{path}: dropped its last line, left incomplete by a crash: b'{{"label": 3.2'"""


GARBAGE = [b"", b"{", b"\xff\xfe", b"[1]", b"null", b'{"a": NaN}', b'{"a": -Infinity}', b"[" * 100_000]


@pytest.mark.parametrize("garbage", [*GARBAGE, b"\0" * 50], ids=lambda garbage: repr(garbage[:12]))
def test_garbage_in_the_last_line_of_an_early_journal_is_dropped(garbage: bytes, path: Path) -> None:
    path.write_bytes(b'{"a": 0}\n' + garbage + b"\n")
    assert events_in(path, is_checked=False) == [{"a": 0}]
    assert path.read_bytes() == b'{"a": 0}\n'


def test_blocks_of_the_last_line_that_did_not_come_to_disk_are_a_torn_line(path: Path) -> None:
    line = journal_content([{"labels": list(range(400))}], first=1)
    path.write_bytes(FIRST + line[:300] + b"\0" * 512 + line[812:])
    assert events_in(path) == [{"a": 0}]
    assert path.read_bytes() == FIRST


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: repr(garbage[:12]))
@pytest.mark.parametrize("after", [b"", FIRST, FIRST[:-9]], ids=["nothing", "whole line", "torn line"])
def test_garbage_is_refused_by_file_and_line(garbage: bytes, after: bytes, path: Path) -> None:
    content = FIRST + garbage + b"\n" + after
    path.write_bytes(content)
    advice = rf"journal, line 2 is not the event .*; restore the file from a copy or, .* first {len(FIRST)} bytes"
    with pytest.raises(ValueError, match=advice):
        Journal(path, is_checked=True)
    assert path.read_bytes() == content


def test_a_flipped_bit_is_never_believed_nor_taken_for_a_crash(path: Path, unflushed: None) -> None:
    content = written(path)
    for position in range(len(content)):
        for bit in range(8):
            path.write_bytes(content[:position] + bytes([content[position] ^ 1 << bit]) + content[position + 1 :])
            with pytest.raises(ValueError, match=r"line \d is not the event that was written there"):
                Journal(path, is_checked=True)


@pytest.mark.parametrize("order", [[0, 0, 1, 2], [0, 2], [1, 0, 2], [1, 2], [0, 1, 2, 1]], ids=str)
def test_doubled_missing_and_exchanged_lines_are_refused_by_line(order: list[int], path: Path) -> None:
    lines = written(path).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[number] for number in order))
    first_wrong = next(place for place, number in enumerate(order) if place != number)
    with pytest.raises(ValueError, match=rf"line {first_wrong + 1} .* it has number .*, expected {first_wrong}: lines"):
        Journal(path, is_checked=True)


def test_lines_without_checks_are_taken_only_before_those_with(path: Path) -> None:
    path.write_bytes(b'{"a": 0}\n')
    opened = Journal(path, is_checked=False)
    opened.append({"a": 1})
    opened.close()
    assert events_in(path, is_checked=False) == [{"a": 0}, {"a": 1}]
    with path.open("ab") as file:
        file.write(b'{"a": 2}\n')
    for is_checked, line in ((False, 3), (True, 1)):
        with pytest.raises(ValueError, match=f"line {line} is not the event"):
            events_in(path, is_checked=is_checked)


def test_an_append_that_cannot_be_flushed_leaves_no_event(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append({"a": 0})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: os.write(-1, b""))
        with pytest.raises(OSError, match="Bad file descriptor"):
            journal.append({"a": "lost"})
    assert path.read_bytes() == FIRST
    journal.append({"a": 1})
    assert journal.events == events_in(path) == [{"a": 0}, {"a": 1}]


def test_an_append_that_the_disk_takes_half_of_leaves_no_event(path: Path, journal: Journal) -> None:
    journal.append({"a": 0})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            journal.append({"a": "x" * 2**17})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    journal.append({"a": 1})
    assert journal.events == events_in(path) == [{"a": 0}, {"a": 1}]


def test_an_append_repairs_what_a_failed_one_could_not(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append({"a": 0})
    with monkeypatch.context() as patch:
        for name in ("fsync", "ftruncate"):
            patch.setattr(os, name, lambda *_: os.write(-1, b""))
        with pytest.raises(OSError, match="Bad file descriptor"):
            journal.append({"a": "an event that is longer than the next"})
    assert path.read_bytes() != FIRST
    journal.append({"a": 1})
    assert events_in(path) == [{"a": 0}, {"a": 1}]


def test_a_full_disk_is_named_with_the_event_and_advice(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    expected = (
        r"No space left on device: .*journal cannot be written, .*\[3\.25\].*; free some space and repeat the call"
    )
    with pytest.raises(OSError, match=expected) as caught:
        journal.append({"labels": [3.25]})
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ESTALE, errno.EFBIG], ids=errno.errorcode.get)
def test_labels_that_cannot_be_written_are_all_in_the_message(
    number: int, journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", failing)
    labels = np.random.default_rng(0).random(1000).tolist()
    for event, following in (({"labels": labels}, {}), ({"event": "added"}, {"labels": labels})):
        with pytest.raises(OSError, match=rf"(?s){path}.*repeat the call") as caught:
            journal.append(event, following)
        assert json.dumps(labels) in str(caught.value)
    with pytest.raises(OSError, match=f"{path}.*repeat the call") as caught:
        journal.append({"event": "asked", "inputs": labels})
    assert len(str(caught.value)) < 5000


# Other writers.


def test_what_another_wrote_stays_and_the_event_is_kept_beside(path: Path, journal: Journal) -> None:
    journal.append({"a": 0})
    other = Journal(path, is_checked=True)
    other.append({"a": "theirs"})
    for label in (1.5, 2.5):
        with pytest.raises(
            RuntimeError, match=r"another process writes to it; close all .* is kept in .*unrecorded"
        ) as caught:
            journal.append({"labels": [label]})
        file = Path(str(caught.value).rsplit(" ", 1)[-1])
        assert json.loads(file.read_text())["labels"] == [label]
    other.append({"a": "more"})
    other.close()
    assert events_in(path) == [{"a": 0}, {"a": "theirs"}, {"a": "more"}]


def replaced(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)


@pytest.mark.parametrize("change", [replaced, Path.unlink, lambda path: path.rename(path.with_name("renamed"))])
def test_a_journal_that_lost_its_name_takes_no_events(change: Any, path: Path, journal: Journal) -> None:
    journal.append({"a": 0})
    change(path)
    with pytest.raises(RuntimeError, match=r"is not as it was left: .*close all programs .* is kept in"):
        journal.append({"labels": [3.25]})
    with pytest.raises(RuntimeError, match=r"is not as it was left: .*close all programs .* load it again$"):
        journal.check()


def test_a_folder_that_is_gone_leaves_the_labels_in_the_message(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "journal").touch()
    journal = Journal(tmp_path / "folder" / "journal", is_checked=True)
    shutil.rmtree(tmp_path / "folder")
    with pytest.raises(
        RuntimeError, match=r'folder was removed or renamed; .* which is \{"seq": 0, "labels": \[3\.25\]'
    ):
        journal.append({"labels": [3.25]})
    journal.close()


def test_two_events_at_the_same_time_are_both_in_the_file_and_one_is_refused(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, theirs = os.write, journal_content([{"labels": [1.5]}])

    def overtaken(file: int, content: bytes) -> int:
        with path.open("ab") as other:
            other.write(theirs)
        monkeypatch.setattr(os, "write", real)
        return real(file, content)

    monkeypatch.setattr(os, "write", overtaken)
    with pytest.raises(RuntimeError, match="another process wrote to it at the same time"):
        journal.append({"labels": [2.5]})
    assert path.read_bytes() == theirs + journal_content([{"labels": [2.5]}])
    with pytest.raises(ValueError, match=r"line 2 .* it has number 0, expected 1: lines are missing, doubled"):
        Journal(path, is_checked=True)


def test_an_appended_event_does_not_change_with_its_original(journal: Journal) -> None:
    event = {"labels": [1.0]}
    journal.append(event)
    event["labels"].append(2.0)
    assert journal.events == [{"labels": [1.0]}]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan"), np.array(np.inf)])
def test_numbers_that_are_not_finite_are_refused(value: object, path: Path, journal: Journal) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        journal.append({"a": [0, {"b": value}]})
    assert path.read_bytes() == b""
    assert not journal.events


def test_numpy_and_tuples_become_plain(journal: Journal) -> None:
    value = {
        "array": np.arange(6).reshape(2, 3),
        "double": np.float64(0.1),
        "single": np.float32(0.1),
        "whole": (np.int64(3), np.uint8(4)),
        "truth": np.bool_(True),
    }
    expected = {
        "array": [[0, 1, 2], [3, 4, 5]],
        "double": 0.1,
        "single": 0.10000000149011612,
        "whole": [3, 4],
        "truth": True,
    }
    journal.append(value)
    assert repr(journal.events) == repr([expected])


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, torch.ones(2)], ids=lambda value: type(value).__name__)
def test_what_json_cannot_hold_is_refused_by_type(value: object, journal: Journal) -> None:
    with pytest.raises(TypeError, match=r"JSON cannot hold .* of type \w+; give numbers"):
        journal.append({"a": [value]})
