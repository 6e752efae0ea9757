"""Two writers of one campaign, where the lock does not keep them apart: what one wrote is never cut by the other."""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lobal import ActiveLearner
from tests.faults.counting import counted
from tests.faults.setting import X, begun, label


def remove_lock(folder: Path, patch: pytest.MonkeyPatch) -> None:
    (folder / "lock").unlink()


def disable_flock(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fcntl, "flock", lambda *_: None)


@pytest.mark.parametrize("unlock", [remove_lock, disable_flock])
def test_of_two_writers_one_goes_on_and_the_other_is_told_where_its_labels_are(
    unlock: Callable[[Path, pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "campaign"
    with begun(folder) as first:
        batch = first.ask(16)
        unlock(folder, monkeypatch)
        with ActiveLearner.load(folder) as second:
            for row in batch[:8]:
                second.tell(row, float(row))
            for row in batch[8:]:
                with pytest.raises(RuntimeError, match=r"another process writes to it; .* is kept in .*unrecorded"):
                    first.tell(row, float(row))
                counted("refused labels")
            with pytest.raises(RuntimeError, match="another process writes to it"):
                first.ask(3)
            second.tell(batch[8], 0.5)
    kept = ActiveLearner.read(folder)
    assert kept.labelled.y.tolist() == [*batch[:8], 0.5]
    saved = "".join(file.read_text() for file in folder.glob("unrecorded-*.json"))
    assert all(f'"labels": [{float(row)}]' in saved for row in batch[8:])


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def rename(folder: Path) -> None:
    folder.rename(folder.with_name("renamed"))


def edit(folder: Path) -> None:
    journal = folder / "journal.jsonl"
    (folder / "new").write_bytes(journal.read_bytes())
    (folder / "new").replace(journal)


def cut_short(folder: Path) -> None:
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-10])


@pytest.mark.parametrize("change", [remove, rename, edit, cut_short])
def test_a_folder_that_is_not_as_it_was_takes_no_labels_and_the_message_has_them(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "campaign"
    active = begun(folder)
    batch = active.ask(12)
    active.tell(batch[:11], np.where(np.isnan(label(X[batch[:11]])), 1.0, 2.0))
    change(folder)
    with pytest.raises(RuntimeError, match="is not as it was left") as caught:
        active.tell(batch[11], 7.25)
    with pytest.raises(RuntimeError, match="is not as it was left"):
        active.ask(2)
    kept = Path(str(caught.value).rsplit(" ", 1)[-1])
    assert '"labels": [7.25]' in (kept.read_text() if kept.exists() else str(caught.value))
    others = np.setdiff1d(np.arange(60), batch)[:3]
    with pytest.raises(RuntimeError, match="is not as it was left") as caught:
        active.tell(others, [8.25, np.nan, 9.25])  # of points nobody asked for
    kept = Path(str(caught.value).rsplit(" ", 1)[-1])
    told = (kept.read_text() if kept.exists() else str(caught.value)).splitlines()[-1]
    assert f'"candidates": {others.tolist()}' in told
    assert '"labels": [8.25, null, 9.25]' in told
    active.close()
    counted("refused labels", 4)
