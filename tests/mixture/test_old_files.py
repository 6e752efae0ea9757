"""Models that version 0.1.0 saved, with what it predicted."""

import json
from pathlib import Path

import numpy as np
import pytest

from lobal import Adam, MixtureRegressor

FOLDER = Path(__file__).parents[1] / "fixtures" / "models"
every_file = pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.lobal")))


@every_file
def test_a_model_of_an_earlier_version_predicts_the_same(name: str) -> None:
    model = MixtureRegressor.load(FOLDER / f"{name}.lobal")
    expected = json.loads((FOLDER / f"{name}.json").read_text())
    X = np.array(expected["inputs"])
    mean, std = model.predict(X, return_std=True)
    found = {
        "mean": mean,
        "std": std,
        "local_bandwidth": model.local_bandwidth(X),
        "local_complexity": model.local_complexity(X),
        "gate": model.gate(X),
        "noise_variance": model.noise_variance(X),
        "noise": model.noise_,
        "validation_error": model.validation_error_,
    }
    for key, values in found.items():
        np.testing.assert_allclose(values, expected[key], rtol=1e-10, atol=1e-10, err_msg=key)
    assert model.has_constant_noise == expected["has_constant_noise"]


@every_file
def test_it_can_be_saved_and_fitted_again(name: str, tmp_path: Path) -> None:
    model = MixtureRegressor.load(FOLDER / f"{name}.lobal")
    model.save(tmp_path / "model.lobal")
    again = MixtureRegressor.load(tmp_path / "model.lobal")
    assert again.get_params() == model.get_params()
    X = np.random.default_rng(0).random((40, model.n_features_in_))
    assert np.isfinite(again.fit(X, np.sin(6.0 * X[:, 0])).predict(X)).all()


def test_flat_options_of_adam_are_those_of_its_engine() -> None:
    model = MixtureRegressor.load(FOLDER / "adam_softmax.lobal")
    assert model.engine == Adam(sparsity=3, covariance="diagonal", max_epochs=20)
