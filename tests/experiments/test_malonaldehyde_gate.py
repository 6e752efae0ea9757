import json
from pathlib import Path

import numpy as np
import pytest

from experiments.malonaldehyde import Setting, loaded
from experiments.malonaldehyde_gate import GATES, SINGLE, gate_set
from lobal.molecules.density import TEST_DENSITIES
from lobal.molecules.space import MoleculePool
from tests.experiments.setting import invoke
from tests.experiments.test_malonaldehyde import data, grid  # noqa: F401 - fixtures

ARGUMENTS = ("--sizes", "12,24", "--gate-labels", 30, "--gate-inducing", 10, "--max-epochs", 5)


def test_gates_are_compared_on_the_same_labels(data: Path, grid: Path, tmp_path: Path) -> None:  # noqa: F811
    output, figure = tmp_path / "gate.json", tmp_path / "maps.png"
    words = (data, "--grid", grid, *ARGUMENTS, "--gates", ",".join(GATES), "--output", output, "--figure", figure)
    assert invoke("malonaldehyde_gate", *words, "--seeds", 2).exit_code == 0
    content = json.loads(output.read_text())
    assert figure.exists()
    for result in content["results"]:
        for n in (12, 24):
            assert all(0.0 < result[f"{model}_force_rmse_{n}"] < 1.0 for model in (SINGLE, *GATES))
            assert all(result[f"{gate}_ratio_{n}"] > 0.0 for gate in GATES)
            assert all(0.0 < result[f"{gate}_explained_states_{n}"] <= 1.0 + 1e-9 for gate in GATES)
            assert 1.0 <= result[f"ordinal_experts_{n}"] <= 2.0
        assert np.median(result["softmax_map"]) == pytest.approx(1.0, abs=1e-4)
        assert "softmax_mean_moved_24" in result
        assert "left_out_mean_moved_24" not in result
    pairs = [(each["model"], each["reference"]) for each in content["relative_sample_sizes"]["force_rmse"]]
    assert pairs == [*((gate, SINGLE) for gate in GATES), ("softmax", "ordinal"), ("left_out", "ordinal")]
    mean = np.mean([result["softmax_ratio_24"] for result in content["results"]])
    assert content["transition"]["softmax"]["24"]["mean"] == pytest.approx(mean)


def test_unknown_gates_are_refused(data: Path, grid: Path, tmp_path: Path) -> None:  # noqa: F811
    result = invoke("malonaldehyde_gate", data, "--grid", grid, "--gates", "linear", "--output", tmp_path / "gate.json")
    assert result.exit_code == 2
    assert "gates must be some of" in result.output


@pytest.mark.parametrize("name", TEST_DENSITIES)
def test_the_gate_set_is_drawn_from_the_root_of_q_and_apart_from_the_experts(name: str, data: Path) -> None:  # noqa: F811
    pool, test = loaded(data)
    setting = Setting(space=MoleculePool(pool, test_density=name, width=0.03), test=test)
    found = gate_set(setting, 24, 100, seed=0)
    rows = {tuple(row) for row in found.trajectory.R.flatten(1).tolist()}
    assert len(rows) == 100
    assert not rows & {tuple(row) for row in pool.R[setting.rows(24, 0)].flatten(1).tolist()}
    assert found.weight is not None
    assert found.weight.mean().item() == pytest.approx(1.0)
    assert (found.weight.std() > 0.01) == (name == "pool")  # q / q^(1/2), constant where q is uniform
