import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import pools
from experiments.pools import PoolSettings, Split, campaign, conclusion, run, stationary_problem
from experiments.repetitions import Result
from tests.experiments.setting import invoke

DATA = Path(os.environ.get("LOBAL_DATA", "no data"))
SIZES = (16, 32)


@pytest.fixture
def path(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Two hundred rows, those in the left half of the square four times as dense as those in the right."""
    X = rng.uniform(size=(200, 2)) * [0.5, 1.0]
    X[160:, 0] += 0.5
    file = tmp_path / "halves.npz"
    np.savez(file, X=X, y=np.sin(6.0 * X[:, 0]) + X[:, 1], crowd=np.where(X[:, :1] < 0.5, 4.0, 1.0))
    return file


def settings_of(path: Path | str, **changes: Any) -> PoolSettings:
    return PoolSettings(**{"data": str(path), "sizes": SIZES, "n_inducing": 16, **changes})


def fake_run(n: int, seed: int, *, settings: PoolSettings) -> Result:
    """Errors that differ from seed to seed far more than between the arms."""
    result: Result = {"n": n, "seed": seed, "intrinsic_dimension": 2.0}
    for size in settings.sizes:
        random = (1.0 + seed) / size
        result |= {f"random_rmse_{size}": random, f"active_rmse_{size}": random * (0.8 if size > 16 else 1.0)}
        result |= {f"random_max_error_{size}": 3.0, f"active_max_error_{size}": 2.0, f"expected_savings_{size}": 0.5}
    return result


def test_the_control_has_unit_variance_and_its_bandwidths_correlation() -> None:
    products, squares = [], []
    for seed in range(40):
        X, _, truth, _ = stationary_problem(seed, rows=400)
        distance = np.linalg.norm(X[:, None] - X, axis=-1)
        near = (distance > 0.09) & (distance < 0.11)
        products.append((truth[:, None] * truth)[near].mean())
        squares.append(np.square(truth).mean())
    assert np.mean(squares) == pytest.approx(1.0, abs=0.1)
    assert np.mean(products) == pytest.approx(np.exp(-0.5), abs=0.1)  # the Gaussian kernel at one bandwidth


def test_the_controls_labels_are_noisy_and_its_truth_is_not() -> None:
    X, y, truth, _ = stationary_problem(0, rows=2000)
    assert np.std(y - truth) == pytest.approx(pools.STATIONARY_NOISE, rel=0.05)
    again = stationary_problem(0, rows=2000)
    np.testing.assert_array_equal(again.truth, truth)
    np.testing.assert_array_equal(again.X, X)


def test_pool_and_test_set_share_the_rows_between_them_with_their_labels(path: Path) -> None:
    split = settings_of(path).split(0)
    rows = np.concatenate([split.pool.X, split.X_test])
    assert len(split.truth) == 40
    np.testing.assert_array_equal(np.unique(rows, axis=0), np.unique(np.load(path)["X"], axis=0))
    assert len(np.unique(rows, axis=0)) == 200
    for X, y in ((split.pool.X, split.y), (split.X_test, split.truth)):
        np.testing.assert_allclose(y, np.sin(6.0 * X[:, 0]) + X[:, 1])


def test_a_uniform_test_density_makes_up_for_the_rows_density(path: Path) -> None:
    split = settings_of(path, density_key="crowd", uniform_test=True).split(0)
    np.testing.assert_array_equal(split.weight, np.where(split.X_test[:, 0] < 0.5, 0.25, 1.0))
    candidates = split.pool.candidates(0)
    weights = (candidates.test_density / candidates.pool_density).numpy()
    left = split.pool.X[:, 0] < 0.5
    assert weights[~left].min() / weights[left].max() == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": (16,)}, "two or more ascending"),
        ({"sizes": (32, 16)}, r"\[32, 16\]"),
        ({"sizes": (2, 16)}, "from 10 on"),
        ({"uniform_test": True}, "--density-key"),
        ({"data": "stationary", "density_key": "crowd"}, "'crowd'"),
    ],
)
def test_settings_that_cannot_be_are_refused(path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        settings_of(path, **changes)


def test_a_pool_smaller_than_the_last_size_is_refused_at_once(path: Path) -> None:
    with pytest.raises(ValueError, match=r"pool of 160 rows.*161 labels"):
        settings_of(path, sizes=(16, 161)).split(0)


def test_all_arms_are_measured_at_every_size_and_the_spread_ones_start_alike(path: Path) -> None:
    result = run(32, 0, settings=settings_of(path, density_key="crowd", uniform_test=True))
    assert result["active_rmse_16"] == result["spread_rmse_16"] != result["random_rmse_16"]
    for arm in ("active", "spread", "random"):
        assert all(result[f"{arm}_max_error_{size}"] > result[f"{arm}_rmse_{size}"] > 0.0 for size in SIZES)
    assert all(0.0 - 1e-9 <= result[f"expected_savings_{size}"] < 1.0 for size in SIZES)


def test_the_random_arm_follows_the_test_density_and_buys_no_row_twice(path: Path) -> None:
    settings = settings_of(path, density_key="crowd", uniform_test=True)
    split: Split = settings.split(0)
    *_, (size, learner) = campaign("random", 0, settings, split)
    density = learner.training_density()
    assert np.allclose(density, density[0])
    assert len(np.unique(learner.labelled.candidate)) == size == 32


def test_the_standard_error_is_that_of_pairs() -> None:
    settings = settings_of("stationary")
    saved = conclusion([fake_run(32, seed, settings=settings) for seed in range(4)], sizes=SIZES)["savings"]
    assert saved["sizes"] == [32]
    assert saved["rho"] == pytest.approx([0.64])
    assert saved["standard_error"] == pytest.approx([0.0], abs=1e-9)  # the seeds differ, their ratios do not
    assert saved["expected_savings"] == [0.5]
    assert saved["verdict"].startswith("active learning saved 36")


def test_the_command_keeps_savings_and_resumes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(n: int, seed: int, *, settings: PoolSettings) -> Result:
        calls.append(seed)
        return fake_run(n, seed, settings=settings)

    monkeypatch.setattr(pools, "run", counted)
    output = path.parent / "record.json"
    for seeds in ("1", "3"):
        options = ["--sizes", "16,32", "--seeds", seeds, "--output", str(output), "--density-key", "crowd"]
        result = invoke("pools", path, *options)
        assert result.exit_code == 0, result.output
    assert calls == [0, 1, 2]
    assert "saved 36" in result.output
    assert json.loads(output.read_text())["savings"]["rho"] == pytest.approx([0.64])


def test_the_record_names_the_data_but_not_their_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "run", fake_run)
    monkeypatch.chdir(path.parent)
    options = ["--sizes", "16,32", "--seeds", "2", "--density-key", "crowd", "--uniform-test"]
    monkeypatch.setattr("sys.argv", ["experiments", "pools", str(path), *options])
    assert invoke("pools", path, *options, "--output", "record.json").exit_code == 0
    record = json.loads(Path("record.json").read_text())
    assert str(path.parent) not in json.dumps(record)
    assert record["settings"]["data"] == "halves"
    assert record["command"].endswith("pools $LOBAL_DATA/halves.npz " + " ".join(options))


def test_the_cavitys_weights_are_its_cells_areas() -> None:
    file = DATA / "thermal_cavity_098.npz"
    if not file.exists():
        pytest.skip(f"thermal_cavity_098.npz is not in the folder that LOBAL_DATA names ({DATA})")
    split = settings_of(file, density_key="inputDensity", uniform_test=True).split(0)
    assert set(split.weight) == {1.0, 1 / 4, 1 / 16}
    assert len(split.pool) == 29_360
    # The middle half of the cavity has half of the area, however few of its points lie there.
    middle = np.abs(split.X_test[:, 0] - 0.5) < 0.25
    assert np.average(middle, weights=split.weight) == pytest.approx(0.5, abs=0.03)
