"""`preset="paper"`: what it sets, what it equals, and what wins beside it."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from lobal import Adam, Analytic, MixtureRegressor
from lobal.mixture.adam import tuning as adam_tuning
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.options import default_bandwidths, mixture_settings
from lobal.mixture.presets import PRESETS
from tests.estimator_setting import FEW_CANDIDATES, wave
from tests.mixture.test_estimator import EXPECTED_FAILURES

# The paper's settings by the names of their options, spelt out; `test_every_setting...` has where they stand.
ENGINE = {
    "sparsity": 2,
    "penalty": 0.5,
    "gate_scale": 10.0,
    "learning_rate": 0.01,
    "hyperparameter_rate": 0.2,
    "gate_rate": 1.0,
    "gate_noise": 0.1,
    "batch_size": 512,
    "covariance": "zero",
}
MODEL = {
    "kernel": "gaussian",
    "experts": "sparse",
    "n_inducing": 512,
    "n_gate_inducing": 128,
    "inducing": "svgd",
    "tuning": "once",
    "objective": "elbo",
}


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, candidates in FEW_CANDIDATES.items():
        monkeypatch.setattr(adam_tuning, name, candidates)


def short(model: MixtureRegressor, **changes: Any) -> MixtureRegressor:
    """The model with small fits."""
    small = {"n_inducing": 30, "n_gate_inducing": 10, "engine__max_epochs": 4, "random_state": 0}
    return model.set_params(**{**small, **changes})


def test_the_preset_sets_the_papers_options() -> None:
    options = MixtureRegressor(preset="paper").get_params(deep=False)
    assert {name: options[name] for name in MODEL} == MODEL
    assert {name: getattr(options["engine"], name) for name in ENGINE} == ENGINE
    assert set(PRESETS["paper"]) == {*MODEL, "engine"}
    untouched = MixtureRegressor().get_params(deep=False)
    assert {name: options[name] for name in untouched.keys() - MODEL.keys() - {"engine", "preset"}} == {
        name: untouched[name] for name in untouched.keys() - MODEL.keys() - {"engine", "preset"}
    }


def test_every_setting_of_sections_4_and_5_1_reaches_the_training() -> None:
    options = MixtureRegressor(preset="paper").get_params(deep=False)
    settings = mixture_settings(options, n=512, d=1, dimension=1.0, label_scale=1.0)
    training = settings.training
    assert isinstance(training, AdamSettings)
    assert (training.sparsity, training.penalty, training.batch_size) == (2, 0.5, 512)  # kappa, theta, B: Sec. 5.1
    assert (training.learning_rate, training.hyperparameter_rate, training.gate_rate) == (0.01, 0.2, 1.0)  # Sec. 5.1
    assert (training.gate_noise, training.gate_noise_decay) == (0.1, pytest.approx(1 / math.sqrt(2)))  # Sec. 4.4.3
    assert (training.gate_scale, training.smallest_rate) == (10.0, 1 / 1000)  # Sec. 5.1, Sec. 4.4.2
    assert (settings.n_inducing, settings.n_gate_inducing) == (512, 128)  # Sec. 5.1; n_0 and n_0 / 4 of Algorithm 2
    assert settings.bandwidths.tolist() == default_bandwidths(1.0).tolist() == [2.0**step for step in range(-3, 4)]
    assert mixture_settings(options, n=32768, d=1, dimension=1.0, label_scale=1.0).training == training


@pytest.mark.usefixtures("few_candidates")
def test_the_preset_equals_its_options_spelt_out() -> None:
    X, y = wave(80)
    models = [MixtureRegressor(preset="paper"), MixtureRegressor(engine=Adam(**ENGINE), **MODEL)]
    means = [short(model).fit(X, y).predict(X) for model in models]
    assert np.array_equal(*means)
    assert models[0].tuning_ == models[1].tuning_
    assert models[0].tuned_params_ == models[1].tuned_params_


@pytest.mark.parametrize("given", [{"tuning": "fast"}, {"inducing": "auto"}, {"n_inducing": None}], ids=str)
def test_options_beside_the_preset_win_also_if_they_are_defaults(given: dict[str, Any]) -> None:
    options = MixtureRegressor(preset="paper", **given).get_params(deep=False)
    assert {name: options[name] for name in given} == given
    assert isinstance(options["engine"], Adam)


def test_an_engine_beside_the_preset_replaces_the_papers_as_a_whole() -> None:
    model = MixtureRegressor(preset="paper", engine=Adam(sparsity=3))
    assert (model.engine.sparsity, model.engine.penalty) == (3, None)
    model = MixtureRegressor(preset="paper", engine=Analytic())
    with pytest.raises(ValueError, match=r"tuning='once' needs the Adam engine, got Analytic\(\)"):
        model.fit(*wave(40))


def test_clones_are_equal_and_independent() -> None:
    model = MixtureRegressor(preset="paper", tuning="off", scale=2.0)
    copied = clone(model)
    assert str(copied.get_params()) == str(model.get_params())
    copied.set_params(engine__penalty=0.1)
    assert (model.engine.penalty, MixtureRegressor(preset="paper").engine.penalty) == (0.5, 0.5)


def test_set_params_takes_the_preset_with_its_options_and_gives_them_back() -> None:
    model = MixtureRegressor(scale=2.0).set_params(preset="paper", tuning="off", engine__penalty=0.1)
    assert (model.tuning, model.inducing, model.engine.penalty, model.scale) == ("off", "svgd", 0.1, 2.0)
    assert model.set_params(preset="paper").tuning == "off"  # as it was
    assert str(model.set_params(preset=None)) == str(MixtureRegressor(scale=2.0))


@pytest.mark.parametrize("model", [MixtureRegressor(preset="thesis"), MixtureRegressor().set_params(preset="thesis")])
def test_an_unknown_preset_is_refused_by_the_fit(model: MixtureRegressor) -> None:
    with pytest.raises(ValueError, match=r"preset must be None or one of \['paper'\], got 'thesis'"):
        model.fit(*wave(40))


@pytest.mark.usefixtures("few_candidates")
def test_a_saved_model_keeps_its_preset_and_what_was_found(tmp_path: Path) -> None:
    X, y = wave(60)
    model = short(MixtureRegressor(preset="paper")).fit(X, y)
    model.save(tmp_path / "model.lobal")
    loaded = MixtureRegressor.load(tmp_path / "model.lobal")
    assert (loaded.preset, str(loaded.get_params())) == ("paper", str(model.get_params()))
    assert loaded.tuned_params_ == model.tuned_params_
    assert np.array_equal(loaded.predict(X), model.predict(X))


@parametrize_with_checks(
    [short(MixtureRegressor(preset="paper", tuning="off"), engine__max_epochs=2)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
@pytest.mark.filterwarnings("ignore::lobal.mixture.outliers.OutlierWarning")
def test_scikit_learn_conventions_hold_with_the_preset(estimator: MixtureRegressor, check: Any) -> None:
    check(estimator)
