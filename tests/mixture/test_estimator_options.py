"""Every option has a fit that takes it, and wrong values are refused by name."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal import Adam, MixtureRegressor
from lobal.experts.exact import ExactExperts
from lobal.experts.svgp import SparseExperts
from lobal.mixture import options as module
from tests.estimator_setting import every_engine, quick, rmse, truth, wave

OPTIONS: list[dict[str, Any]] = [
    {"experts": "exact"},
    {"exchange": True},
    {"refit": False},
    {"objective": "mse"},
    {"kernel": "matern52"},
    {"anisotropic": False},
    {"bandwidths": [1.0]},
    {"bandwidths": [0.05, 0.2], "shared_bandwidth": 1.0, "gate_bandwidth": 0.3},
    {"penalty": 0.0},
    {"inducing": "kmeans"},
    {"inducing": "svgd"},
    {"gate_scale": 1.0},
    {"gate_bandwidth": None},
    {"scale": 5.0},
    {"device": "auto"},
]
OF_ONE_ENGINE: list[dict[str, Any]] = [
    {"weighted": True},
    {"engine": "adam", "experts": "exact", "gate_fraction": 0.3},
    {"engine": "adam", "penalty": 0.0, "sparsity": 7},
    {"engine": "adam", "covariance": "diagonal"},
    {"engine": "adam", "covariance": "full"},
    {"engine": "adam", "batch_size": 10, "gate_noise": 0.0, "gate_rate": 0.5},
]


@pytest.mark.parametrize(
    "options",
    [{"engine": engine, **options} for options in OPTIONS for engine in ("analytic", "adam")] + OF_ONE_ENGINE,
    ids=str,
)
def test_every_option_fits(options: dict[str, Any]) -> None:
    X, y = wave()
    mean, std = quick(**options).fit(X, y).predict(X, return_std=True)
    assert rmse(mean, truth(X)) < 0.1
    assert (std > 0).all()


@every_engine
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "cubic"}, "kernel must be one of .*'cubic'"),
        ({"experts": "wise"}, "experts must be one of .*'wise'"),
        ({"objective": "mae"}, "objective must be one of .*'mae'"),
        ({"inducing": "dowsing"}, "method must be 'auto' or one of .*'dowsing'"),
        ({"inducing": "variance"}, "method 'variance' needs the options"),
        ({"penalty": -1.0}, "penalty must be at least zero and finite, got -1"),
        ({"bandwidths": [1.0, math.inf]}, "positive"),
        ({"n_inducing": 0}, "n_inducing must be a whole number, at least 1, got 0"),
        ({"bandwidths": [1.0, 0.5]}, "ascending"),
        ({"bandwidths": [-1.0, 0.5]}, "positive"),
        ({"bandwidths": []}, "bandwidths"),
        ({"shared_bandwidth": [1.0, 2.0]}, "shared_bandwidth"),
        ({"gate_bandwidth": 0.0}, "gate_bandwidth"),
        ({"gate_scale": 0.0}, "gate_scale must be positive and finite, got 0"),
        ({"noise": -1.0}, "noise variance must be finite and above zero, got -1"),
        ({"scale": 0.0}, "scale must"),
        ({"smoothness": 0.0}, "smoothness"),
        ({"intrinsic_dimension": -2}, "dimension"),
        ({"device": "abacus"}, "device must be .*'abacus'"),
    ],
    ids=str,
)
def test_bad_options_are_refused_with_their_value(engine: str, options: dict[str, Any], message: str) -> None:
    X, y = wave(40)
    with pytest.raises(ValueError, match=message):
        quick(engine=engine, **options).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariance": "some"}, "covariance must be one of .*'some'"),
        ({"sparsity": 0}, "sparsity must be a whole number, at least 1, got 0"),
        ({"sparsity": 2.0}, "sparsity must be a whole number, at least 1, got 2.0"),
        ({"max_epochs": 2.5}, "max_epochs must be a whole number, at least 1, got 2.5"),
        ({"learning_rate": -1.0}, "learning_rate must be positive and finite, got -1"),
        ({"validation_fraction": 0.7}, r"validation_fraction must lie in \[0, 0.5\), got 0.7"),
        ({"gate_fraction": 0.3}, r"gate_fraction of Adam\(.*\) has no effect on sparse experts; leave it out"),
        ({"experts": "exact", "covariance": "full"}, "covariance of .* has no effect on exact experts"),
    ],
    ids=str,
)
def test_bad_options_of_adam_are_refused_with_their_value(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(engine="adam", **options).fit(*wave(40))


def test_a_learning_rate_that_diverges_is_named() -> None:
    with pytest.raises(ValueError, match="training diverged"):
        quick(engine="adam", learning_rate=1e6).fit(*wave(40))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_missing_gpu_is_named() -> None:
    with pytest.raises(ValueError, match="no GPU is available"):
        quick(device="cuda").fit(*wave(40))


@every_engine
@pytest.mark.parametrize("options", [{}, {"gate_scale": 3.0}], ids=str)
def test_the_scale_of_the_gate_is_the_one_asked_for(engine: str, options: dict[str, float]) -> None:
    default = {"analytic": 4.0, "adam": 10.0}[engine]
    scale = quick(engine=engine, **options).fit(*wave(40)).mixture_.gate.scale.item()
    assert scale == pytest.approx(options.get("gate_scale", default))


@every_engine
def test_inducing_points_are_as_many_as_asked_for(engine: str) -> None:
    mixture = quick(engine=engine, n_inducing=33, n_gate_inducing=11).fit(*wave()).mixture_
    assert (len(mixture.experts.features.points), len(mixture.gate.features.points)) == (33, 11)


@pytest.mark.parametrize(("engine", "shares"), [("adam", (70, 30)), ("analytic", (100, None))])
def test_the_share_that_steers_is_as_asked_for(engine: str, shares: tuple[int, int | None]) -> None:
    X, y = wave(100)
    options = {"validation_fraction": 0.3} if engine == "adam" else {}
    model = quick(engine=engine, **options).fit(X, y)
    data = model._training_data(model._labelled(X, y), None, torch.Generator().manual_seed(0))
    assert (len(data.points), data.validation and len(data.validation)) == shares


def test_fractions_that_leave_nothing_to_train_on_are_refused() -> None:
    X, y = wave(10)
    with pytest.raises(ValueError, match="need at least 5 of 10 labels for the experts"):
        quick(engine="adam", experts="exact", gate_fraction=0.4, validation_fraction=0.4).fit(X, y)


def test_the_history_has_an_entry_for_every_epoch() -> None:
    numbers = [epoch.number for epoch in quick(engine="adam", max_epochs=7).fit(*wave(40)).history_]
    assert numbers == list(range(7))


@every_engine
def test_given_bandwidths_stay_as_they_are(engine: str) -> None:
    X, y = wave()
    model = quick(engine=engine, bandwidths=[1.0, 1.5], shared_bandwidth=0.01).fit(X, y)
    assert model.mixture_.bandwidths.tolist() == [1.0, 1.5]
    assert np.all((model.local_bandwidth(X) >= 0.01 - 1e-12) & (model.local_bandwidth(X) <= 0.015 + 1e-12))


def small(**options: Any) -> MixtureRegressor:
    X = np.random.default_rng(0).random((150, 1))
    short = {"max_epochs": 5} if options.get("engine") == "adam" else {}
    model = quick(n_inducing=20, n_gate_inducing=10, gate_bandwidth=None, **short, **options)
    return model.fit(X, np.sin(9.0 * X[:, 0]))


@pytest.mark.parametrize("engine", ["analytic", "adam"])
def test_features_that_are_not_kept_give_the_same_model(engine: str, caplog: pytest.LogCaptureFixture) -> None:
    x = np.linspace(0, 1, 40)[:, None]
    with caplog.at_level("INFO", logger="lobal"):
        kept = small(engine=engine).predict(x)
        assert "recomputed" not in caplog.text
        computed_again = small(engine=engine, cache_bytes=1).predict(x)
    assert "recomputed" in caplog.text
    np.testing.assert_allclose(kept, computed_again, rtol=1e-6)


def test_without_tuning_the_ladder_stays_and_nothing_is_tried_first() -> None:
    off, fast = small(tuning="off"), small(tuning="fast")
    assert len(off.mixture_.bandwidths) == 7
    assert len(off.history_) < len(fast.history_)
    assert off.tuning_ == fast.tuning_ == []


def test_full_tuning_keeps_its_decisions_in_the_file_too(tmp_path: Path) -> None:
    model = small(tuning="full")
    assert len(model.tuning_) == 1
    assert len(model.tuning_[0].trials) > 1
    model.save(tmp_path / "model.safetensors")
    assert MixtureRegressor.load(tmp_path / "model.safetensors").tuning_ == model.tuning_


def test_an_unknown_tuning_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tuning must be one of .*'some'"):
        small(tuning="some")


@pytest.mark.parametrize(
    ("options", "n", "d", "kind"),
    [
        ({}, 60, 2, ExactExperts),
        ({}, 61, 2, SparseExperts),
        ({}, 60, 1, SparseExperts),
        ({"n_inducing": 20}, 60, 2, SparseExperts),
        ({"experts": "sparse"}, 60, 2, SparseExperts),
        ({"experts": "exact", "n_inducing": 20}, 61, 1, ExactExperts),
        ({"engine": Adam(max_epochs=2)}, 60, 2, SparseExperts),
    ],
    ids=str,
)
def test_few_labels_in_several_columns_have_exact_experts(
    options: dict[str, Any], n: int, d: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_EXACT", 60)
    model = MixtureRegressor(n_gate_inducing=10, random_state=0, **options).fit(*wave(n, d=d))
    assert isinstance(model.mixture_.experts, kind)


def test_sparse_experts_have_512_inducing_points_by_default() -> None:
    model = MixtureRegressor(n_gate_inducing=10, bandwidths=[1.0], gate_bandwidth=1.0, random_state=0)
    assert len(model.fit(*wave(600)).mixture_.experts.features.points) == 512


def test_a_device_of_torch_is_saved_by_its_name(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((20, 1))
    MixtureRegressor(device=torch.device("cpu")).fit(X, X[:, 0]).save(tmp_path / "model.lobal")
    assert MixtureRegressor.load(tmp_path / "model.lobal").predict(X).shape == (20,)
