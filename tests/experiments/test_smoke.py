"""Every experiment runs at the smoke scale, as `python -m experiments all --scale smoke` does."""

import os
from pathlib import Path

import pytest

from experiments.__main__ import named, run_scale
from experiments.registry import EXPERIMENTS


@pytest.mark.filterwarnings("ignore::lobal.OutlierWarning")  # of labels that so few others cannot explain
@pytest.mark.parametrize("name", [name for name, each in EXPERIMENTS.items() if "smoke" in each.scales])
def test_it_runs_and_leaves_a_record_or_a_figure(name: str, tmp_path: Path) -> None:
    if name not in named("all", "smoke"):
        pytest.skip("needs the folder LOBAL_DATA")
    run_scale(name, "smoke", str(tmp_path))
    assert any(path.suffix in (".json", ".png") for path in tmp_path.rglob("*"))


def test_all_of_the_smoke_scale_are_those_whose_data_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "LOBAL_DATA", "somewhere")
    every = named("all", "smoke")
    monkeypatch.delenv("LOBAL_DATA")
    assert {*every} - {*named("all", "smoke")} == {name for name in every if EXPERIMENTS[name].needs_data}
    assert {"equidistant", "mogpu", "heteroscedastic", "no_penalty", "greedy_points"} <= {*named("all", "smoke")}
