"""Structure that a single process takes for noise: found by a start with little noise, and only there."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lobal import MixtureRegressor
from lobal.core.dataset import LabelledSet
from lobal.mixture.analytic import fit
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.analytic.start_choice import LARGEST, SMALLEST, quieter_start, wide_ladder
from lobal.mixture.data import TrainingData
from lobal.mixture.progress import Epoch
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import Start, global_start
from tests.estimator_setting import rmse

# Half of the labels in the first quarter, where a chirp is fast: a single process explains them by noise.
X = np.square(np.linspace(0.0, 1.0, 120))[:, None]
GRID = np.linspace(0.0, 1.0, 1000)[:, None]


def chirp(X: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(4.0 * np.pi / (X[:, 0] + 0.08)))


def begun(y: np.ndarray, noise: float | None = None) -> tuple[LabelledSet, Start]:
    labels = torch.from_numpy((y - y.mean()) / y.std())
    known = None if noise is None else torch.full_like(labels, noise)
    points = LabelledSet(X=torch.from_numpy(X), y=labels, weight=torch.ones_like(labels), noise=known)
    ladder = 2.0 ** torch.arange(-3, 4, dtype=torch.float64)
    settings = MixtureSettings(bandwidths=ladder, training=AnalyticSettings(), adaptive=True)
    start = global_start(points, settings, torch.Generator().manual_seed(0))
    little = start.hyperparameters._replace(noise=labels.new_tensor(0.5))  # as a single process may have it
    return points, Start(**{**vars(start), "hyperparameters": little if known is None else start.hyperparameters})


def test_waves_of_all_lengths_are_no_noise() -> None:
    points, start = begun(chirp(X))
    chosen = quieter_start(points, start)
    assert chosen is not None
    assert chosen.is_quiet
    assert chosen.hyperparameters.noise.item() == pytest.approx(0.01, rel=0.02)
    assert chosen.settings.bandwidths[0] < start.settings.bandwidths[0]
    assert chosen.searched_again(points) is chosen


def test_noise_stays_noise() -> None:
    points, start = begun(X[:, 0] + np.random.default_rng(1).standard_normal(len(X)))
    assert quieter_start(points, start) is None


def test_noise_that_is_known_or_little_is_left_as_it_is() -> None:
    points, start = begun(chirp(X), noise=0.2)
    assert quieter_start(points, start) is None
    points, start = begun(chirp(X))
    little = Start(
        **{**vars(start), "hyperparameters": start.hyperparameters._replace(noise=points.y.new_tensor(0.015))}
    )
    assert quieter_start(points, little) is None


def test_a_wide_ladder_has_the_steps_of_the_given_one() -> None:
    ladder = wide_ladder(torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64))
    assert torch.allclose(ladder[1:] / ladder[:-1], torch.tensor(2.0, dtype=torch.float64))
    assert (ladder[0].item(), ladder[-1].item()) == pytest.approx((SMALLEST, LARGEST))
    assert math.isclose(wide_ladder(torch.ones(1, dtype=torch.float64))[1].item(), 2.0 * SMALLEST)


def test_a_model_of_many_labels_in_fast_waves_explains_them() -> None:
    model = MixtureRegressor(random_state=0).fit(X, chirp(X))
    assert rmse(model.predict(GRID), chirp(GRID)) < 0.25
    assert model.noise_ < 0.05


def test_a_mixture_that_is_worse_with_little_noise_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = MixtureRegressor(random_state=0, n_inducing=20).fit(X, np.sin(9.0 * X[:, 0]))
    always = lambda points, start: start.quieter(points) or start  # noqa: E731
    monkeypatch.setattr("lobal.mixture.analytic.fit.quieter_start", always)
    again = MixtureRegressor(random_state=0, n_inducing=20).fit(X, np.sin(9.0 * X[:, 0]))
    assert rmse(again.predict(GRID), np.sin(9.0 * GRID[:, 0])) <= rmse(plain.predict(GRID), np.sin(9.0 * GRID[:, 0]))


def test_where_noise_stays_noise_the_fit_is_the_same_as_without_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    y = X[:, 0] + 0.3 * np.random.default_rng(1).standard_normal(len(X))
    tried = MixtureRegressor(random_state=0).fit(X, y)
    monkeypatch.setattr(fit, "quieter_start", lambda *_: None)
    without = MixtureRegressor(random_state=0).fit(X, y)
    assert np.array_equal(tried.predict(GRID), without.predict(GRID))
    assert np.array_equal(tried.local_bandwidth(GRID), without.local_bandwidth(GRID))


@pytest.mark.parametrize("exact", [False, True])
def test_the_history_ends_with_the_start_that_is_kept(exact: bool) -> None:
    seen: list[Epoch] = []
    points, start = begun(chirp(X))
    start = Start(**{**vars(start), "settings": replace(start.settings, exact=exact, n_inducing=60)})
    attempts = fit.Attempts(TrainingData(points=points), seen.append)
    first, second = attempts.fit(start), attempts.fit(start.quieter(points) or start)
    attempts.end_with(second)
    n, last = len(seen), seen[-1]
    attempts.end_with(first)
    assert len(seen) == n + 1
    assert seen[-1] in seen[:n]
    assert seen[-1] != last
