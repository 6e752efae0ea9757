"""Tables whose records may not be there yet, from records made up here."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import calibration_tables, records
from docs.calibration_tables import CALIBRATION, SOURCES
from docs.records import RESULTS

NUMBER = {"mean": 0.5, "standard_error": 0.01}
NAMED = {
    "settings": {"patches": {"patch2": {}}},
    "summary": [{"n": 800, "rmse_patch2": NUMBER, "explained_patch2": NUMBER, "noise_patch2": NUMBER}],
}
RECORDS = {
    "complexity_truth.json": {"settings": {"functions": ["chirp1"]}, "summary": [{"n": 100, "rank_chirp1": NUMBER}]},
    "patch_size.json": {"settings": {"widths": [0.08]}, "summary": [{"n": 100, "explained_0.08": NUMBER}]},
    "patches.json": NAMED,
    "patches_active.json": NAMED,
}
FIGURES = {"coverage": 0.9, "width": 1.0, "nll": 0.1, "rmse": 0.5, "validation_ratio": 1.1, "seconds": 2.0}


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for file, content in RECORDS.items():
        (tmp_path / file).write_text(json.dumps(content))
    fits = [
        {"problem": "ecg", "design": name, "n": 500, "seed": 0, "model": "mixture"} for name in ("random", "active")
    ]
    for name in ("calibration", "calibration_before"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({**fit, **FIGURES}) + "\n" for fit in fits))
    for module in (records, calibration_tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    records.record.cache_clear()
    yield
    records.record.cache_clear()


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("file", SOURCES)
def test_every_table_has_a_row_for_what_its_record_holds(file: str) -> None:
    for name, table in SOURCES[file].items():
        lines = table().splitlines()
        assert len(lines) == (4 if name == "calibration ranks" else 3)
        assert len({line.count(" | ") for line in lines}) == 1


def test_tables_are_known_if_their_record_is_there() -> None:
    assert {*CALIBRATION} == {name for file in SOURCES if (RESULTS / file).exists() for name in SOURCES[file]}
