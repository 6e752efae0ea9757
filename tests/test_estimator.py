import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lobal import MixtureRegressor
from lobal.mixture.options import default_bandwidths, default_penalty

# Why a scikit-learn check cannot hold for this estimator.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "weights are importance weights: only their ratios count, and the random share that steers training "
        "cannot be the same with and without repeated rows"
    )
}


def quick(**changes: Any) -> MixtureRegressor:
    return MixtureRegressor(**{"max_epochs": 15, "patience": 3, "n_inducing": 60, "random_state": 0, **changes})


def wave(n: int = 120, seed: int = 0, d: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, np.sin(9 * X[:, 0]) + 0.1 * rng.standard_normal(n)


@parametrize_with_checks([quick(max_epochs=5)], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learn_conventions(estimator: MixtureRegressor, check: Any) -> None:
    check(estimator)


def test_no_argument_gives_a_sensible_model() -> None:
    X, y = wave(200)
    mean, std = MixtureRegressor(random_state=0).fit(X, y).predict(X, return_std=True)
    truth = np.sin(9 * X[:, 0])
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.06
    assert 0.08 < np.median(std) < 0.13


@pytest.mark.parametrize(("input_unit", "label_unit", "shift"), [(1e-6, 1e9, 0.0), (1e6, 1e-9, 1e3)])
def test_units_of_inputs_and_labels_do_not_matter(input_unit: float, label_unit: float, shift: float) -> None:
    X, y = wave()
    plain = quick().fit(X, y)
    scaled = quick().fit(input_unit * X, label_unit * (y + shift))
    assert np.allclose(scaled.predict(input_unit * X) / label_unit - shift, plain.predict(X), atol=1e-4)
    assert np.allclose(scaled.local_bandwidth(input_unit * X), input_unit * plain.local_bandwidth(X), rtol=1e-3)
    assert scaled.noise_ == pytest.approx(label_unit**2 * plain.noise_, rel=1e-3)


def test_the_same_seed_gives_the_same_model() -> None:
    X, y = wave()
    first, again, other = (quick(random_state=seed).fit(X, y).predict(X) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_gate_rows_sum_to_one_with_at_most_kappa_experts() -> None:
    X, y = wave()
    gate = quick(sparsity=2).fit(X, y).gate(X)
    assert gate.shape == (120, 7)
    assert np.allclose(gate.sum(1), 1.0)
    assert (gate > 0).sum(1).max() <= 2


def test_complexity_is_the_reciprocal_volume_at_infinite_smoothness() -> None:
    X, y = wave(d=2)
    model = quick(intrinsic_dimension=2).fit(X, y)
    assert np.allclose(model.local_complexity(X), model.local_bandwidth(X) ** -2)


def test_complexity_at_finite_smoothness_corrects_for_the_training_density() -> None:
    X, y = wave()
    model = quick(smoothness=2.0).fit(X, y)
    given = model.local_complexity(X, density=np.full(120, 2.0))
    assert np.allclose(given, 2.0 ** (-1 / 5) / model.local_bandwidth(X))
    estimated = model.local_complexity(X)
    assert np.isfinite(estimated).all()
    assert not np.allclose(estimated, 1 / model.local_bandwidth(X))


def test_uncertainty_is_at_least_the_noise() -> None:
    X, y = wave()
    model = quick().fit(X, y)
    assert (model.uncertainty(X) >= model.noise_).all()


def test_the_standard_deviation_grows_away_from_the_data() -> None:
    X, y = wave()
    _, std = quick().fit(X, y).predict([[0.5], [3.0]], return_std=True)
    assert std[1] > 3 * std[0]


@pytest.mark.parametrize("noise", [0.01, lambda X: 0.01 + 0 * X[:, 0]])
def test_known_noise_is_not_learned(noise: Any) -> None:
    X, y = wave()
    model = quick(noise=noise).fit(X, y)
    assert model.noise_ == pytest.approx(0.01)


def test_noise_given_point_by_point_lets_the_model_ignore_bad_labels() -> None:
    X, y = wave()
    bad = np.arange(120) % 4 == 0
    spoiled = np.where(bad, y + 3.0, y)
    known = quick().fit(X, spoiled, noise_variance=np.where(bad, 1e4, 0.01))
    unknown = quick().fit(X, spoiled)
    truth = np.sin(9 * X[:, 0])
    assert np.std(known.predict(X) - truth) < 0.1 < np.std(unknown.predict(X) - truth)


def test_a_function_for_the_noise_shows_in_the_standard_deviation() -> None:
    X, y = wave()
    _, std = quick(noise=lambda X: 0.01 + X[:, 0]).fit(X, y).predict([[0.1], [0.9]], return_std=True)
    assert std[1] > 2 * std[0]


def test_weights_are_importance_weights() -> None:
    X, y = wave()
    left = X[:, 0] < 0.5
    y = np.where(left, y, -y)
    model = quick().fit(X, y, sample_weight=np.where(left, 1.0, 0.0))
    assert np.sqrt(np.mean((model.predict(X[left]) - y[left]) ** 2)) < 0.2


def test_only_the_ratios_of_weights_matter() -> None:
    X, y = wave()
    weight = 0.5 + np.random.default_rng(0).random(120)
    assert np.allclose(*(quick().fit(X, y, sample_weight=c * weight).predict(X) for c in (1.0, 1000.0)), atol=1e-6)


def test_inducing_points_follow_their_weights() -> None:
    X, y = wave(400)
    weight = np.where(X[:, 0] < 0.25, 9.0, 1.0)
    points = quick().fit(X, y, inducing_weight=weight).mixture_.experts.features.points
    assert (points < 0.25).double().mean().item() == pytest.approx(9 / 12, abs=0.05)


def test_separate_validation_labels_steer_but_are_not_learned() -> None:
    X, y = wave()
    X_val, y_val = wave(40, seed=5)
    fits = [quick(max_epochs=1).fit(X, y, validation=(X_val, labels)) for labels in (y_val, y_val[::-1])]
    assert fits[0].validation_error_ != fits[1].validation_error_
    assert np.allclose(fits[0].mixture_.experts.covariance.root, fits[1].mixture_.experts.covariance.root)
    assert np.std(fits[0].predict(X) - np.sin(9 * X[:, 0])) < 0.3


OPTIONS: list[dict[str, Any]] = [
    {"experts": "exact"},
    {"experts": "exact", "gate_fraction": 0.3},
    {"exchange": True},
    {"refit": False},
    {"covariance": "diagonal"},
    {"covariance": "full"},
    {"objective": "mse"},
    {"kernel": "matern52"},
    {"anisotropic": False},
    {"bandwidths": [1.0]},
    {"bandwidths": [0.05, 0.2], "shared_bandwidth": 1.0, "gate_bandwidth": 0.3},
    {"penalty": 0.0, "sparsity": 7},
    {"scale": 5.0},
    {"batch_size": 10, "gate_noise": 0.0, "gate_rate": 0.5},
    {"device": "auto"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_fits(options: dict[str, Any]) -> None:
    X, y = wave()
    mean, std = quick(**options).fit(X, y).predict(X, return_std=True)
    assert np.sqrt(np.mean((mean - np.sin(9 * X[:, 0])) ** 2)) < 0.1
    assert (std > 0).all()


@pytest.mark.parametrize("options", [{}, {"experts": "exact"}, {"refit": False}, {"smoothness": 2.0}], ids=str)
def test_a_saved_model_is_the_same_model(tmp_path: Path, options: dict[str, Any]) -> None:
    X, y = wave(d=2)
    model = quick(**options).fit(X, y)
    model.save(tmp_path / "model.lobal")
    loaded = MixtureRegressor.load(tmp_path / "model.lobal")
    assert np.array_equal(loaded.predict(X, return_std=True), model.predict(X, return_std=True))
    assert np.array_equal(loaded.local_complexity(X), model.local_complexity(X))
    assert loaded.validation_error_ == model.validation_error_ > 0.0
    assert loaded.get_params() == {**model.get_params(), "device": None}
    assert loaded.history_ == model.history_


def test_saving_says_what_it_cannot_save(tmp_path: Path) -> None:
    X, y = wave()
    model = quick(noise=lambda X: 0.01 + 0 * X[:, 0]).fit(X, y)
    with pytest.warns(UserWarning, match="noise=.* is not data"):
        model.save(tmp_path / "model.lobal")
    assert np.allclose(MixtureRegressor.load(tmp_path / "model.lobal").predict(X), model.predict(X))


def test_an_unfitted_model_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        quick().save(tmp_path / "model.lobal")


def test_clones_and_pipelines_and_cross_validation_work() -> None:
    X, y = wave(d=2)
    pipeline = make_pipeline(StandardScaler(), clone(quick(penalty=0.3)))
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.8


def test_progress_is_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = wave(40)
    quick(verbose=True).fit(X, y)
    assert "validation RMSE" in capsys.readouterr().out
    quick().fit(X, y)
    assert capsys.readouterr().out == ""


# Bad input: a clear error or a correct result, never a silent NaN.


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["X", "y"])
def test_nan_and_infinity_are_refused(value: float, where: str) -> None:
    X, y = wave()
    (X if where == "X" else y)[3] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        quick().fit(X, y)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros(20), np.zeros(20), "Expected 2D array, got 1D"),
        (np.zeros((20, 2)), np.zeros(19), "inconsistent numbers of samples"),
        (np.zeros((20, 2)), np.zeros((20, 3)), "1d array"),
        (np.zeros((9, 2)), np.zeros(9), "minimum of 10"),
        (np.zeros((20, 0)), np.zeros(20), "0 feature"),
    ],
)
def test_wrong_shapes_are_refused(X: np.ndarray, y: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick().fit(X, y)


def test_strings_in_a_frame_are_refused_by_value() -> None:
    frame = pd.DataFrame({"a": np.arange(20.0), "b": ["red"] * 20})
    with pytest.raises(ValueError, match="red"):
        quick().fit(frame, np.arange(20.0))


def test_fractions_that_leave_nothing_to_train_on_are_refused() -> None:
    X, y = wave(10)
    with pytest.raises(ValueError, match="leaves fewer than 5"):
        quick(experts="exact", gate_fraction=0.4, validation_fraction=0.4).fit(X, y)


@pytest.mark.parametrize("stored", [False, True])
def test_frames_are_remembered_by_their_columns(tmp_path: Path, stored: bool) -> None:
    X, y = wave(d=2)
    model = quick().fit(pd.DataFrame(X, columns=["a", "b"]), pd.Series(y))
    if stored:
        model.save(tmp_path / "model.lobal")
        model = MixtureRegressor.load(tmp_path / "model.lobal")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(X, columns=["b", "c"]))


@pytest.mark.parametrize("level", [0.0, 5.0, 1e6, -1e-9])
def test_constant_labels_are_predicted_as_they_are(level: float) -> None:
    X, _ = wave(40)
    mean, std = quick().fit(X, np.full(40, level)).predict(X, return_std=True)
    assert np.allclose(mean, level, rtol=1e-6, atol=1e-6)
    assert np.isfinite(std).all()


@pytest.mark.parametrize("spoil", ["constant", "duplicate", "collinear"])
def test_useless_columns_do_not_hurt(spoil: str) -> None:
    X, y = wave()
    extra = {"constant": 0 * X + 7.0, "duplicate": X, "collinear": 1e5 - 3 * X}[spoil]
    mean = quick().fit(np.hstack([X, extra]), y).predict(np.hstack([X, extra]))
    assert np.std(mean - np.sin(9 * X[:, 0])) < 0.1


def test_inputs_that_are_all_the_same_give_the_mean() -> None:
    y = np.random.default_rng(0).standard_normal(40)
    mean = quick().fit(np.ones((40, 2)), y).predict(np.ones((3, 2)))
    assert np.allclose(mean, y.mean(), atol=0.3)


@pytest.mark.parametrize("copies", [2, 20])
def test_duplicated_rows_are_repeated_measurements(copies: int) -> None:
    X, y = wave(60)
    X, y = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    assert np.isfinite(quick().fit(X, y).predict(X)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_other_number_types_are_welcome(dtype: type) -> None:
    X = np.arange(60).reshape(-1, 1) % 30
    y = (X[:, 0] > 14).astype(dtype)
    prediction = quick().fit(X.astype(np.float32 if dtype is np.float32 else np.int64), y).predict(X)
    assert prediction.dtype == np.float64
    assert np.mean((prediction > 0.5) == y) > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "cubic"}, "kernel must be one of .*'cubic'"),
        ({"experts": "wise"}, "experts must be one of .*'wise'"),
        ({"objective": "mae"}, "objective must be one of .*'mae'"),
        ({"covariance": "some"}, "covariance must be one of .*'some'"),
        ({"penalty": -1.0}, "penalty must be at least zero and finite, got -1"),
        ({"sparsity": 0}, "sparsity must be a whole number above zero, got 0"),
        ({"sparsity": 2.0}, "sparsity must be a whole number above zero, got 2.0"),
        ({"max_epochs": 2.5}, "max_epochs must be a whole number above zero, got 2.5"),
        ({"bandwidths": [1.0, math.inf]}, "positive"),
        ({"learning_rate": 1e6}, "training diverged"),
        ({"validation_fraction": 0.7}, r"validation_fraction must lie in \[0, 0.5\), got 0.7"),
        ({"n_inducing": 0}, "n_inducing must be a whole number above zero, got 0"),
        ({"bandwidths": [1.0, 0.5]}, "ascending"),
        ({"bandwidths": [-1.0, 0.5]}, "positive"),
        ({"bandwidths": []}, "bandwidths"),
        ({"shared_bandwidth": [1.0, 2.0]}, "shared_bandwidth"),
        ({"gate_bandwidth": 0.0}, "gate_bandwidth"),
        ({"noise": -1.0}, "noise variance must be finite and above zero, got -1"),
        ({"scale": 0.0}, "scale must"),
        ({"smoothness": 0.0}, "smoothness"),
        ({"intrinsic_dimension": -2}, "dimension"),
        ({"device": "abacus"}, "device must be .*'abacus'"),
    ],
    ids=str,
)
def test_bad_options_are_refused_with_their_value(options: dict[str, Any], message: str) -> None:
    X, y = wave(40)
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(X, y)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_missing_gpu_is_named() -> None:
    with pytest.raises(ValueError, match="no GPU is available"):
        quick(device="cuda").fit(*wave(40))


