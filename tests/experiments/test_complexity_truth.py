import json
from pathlib import Path

import numpy as np
import pytest

from experiments.complexity_truth import KNOWN, curvature, rank_correlation, run, squared_hessian_norm
from tests.experiments.setting import invoke


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_hessian_of_a_quadratic_form_is_its_matrix(d: int, rng: np.random.Generator) -> None:
    A, X = rng.random((d, d)), rng.random((5, d))
    found = squared_hessian_norm(lambda points: ((points @ A) * points).sum(1), X, 0.01)
    np.testing.assert_allclose(found, np.square(A + A.T).sum(), rtol=1e-6)


def test_the_curvature_of_a_wave_is_its_root_mean_square(rng: np.random.Generator) -> None:
    X = 0.5 + 0.1 * rng.random((20, 1))
    found = curvature(lambda points: np.sin(200.0 * points[:, 0]), X, 0.1, rng)
    assert np.median(found) == pytest.approx(200.0**2 / np.sqrt(2.0), rel=0.5)  # steps of two radians are long
    found = curvature(lambda points: np.sin(200.0 * points[:, 0]), X, 0.02, rng)
    assert np.median(found) == pytest.approx(200.0**2 / np.sqrt(2.0), rel=0.1)


@pytest.mark.parametrize("name", [name for name, known in KNOWN.items() if known.order is not None])
@pytest.mark.parametrize("n", [100, 1600])
def test_the_truth_of_a_chirp_has_the_order_of_its_frequency(name: str, n: int, rng: np.random.Generator) -> None:
    function, d, order = KNOWN[name]
    X = rng.random((500, d))
    assert order is not None
    assert rank_correlation(curvature(function, X, n ** (-1.0 / d) / 2.0, rng), order(X)) > 0.9


def test_the_truth_of_a_patch_is_largest_in_its_middle(rng: np.random.Generator) -> None:
    X = rng.random((1000, 2))
    found = curvature(KNOWN["patch2"].function, X, 0.02, rng)
    near = np.linalg.norm(X - [0.7, 0.3], axis=1) < 0.1
    assert found[near].min() > found[np.linalg.norm(X - [0.7, 0.3], axis=1) > 0.3].max()


def test_a_jump_is_curved_where_labels_straddle_it_and_flat_elsewhere(rng: np.random.Generator) -> None:
    X = rng.random((1000, 4))
    distance = np.abs(X[:, 0] + 0.3 * X[:, 1] - 0.7) / np.sqrt(1.09)
    found = curvature(KNOWN["jump4"].function, X, 0.1, rng)
    assert np.ptp(found[distance > 0.12]) == 0.0
    assert found[distance < 0.05].min() > 1e3 * found[distance > 0.12].max()


def test_what_is_constant_orders_nothing(rng: np.random.Generator) -> None:
    a = rng.random(20)
    assert rank_correlation(a, np.exp(a)) == pytest.approx(1.0)
    assert rank_correlation(a, np.ones(20)) == 0.0


def test_a_chirp_is_found() -> None:
    result = run(100, 0, functions=("chirp1",))
    assert result["rank_chirp1"] > 0.7
    assert result["known_chirp1"] > 0.9


def test_the_command_draws_a_panel_for_every_number_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def correlations(n: int, seed: int, *, functions: tuple[str, ...]) -> dict[str, float]:
        return {"n": n, "seed": seed, **{f"rank_{name}": 0.5 + 0.1 * seed for name in functions}}

    monkeypatch.setattr("experiments.complexity_truth.run", correlations)
    files = ("--output", tmp_path / "record.json", "--figure", tmp_path / "figure.png")
    result = invoke("complexity_truth", "--sizes", "20,40", "--seeds", 2, *files)
    assert result.exit_code == 0, result.output
    assert "0.55 ± 0.05" in result.output
    assert len(json.loads((tmp_path / "record.json").read_text())["results"]) == 4
    assert (tmp_path / "figure.png").stat().st_size > 0


def test_unknown_functions_are_named(tmp_path: Path) -> None:
    result = invoke("complexity_truth", "--functions", "chirp1,wave9", "--output", tmp_path / "record.json")
    assert result.exit_code == 2
    assert "wave9" in result.output
