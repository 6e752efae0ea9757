import json
from pathlib import Path

import numpy as np
import pytest

from experiments import patch_size
from experiments.patch_size import PATCHES, doublings, judged, map_figure, of_width, run_map, run_named
from experiments.peers.problems import sampled
from lobal.mixture.estimator import MixtureRegressor
from tests.experiments.setting import invoke


class WithoutPatch:
    """Stands in for the mixture: knows the function but for the patch."""

    noise_ = 0.04

    def __init__(self, **_: object) -> None: ...

    def fit(self, *_: np.ndarray, **__: np.ndarray) -> "WithoutPatch":
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.sin(3.0 * X[:, 0]) + X[:, 1]


@pytest.mark.parametrize("name", PATCHES)
def test_nothing_is_explained_by_what_knows_everything_but_the_patch(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patch_size, "MixtureRegressor", WithoutPatch)
    patch = PATCHES[name]
    case = sampled(patch.problem, 0)
    found = judged(patch, case, 20, 0, active=False)
    assert found.explained == pytest.approx(0.0)
    assert found.rmse == pytest.approx(np.sqrt(np.mean(patch.alone(case.X_test) ** 2)))
    assert found.noise == pytest.approx(0.2)
    assert run_named(20, 0, active=False, names=(name,))[f"rmse_{name}"] == found.rmse


def test_a_patch_is_a_wave_of_its_column_under_a_gaussian() -> None:
    flat, X = PATCHES["patch2_flat"], np.array([[0.7, 0.3], [0.9, 0.3], [0.7, 0.36]])
    waves, falls = 1.5 * np.sin(50.0 * X[:, 1]), np.exp([0.0, -0.5, -0.5])
    np.testing.assert_allclose(flat.alone(X), waves * falls, rtol=1e-6)
    np.testing.assert_allclose(flat.function(X) - flat.alone(X), np.sin(3.0 * X[:, 0]) + X[:, 1])
    assert of_width(0.08) == PATCHES["patch2"]


def test_a_wide_patch_is_explained_by_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch_size, "SIDE", 30)
    assert run_map(150, 1, widths=(0.3,))["explained_0.3"] > 0.9


def test_campaigns_double_their_labels_and_weigh_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(doublings(800)) == [50, 100, 200, 400, 800]
    assert list(doublings(120)) == [50, 100, 120]
    monkeypatch.setattr(patch_size, "START", 15)
    weights = []

    class Watched(MixtureRegressor):
        def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray) -> MixtureRegressor:
            weights.append(sample_weight)
            return super().fit(X, y, sample_weight)

    monkeypatch.setattr(patch_size, "MixtureRegressor", Watched)
    assert run_named(30, 0, active=True, names=("patch2_slow",))["rmse_patch2_slow"] > 0.0
    assert [len(weight) for weight in weights] == [30]
    assert np.ptp(weights[0]) > 0.0


def invented(n: int, seed: int, *, widths: tuple[float, ...]) -> dict[str, float]:
    return {"n": n, "seed": seed, **{f"explained_{s}": 2000.0 * s * n / 1e5 + 0.01 * seed for s in widths}}


def test_the_map_has_a_cell_for_every_width_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch_size, "run_map", invented)
    files = ("--output", tmp_path / "record.json", "--figure", tmp_path / "map.png")
    result = invoke("patch_size", "--sizes", "100,400", "--widths", "0.03,0.12", "--seeds", 2, *files)
    assert result.exit_code == 0, result.output
    assert "0.245 ± 0.005" in result.output
    assert (tmp_path / "map.png").stat().st_size > 0
    figure = map_figure(json.loads((tmp_path / "record.json").read_text()), (0.03, 0.12))
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.07", "0.24", "0.24", "0.96"]
    assert len(figure.axes[0].collections) == 1  # the line of one half
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["half of the patch is explained (0.5)"]


def test_named_patches_are_listed_with_their_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch_size, "MixtureRegressor", WithoutPatch)
    result = invoke("patches", "--sizes", "20", "--seeds", 1, "--output", tmp_path / "record.json")
    assert result.exit_code == 0, result.output
    assert all(name in result.output for name in PATCHES)
    assert "0.200" in result.output
    bad = invoke("patches", "--names", "patch9", "--output", tmp_path / "other.json")
    assert bad.exit_code == 2
    assert "patch9" in bad.output
