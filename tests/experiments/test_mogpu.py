import numpy as np
import pytest
import torch

from experiments import mogpu
from experiments.doppler import Sample, doppler_data
from experiments.figures.mogpu import ARMS, BINS, sampling_figure
from experiments.mogpu import INPUTS, errors_at, mogpu_inputs, quantiles, superior_inputs, with_labels
from lobal.cli.demo import errors_on_grid
from lobal.experts.exact import exact_experts
from lobal.mixture.estimator import MixtureRegressor


@pytest.fixture(scope="module")
def sample() -> Sample:
    return doppler_data(400, 0)


@pytest.fixture(scope="module")
def model(sample: Sample) -> MixtureRegressor:
    return MixtureRegressor(kernel="gaussian", n_inducing=64, n_gate_inducing=16, random_state=0).fit(*sample)


def test_quantiles_have_the_density_of_a_power_of_the_local_bandwidth(model: MixtureRegressor) -> None:
    x = quantiles(model, (np.arange(2000) + 0.5) / 2000, 1.0)
    places = (np.arange(1000) + 0.5) / 1000
    density = 1.0 / model.local_bandwidth(places[:, None])
    for bound in (0.05, 0.2, 0.5):
        assert np.mean(x < bound) == pytest.approx(density[places < bound].sum() / density.sum(), abs=0.01)


def test_mogpu_samples_where_bandwidths_are_small_more_than_superior_sampling(model: MixtureRegressor) -> None:
    chosen, drawn = mogpu_inputs(model, 200, 0), superior_inputs(model, 2000, 0)
    assert len(np.unique(chosen)) == 200
    assert np.mean(chosen < 0.2) > 0.05 + np.mean(drawn < 0.2) > 0.1 + 0.2


def test_few_inducing_points_stand_for_full_gaussian_processes(model: MixtureRegressor, sample: Sample) -> None:
    X, y = sample
    sparse, mixture = with_labels(model, X, y), model.mixture_
    exact = exact_experts(
        torch.from_numpy(model.input_units_(X)),
        torch.from_numpy((y - model.label_mean_) / model.label_scale_),
        mixture.experts.hyperparameters,
        bandwidths=mixture.bandwidths,
        shared_bandwidth=mixture.shared_bandwidth,
        kernel=mixture.kernel,
    )
    places = (np.arange(500) + 0.5)[:, None] / 500
    inputs, gate = torch.from_numpy(model.input_units_(places)), torch.from_numpy(model.gate(places))
    full = (gate.mT * exact.mean(inputs)).sum(0)
    np.testing.assert_allclose(sparse.mixture_.mean(inputs).numpy(), full.numpy(), atol=1e-3)


def test_a_run_has_errors_counts_and_seconds_of_every_arm(
    model: MixtureRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mogpu, "gate_model", lambda *_, **__: model)
    result = mogpu.run(64, 0, sizes=(32, 64), gate_labels=1, n_inducing=1)
    for arm in ARMS:
        assert 0.0 < result[f"{arm}_rmse_64"] < result[f"{arm}_max_error_64"]
        assert sum(result[f"{arm}_counts"]) == 64
    figure = sampling_figure([result])
    histograms, curves = figure.axes[:3], figure.axes[3:]
    assert [axes.get_title() for axes in histograms] == [f"{title}, $n = 64$" for title in ARMS.values()]
    assert [len(axes.containers) for axes in curves] == [3, 3]
    assert len(result["mogpu_counts"]) == BINS
    assert mogpu.conclusion([result])["relative_sample_sizes"]["mogpu"].keys() == {"32", "64"}


def test_labels_of_smaller_sizes_are_the_first_ones(model: MixtureRegressor, sample: Sample) -> None:
    X, y = sample
    assert errors_at(model, X[:, 0], y, 100) == errors_on_grid(with_labels(model, X[:100], y[:100]))
    assert {*INPUTS} == {*ARMS}
