import contextlib
import itertools
import json
import logging
import math
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import lobal
from lobal.active.campaign.folder import CURRENT_FORMAT, Campaign
from lobal.active.campaign.journal import journal_content
from lobal.active.learner import ActiveLearner
from lobal.core import files
from lobal.core.files import load_record, make_folder
from tests.active.campaign.processes import append_forever, create, hold, hold_with_a_worker, received, running

HEADER = {"seed": 3, "settings": {"smoothness": math.inf, "exploration": 0.1 + 0.2, "sizes": (4, 8)}}
KEPT = {"seed": 3, "settings": {"smoothness": math.inf, "exploration": 0.1 + 0.2, "sizes": [4, 8]}, "format": 3}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a campaign with one event, closed."""
    with Campaign.create(tmp_path / "campaign", HEADER) as campaign:
        campaign.append({"event": "first"})
    return tmp_path / "campaign"


def test_a_campaign_comes_back_as_it_was(tmp_path: Path) -> None:
    with Campaign.create(tmp_path / "a" / "b", HEADER) as created:
        created.append({"labels": np.array([0.1 + 0.2, 5e-324]), "points": (1, 2)})
    with Campaign.open(str(tmp_path / "a" / "b")) as opened:
        assert opened.header == created.header == KEPT
        assert opened.events == created.events == [{"labels": [0.1 + 0.2, 5e-324], "points": [1, 2]}]
        opened.append({"event": "more"})
        assert Campaign.read(tmp_path / "a" / "b").events == opened.events  # on disk when `append` returns
    assert len(opened.events) == 2


def test_steps_come_back_as_they_were(path: Path) -> None:
    density = torch.linspace(0.0, 1.0, 5, dtype=torch.float64)
    with Campaign.open(path) as campaign:
        for factor in (2.0, 3.0):  # the second replaces the first
            campaign.save_step(0, {"density": density * factor})
    tensors, _ = load_record(Campaign.read(path).step_path(0))
    torch.testing.assert_close(tensors, {"density": density * 3.0}, rtol=0.0, atol=0.0)
    assert campaign.step_path(12345) == path / "steps" / "12345.lobal"


def test_of_the_steps_the_last_two_are_kept(path: Path) -> None:
    with Campaign.open(path) as campaign:
        for number in range(4):
            campaign.save_step(number, {})
    assert sorted(file.name for file in (path / "steps").iterdir()) == ["0002.lobal", "0003.lobal"]


def test_what_killed_writers_left_is_removed_on_opening(path: Path) -> None:
    (path / "steps").mkdir()
    left = [path / ".header.json.0123456789abcdef", path / "steps" / ".0001.lobal.0123456789abcdef"]
    for file in left:
        file.touch()
    Campaign.read(path)
    assert all(file.exists() for file in left)
    Campaign.open(path).close()
    assert not any(file.exists() for file in left)


def test_hidden_files_of_the_user_stay_where_a_campaign_is_created(tmp_path: Path) -> None:
    names = [".cache.0123456789abcdef", ".mine.lobal.0123456789abcdef", ".0001.lobal.0123456789abcdef"]
    for name in [*names, ".journal.jsonl.0123456789abcdef"]:
        (tmp_path / name).touch()
    (tmp_path / ".header.json.0123456789abcdef").mkdir()
    Campaign.create(tmp_path, HEADER).close()
    Campaign.open(tmp_path).close()
    hidden = {file.name for file in tmp_path.glob(".*")}
    assert hidden == {*names, ".header.json.0123456789abcdef"}


def test_every_file_that_is_written_atomically_is_known_when_it_is_left_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, real = [], files.write_synced

    def noted(path: Path, content: bytes) -> None:
        written.append(path)
        real(path, content)

    monkeypatch.setattr(files, "write_synced", noted)
    learner = ActiveLearner(lobal.Box(0.0, 1.0, n_candidates=32), seed=0, path=tmp_path / "c")
    learner.tell(learner.ask(12), np.arange(12.0))
    learner.ask(1)
    learner.close()
    assert len(written) == 6  # candidates, journal and header, two steps, the model of the second
    for path in written:
        path.touch()
    ActiveLearner.load(tmp_path / "c").close()
    assert not [path for path in written if path.exists()]


def test_a_campaign_follows_its_folder_and_not_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Campaign.create("here", {}) as campaign:
        monkeypatch.chdir("/")
        campaign.save_step(0, {})
    assert (tmp_path / "here" / "steps" / "0000.lobal").exists()


# Creation.


def test_a_campaign_is_not_created_over_another(path: Path) -> None:
    with pytest.raises(FileExistsError, match="campaign already holds a campaign; open it or choose another path"):
        Campaign.create(path, {})
    (path / "header.json").unlink()
    with pytest.raises(FileExistsError, match="already holds a campaign"):
        Campaign.create(path, {})
    assert (path / "journal.jsonl").read_bytes() == journal_content([{"event": "first"}])


def test_a_campaign_is_not_created_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="file is a file; choose another path"):
        Campaign.create(tmp_path / "file", {})


def test_what_json_cannot_hold_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"JSON cannot hold <object .* of type object"):
        Campaign.create(tmp_path / "campaign", {"model": object()})
    with pytest.raises(ValueError, match="not JSON compliant"):
        Campaign.create(tmp_path / "campaign", {}, events=[{"y": float("nan")}])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("last", ["journal.jsonl", "header.json"])
def test_a_creation_that_failed_midway_can_be_done_again(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, past = Path.replace, [{"event": "old"}]

    def full(file: Path, target: Path) -> Path:
        if target.name == last:
            raise OSError("disk full")
        return real(file, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="disk full"):
            Campaign.create(tmp_path / "campaign", {"try": 1}, events=past)
    with pytest.raises(ValueError, match="campaign is not a campaign"):
        Campaign.open(tmp_path / "campaign")
    with Campaign.create(tmp_path / "campaign", {"try": 2}, events=past) as campaign:
        assert campaign.header == {"try": 2, "format": CURRENT_FORMAT}
        assert campaign.events == past


def test_of_two_creations_at_once_the_faster_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def overtaken(folder: Path) -> None:
        make_folder(folder)
        monkeypatch.undo()
        Campaign.create(folder, {"try": "faster"}).close()

    monkeypatch.setattr("lobal.active.campaign.folder.make_folder", overtaken)
    with pytest.raises(FileExistsError, match="already holds a campaign"):
        Campaign.create(tmp_path / "campaign", {"try": "slower"})
    with Campaign.open(tmp_path / "campaign") as campaign:
        assert campaign.header["try"] == "faster"


def test_records_and_journal_have_their_names_on_disk_before_the_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []  # names in the folder whenever they are flushed
    monkeypatch.setattr(
        "lobal.core.files.sync_folder", lambda folder: seen.append({file.name for file in folder.iterdir()} - {"lock"})
    )
    tensors = {"x": torch.arange(3.0)}
    with Campaign.create(tmp_path / "campaign", {}, records={"one.lobal": tensors}, events=[{"event": "old"}]):
        assert seen[1:] == [
            {"one.lobal"},
            {"one.lobal", "journal.jsonl"},
            {"one.lobal", "journal.jsonl", "header.json"},
        ]


def test_a_campaign_can_begin_with_records_and_a_past(tmp_path: Path) -> None:
    state, past = {"x": torch.arange(3.0)}, [{"event": "old", "y": [0.1, 1e-300]}]
    with Campaign.create(tmp_path / "campaign", {}, records={"steps/0000.lobal": state}, events=past) as campaign:
        assert campaign.events == past
        campaign.append({"event": "new"})
    again = Campaign.read(tmp_path / "campaign")
    assert again.events == [*past, {"event": "new"}]
    assert torch.equal(load_record(again.step_path(0))[0]["x"], state["x"])


def test_of_many_processes_that_create_a_campaign_one_succeeds_and_its_records_stay(tmp_path: Path) -> None:
    path = tmp_path / "campaign"
    with contextlib.ExitStack() as stack:
        pipes = [stack.enter_context(running(create, path))[0] for _ in range(4)]
        for pipe in pipes:
            pipe.send("go")
        (winner,) = (number for number in (pipe.recv() for pipe in pipes) if number)
    assert Campaign.read(path).header["process"] == winner
    assert load_record(path / "one.lobal")[0]["process"].unique().tolist() == [winner]


# Damage.


def test_a_torn_last_event_is_left_by_reading_and_dropped_by_opening(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"event": "se')
    assert Campaign.read(path).events == [{"event": "first"}]
    assert (journal.read_bytes()[-3:], caplog.messages) == (b'"se', [])
    with caplog.at_level(logging.WARNING), Campaign.open(path) as campaign:
        campaign.append({"event": "third"})
    assert "journal.jsonl: dropped its last line" in caplog.text
    assert Campaign.read(path).events == [{"event": "first"}, {"event": "third"}]


def test_a_spoilt_or_lost_journal_is_refused_not_replaced_and_the_lock_released(path: Path) -> None:
    journal = path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b"spoilt\n" + journal_content([{"event": 3}], first=2))
    for way in (Campaign.open, Campaign.open, Campaign.read):
        with pytest.raises(ValueError, match=r"journal\.jsonl, line 2 is not the event"):
            way(path)
    journal.unlink()
    for way in (Campaign.open, Campaign.open, Campaign.read):
        with pytest.raises(FileNotFoundError, match=r"campaign has lost its journal\.jsonl; restore it"):
            way(path)
    assert not journal.exists()


@pytest.mark.parametrize(
    "content", [b"", b"poem", b"\xff\xfe", b"[1]", b"{}", b'{"format": "one"}', b'{"format": true}', b"[" * 100_000]
)
@pytest.mark.parametrize("way", [Campaign.open, Campaign.read])
def test_a_garbage_header_is_refused_by_name(content: bytes, way: object, path: Path) -> None:
    (path / "header.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"header\.json is not a campaign's header: .*; restore it from a copy"):
        way(path)  # type: ignore[operator]


def test_a_changed_header_is_refused(path: Path) -> None:
    content = (path / "header.json").read_text()
    for changed in (content.replace('"seed": 3', '"seed": 4'), content.replace('"sha256"', '"sha255"')):
        (path / "header.json").write_text(changed)
        for way in (Campaign.open, Campaign.read):
            with pytest.raises(
                ValueError, match=r"header\.json does not have the hash it was written with; restore it"
            ):
                way(path)


def test_a_journal_that_has_lost_its_end_is_refused_with_the_way_on(path: Path) -> None:
    journal = path / "journal.jsonl"
    with Campaign.open(path) as campaign:
        campaign.append({"event": "told"})
        before = journal.read_bytes()
        campaign.save_step(0, {})
    Campaign.open(path).close()  # the step was not taken, as after a crash
    journal.write_bytes(before[: before.index(b"\n") + 1])
    for way in (Campaign.open, Campaign.open, Campaign.read):
        with pytest.raises(
            ValueError, match=r"has 1 events, but steps/0000\.lobal was written after 2: .* remove .*0000"
        ):
            way(path)
    (path / "steps" / "0000.lobal").unlink()
    Campaign.open(path).close()


def test_a_newer_format_is_refused_with_advice(path: Path) -> None:
    (path / "header.json").write_text(json.dumps({"format": CURRENT_FORMAT + 1}))
    for way in (Campaign.open, Campaign.read):
        with pytest.raises(ValueError, match="has format 4, this lobal reads up to 3; install a newer lobal"):
            way(path)


def test_a_folder_that_is_no_campaign_is_refused_and_left_alone(tmp_path: Path) -> None:
    for way in (Campaign.open, Campaign.read):
        with pytest.raises(ValueError, match=r"is not a campaign: it has no header\.json"):
            way(tmp_path)
        with pytest.raises(FileNotFoundError, match=r"no campaign at .*nowhere: there is no such folder"):
            way(tmp_path / "nowhere")
    assert not list(tmp_path.iterdir())


# Who may write.


def test_campaigns_that_are_closed_or_opened_for_reading_refuse_to_be_written_to(path: Path) -> None:
    closed, read = Campaign.open(path), Campaign.read(path)
    for campaign in (closed, closed, read):
        campaign.close()
    for campaign, message in ((closed, "is not open in this process"), (read, "is open for reading only")):
        for write, arguments in ((campaign.append, [{}]), (campaign.save_step, [0, {}])):
            with pytest.raises(ValueError, match=f"{message}.*; load it"):
                write(*arguments)
    assert not (path / "steps").exists()


def test_a_campaign_is_opened_once_in_a_process(path: Path) -> None:
    expected = f"campaign {path} is in use by process {os.getpid()}; close it there first"
    with Campaign.open(path), pytest.raises(BlockingIOError, match=f"^{re.escape(expected)}$"):
        Campaign.open(path)
    Campaign.open(path).close()
    with Campaign.create(path / "other", {}), pytest.raises(BlockingIOError, match="is in use by process"):
        Campaign.open(path / "other")


def test_a_campaign_is_opened_in_one_process_at_a_time(path: Path) -> None:
    with running(hold, path) as (pipe, _):
        holder = pipe.recv()
        with pytest.raises(BlockingIOError, match=f"is in use by process {holder}; close it there first"):
            Campaign.open(path)
        assert Campaign.read(path).events == [{"event": "first"}]
        pipe.send("close")
        pipe.recv()
        Campaign.open(path).close()


def test_a_killed_process_lets_go_of_the_campaign(path: Path) -> None:
    with running(hold, path) as (pipe, kill):
        pipe.recv()
        kill()
    Campaign.open(path).close()


def test_a_forked_worker_neither_writes_nor_keeps_the_lock(path: Path) -> None:
    with running(hold_with_a_worker, path) as (pipe, kill):
        worker = pipe.recv()
        with pytest.raises(BlockingIOError, match="is in use by process"):
            Campaign.open(path)
        kill()
    try:
        with Campaign.open(path) as campaign:
            assert campaign.events == [{"event": "first"}]
    finally:
        os.kill(worker, signal.SIGKILL)


# Crashes.


def test_every_acknowledged_event_survives_a_kill(tmp_path: Path) -> None:
    Campaign.create(tmp_path / "campaign", {}).close()
    acknowledged = 0
    for patience in (1, 7, 30):
        with running(append_forever, tmp_path / "campaign") as (pipe, kill):
            for _ in range(patience):
                pipe.recv()
            kill()
            acknowledged += patience + len(received(pipe))
        with Campaign.open(tmp_path / "campaign") as campaign:
            numbers = [event["number"] for event in campaign.events]
        assert numbers == list(range(len(numbers)))
        assert acknowledged <= len(numbers) <= acknowledged + 1  # the last may have been on disk, not yet acknowledged
        acknowledged = len(numbers)


def test_a_running_campaign_is_read_while_it_grows(tmp_path: Path) -> None:
    Campaign.create(tmp_path / "campaign", {}).close()
    with running(append_forever, tmp_path / "campaign") as (pipe, _):
        for acknowledged in itertools.islice(iter(pipe.recv, None), 20):
            events = Campaign.read(tmp_path / "campaign").events
            assert [event["number"] for event in events] == list(range(len(events)))
            assert len(events) > acknowledged
