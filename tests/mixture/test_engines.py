"""Engines as objects: options of their own, nested in the model's, in files and out of place."""

import json
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from lobal import Adam, Analytic, MixtureRegressor
from lobal.experts.svgp import FullCovariance
from lobal.mixture.adam.objective import elbo, squared_error
from lobal.mixture.engine import EngineOptions
from lobal.mixture.options import from_flat_options, options_from_json, options_to_json
from tests.estimator_setting import quick, wave

every_kind = pytest.mark.parametrize("kind", [Analytic, Adam])


def in_json(options: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(options_to_json(options)))


@every_kind
def test_engines_with_the_same_options_are_equal(kind: type[EngineOptions]) -> None:
    assert kind() == kind()
    assert kind(gate_scale=2.0) != kind()
    assert Analytic() != Adam()


def test_the_representation_shows_what_differs_from_the_defaults() -> None:
    assert repr(Adam(sparsity=3, max_epochs=1000)) == "Adam(sparsity=3)"
    assert repr(MixtureRegressor(engine=Analytic(penalty=0.1))) == "MixtureRegressor(engine=Analytic(penalty=0.1))"


@every_kind
def test_a_clone_has_an_equal_engine_of_its_own(kind: type[EngineOptions]) -> None:
    model = MixtureRegressor(engine=kind(gate_scale=2.0))
    copy = clone(model)
    assert copy.engine == model.engine
    assert copy.engine is not model.engine


def test_options_of_the_engine_are_nested_parameters() -> None:
    model = MixtureRegressor(engine=Adam(sparsity=2)).set_params(engine__sparsity=3, n_inducing=20)
    assert model.get_params()["engine__sparsity"] == 3
    assert (model.engine, model.n_inducing) == (Adam(sparsity=3), 20)


def test_an_engine_given_by_name_becomes_an_object_when_its_options_are_set() -> None:
    assert MixtureRegressor(engine="adam").set_params(engine__sparsity=3).engine == Adam(sparsity=3)


def test_options_of_the_engine_can_be_searched() -> None:
    search = GridSearchCV(quick(engine="adam", max_epochs=2), {"engine__penalty": [0.0, 50.0]}, cv=2).fit(*wave(60))
    assert search.best_params_.keys() == {"engine__penalty"}


def test_a_name_and_an_object_train_the_same_model() -> None:
    X, y = wave(60)
    by_name, as_object = (quick().set_params(engine=engine).fit(X, y) for engine in ("analytic", Analytic()))
    assert np.array_equal(by_name.predict(X), as_object.predict(X))


@pytest.mark.parametrize("engine", ["steam", None, Adam])
def test_an_unknown_engine_is_refused_with_the_known_ones(engine: object) -> None:
    message = r"engine must be one of \['adam', 'analytic'\], or lobal.Analytic\(...\) or lobal.Adam\(...\), got"
    with pytest.raises(ValueError, match=message):
        quick().set_params(engine=engine).fit(*wave(40))


def test_an_option_of_an_engine_is_refused_by_the_model() -> None:
    message = "learning_rate is an option of the Adam engine: MixtureRegressor(engine=lobal.Adam(learning_rate=0.1))"
    with pytest.raises(TypeError) as error:
        MixtureRegressor(learning_rate=0.1)  # type: ignore[call-arg]
    assert str(error.value) == message
    with pytest.raises(ValueError, match=r"penalty is an option of the Analytic engine and the Adam engine: .* or "):
        MixtureRegressor().set_params(penalty=0.1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *((name, 0.07) for name in ("penalty", "learning_rate", "hyperparameter_rate", "gate_rate")),
        *((name, 0.2) for name in ("gate_noise", "gate_scale")),
        *((name, 17) for name in ("sparsity", "batch_size", "patience", "max_epochs")),
    ],
)
def test_options_of_adam_reach_its_training(option: str, value: float) -> None:
    assert getattr(Adam(**{option: value}).training(100, "elbo"), option) == value


def test_covariance_and_objective_reach_adam() -> None:
    training = Adam(covariance="full").training(100, "mse")
    assert (training.covariance, training.objective) == (FullCovariance, squared_error)
    assert Adam().training(100, "elbo").objective is elbo


@pytest.mark.parametrize(("n", "size"), [(40, 16), (400, 100), (4000, 512)])
def test_a_batch_is_a_quarter_of_the_labels_within_bounds(n: int, size: int) -> None:
    assert Adam().training(n, "elbo").batch_size == size


def test_options_of_the_analytic_engine_reach_its_training() -> None:
    training = Analytic(penalty=0.07, gate_scale=3.0, weighted=True).training(100, "mse")
    assert (training.penalty, training.gate_scale, training.weighted, training.squared) == (0.07, 3.0, True, True)


@pytest.mark.parametrize("engine", ["analytic", "adam", Analytic(penalty=0.5), Adam(sparsity=3)], ids=str)
def test_options_survive_json(engine: str | EngineOptions) -> None:
    options = MixtureRegressor(engine=engine, bandwidths=np.array([0.5, 1.0])).get_params(deep=False)
    plain = in_json(options)
    assert plain["bandwidths"] == [0.5, 1.0]
    assert options_from_json(plain) == {**options, "bandwidths": [0.5, 1.0]}


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"kind": "steam", "options": {}}, "kind of the engine must be one of .*'steam'"),
        ({"kind": "adam", "options": {"pressure": 3}}, r"options of Adam are .*, got \['pressure'\]"),
        ({"kind": "adam"}, r"options of Adam are .*, got \[None\]"),
    ],
)
def test_a_damaged_engine_is_refused(engine: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        options_from_json({"engine": engine})


def test_flat_options_of_earlier_versions_become_those_of_the_engine() -> None:
    flat = {"engine": "adam", "sparsity": 3, "gate_scale": None, "weighted": True, "n_inducing": 9}
    assert from_flat_options(flat) == {"engine": Adam(sparsity=3), "n_inducing": 9}


def test_flat_options_without_effect_are_dropped() -> None:
    flat = {"gate_fraction": 0.3, "covariance": "full", "max_epochs": 5}
    assert from_flat_options({**flat, "engine": "analytic"}) == {"engine": "analytic"}
    assert from_flat_options({**flat, "engine": "adam"}) == {"engine": Adam(covariance="full", max_epochs=5)}
    exact = from_flat_options({**flat, "engine": "adam", "experts": "exact"})
    assert exact == {"engine": Adam(gate_fraction=0.3, max_epochs=5), "experts": "exact"}