def test_weights_must_leave_ten_points() -> None:
    X, y = wave(40)
    with pytest.raises(ValueError, match=r"at least 10 points .* got 1"):
        quick().fit(X, y, sample_weight=np.eye(40)[0])


@pytest.mark.parametrize("argument", ["sample_weight", "noise_variance"])
def test_columns_beside_the_labels_must_match_them(argument: str) -> None:
    X, y = wave(40)
    with pytest.raises(ValueError, match=r"shape \(40,\)"):
        quick().fit(X, y, **{argument: np.ones(39)})


def test_predicting_with_other_columns_is_refused() -> None:
    model = quick().fit(*wave(40))
    with pytest.raises(ValueError, match="2 features, but MixtureRegressor is expecting 1"):
        model.predict(np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("option", "value", "name"),
    [
        ("sparsity", 3, "kappa"),
        ("penalty", 0.07, "penalty"),
        ("batch_size", 17, "batch_size"),
        ("learning_rate", 0.03, "learning_rate"),
        ("hyperparameter_rate", 0.4, "hyperparameter_rate"),
        ("gate_rate", 0.6, "gate_rate"),
        ("gate_noise", 0.2, "gate_noise"),
        ("patience", 4, "patience"),
        ("max_epochs", 9, "max_epochs"),
    ],
)
def test_options_of_training_reach_it(option: str, value: float, name: str) -> None:
    model = quick(**{option: value})
    assert getattr(model._training_settings(100), name) == value


