"""The experiments on methods of choosing inducing points in several columns."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments import inducing_density, inducing_errors
from experiments.inducing_density import likeliest_exponent, neighbour_slope, sample
from tests.experiments.setting import invoke


@pytest.mark.parametrize("exponent", [2.0, 5.0])
def test_the_exponent_of_a_draw_is_found(exponent: float, generator: torch.Generator) -> None:
    points = sample(4000, 2, exponent, generator)
    assert abs(likeliest_exponent(points) - exponent) < 0.3
    assert abs(neighbour_slope(points) - exponent) < 0.6


def test_the_densities_of_all_methods_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inducing_density, "COLUMNS", (2,))
    output = tmp_path / "density.json"
    result = invoke("inducing_density", "--sizes", 300, "--seeds", 1, "--m", 40, "--output", output)
    assert result.exit_code == 0, result.output
    (record,) = json.loads(output.read_text())["results"]
    assert record["kmeans_exponent_2"] < 4.0 < record["cells_exponent_2"] < 6.0
    assert record["cells_share_2"] == record["cells_seconds_2"] / record["fit_seconds_2"]


class Constant:
    """Stands in for the mixture; its error depends on the method."""

    def __init__(self, *, inducing: str, **_: object) -> None:
        self.error = {"kmeans": 2.0, "auto": 1.0}[inducing]

    def fit(self, *_: np.ndarray) -> "Constant":
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.sin(5.0 * X[:, 0]) + self.error


def test_errors_are_compared_with_those_of_kmeans(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inducing_errors, "MixtureRegressor", Constant)
    X = rng.random((400, 2))
    np.savez(tmp_path / "some.npz", X=X, y=np.sin(5.0 * X[:, 0]))
    output = tmp_path / "errors.json"
    options = ("--n", 300, "--seeds", 1, "--names", "some", "--data", tmp_path, "--output", output)
    result = invoke("inducing_errors", *options)
    assert result.exit_code == 0, result.output
    (record,) = json.loads(output.read_text())["results"]
    assert record["ratio"] == pytest.approx(0.5)
