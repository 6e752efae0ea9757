"""The numbers of the benchmark of large molecules are those of what it measures."""

import json
import logging
from pathlib import Path

import pytest
import torch

from benchmarks import large_molecule
from benchmarks.large_molecule import Frames, Messages, Options, measurement
from lobal.molecules.dynamics.start import StartSettings
from lobal.molecules.field import expert

pytest.importorskip("tblite", reason="tblite is not installed")

MOLECULE = Path("examples/molecules/ethanol.xyz")
TINY = StartSettings(first=20, validation=10, walkers=3, settle=10, every=2)
OPTIONS = Options(sigma=20.0, memory=1, minutes=1)


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Frames:
    return Frames.of(MOLECULE, TINY, 8, tmp_path_factory.mktemp("frames") / "ethanol.jsonl")


@pytest.fixture(autouse=True)
def _no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_molecule.resource, "setrlimit", lambda *_: None)  # of this process, for good


def test_no_frame_is_both_learned_from_and_new(frames: Frames) -> None:
    assert [len(each) for each in frames] == [12, 8, 10]
    together = torch.cat([each.R for each in frames])
    assert len(together.unique(dim=0)) == 30


def test_equal_settings_give_the_same_force_field(frames: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sgdml", reason="the sgdml package is not installed")
    monkeypatch.setattr(large_molecule, "TOLERANCE", 1e-7)
    theirs, ours = (measurement(name, frames, 12, OPTIONS, 24) for name in ("sgdml", "equal"))
    assert theirs["solver"] == "analytic"
    assert ours["force_rmse"] == pytest.approx(theirs["force_rmse"], rel=1e-4)


def test_iterations_are_those_of_the_last_fit(frames: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expert, "FEWEST_ITERATED", 1)
    found = measurement("defaults", frames, 12, OPTIONS, 24)
    assert 0 < found["iterations"] < 1000
    assert found["residual"] < 1e-2
    assert len(found["trial_iterations"]) >= 2
    assert 0.0 < found["last_fit_cpu_seconds"] < found["cpu_seconds"]


def test_a_measurement_that_takes_too_much_is_a_result(frames: Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    def allocate(*_: object) -> dict[str, float]:
        return {"entries": torch.empty(2**60).numel()}

    monkeypatch.setitem(large_molecule.METHODS, "defaults", allocate)
    found = measurement("defaults", frames, 12, OPTIONS, 24)
    assert "allocate" in found["failed"]
    assert found["cpu_seconds"] >= 0.0


def test_messages_end_with_the_measurement() -> None:
    logger = logging.getLogger("lobal.somewhere")
    with Messages(logging.getLogger("lobal")) as messages:
        logger.info("%d labels", 7)
    logger.info("%d labels", 8)
    assert [numbers for _, numbers in messages.of(logger, "labels")] == [(7,)]


def test_measurements_in_the_file_are_not_made_again(
    tmp_path: Path, frames: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, int]] = []

    def measure(name: str, _: Frames, n: int, *__: object) -> dict[str, float]:
        made.append((name, n))
        return {"cpu_seconds": 1.0}

    monkeypatch.setattr(large_molecule, "in_own_process", measure)
    monkeypatch.setattr(Frames, "of", lambda *_: frames)
    plan = {"sgdml_sizes": "", "sigma": 20.0, "memory": 24, "sgdml_memory": 8, "minutes": 1, "folder": tmp_path}
    for sizes in ("5", "5,6"):
        large_molecule.main(MOLECULE, tmp_path / "out.json", sizes=sizes, equal_sizes="5", **plan)  # type: ignore[arg-type]
    assert made == [("defaults", 5), ("equal", 5), ("defaults", 6)]
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["settings"]["atoms"] == 9
    assert record["analytic_gib"]["matrix"] == pytest.approx(8 * (27 * 6) ** 2 / 2**30)