@pytest.mark.parametrize(("option", "value"), [("n_inducing", 33), ("n_gate_inducing", 11), ("gate_scale", 4.0)])
def test_options_of_the_mixture_reach_it(option: str, value: float) -> None:
    X, y = wave()
    assert getattr(quick(**{option: value}).fit(X, y)._settings(100), option) == value


def test_the_share_that_steers_is_as_asked_for() -> None:
    X, y = wave(100)
    model = quick(validation_fraction=0.3).fit(X, y)
    data = model._training_data(model._labelled(X, y, None, None), None, torch.Generator().manual_seed(0))
    assert (len(data.points), len(data.validation)) == (70, 30)


def test_complexity_is_finite_far_from_the_data() -> None:
    X, y = wave()
    assert np.isfinite(quick(smoothness=2.0).fit(X, y).local_complexity([[5.0], [100.0]])).all()


def test_default_bandwidths_are_those_of_algorithm_2() -> None:
    assert np.allclose(default_bandwidths(2.0), [2 ** ((i - 4) / 2) for i in range(1, 8)])


def test_default_penalty_falls_with_the_number_of_labels() -> None:
    assert default_penalty(100, "elbo") == default_penalty(1024, "elbo") == 0.5
    assert default_penalty(4096, "elbo") == pytest.approx(0.25)
    assert default_penalty(4096, "mse") == pytest.approx(0.5e-4)
