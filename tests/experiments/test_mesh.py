import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.mesh import comparison, densities
from experiments.mesh.comparison import conclusion, run, uniform_cells
from experiments.mesh.densities import (
    Estimate,
    best_density,
    bilinear,
    complexity,
    most_curved,
    sizes_up_to,
    squared_amplitude,
    superior,
)
from experiments.mesh.field import Cells, Field, lattice, load_cells
from experiments.mesh.settings import MeshSettings
from experiments.repetitions import Result
from tests.experiments.setting import invoke

DATA = Path(os.environ.get("LOBAL_DATA", "no data"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A steep front on 24 x 24 cells of equal size."""
    X = lattice(24)
    file = tmp_path / "front.npz"
    np.savez(file, X=X, y=np.tanh(12.0 * (X[:, 0] - 0.3)) + 0.1 * X[:, 1], inputDensity=np.ones((len(X), 1)))
    return file


def small(path: Path, **changes: Any) -> MeshSettings:
    return MeshSettings(**{"data": str(path), "budgets": (100, 200), "points": 64, **changes})


def made_up(n: int, seed: int, budgets: tuple[int, ...]) -> Result:
    """A uniform grid whose error is 1 / cells; grids of n labels that need half, two thirds, ... of the cells."""
    result: Result = {"n": n, "seed": seed}
    if n == 0:
        return result | {f"uniform_rmse_{side}": 1.0 / side**2 for side in comparison.UNIFORM_SIDES}
    for budget in budgets:
        result |= {f"superior_cells_{budget}": budget, f"superior_rmse_{budget}": (seed + 1) / (seed + 2) / budget}
    return result


def test_the_density_of_cells_is_read_from_either_array(path: Path) -> None:
    X = lattice(8)
    weights = np.linspace(0.5, 2.0, len(X))
    np.savez(path, X=X, y=X[:, 0], importanceWeights=weights)
    np.testing.assert_allclose(load_cells(path).density, 1.0 / weights)
    np.savez(path, X=X, y=X[:, 0])
    with pytest.raises(ValueError, match="inputDensity, importanceWeights, it holds"):
        load_cells(path)
    np.savez(path, X=X[:, :1], y=X[:, 0], inputDensity=weights)
    with pytest.raises(ValueError, match="two columns in X, got 1"):
        load_cells(path)


@pytest.mark.parametrize("is_cubic", [False, True])
def test_a_field_is_what_the_cells_have_within_half_a_cell_of_the_walls(is_cubic: bool) -> None:
    X = lattice(20)
    field = Field(Cells(X, X @ [1.0, 2.0], np.ones(len(X))), is_cubic=is_cubic)
    assert field.margin == pytest.approx(1 / 40)
    points = np.array([[0.0, 0.0], [0.3, 0.8], [1.0, 1.0]])
    np.testing.assert_allclose(field(points), field.inputs(points) @ [1.0, 2.0], atol=1e-6)


def test_cells_that_leave_out_a_part_of_the_square_are_refused() -> None:
    X = lattice(20) * [0.5, 1.0]
    with pytest.raises(ValueError, match="must fill the unit square"):
        Field(Cells(X, X[:, 0], np.ones(len(X))))


def test_densities_are_the_powers_of_the_derivation(rng: np.random.Generator) -> None:
    LFC, q = rng.lognormal(size=(2, 8, 8))
    np.testing.assert_allclose(superior(LFC, q), np.sqrt(LFC * q))
    np.testing.assert_allclose(superior(LFC), np.sqrt(LFC))
    np.testing.assert_allclose(bilinear(LFC), np.cbrt(LFC**2))
    np.testing.assert_allclose(bilinear(LFC, q), np.cbrt(q * LFC**2))


def test_no_other_density_has_a_smaller_error_of_bilinear_cells(rng: np.random.Generator) -> None:
    LFC, q = rng.lognormal(size=(2, 8, 8))

    def error(density: np.ndarray) -> float:
        return float((q * LFC**2 * (density / density.sum()) ** -2).sum())

    best = bilinear(LFC, q)
    assert error(best) < error(superior(LFC, q))
    assert all(error(best) < error(best * rng.lognormal(sigma=0.1, size=best.shape)) for _ in range(20))


def test_the_amplitude_is_that_of_a_wave_whatever_its_length() -> None:
    x = (np.arange(128) + 0.5) / 128
    wave = np.where(x < 0.5, 3.0 * np.sin(100.0 * x), np.sin(200.0 * x))
    sigma, wave = np.broadcast_arrays(np.where(x < 0.5, 0.04, 0.02), np.tile(wave, (128, 1)))
    model = Estimate(sigma, wave)
    found = squared_amplitude(model, 1.0)
    assert found[:, 32].mean() == pytest.approx(4.5, rel=0.1)
    assert found[:, 96].mean() == pytest.approx(0.5, rel=0.1)


def test_complexity_is_the_inverse_square_of_the_bandwidth() -> None:
    np.testing.assert_allclose(complexity(np.array([[0.5, 0.1]])), [[4.0, 100.0]])


def test_curvature_is_that_of_a_parabola_up_to_the_edges() -> None:
    x, y = lattice(32).T.reshape(2, 32, 32)
    np.testing.assert_allclose(densities.squared_curvature(1.5 * x**2 + 2.0 * y**2), 25.0)


def test_the_best_density_is_that_of_least_error_and_its_greatest_tenth_is_most_curved(path: Path) -> None:
    density = best_density(Field(load_cells(path), is_cubic=True))
    assert density.shape == (densities.SIDE, densities.SIDE)
    curved = most_curved(density)
    assert curved.mean() == pytest.approx(0.1, abs=0.01)
    assert density[curved].min() >= density[~curved].max()
    front = np.abs(lattice(densities.SIDE)[:, 0].reshape(density.shape) - 0.3)
    assert front[curved].max() < 0.2


def test_models_are_fitted_at_doubled_numbers_of_labels() -> None:
    assert sizes_up_to(512) == [128, 256, 512]
    assert sizes_up_to(200) == [200]


def test_uniform_grids_have_as_many_cells_as_their_error_says() -> None:
    uniform = made_up(0, 0, ())
    np.testing.assert_allclose(uniform_cells(uniform, np.array([1e-2, 1e-3])), [100.0, 1000.0])
    with pytest.raises(ValueError, match="those of uniform grids"):
        uniform_cells(uniform, np.array([1e-9]))


def test_a_uniform_grid_that_is_no_better_than_a_coarser_one_does_not_count() -> None:
    uniform = made_up(0, 0, ())
    sides = comparison.UNIFORM_SIDES
    uniform |= {f"uniform_rmse_{side}": 1.0 / sides[4] ** 2 for side in sides[5:8]}
    np.testing.assert_allclose(uniform_cells(uniform, np.array([1.0 / sides[4] ** 2])), sides[4] ** 2)
    between = uniform_cells(uniform, np.array([1.0 / (sides[4] * sides[8])]))
    np.testing.assert_allclose(between, sides[4] * sides[8])


def test_relative_cells_have_a_standard_error_over_seeds() -> None:
    results = [made_up(n, seed, (100, 200)) for n, seed in ((0, 0), (50, 0), (50, 1))]
    found = conclusion(results, budgets=(100, 200))
    overall = found["relative_cells"]["50"]["superior"]["overall"]
    assert overall["mean"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert overall["standard_error"] == pytest.approx(1 / 12)
    assert found["with_labels"]["50"]["superior"]["100"]["mean"] == pytest.approx(1.5 * overall["mean"])


def test_every_grid_of_labels_stays_within_its_budget(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(densities, "SIDE", 32)
    result = run(40, 0, settings=small(path))
    names = [name for name in result if "_cells_" in name]
    assert len(names) == 2 * 15
    assert all(0.8 * int(name.rsplit("_", 1)[1]) < result[name] <= int(name.rsplit("_", 1)[1]) for name in names)
    assert all(0.0 < result[name.replace("cells", "rmse")] < math.inf for name in names)


def test_solvers_grids_beat_uniform_ones_on_a_front(path: Path) -> None:
    results = [run(0, 0, settings=small(path))]
    ratios = conclusion(results, budgets=(100, 200))["relative_cells"]["0"]
    assert ratios["error"]["overall"]["mean"] < ratios["curvature_3"]["overall"]["mean"] < 1.0


def test_the_command_writes_a_record_and_resumes_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    def counted(n: int, seed: int, *, settings: MeshSettings) -> Result:
        calls.append((n, seed))
        return made_up(n, seed, settings.budgets)

    monkeypatch.setattr(comparison, "run", counted)
    output = path.parent / "record.json"
    for seeds in (1, 2):
        options = ("--budgets", "64,80", "--labels", "20", "--seeds", seeds, "--output", output)
        result = invoke("mesh", path, *options)
        assert result.exit_code == 0, result.output
    assert calls == [(0, 0), (20, 0), (20, 1)]
    assert "superior                 0.583 ± 0.083" in result.output
    assert json.loads(output.read_text())["settings"]["data"] == "front"


@pytest.mark.parametrize(
    ("options", "message"), [(["--budgets", "10"], "from 64 on"), (["--labels", "5"], "between 10 and the file's 576")]
)
def test_bad_options_are_said_at_once(path: Path, options: list[str], message: str) -> None:
    result = invoke("mesh", path, *options, "--output", path.parent / "record.json")
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_the_cavity_is_surrounded_by_its_cells_but_for_a_corner() -> None:
    file = DATA / "thermal_cavity_098.npz"
    if not file.exists():
        pytest.skip(f"thermal_cavity_098.npz is not in the folder that LOBAL_DATA names ({DATA})")
    cells = load_cells(file)
    np.testing.assert_allclose(cells.sides, [1 / 392, 1 / 196, 1 / 98])
    assert Field(cells).margin == pytest.approx(1 / 392)
