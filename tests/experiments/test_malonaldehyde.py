import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import malonaldehyde, malonaldehyde_report
from experiments.malonaldehyde import MODELS, Record, Setting, loaded
from experiments.malonaldehyde_distances import least_distance
from experiments.malonaldehyde_report import about_transition, average, contrast, step, transition
from experiments.malonaldehyde_spread import ARMS
from lobal.molecules.density import TEST_DENSITIES
from lobal.molecules.space import MoleculePool
from tests.experiments.setting import invoke
from tests.molecules.setting import water

SIZES = (12, 24)
ANGLES = np.linspace(-180.0, 180.0, 25)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten trajectories of a molecule of three atoms."""
    molecules = water(300)
    path = tmp_path_factory.mktemp("data") / "water.npz"
    arrays = {"R": molecules.R, "E": molecules.energies, "F": molecules.forces, "z": molecules.species}
    units = {"r_unit": np.array("Ang"), "e_unit": np.array("eV"), "traj": np.arange(300) // 30}
    np.savez(path, **{name: np.asarray(values) for name, values in arrays.items()}, **units)
    return path


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "grid.npz"
    R = water(625, seed=4).R.numpy().reshape(25, 25, 3, 3)
    np.savez(path, phi1=ANGLES, phi2=ANGLES, R=R, E=surface(), z=np.array([8, 1, 1]))
    return path


def surface() -> np.ndarray:
    """A deep and a shallow well and their images, far apart from each other, in eV."""
    first, second = np.meshgrid(ANGLES, ANGLES, indexing="ij")

    def well(a: float, b: float) -> np.ndarray:
        return np.exp(2.0 * (np.cos(np.deg2rad(first - a)) + np.cos(np.deg2rad(second - b)) - 2.0))

    deep = sum(well(*place) for place in ((-75, -75), (75, 75)))
    return np.asarray(0.5 - 0.2 * deep - 0.1 * (well(-120, 120) + well(120, -120)))


def run(data: Path, grid: Path, output: Path) -> None:
    sizes = ",".join(map(str, SIZES))
    command = [str(data), "--grid", str(grid), "--sizes", sizes, "--seeds", "2", "--output", str(output)]
    app = malonaldehyde.typer.Typer()
    app.command()(malonaldehyde.main)
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0


def test_all_models_are_compared_and_runs_go_on(data: Path, grid: Path, tmp_path: Path) -> None:
    run(data, grid, tmp_path)
    for name in ("pool", "uniform"):
        results = json.loads((tmp_path / f"{name}.json").read_text())["results"]
        assert {(row["model"], row["n"], row["seed"]) for row in results} == {
            (model, n, seed) for model in MODELS for n in SIZES for seed in (0, 1)
        }
        assert all(0.0 < row["force_mae"] <= row["force_rmse"] < 1.0 for row in results)
        drawn = json.loads((tmp_path / f"maps_{name}.json").read_text())
        assert [each["seed"] for each in drawn] == [0, 1]
        assert np.array(drawn[0]["complexity"]).shape == (25, 25)
        assert drawn[0]["smoothness"] > 0.0
    before = (tmp_path / "pool.json").read_text()
    run(data, grid, tmp_path)  # all is there
    assert (tmp_path / "pool.json").read_text() == before

    maps = json.loads((tmp_path / "maps_pool.json").read_text())
    (tmp_path / "maps_pool.json").write_text(json.dumps(maps[:1]))
    run(data, grid, tmp_path)  # maps of one repetition are missing
    assert json.loads((tmp_path / "maps_pool.json").read_text()) == maps

    malonaldehyde_report.main(tmp_path, figures=tmp_path / "figures")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert set(summary) == {"pool", "uniform"}
    assert len(list((tmp_path / "figures").glob("*.png"))) == 4


def test_tests_are_on_other_trajectories(data: Path) -> None:
    pool, test = loaded(data)
    assert pool.number is not None
    assert test.number is not None
    assert not set(pool.number.tolist()) & set(test.number.tolist())
    assert len(set(test.number.tolist())) == 2


def test_uniform_tests_weigh_rare_configurations(data: Path) -> None:
    """And draws take them as often as frequent ones; of more rows, the first are those of fewer."""
    pool, test = loaded(data)
    along, uniform = (Setting(space=MoleculePool(pool, test_density=q, width=0.03), test=test) for q in TEST_DENSITIES)
    assert along.weight is None
    assert uniform.weight is not None
    assert uniform.weight.mean() == pytest.approx(1.0)
    density, rows = uniform.space.candidates(0).pool_density, uniform.rows(40, seed=0)
    assert density[rows].log().mean() < density[along.rows(40, seed=0)].log().mean() - 0.1
    assert rows[:20].tolist() == uniform.rows(20, seed=0).tolist()


def test_records_of_other_versions_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pool.json").write_text(json.dumps({"versions": {"lobal": "0"}, "results": []}))
    with pytest.raises(ValueError, match="holds results of other versions"):
        Record(tmp_path / "pool.json", "command")


def test_the_transition_is_found_between_the_two_states() -> None:
    found = transition(surface())
    first, second = ([ANGLES[i], ANGLES[j]] for i, j in found.states)
    assert first in ([-75.0, -75.0], [75.0, 75.0])
    assert second in ([-120.0, 120.0], [120.0, -120.0])
    energy = surface()
    assert found.path[0] == found.states[0]
    assert found.path[-1] == found.states[1]
    assert 0.0 < found.barrier < 0.5
    for here, there in zip(found.path, found.path[1:], strict=False):
        assert all(min((a - b) % 24, (b - a) % 24) <= 1 for a, b in zip(here, there, strict=True))
    assert all(energy[place] >= energy[found.states[0]] + 0.5 * found.barrier for place in found.top(energy))


def test_one_state_alone_has_no_transition() -> None:
    cosine = np.cos(np.deg2rad(ANGLES))
    with pytest.raises(ValueError, match="one stable state alone"):
        transition(-cosine[:, None] - cosine)


def test_the_contrast_compares_the_top_with_the_states() -> None:
    energy = surface()
    angles = {"phi1": ANGLES.tolist(), "phi2": ANGLES.tolist()}
    drawn = [
        angles | {"energy": energy, "complexity": above + energy - energy.min(), "complexity_smooth": energy**2}
        for above in (1.0, 2.0)
    ]
    found = contrast(drawn)
    assert found.top - found.states.max(1) == pytest.approx((found.top - found.states.max(1))[0])
    ratios = found.top / found.states.max(1)
    assert ratios[0] > ratios[1] > 1.0
    assert found.ratio == pytest.approx((ratios.mean(), 0.5 * (ratios[0] - ratios[1])))
    assert contrast(drawn[:1]).ratio[1] is None
    assert about_transition(drawn)["stable_states"][0] in ([-75.0, -75.0], [75.0, 75.0])


def test_maps_of_repetitions_are_averaged_in_proportion() -> None:
    names = ("local_bandwidth", "complexity_smooth", "complexity", "superior_density", "shared")
    drawn = [{name: [[factor]] for name in names} | {"energy": [[0.0]], "smoothness": 2.0} for factor in (1.0, 4.0)]
    found = average(drawn)
    assert [found[name] for name in names] == [pytest.approx(np.array([[2.0]]))] * 5
    assert (found["energy"], found["smoothness"]) == ([[0.0]], pytest.approx(2.0))


def test_savings_follow_the_slope_of_the_learning_curve() -> None:
    """Errors that fall as 1/n: a model with a tenth less error needs nine tenths of the labels."""
    results = [
        {"model": model, "n": n, "seed": seed, "force_rmse": factor * (1.0 + 0.01 * seed) / n}
        for model, factor in (("isotropic", 1.0), ("mixture", 0.9))
        for n in (100, 200, 400)
        for seed in (0, 1)
    ]
    found = step(results, "mixture", "isotropic", "force_rmse")
    assert found.slope == pytest.approx(1.0)
    assert found.savings.overall.value == pytest.approx(0.81)
    assert found.measured[0] == pytest.approx(0.9)
    assert found.measured[1] == pytest.approx(0.0, abs=1e-9)
    assert math.isfinite(found.slope)


def test_transitions_of_malonaldehyde_are_more_complex_than_its_stable_states() -> None:
    """On the maps that campaigns along the trajectory have left, at the smoothness that they show themselves."""
    drawn = json.loads((Path(__file__).parents[2] / "docs/results/malonaldehyde/maps_pool.json").read_text())
    found = contrast(drawn)
    ratio, error = found.ratio
    assert error is not None
    assert ratio > 1.0 + 3.0 * error
    assert (found.top > found.states.max(1)).all()


def test_all_ways_to_choose_configurations_are_compared(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "spread.json"
    invoke("malonaldehyde_spread", data, "--sizes", "12,24", "--seeds", 1, "--output", output)
    (result,) = json.loads(output.read_text())["results"]
    for arm in ("random", *ARMS):
        for n in SIZES:
            assert (
                0.0 < result[f"{arm}_force_mae_{n}"] < result[f"{arm}_force_rmse_{n}"] < result[f"{arm}_force_max_{n}"]
            )
    # Before there is a model, points are spread with constant complexity in both.
    assert result["even_force_rmse_12"] == result["spread_force_rmse_12"]


def test_some_ways_to_choose_configurations_have_the_errors_they_have_among_all(data: Path, tmp_path: Path) -> None:
    results = []
    for arms in ("random,draws", "draws"):
        output = tmp_path / f"{arms}.json"
        invoke("malonaldehyde_spread", data, "--sizes", "12,24", "--seeds", 1, "--arms", arms, "--output", output)
        results += json.loads(output.read_text())["results"]
    both, alone = results
    assert alone.items() <= both.items()
    assert {"random_force_max_24"} <= both.keys() - alone.keys()


def test_a_small_power_chooses_denser_configurations_than_a_large_one(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "distances.json"
    invoke("malonaldehyde_distances", data, "--n", 16, "--seeds", 1, "--output", output)
    (result,) = json.loads(output.read_text())["results"]
    assert result["power_2_log_density"] > result["power_dimension_log_density"]
    assert all(value > 0.0 for name, value in result.items() if name.endswith("_distance"))


def test_even_points_of_many_dimensions_are_hardly_nearer_than_independent_ones() -> None:
    # On a line independent points are at the distances of an exponential distribution, even ones at uniform distances.
    assert least_distance(1.0) == pytest.approx(math.sqrt(1.0 / 6.0))
    assert least_distance(2.0) == pytest.approx(math.sqrt(0.5))
    assert least_distance(14.3) > 0.96
