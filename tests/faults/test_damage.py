"""Files that were cut, changed or lost: labels are as they were, or the campaign is refused with file and advice."""

import logging
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from lobal import ActiveLearner
from tests.faults.counting import counted, is_long
from tests.faults.disk import Disk
from tests.faults.setting import X, begun, go_on, label, state_of

# A message that names the file and says what to do.
ADVICE = r"(?s)(journal\.jsonl|header\.json|candidates\.lobal).*(restore|remove|keep|install)"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign with steps, labels, failures and pending points."""
    folder = tmp_path_factory.mktemp("whole") / "campaign"
    with Disk(folder.parent).in_use():
        go_on(folder, [])
        with ActiveLearner.load(folder) as active:
            active.ask(3)
            active.tell(50, 2.5)
    return folder


def mutated(content: bytes, rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """Contents with a flipped bit, and cut ones."""
    n = len(content)
    for position in rng.permutation(n)[: 1500 if is_long() else 60]:
        bit = 1 << int(rng.integers(8))
        yield "flipped bits", content[:position] + bytes([content[position] ^ bit]) + content[position + 1 :]
    for cut in rng.permutation(n)[: 700 if is_long() else 25]:
        yield "truncated files", content[:cut]


def read(folder: Path) -> ActiveLearner | None:
    """The campaign; none if it is refused properly."""
    try:
        return ActiveLearner.read(folder)
    except (ValueError, FileNotFoundError) as error:
        with pytest.raises(type(error), match=ADVICE):
            raise
        return None


def files(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file() and file.name != "lock")


def last_step(folder: Path) -> Path:
    return max((folder / "steps").glob("*.lobal"))


def test_a_damaged_file_never_changes_a_label_or_the_state_in_silence(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected, rng = state_of(ActiveLearner.read(whole)), np.random.default_rng(0)
    journal = (whole / "journal.jsonl").read_bytes()
    for name in files(whole):
        folder = tmp_path / name.replace("/", " ")
        shutil.copytree(whole, folder)
        for kind, content in mutated((whole / name).read_bytes(), rng):
            (folder / name).write_bytes(content)
            caplog.clear()
            again = read(folder)
            counted(kind)
            if again is None or state_of(again) == expected:
                continue
            if name == "journal.jsonl":  # a torn end, as after a crash: what came before it is the same
                assert kind == "truncated files"
                assert again.labelled.y.tolist() == [y for y in expected[1] if y in again.labelled.y]
                assert journal.startswith(content)
            else:
                assert state_of(again)[:6] == expected[:6]
                assert "cannot be read" in caplog.text


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(b"poem")], ids=["lost", "spoilt"])
def test_without_the_file_of_the_last_step_the_density_is_estimated_anew_with_a_warning(
    damage: Callable[[Path], None], whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(whole, tmp_path / "campaign")
    last = last_step(tmp_path / "campaign")
    damage(last)
    with caplog.at_level(logging.WARNING), ActiveLearner.load(tmp_path / "campaign") as active:
        assert state_of(active)[:6] == state_of(ActiveLearner.read(whole))[:6]
        assert f"{last.name} cannot be read" in caplog.text
        assert "the density of the points so far is estimated anew" in caplog.text
        assert np.mean(active.training_density()) == pytest.approx(1.0, rel=1e-6)
        active.tell(active.ask(2), [0.5, 0.6])


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"event": "sold", "points": [0]}, "got 'sold'"),
        ({"event": "told", "points": [999], "labels": [1.0]}, r"points must be whole numbers below \d+, got 999"),
        ({"event": "told", "points": [0, 1], "labels": [1.0]}, "expected 2 labels"),
        ({"event": "told", "points": [0], "labels": ["high"]}, "expected 1 labels"),
        ({"event": "failed", "points": [-1]}, "got -1"),
        (
            {"event": "added", "candidates": [60], "inputs": [[0.5]]},
            "candidates must be whole numbers below 60, got 60",
        ),
        ({"event": "added", "candidates": [3], "inputs": [[0.5, 0.5]]}, "expected 1 inputs of 1 numbers"),
        ({"event": "asked", "candidates": [3], "inputs": [[0.5]]}, "step"),
        ({}, "got None"),
    ],
)
def test_events_that_cannot_be_are_refused_by_line(
    event: dict[str, object], message: str, whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "campaign"
    shutil.copytree(whole, folder)
    with ActiveLearner.load(folder) as active:
        campaign = active._state._campaign
        assert campaign is not None
        campaign.append(event)
        line = len(campaign.events)
    with pytest.raises(ValueError, match=rf"journal\.jsonl, line {line} cannot be: .*{message}.*; restore the file"):
        ActiveLearner.load(folder)


def test_a_campaign_whose_journal_lost_its_end_goes_on_as_the_message_says(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    shutil.copytree(whole, folder)
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join(lines[:20]))
    last = last_step(folder).name
    with pytest.raises(ValueError, match=rf"has 20 events, but steps/{last} was written after \d+: ") as refused:
        ActiveLearner.load(folder)
    first = re.search(r"remove the files from .*/steps/(\d+)\.lobal on", str(refused.value))
    assert first is not None
    for file in (folder / "steps").iterdir():
        if int(file.stem) >= int(first[1]):
            file.unlink()
    with ActiveLearner.load(folder) as active:
        assert len(active.labelled.y) > 0
        batch = active.ask(2)
        active.tell(batch, label(X[batch]))


def test_of_the_models_the_last_two_are_kept_unless_all_are_wanted(tmp_path: Path) -> None:
    for keep_models, expected in ((False, [4, 5]), (True, [2, 3, 4, 5])):
        folder = tmp_path / str(keep_models)
        with Disk(tmp_path).in_use(), begun(folder, keep_models=keep_models) as active:
            active.run(lambda X: X[:, 0], sizes=[6, 12, 16, 20, 22, 24])
        assert sorted(int(file.stem) for file in folder.glob("steps/*.model")) == expected
        assert sorted(int(file.stem) for file in folder.glob("steps/*.lobal")) == [0, 1, 2, 3, 4, 5]
        assert ActiveLearner.read(folder).settings.keep_models is keep_models


def test_a_run_with_failures_that_was_stopped_buys_the_same_batches(tmp_path: Path) -> None:
    whole, sizes = begun(), [12, 24, 32]
    whole.run(label, sizes=sizes)
    assert [step.batch for step in whole.history][1:] != [12, 8]  # there were failures
    for stop in range(1, 34, 1 if is_long() else 7):
        calls, resumed = iter(range(stop)), begun(tmp_path / str(stop))

        def stopping(X: np.ndarray, calls: Iterator[int] = calls) -> np.ndarray:
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return label(X)

        with Disk(tmp_path).in_use(), resumed, pytest.raises(KeyboardInterrupt):
            resumed.run(stopping, sizes=sizes)
        with Disk(tmp_path).in_use(), ActiveLearner.load(tmp_path / str(stop)) as again:
            again.run(label, sizes=sizes)
        assert [step.batch for step in again.history] == [step.batch for step in whole.history]
        assert state_of(again) == state_of(whole)
