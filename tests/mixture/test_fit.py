from dataclasses import replace
from typing import Any

import pytest
import torch

from lobal.core.dataset import LabelledSet
from lobal.core.density import column_spread
from lobal.core.kernels import gaussian, kernel_named
from lobal.experts.exact import ExactExperts, exact_experts
from lobal.experts.svgp import COVARIANCES, FullCovariance, SparseExperts, ZeroCovariance
from lobal.mixture.adam.objective import squared_error
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.data import TrainingData
from lobal.mixture.fit import fit_mixture
from lobal.mixture.gate import OrdinalGate, SoftmaxGate
from lobal.mixture.model import FittedMixture
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import KMEANS_COLUMNS, global_start

QUICK = AdamSettings(batch_size=32, max_epochs=8, epochs_per_kappa=1)
ANALYTIC = AnalyticSettings()
BANDWIDTHS = torch.tensor([0.3, 1.0, 3.0]).double()
every_engine = pytest.mark.parametrize("training", [QUICK, ANALYTIC], ids=["adam", "analytic"])
Training = AdamSettings | AnalyticSettings


def sample(n: int, seed: int, *, noise: float | None = None, d: int = 1) -> LabelledSet:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, d, dtype=torch.float64, generator=generator)
    y = torch.sin(9 * X[:, 0]) + 0.1 * torch.randn(n, dtype=torch.float64, generator=generator)
    variances = None if noise is None else torch.full((n,), noise).double()
    return LabelledSet(X=X, y=y, weight=torch.ones(n).double(), noise=variances)


def data(**changes: Any) -> TrainingData:
    return TrainingData(**{"points": sample(80, 1), "validation": sample(30, 2), **changes})


def fit(labelled: TrainingData, **changes: Any) -> FittedMixture:
    settings = MixtureSettings(**{"bandwidths": BANDWIDTHS, "n_inducing": 30, "training": QUICK, **changes})
    return fit_mixture(labelled, settings, torch.Generator().manual_seed(0))


def error(fitted: FittedMixture) -> float:
    grid = torch.linspace(0.02, 0.98, 200, dtype=torch.float64)
    X = grid[:, None].expand(-1, fitted.mixture.gate.features.points.shape[1])
    return (fitted.mixture.predict(X).mean - torch.sin(9 * grid)).square().mean().sqrt().item()


@every_engine
@pytest.mark.parametrize("kernel", ["gaussian", "matern12", "matern32", "matern52"])
def test_every_kernel_fits(training: Training, kernel: str) -> None:
    assert error(fit(data(), training=training, kernel=kernel_named(kernel))) < 0.13


@pytest.mark.parametrize(("training", "kind"), [(QUICK, SoftmaxGate), (ANALYTIC, OrdinalGate)])
def test_each_engine_has_its_gate(training: Training, kind: type) -> None:
    assert isinstance(fit(data(), training=training).mixture.gate, kind)


def test_adam_without_validation_labels_says_so() -> None:
    with pytest.raises(ValueError, match="the Adam engine needs validation labels"):
        fit(data(validation=None))


@pytest.mark.parametrize("covariance", COVARIANCES.values())
@pytest.mark.parametrize("refit", [False, True])
def test_every_inducing_covariance_fits(covariance: Any, refit: bool) -> None:
    assert error(fit(data(), training=replace(QUICK, covariance=covariance), refit=refit)) < 0.1


def test_refitted_experts_carry_their_posterior_covariance() -> None:
    refitted, trained = (fit(data(), refit=flag).mixture.experts for flag in (True, False))
    assert isinstance(refitted, SparseExperts)
    assert isinstance(trained, SparseExperts)
    assert isinstance(refitted.covariance, FullCovariance)
    assert isinstance(trained.covariance, ZeroCovariance)


@every_engine
def test_one_exact_expert_is_a_gaussian_process(training: Training) -> None:
    labelled = data(keep_validation=True)
    fitted = fit(labelled, training=training, bandwidths=torch.ones(1).double(), exact=True)
    gp = exact_experts(
        labelled.points.X,
        labelled.points.y,
        fitted.hyperparameters,
        bandwidths=torch.ones(1).double(),
        shared_bandwidth=fitted.mixture.shared_bandwidth,
        kernel=gaussian,
    )
    X = torch.rand(10, 1).double()
    assert torch.allclose(fitted.mixture.predict(X).mean, gp.posterior(X).mean[0])
    assert torch.allclose(fitted.mixture.predict(X).variance, gp.posterior(X).variance[0])


@every_engine
def test_exact_experts_learn_their_gate_from_leave_one_out_responses(training: Training) -> None:
    fitted = fit(data(), training=training, exact=True)
    assert isinstance(fitted.mixture.experts, ExactExperts)
    assert error(fitted) < 0.1


