from dataclasses import replace

import numpy as np
import pytest
import torch

from lobal.active.draws import design
from lobal.active.mixture_surrogate import FittedMixtureSurrogate
from lobal.baselines.uncertainty import Covariances, greedy_rows
from lobal.core.kernels import gaussian, matern32
from lobal.experts.exact import exact_experts
from lobal.experts.interface import Hyperparameters
from tests.active.setting import ones
from tests.baselines.setting import line, task
from tests.core.setting import seeded, tensor, uniform

x = np.linspace(0.0, 1.0, 81)


def test_every_point_has_the_greatest_variance_of_processes_fitted_anew() -> None:
    X, known, noise = uniform(seeded(), 60, 2), uniform(seeded(1), 15, 2), 0.1 * uniform(seeded(2), 75)
    gate, scale = torch.softmax(uniform(seeded(3), 60, 2), dim=1), tensor(3.0)[0]
    settings = {"bandwidths": tensor(0.2, 0.7), "shared_bandwidth": tensor(1.0, 2.0), "kernel": matern32}
    rows = greedy_rows(X, known, Covariances(scale=scale, **settings), gate, noise, 10).tolist()
    for i, row in enumerate(rows):
        points = torch.cat([known, X[rows[:i]]])
        hyperparameters = Hyperparameters(tensor(0.0)[0], scale, torch.cat([noise[60:], noise[rows[:i]]]))
        experts = exact_experts(points, points[:, 0], hyperparameters, **settings)
        score = (gate.mT * experts.posterior(X).variance).sum(0) + noise[:60]
        score[rows[:i]] = 0.0
        assert row == score.argmax()


def test_processes_of_one_bandwidth_are_one_process_whatever_the_gate() -> None:
    X, known, noise = uniform(seeded(), 40, 1), uniform(seeded(1), 5, 1), 0.01 * ones(45)
    common = {"shared_bandwidth": tensor(1.0), "scale": tensor(1.0)[0], "kernel": gaussian}
    one, three = (Covariances(bandwidths=0.1 * ones(L), **common) for L in (1, 3))
    gate = torch.softmax(uniform(seeded(2), 40, 3), dim=1)
    alone = greedy_rows(X, known, one, ones(40)[:, None], noise, 12)
    assert greedy_rows(X, known, three, gate, noise, 12).tolist() == alone.tolist()


def test_points_without_noise_are_chosen_once_though_their_variance_vanishes() -> None:
    X = ones(20)[:, None]
    process = Covariances(bandwidths=ones(1), shared_bandwidth=ones(1), scale=tensor(1.0)[0], kernel=gaussian)
    assert sorted(greedy_rows(X, X[:3], process, ones(20)[:, None], 0.0 * ones(23), 20).tolist()) == list(range(20))


@pytest.mark.parametrize("name", ["gp_variance", "mogpu"])
def test_the_largest_gap_is_filled_first_and_pending_points_close_it(name: str) -> None:
    labelled = np.r_[0:20, 61:81]
    y = np.sin(20.0 * x)
    assert design(name)(line(x, y, labelled, b=1)).item() in range(35, 46)
    assert design(name)(line(x, y, labelled, pending=tuple(range(30, 50)), b=1)).item() not in range(28, 52)


def test_an_irrelevant_column_hardly_counts() -> None:
    given = task(b=10)
    y = np.sin(12.0 * given.labelled.X[:, 0])
    rows = design("gp_variance")(replace(given, labelled=given.labelled._replace(y=y))).numpy()
    known = given.drawn[1][:, 0]
    gaps = np.abs(given.candidates.X[35:100, :1] - known).min(axis=1)
    assert np.abs(given.candidates.X[rows[0], 0] - known).min() > np.quantile(gaps, 0.75)


def test_mogpu_takes_more_points_where_the_bandwidth_is_small() -> None:
    places = np.linspace(0.0, 1.0, 401)
    y, labelled = np.sin(3.0 / (places + 0.05)), np.arange(0, 401, 4)
    given = line(places, y, labelled, b=60, kernel="gaussian")  # as that of the single process
    mixture, single = (places[design(name)(given).numpy()] for name in ("mogpu", "gp_variance"))
    assert (mixture < 0.3).mean() > 0.2 + (single < 0.3).mean()


def test_mogpu_refuses_models_that_are_no_mixture() -> None:
    fitted = object.__new__(FittedMixtureSurrogate)
    fitted.model = "a force field"
    with pytest.raises(ValueError, match=r"needs a lobal.MixtureRegressor as the model, got str"):
        design("mogpu")(replace(task(), fitted=fitted))
