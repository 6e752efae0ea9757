"""Campaigns over named variables with several outputs, and journals, changed by somebody who knows their format."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import lobal
from lobal import ActiveLearner
from lobal.active.campaign.folder import HASH, JOURNAL, _hash
from lobal.active.campaign.journal import journal_content, parse_journal
from tests.faults.counting import counted, is_long
from tests.faults.mutations import spoilt_json, spoilt_record
from tests.faults.test_mutated_files import FIXTURES, refused_properly

VARIABLES = (
    lobal.Real("T", 20.0, 200.0, unit="C"),
    lobal.Real("p", 0.01, 10.0, log=True),
    lobal.Integer("n", 1, 9),
    lobal.Categorical("solvent", ["water", "ethanol", "none"]),
)
OUTPUTS = (lobal.Output("strength", weight=2.0, unit="MPa"), "yield")


@pytest.fixture(scope="module")
def spaces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One campaign over named variables, one over the rows of a table, one of curves."""
    root = tmp_path_factory.mktemp("spaces")
    rows = {"T": np.linspace(20.0, 200.0, 30), "solvent": np.array(["water", "ethanol", "none"] * 10)}
    table = lobal.SearchSpace((VARIABLES[0], VARIABLES[3]), pool=rows, cost=lambda columns: columns["T"])
    begun = {
        "variables": lobal.SearchSpace(VARIABLES, ["T + 10 * n <= 250"], outputs=OUTPUTS, n_candidates=64),
        "table": table,
        "curve": lobal.Box([0.0], [1.0], outputs=lobal.Curve("spectrum", 5)),
    }
    for name, space in begun.items():
        with ActiveLearner(space, path=root / name) as active:
            width = {"variables": (2,), "table": (), "curve": (5,)}[name]
            labels = np.random.default_rng(0).random((4, *width))
            if name == "variables":
                labels[1, 0] = np.nan
            active.tell(active.ask(4), labels)
            active.give_up(active.ask(2)[:1])
    return root


@pytest.fixture(params=["variables", "table", "curve"])
def folder(request: pytest.FixtureRequest, spaces: Path, tmp_path: Path) -> Path:
    shutil.copytree(spaces / request.param, tmp_path / "campaign")
    return tmp_path / "campaign"


def look_at(folder: Path) -> None:
    active = ActiveLearner.read(folder)
    assert not np.isinf(active.labelled.y).any()
    assert np.isfinite(active.training_density()).all()


def test_spoilt_headers_are_refused_by_name(folder: Path) -> None:
    header, rng = json.loads((folder / "header.json").read_text()), np.random.default_rng(0)
    for _ in range(500 if is_long() else 20):
        spoilt = spoilt_json(header, rng)
        if isinstance(spoilt, dict):
            spoilt[HASH] = _hash(spoilt)
        (folder / "header.json").write_text(json.dumps(spoilt))
        with refused_properly(*folder.iterdir()):
            look_at(folder)
        counted("mutated headers")


def test_spoilt_candidates_are_refused_by_name(folder: Path) -> None:
    rng = np.random.default_rng(0)
    shutil.copy(folder / "candidates.lobal", folder.parent / "whole.lobal")
    for _ in range(400 if is_long() else 15):
        spoilt_record(folder.parent / "whole.lobal", folder / "candidates.lobal", rng)
        with refused_properly(*folder.iterdir()):
            look_at(folder)
        counted("mutated candidates")


def spoil_journal(folder: Path) -> None:
    journal, rng = folder / JOURNAL, np.random.default_rng(0)
    events = parse_journal(journal.read_bytes(), journal, is_checked=False).events
    for _ in range(500 if is_long() else 20):
        spoilt = [event for event in spoilt_json(events, rng) if isinstance(event, dict)]
        try:
            journal.write_bytes(journal_content(spoilt))
        except ValueError:  # what no journal holds, as NaN
            continue
        with refused_properly(journal):
            look_at(folder)
        counted("mutated journals")


def test_spoilt_events_are_refused_by_line(folder: Path) -> None:
    spoil_journal(folder)


@pytest.mark.parametrize("name", ["box", "pool"])
def test_spoilt_events_of_arrays_are_refused_by_line(name: str, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "campaigns" / name, tmp_path / "campaign")
    spoil_journal(tmp_path / "campaign")


@pytest.mark.parametrize(
    ("column", "code"),
    [(0, 1e6), (1, -1.0), (2, 2.5), (2, 10.0), (3, 3.0), (3, -2e300)],
    ids=["above", "below", "fraction", "integer", "level", "huge"],
)
def test_points_outside_the_variables_are_refused_by_line(
    column: int, code: float, spaces: Path, tmp_path: Path
) -> None:
    journal = shutil.copytree(spaces / "variables", tmp_path / "campaign") / JOURNAL
    events = parse_journal(journal.read_bytes(), journal, is_checked=False).events
    events[0]["inputs"][0][column] = code
    journal.write_bytes(journal_content(events))
    with pytest.raises(ValueError, match=r"(?s)journal\.jsonl.*line 1.*must lie between"):
        ActiveLearner.read(journal.parent)


def test_points_outside_a_box_are_refused_by_line(spaces: Path, tmp_path: Path) -> None:
    journal = shutil.copytree(spaces / "curve", tmp_path / "campaign") / JOURNAL
    events = parse_journal(journal.read_bytes(), journal, is_checked=False).events
    events[0]["inputs"][0][0] = 7.0
    journal.write_bytes(journal_content(events))
    with pytest.raises(ValueError, match=r"(?s)journal\.jsonl.*line 1.*must lie in the box"):
        ActiveLearner.read(journal.parent)
