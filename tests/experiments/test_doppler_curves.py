import json
from pathlib import Path
from typing import Any

import pytest

from experiments.doppler_curves import Arm, compared
from tests.experiments.setting import invoke


def results(path: Path, factor: float, *, seeds: int = 3, **further: float) -> Path:
    """Errors that fall as n^(-1/2), the same for all seeds but for a percent."""
    runs: list[dict[str, Any]] = [
        {"n": 64, "seed": seed}
        | {f"rmse_{n}": factor * (1 + seed / 100) / n**0.5 for n in (16, 32, 64)}
        | {f"max_error_{n}": factor for n in (16, 32, 64)}
        | {f"{name}_{n}": value for name, value in further.items() for n in (16, 32, 64)}
        for seed in reversed(range(seeds))
    ]
    path.write_text(json.dumps({"results": runs}))
    return path


def test_savings_are_printed_for_every_size_after_the_start_and_curves_drawn(tmp_path: Path) -> None:
    active = results(tmp_path / "active.json", 0.5, oracle_rmse=0.04)
    random, figure = results(tmp_path / "random.json", 1.0), tmp_path / "curves.png"
    printed = invoke("doppler_curves", active, random, "--figure", figure).output
    assert [line.split(":")[0] for line in printed.splitlines()[:2]] == ["32 labels", "64 labels"]
    assert printed.count("rho = 0.25 ± 0.00") == 2
    assert "saved 75.0%" in printed
    assert figure.stat().st_size > 0


def test_arms_of_other_seeds_are_refused(tmp_path: Path) -> None:
    arms = [Arm.read(results(tmp_path / f"{seeds}.json", 1.0, seeds=seeds)) for seeds in (2, 3)]
    with pytest.raises(ValueError, match="same seeds"):
        compared(*arms)


def test_a_file_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no results"):
        Arm.read(results(tmp_path / "empty.json", 1.0, seeds=0))
