"""Neither the offset nor the scale of a column or of the labels changes what is predicted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lobal
from lobal.core.units import UnusableColumnWarning

RNG = np.random.default_rng(0)
X, AT = RNG.random((60, 2)), RNG.random((20, 2))
Y = np.sin(3.0 / (X[:, 0] + 0.3)) + X[:, 1] + 0.1 * RNG.normal(size=60)
ANALYTIC = {"n_gate_inducing": 16}
ADAM = {"engine": lobal.Adam(max_epochs=5), "n_inducing": 20, "n_gate_inducing": 10}
INPUTS = [(1.0, -1e6), (1e-200, 0.0), ([1e-200, 1e200], [0.0, 1e206])]
LABELS = [(1.0, 1e6), (1e-130, 0.0), (1e130, 1e136)]


def fitted(a: Any = 1.0, b: Any = 0.0, c: float = 1.0, d: float = 0.0, **options: Any) -> lobal.MixtureRegressor:
    model = lobal.MixtureRegressor(random_state=0, **(options or ANALYTIC))
    return model.fit(np.asarray(a) * X + b, c * Y + d)


@pytest.mark.parametrize("options", [ANALYTIC, ADAM, {**ANALYTIC, "smoothness": 2.0}], ids=["exact", "adam", "rough"])
@pytest.mark.parametrize(("a", "b"), INPUTS)
def test_predictions_do_not_depend_on_offset_and_scale_of_the_inputs(a: Any, b: Any, options: Any) -> None:
    plain, other = fitted(**options), fitted(a, b, **options)
    at = np.asarray(a) * AT + b
    for got, expected in zip(other.predict(at, return_std=True), plain.predict(AT, return_std=True), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4)
    width = np.exp(np.log(np.broadcast_to(a, 2)).mean())
    np.testing.assert_allclose(other.local_bandwidth(at) / width, plain.local_bandwidth(AT), rtol=1e-4)
    complexity, expected = other.local_complexity(at), plain.local_complexity(AT)
    np.testing.assert_allclose(complexity / complexity[0], expected / expected[0], rtol=1e-3)


@pytest.mark.parametrize("options", [ANALYTIC, ADAM, {**ANALYTIC, "noise": "estimate"}], ids=["exact", "adam", "noise"])
@pytest.mark.parametrize(("c", "d"), LABELS)
def test_predictions_follow_offset_and_scale_of_the_labels(c: float, d: float, options: Any) -> None:
    plain, other = fitted(c=1.0, **options), fitted(c=c, d=d, **options)
    mean, std = other.predict(AT, return_std=True)
    np.testing.assert_allclose((mean - d) / c, plain.predict(AT), atol=1e-4)
    np.testing.assert_allclose(std / c, plain.predict(AT, return_std=True)[1], rtol=1e-4)
    np.testing.assert_allclose(other.local_bandwidth(AT), plain.local_bandwidth(AT), rtol=1e-4)


def test_columns_at_a_million_with_a_spread_of_a_millionth_are_learned_from() -> None:
    model = fitted(1e-6, 1e6)
    assert model.score(1e6 + 1e-6 * X, Y) > 0.8


def test_labels_at_a_billion_with_a_spread_of_a_thousandth_are_learned_from() -> None:
    assert fitted(c=1e-3, d=1e9).score(X, 1e9 + 1e-3 * Y) > 0.8


@pytest.mark.parametrize("c", [1e200, 1e-200, 9e307])
def test_labels_whose_variance_is_no_number_are_refused(c: float) -> None:
    with pytest.raises(
        ValueError, match=r"labels must have a standard deviation between 1e-140 .*; give y / [0-9].* instead"
    ):
        fitted(c=c)


def test_constant_labels_are_predicted_at_any_size() -> None:
    model = lobal.MixtureRegressor(**ANALYTIC).fit(X, np.full(60, 1e200))
    np.testing.assert_allclose(model.predict(AT), 1e200)


def test_a_huge_constant_column_changes_nothing() -> None:
    wide, at = (np.column_stack([part, np.full(len(part), 1e200)]) for part in (X, AT))
    model = lobal.MixtureRegressor(random_state=0, intrinsic_dimension=2.0, **ANALYTIC)
    assert model.fit(wide, Y).score(at, fitted().predict(AT)) > 0.9


def test_a_column_of_rounding_alone_is_named_and_not_used() -> None:
    wide = np.column_stack([X, 1e6 + 1e-10 * X[:, 0]])
    with pytest.warns(UnusableColumnWarning, match="column 2 of X is not used"):
        model = lobal.MixtureRegressor(**ANALYTIC).fit(wide, Y)
    moved = wide + np.array([0.0, 0.0, 1e9])
    np.testing.assert_array_equal(model.predict(moved), model.predict(wide))


def test_the_noise_is_a_function_of_the_inputs_as_they_are() -> None:
    seen: list[np.ndarray] = []
    noise = lambda points: seen.append(points) or np.full(len(points), 0.01)  # noqa: E731
    model = lobal.MixtureRegressor(random_state=0, noise=noise, **ANALYTIC).fit(1e6 + X, Y)
    model.noise_variance(1e6 + AT)
    assert all(np.isin(points, [*(1e6 + X).flat, *(1e6 + AT).flat]).all() for points in seen)


def test_given_widths_are_in_units_of_the_inputs() -> None:
    widths = {"shared_bandwidth": 0.5, "gate_bandwidth": 1.0, **ANALYTIC}
    far = fitted(1.0, 1e6, **widths).predict(1e6 + AT)
    np.testing.assert_allclose(far, fitted(**widths).predict(AT), rtol=1e-4)


def test_models_in_other_units_are_saved_with_them(tmp_path: Path) -> None:
    model, at = fitted([1e-200, 1e200], [0.0, 1e206]), AT * [1e-200, 1e200] + [0.0, 1e206]
    model.save(tmp_path / "model.lobal")
    loaded = lobal.MixtureRegressor.load(tmp_path / "model.lobal")
    np.testing.assert_array_equal(loaded.predict(at), model.predict(at))
    np.testing.assert_array_equal(loaded.local_bandwidth(at), model.local_bandwidth(at))
