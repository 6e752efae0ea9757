import json
import logging
import math
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from lobal.active.campaign.journal import Journal

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
    opened = Journal(path)
    yield opened
    opened.close()


@pytest.fixture
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is flushed, which takes most of the time where hundreds of journals are written."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def events_in(path: Path) -> list[dict[str, Any]]:
    opened = Journal(path)
    opened.close()
    return opened.events


def written(path: Path, events: list[dict[str, Any]] = EVENTS) -> bytes:
    """The content of a journal of these events."""
    opened = Journal(path)
    for event in events:
        opened.append(event)
    opened.close()
    assert repr(opened.events) == repr(events)  # repr tells 0.0 from -0.0, and 1 from 1.0
    return path.read_bytes()


def test_events_come_back_in_order_and_exactly_one_a_line(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert [json.loads(line) for line in written(path).decode().split("\n")[:-1]] == EVENTS
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
    assert flushed == [(path.stat().st_ino, b'{"a": 1}\n')]


def test_a_journal_cut_anywhere_keeps_the_events_before_the_cut(path: Path, unflushed: None) -> None:
    content = written(path)
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        whole = content[:cut].count(b"\n")
        assert events_in(path) == EVENTS[:whole]
        assert path.read_bytes() == b"".join(content.splitlines(keepends=True)[:whole])


def test_events_appended_after_a_cut_anywhere_in_the_last_line_are_right(path: Path, unflushed: None) -> None:
    content = written(path)
    last_line = content[:-1].rindex(b"\n") + 1
    for cut in range(last_line, len(content)):
        path.write_bytes(content[:cut])
        opened = Journal(path)
        opened.append({"after": cut})
        opened.close()
        assert opened.events == events_in(path) == [*EVENTS[:-1], {"after": cut}]


def test_a_dropped_line_is_logged_with_what_it_held(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(b'{"a": 0}\n{"label": 3.2')
    with caplog.at_level(logging.WARNING):
        assert events_in(path) == [{"a": 0}]
    (message,) = caplog.messages
    assert message == f"""{path}: dropped its last line, left incomplete by a crash: b'{{"label": 3.2'"""


GARBAGE = [b"", b"\0" * 50, b"{", b"\xff\xfe", b"[1]", b"null", b'{"a": NaN}', b'{"a": -Infinity}', b"[" * 100_000]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: repr(garbage[:12]))
def test_garbage_in_the_last_line_is_dropped(garbage: bytes, path: Path) -> None:
    path.write_bytes(b'{"a": 0}\n' + garbage + b"\n")
    assert events_in(path) == [{"a": 0}]
    assert path.read_bytes() == b'{"a": 0}\n'


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: repr(garbage[:12]))
@pytest.mark.parametrize("after", [b'{"a": 1}\n', b'{"a": 1'], ids=["whole line", "torn line"])
def test_garbage_before_the_last_line_is_refused_by_file_and_line(garbage: bytes, after: bytes, path: Path) -> None:
    content = b'{"a": 0}\n' + garbage + b"\n" + after
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"journal, line 2 is not an event: .*; restore the file from a copy"):
        Journal(path)
    assert path.read_bytes() == content


def test_an_append_that_cannot_be_flushed_leaves_no_event(
    path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append({"a": 0})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: os.write(-1, b""))
        with pytest.raises(OSError, match="Bad file descriptor"):
            journal.append({"a": "lost"})
    assert path.read_bytes() == b'{"a": 0}\n'
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


def test_an_append_repairs_what_a_failed_one_could_not(path: Path, journal: Journal) -> None:
    journal.append({"a": 0})
    with path.open("ab") as file:
        file.write(b'{"a": "half of an event that is longer than the next')
    journal.append({"a": 1})
    assert events_in(path) == [{"a": 0}, {"a": 1}]


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
