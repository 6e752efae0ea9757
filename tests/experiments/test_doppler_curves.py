import json
from pathlib import Path
from typing import Any

import pytest

from experiments.doppler_curves import Arm, main, table


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


def test_the_table_has_rho_at_every_size_after_the_start(tmp_path: Path) -> None:
    arms = [Arm.read(results(tmp_path / f"{factor}.json", factor)) for factor in (0.5, 1.0)]
    lines = table(*arms).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| 32", "| 64"]
    assert all("| 0.250 ± 0.000 |" in line for line in lines[2:])
    assert "oracle" not in lines[0]


def test_the_oracle_is_shown_where_it_was_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    active = results(tmp_path / "active.json", 0.5, oracle_rmse=0.04, expected_savings=0.4)
    main(active, results(tmp_path / "random.json", 1.0), figure=tmp_path / "curves.png")
    printed = capsys.readouterr().out
    assert "0.0400 ± 0.0000" in printed
    assert "saved 75.0%" in printed
    assert (tmp_path / "curves.png").stat().st_size > 0


def test_arms_of_other_seeds_are_refused(tmp_path: Path) -> None:
    arms = [Arm.read(results(tmp_path / f"{seeds}.json", 1.0, seeds=seeds)) for seeds in (2, 3)]
    with pytest.raises(ValueError, match="same seeds"):
        table(*arms)


def test_a_file_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no results"):
        Arm.read(results(tmp_path / "empty.json", 1.0, seeds=0))
