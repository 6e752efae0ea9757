"""The file of the first trajectories: what is written is read, and damage is noticed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch

from lobal.active.campaign.journal import _check_of, journal_content
from lobal.molecules.dynamics.motion import Motion
from lobal.molecules.dynamics.start_record import StartRecord

Event: TypeAlias = dict[str, Any]

ABOUT = {"oracle": "gfn2", "species": [8, 1, 1], "settings": {"seed": 3, "temperature": 300.0}}
WALKERS, N = 2, 3
ROW = [0.5, *[0.25] * 3 * N]


def motion(value: float) -> Motion:
    R = torch.full((WALKERS, N, 3), value, dtype=torch.float64)
    return Motion(R, -R, R[:, 0, 0], 2.0 * R)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A step, two calls for the next one, that step, a call for another, and labels of two frames."""
    path = tmp_path / "folder" / "start.jsonl"
    record = StartRecord(path, ABOUT, walkers=WALKERS)
    record.keep_step(motion(0.1), [])
    record.keep_call(1, ROW)
    record.keep_call(0, None)
    record.keep_step(motion(0.2), [0])
    record.keep_call(1, ROW)
    record.keep_label(4, ROW)
    record.keep_label(5, None)
    record.close()
    return path


def opened(file: Path, about: Event = ABOUT, walkers: int = WALKERS) -> StartRecord:
    record = StartRecord(file, about, walkers=walkers)
    record.close()
    return record


def change(file: Path, line: int, edit: Callable[[Event], object]) -> None:
    """Write the file with one event changed, and with checks that fit."""
    events = [json.loads(text) for text in file.read_text().splitlines()]
    edit(events[line])
    file.write_bytes(
        journal_content([{k: v for k, v in event.items() if k not in ("seq", "check")} for event in events])
    )


# What is written is read.


def test_steps_calls_and_labels_are_those_that_were_kept(file: Path) -> None:
    record = opened(file)
    assert (record.steps, record.failures) == (2, 1)
    assert record.calls == {1: ROW}
    assert record.labels == {4: ROW, 5: None}
    for number, value in enumerate((0.1, 0.2)):
        for part, expected in zip(record.motion(number), motion(value), strict=True):
            torch.testing.assert_close(part, expected, rtol=0, atol=0)


def test_numbers_are_kept_to_the_last_bit(tmp_path: Path, generator: torch.Generator) -> None:
    R = torch.randn(WALKERS, N, 3, dtype=torch.float64, generator=generator) / 3.0
    kept = Motion(R, R.exp(), R[:, 0, 0].sin(), -R / 7.0)
    record = StartRecord(tmp_path / "start.jsonl", ABOUT, walkers=WALKERS)
    record.keep_step(kept, [])
    record.close()
    for part, expected in zip(opened(tmp_path / "start.jsonl").motion(0), kept, strict=True):
        assert part.tolist() == expected.tolist()


def test_calls_are_those_of_the_step_that_is_to_follow(file: Path) -> None:
    record = StartRecord(file, ABOUT, walkers=WALKERS)
    record.keep_step(motion(0.3), [])
    assert record.calls == {}
    record.close()
    assert opened(file).calls == {}


def test_failures_are_counted_over_all_steps(file: Path) -> None:
    record = StartRecord(file, ABOUT, walkers=WALKERS)
    record.keep_step(motion(0.3), [0, 1])
    record.keep_step(motion(0.3), [])
    record.close()
    assert opened(file).failures == 3


def test_opening_changes_nothing(file: Path) -> None:
    before = file.read_bytes()
    opened(file)
    assert file.read_bytes() == before


def test_numbers_and_lists_of_settings_are_compared_as_json_has_them(file: Path) -> None:
    opened(file, {"oracle": "gfn2", "species": (8, 1, 1), "settings": {"temperature": 300, "seed": 3}})


