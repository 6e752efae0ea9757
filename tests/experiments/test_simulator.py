import json
import math
from pathlib import Path

import numpy as np
import pytest

from experiments import simulator
from lobal.active.search_space import SearchSpace


def test_outputs_are_those_of_the_program_by_their_names() -> None:
    point = {"flow": 3.0, "power": 2.0, "angle": 70.0, "fins": 4, "material": "steel"}
    values = simulator.program().simulated(**point)
    table = {name: np.array([value]) for name, value in point.items()}
    assert simulator.simulated(table, ["pressure", "temperature"]).tolist() == [
        [values["pressure"], values["temperature"]]
    ]


def test_points_of_the_test_are_feasible_and_differ_by_seed() -> None:
    space = SearchSpace.from_json(simulator.program().SPACE)
    first, second = (simulator.feasible_points(space, seed) for seed in (0, 1))
    assert len(first["flow"]) == simulator.N_TEST
    assert space.feasible(first).all()
    assert not np.isin(first["flow"], second["flow"]).any()


def test_geometric_mean_has_a_standard_error_by_its_logarithms() -> None:
    found = simulator.geometric_mean([1.0, 4.0])
    assert found["mean"] == pytest.approx(2.0)
    assert found["standard_error"] == pytest.approx(2.0 * math.log(2.0))


def test_arms_and_their_ratio_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "SIZES", (12,))
    monkeypatch.setattr(simulator, "N_TEST", 100)
    simulator.main(tmp_path / "record.json", n=12, seeds=1)
    record = json.loads((tmp_path / "record.json").read_text())
    means = record["geometric_means"]
    errors = [means[f"both_{arm}_together_error_12"]["mean"] for arm in ("active", "random", "ratio")]
    assert errors[2] == pytest.approx(errors[0] / errors[1])
    assert 0.0 < record["coverage"]["active_12"]["mean"] <= 1.0