@every_engine
def test_exact_experts_learn_their_gate_from_a_set_of_its_own(training: Training) -> None:
    assert error(fit(data(gate_set=sample(40, 5)), training=training, exact=True)) < 0.1


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("noise", [None, 0.01])
def test_no_label_of_exact_experts_goes_unused(exchange: bool, noise: float | None) -> None:
    sets = {"points": sample(50, 1, noise=noise), "validation": sample(20, 2, noise=noise)}
    labelled = data(**sets, gate_set=sample(40, 5, noise=noise))
    experts = fit(labelled, exact=True, exchange=exchange).mixture.experts
    assert isinstance(experts, ExactExperts)
    assert len(experts.labels) == 110


def test_separate_validation_labels_choose_between_trained_and_refitted_experts() -> None:
    labelled = data(keep_validation=True)
    errors = {}
    for name, changes in {"chosen": {}, "trained": {"refit": False}}.items():
        prediction = fit(labelled, **changes).mixture.predict(labelled.validation.X).mean
        errors[name] = (prediction - labelled.validation.y).square().mean()
    assert errors["chosen"] <= errors["trained"] + 1e-12


@every_engine
@pytest.mark.parametrize("keep", [False, True])
def test_sparse_experts_are_exchanged_for_exact_ones_on_all_labels(training: Training, keep: bool) -> None:
    fitted = fit(data(keep_validation=keep), training=training, exchange=True)
    assert isinstance(fitted.mixture.experts, ExactExperts)
    assert len(fitted.mixture.experts.labels) == (80 if keep else 110)
    assert error(fitted) < 0.1


@every_engine
@pytest.mark.parametrize("exact", [False, True])
def test_known_noise_is_kept(training: Training, exact: bool) -> None:
    labelled = data(points=sample(80, 1, noise=0.01), validation=sample(30, 2, noise=0.01))
    fitted = fit(labelled, training=training, exact=exact)
    assert torch.allclose(fitted.hyperparameters.noise, torch.tensor(0.01).double())
    assert error(fitted) < 0.1


def test_the_squared_error_objective_fits() -> None:
    training = AdamSettings(batch_size=32, max_epochs=8, epochs_per_kappa=1, objective=squared_error, penalty=0.01)
    assert error(fit(data(), training=training)) < 0.1


@every_engine
@pytest.mark.parametrize("form", ["number", "diagonal", "matrix"])
def test_a_given_bandwidth_may_be_a_number_a_diagonal_or_a_matrix(training: Training, form: str) -> None:
    forms = {
        "number": torch.tensor(0.2),
        "diagonal": torch.tensor([0.2, 5.0]),
        "matrix": torch.diag(torch.tensor([0.2, 5.0])),
    }
    shared = forms[form].double()
    labelled = data(points=sample(120, 1, d=2), validation=sample(40, 2, d=2))
    fitted = fit(labelled, training=training, shared_bandwidth=shared, gate_bandwidth=2 * shared, n_inducing=60)
    assert torch.equal(fitted.mixture.shared_bandwidth, shared)
    assert error(fitted) < 0.3


@every_engine
def test_diagonal_and_matrix_bandwidths_are_the_same_model(training: Training) -> None:
    labelled = data(points=sample(60, 1, d=2), validation=sample(20, 2, d=2))
    widths = torch.tensor([0.2, 3.0]).double()
    mixtures = [
        fit(labelled, training=training, shared_bandwidth=shared, gate_bandwidth=shared, n_inducing=100).mixture
        for shared in (widths, widths.diag())
    ]
    assert torch.allclose(*(mixture.predict(labelled.validation.X).mean for mixture in mixtures), atol=1e-6)


def test_a_given_scale_is_where_training_starts() -> None:
    frozen = AdamSettings(batch_size=32, max_epochs=3, hyperparameter_rate=0.0)
    assert fit(data(), scale=20.0, training=frozen).hyperparameters.scale.item() == pytest.approx(20.0)


def test_constant_columns_have_width_one() -> None:
    X = torch.stack([torch.linspace(0, 1, 5), torch.full((5,), 1e6)], dim=1).double()
    assert column_spread(X)[1] == 1.0
    assert column_spread(X)[0] == X[:, 0].std()


@pytest.mark.parametrize(("d", "method"), [(2, "cells"), (KMEANS_COLUMNS - 1, "cells"), (KMEANS_COLUMNS, "kmeans")])
def test_inducing_points_are_cells_unless_k_means_is_nearly_right(d: int, method: str) -> None:
    X = torch.rand(300, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = LabelledSet(X=X, y=X[:, 0], weight=torch.ones(300).double(), spread=torch.exp(3.0 * X[:, 0]))
    given = MixtureSettings(bandwidths=torch.ones(1).double(), training=AnalyticSettings())
    start = global_start(points[torch.arange(20)], given, torch.Generator())
    automatic, named = (
        replace(start, settings=settings, generator=torch.Generator().manual_seed(1)).inducing_points(
            points, 20, torch.ones(d).double()
        )
        for settings in (given, replace(given, inducing=method))
    )
    assert torch.equal(automatic, named)