# Other starts.


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ({"oracle": "pbe"}, "it began with oracle 'gfn2', got 'pbe'; use the same, or another folder"),
        ({"species": [16, 1, 1]}, r"another configuration, of atomic numbers \[8, 1, 1\];"),
        ({"settings": {"seed": 4, "temperature": 300.0}}, "it began with seed 3, got 4;"),
        ({"settings": {"seed": 3}}, "it began with temperature 300.0, got none;"),
        ({"sampler": "gfn2"}, "it began with sampler none, got 'gfn2';"),
        ({"oracle": "x" * 200}, r"got 'x{59}\.\.\.; use"),
    ],
)
def test_another_start_is_refused_by_what_is_different(about: Event, message: str, file: Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        opened(file, ABOUT | about)
    assert str(file) in str(caught.value)


# Damage. Lines: 0 begun, 1 step, 2 and 3 calls, 4 step, 5 call, 6 and 7 labels.

CHANGES: dict[str, tuple[int, Event, str]] = {
    "an event of no kind": (5, {"event": "stop"}, r"an event must be one of \['call', 'label', 'step'\], got 'stop'"),
    "an event that is a number": (5, {"event": 3}, "an event must be one of .*got 3"),
    "a beginning in the middle": (4, {"event": "begun"}, "an event must be one of .*got 'begun'"),
    "no beginning": (0, {"event": "step"}, "it began with event 'step', got 'begun'"),
    "a step out of order": (4, {"number": 2}, "step 1.number must be a whole number from 1 to 1, got 2"),
    "fewer failures": (4, {"failures": -1}, "step 1.failures must be a whole number from 0 to .*got -1"),
    "a call for a step that is done": (5, {"step": 1}, "a call after step 1.step must be .* from 2 to 2, got 1"),
    "a walker that is not there": (5, {"walker": 2}, "a call after step 1.walker must be .* from 0 to 1, got 2"),
    "a frame below zero": (6, {"frame": -1}, "a label after step 1.frame must be .*got -1"),
    "a row that is too short": (5, {"row": ROW[:-1]}, r"row of walker 1 must be \(10,\) finite .*got shape \(9,\)"),
    "a row of lists": (6, {"row": [ROW]}, r"row of frame 4 must be \(10,\) finite numbers, got shape \(1, 10\)"),
    "a row that is text": (6, {"row": ["0.5"] * 10}, r"row of frame 4 must be .* of type <U3"),
    "a row with a gap": (6, {"row": [None, *ROW[1:]]}, r"row of frame 4 must be .* of type object"),
    "one walker too few": (
        4,
        {"R": motion(0.2).R[:1].tolist()},
        r"R of step 1 must be \(2, 3, 3\) .*shape \(1, 3, 3\)",
    ),
    "velocities of another length": (4, {"V": [[[0.0]], [[0.0], [0.0]]]}, r"V of step 1 must be .*got shape \(\)"),
    "energies that are flags": (4, {"E": [True, False]}, "E of step 1 must be .* of type bool"),
    "forces that are none": (4, {"F": None}, "F of step 1 must be .* of type object"),
}


@pytest.mark.parametrize(("line", "entries", "message"), CHANGES.values(), ids=CHANGES)
def test_an_event_that_cannot_be_is_refused(line: int, entries: Event, message: str, file: Path) -> None:
    change(file, line, lambda event: event.update(entries))
    with pytest.raises(ValueError, match=message) as caught:
        opened(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(("line", "entry"), [(1, "V"), (4, "number"), (4, "failures"), (5, "walker"), (6, "row")])
def test_an_event_without_an_entry_is_refused(line: int, entry: str, file: Path) -> None:
    change(file, line, lambda event: event.pop(entry))
    with pytest.raises(ValueError, match=f"must have the entry '{entry}'"):
        opened(file)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(number: str, file: Path) -> None:
    lines = file.read_bytes().splitlines()
    body = lines[4].rpartition(b', "check"')[0].replace(b"0.2", number.encode(), 1)
    lines[4] = body + f', "check": "{_check_of(body)}"}}'.encode()
    file.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(ValueError, match="finite numbers, got"):
        opened(file)


@pytest.mark.parametrize("line", range(8))
def test_a_flipped_digit_is_noticed(line: int, file: Path) -> None:
    lines = file.read_text().splitlines()
    place = len(lines[line]) - 3  # in the check
    lines[line] = f"{lines[line][:place]}{'1' if lines[line][place] == '0' else '0'}{lines[line][place + 1 :]}"
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=f"start.jsonl, line {line + 1} is not the event .* its check does not fit"):
        opened(file)


def test_a_missing_line_is_noticed(file: Path) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:3], *lines[4:]]) + "\n")
    with pytest.raises(ValueError, match=r"line 4 .* it has number 4, expected 3: lines are missing"):
        opened(file)


@pytest.mark.parametrize("left", [1, 40, -1])
def test_a_last_line_that_a_crash_left_incomplete_is_dropped(left: int, file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + lines[-1][: left if left > 0 else -10])
    assert opened(file).labels == {4: ROW}
    assert file.read_bytes() == b"".join(lines[:-1])


def test_an_empty_file_is_refused(file: Path) -> None:
    file.write_bytes(b"")
    with pytest.raises(ValueError, match="it began with event none, got 'begun'"):
        opened(file)


def test_a_file_that_was_refused_is_closed(file: Path) -> None:
    with pytest.raises(ValueError, match="began with"):
        opened(file, ABOUT | {"oracle": "pbe"})
    opened(file)  # a file that is left open is a warning, which is an error here
