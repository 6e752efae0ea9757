"""Bad input: a clear error or a correct result, never a silent NaN."""

import math

import numpy as np
import pandas as pd
import pytest

from tests.estimator_setting import every_engine, quick, truth, wave


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["X", "y"])
def test_nan_and_infinity_are_refused(value: float, where: str) -> None:
    X, y = wave()
    (X if where == "X" else y)[3] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        quick().fit(X, y)


@pytest.mark.parametrize("where", ["X", "y"])
def test_masked_values_are_refused_with_their_row(where: str) -> None:
    X, y = (np.ma.masked_array(part) for part in wave())
    (X if where == "X" else y)[3] = np.ma.masked
    with pytest.raises(ValueError, match=f"{where} must have no gaps, got a masked or missing value at row 3"):
        quick().fit(X, y)
    with pytest.raises(ValueError, match=f"{where} must have no gaps, got a masked or missing value at row 3"):
        quick().fit(*wave(), validation=(X, y))


def test_masked_inputs_are_not_predicted_at() -> None:
    X = np.ma.masked_array(wave()[0], mask=False)
    X[2] = np.ma.masked
    with pytest.raises(ValueError, match="X must have no gaps, got a masked or missing value at row 2, column 0"):
        quick().fit(*wave()).predict(X)


@pytest.mark.parametrize("dtype", ["datetime64[s]", "timedelta64[s]", "complex128"])
@pytest.mark.parametrize("where", ["X", "y", "sample_weight", "noise_variance"])
def test_dates_and_complex_numbers_are_refused(dtype: str, where: str) -> None:
    X, y = wave()
    data = {"X": X, "y": y, "sample_weight": np.ones(len(y)), "noise_variance": np.ones(len(y))}
    data[where] = data[where].astype("int64").astype(dtype)
    with pytest.raises(ValueError, match=f"{where.replace('_v', ' v')} must be real numbers, got"):
        quick().fit(**data)


@pytest.mark.parametrize("argument", ["sample_weight", "noise_variance"])
def test_masked_weights_and_variances_are_refused(argument: str) -> None:
    X, y = wave()
    column = np.ma.masked_array(np.ones(len(y)), mask=np.arange(len(y)) == 5)
    with pytest.raises(ValueError, match="got nan at row 5"):
        quick().fit(X, y, **{argument: column})


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


def test_weights_must_leave_ten_points() -> None:
    X, y = wave(40)
    with pytest.raises(ValueError, match=r"at least 10 labels .* got 1"):
        quick().fit(X, y, sample_weight=np.eye(40)[0])


@pytest.mark.parametrize("argument", ["sample_weight", "noise_variance", "inducing_weight"])
def test_columns_beside_the_labels_must_match_them(argument: str) -> None:
    X, y = wave(40)
    with pytest.raises(ValueError, match=r"shape \(40,\)"):
        quick().fit(X, y, **{argument: np.ones(39)})


def test_predicting_with_other_columns_is_refused() -> None:
    model = quick().fit(*wave(40))
    with pytest.raises(ValueError, match="2 features, but MixtureRegressor is expecting 1"):
        model.predict(np.zeros((3, 2)))


@every_engine
@pytest.mark.parametrize("n", [10, 11, 15])
def test_ten_labels_are_enough(engine: str, n: int) -> None:
    X, y = wave(n)
    mean, std = quick(engine=engine).fit(X, y).predict(X, return_std=True)
    assert np.std(mean - y) < np.std(y)
    assert (std > 0).all()


@every_engine
@pytest.mark.parametrize("level", [0.0, 5.0, 1e6, -1e-9])
def test_constant_labels_are_predicted_as_they_are(engine: str, level: float) -> None:
    X, _ = wave(40)
    mean, std = quick(engine=engine).fit(X, np.full(40, level)).predict(X, return_std=True)
    assert np.allclose(mean, level, rtol=1e-6, atol=1e-6)
    assert np.isfinite(std).all()


@pytest.mark.parametrize("experts", ["sparse", "exact"])
def test_constant_labels_are_predicted_by_their_squared_errors(experts: str) -> None:
    X, _ = wave(40)
    assert np.allclose(quick(experts=experts, objective="mse").fit(X, np.full(40, 5.0)).predict(X), 5.0)


def test_a_huge_label_of_weight_zero_does_no_harm() -> None:
    X, y = wave()
    weight = np.where(np.arange(120) % 4 == 0, 0.0, 1.0)
    model = quick().fit(X, np.where(weight > 0, y, 1e6), sample_weight=weight)
    assert np.std(model.predict(X) - truth(X)) < 0.1


@every_engine
@pytest.mark.parametrize("spoil", ["constant", "duplicate", "collinear"])
def test_useless_columns_do_not_hurt(engine: str, spoil: str) -> None:
    X, y = wave()
    extra = {"constant": 0 * X + 7.0, "duplicate": X, "collinear": 1e5 - 3 * X}[spoil]
    mean = quick(engine=engine).fit(np.hstack([X, extra]), y).predict(np.hstack([X, extra]))
    assert np.std(mean - truth(X)) < 0.1


@every_engine
def test_inputs_that_are_all_the_same_give_the_mean(engine: str) -> None:
    y = np.random.default_rng(0).standard_normal(40)
    mean = quick(engine=engine).fit(np.ones((40, 2)), y).predict(np.ones((3, 2)))
    assert np.allclose(mean, y.mean(), atol=0.3)


@every_engine
@pytest.mark.parametrize("copies", [2, 20])
def test_duplicated_rows_are_repeated_measurements(engine: str, copies: int) -> None:
    X, y = wave(60)
    X, y = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    assert np.isfinite(quick(engine=engine).fit(X, y).predict(X)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_other_number_types_are_welcome(dtype: type) -> None:
    X = np.arange(60).reshape(-1, 1) % 30
    y = (X[:, 0] > 14).astype(dtype)
    prediction = quick().fit(X.astype(np.float32 if dtype is np.float32 else np.int64), y).predict(X)
    assert prediction.dtype == np.float64
    assert np.mean((prediction > 0.5) == y) > 0.9
