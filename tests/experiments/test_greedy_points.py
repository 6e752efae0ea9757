import numpy as np
import pytest
import torch

from experiments import greedy_points
from experiments.figures.greedy_points import ARMS, greedy_figure
from experiments.greedy_points import THRESHOLDS, selected, selections, separate
from experiments.inducing_points import Reference, with_points
from lobal.cli.demo import DOPPLER, errors_on_grid
from lobal.inducing.greedy import Selection
from lobal.mixture.estimator import MixtureRegressor

SIZES = (8, 32)


@pytest.fixture(scope="module")
def reference() -> Reference:
    rng = np.random.default_rng(0)
    X = rng.random((300, 1))
    y = DOPPLER.labels(X[:, 0], rng)
    model = MixtureRegressor(kernel="gaussian", n_inducing=64, n_gate_inducing=16, random_state=0).fit(X, y)
    return Reference(X, y, np.ones(300), model, model.local_complexity(X))


def test_a_larger_threshold_ends_the_selection_earlier() -> None:
    selection = Selection([5, 3, 8, 1], [2.0, 1.0, 0.1, 0.5])
    assert selected(selection, 0.2) == [5, 3]
    assert selected(selection, 0.05) == [5, 3, 8, 1]
    assert selected(selection, 10.0) == [5]


def test_experts_of_small_bandwidths_take_more_points(reference: Reference) -> None:
    counts = [len(selected(each, 0.1)) for each in selections(reference, 64)]
    assert counts[0] > 2 * counts[-1]


def test_experts_of_the_same_points_are_those_that_share_them(reference: Reference) -> None:
    points = reference.experts.features.points
    apart = separate(reference, [points] * len(reference.experts.features.bandwidths))
    assert errors_on_grid(apart).rmse == pytest.approx(errors_on_grid(with_points(reference, points)).rmse, rel=0.02)


def test_a_run_has_errors_and_numbers_of_every_choice(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("superior_reference", "random_reference"):
        monkeypatch.setattr(greedy_points, name, lambda *_, **__: reference)
    result = greedy_points.run(300, 0, sizes=SIZES, n_inducing=64)
    for arm in ARMS:
        assert all(result[f"{arm}_{choice}_rmse_{m}"] > 0.0 for choice in greedy_points.SHARED for m in SIZES)
        counts = np.array([result[f"{arm}_greedy_counts_{threshold}"] for threshold in THRESHOLDS])
        assert np.all(np.diff(counts, axis=0) >= 0)
    figure = greedy_figure([result], THRESHOLDS, SIZES)
    assert [len(axes.containers) for axes in figure.axes] == [3, 3, 0]


def test_separate_experts_of_few_points_are_worse(reference: Reference) -> None:
    few, many = (
        separate(
            reference,
            [torch.linspace(0.0, 1.0, m, dtype=torch.float64)[:, None]] * len(reference.experts.whitened_mean),
        )
        for m in (4, 64)
    )
    assert errors_on_grid(few).rmse > 1.2 * errors_on_grid(many).rmse
