"""The analytic engine from data to mixture: its ladder of bandwidths, its pilot, its weights."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.data import TrainingData
from lobal.mixture.fit import fit_mixture
from lobal.mixture.model import FittedMixture
from lobal.mixture.progress import Epoch
from lobal.mixture.settings import MixtureSettings
from tests.mixture.test_fit import BANDWIDTHS, error, sample

WIDTH = torch.tensor(0.5).double()
FAR_BELOW = 2.0 ** torch.arange(-6, -3).double()
FAR_ABOVE = 2.0 ** torch.arange(3, 6).double()


def fit(points: LabelledSet, seen: list[Epoch] | None = None, seed: int = 0, **changes: Any) -> FittedMixture:
    given = {
        "bandwidths": BANDWIDTHS,
        "n_inducing": 40,
        "n_gate_inducing": 20,
        "gate_bandwidth": WIDTH,
        "training": AnalyticSettings(),
    }
    settings = MixtureSettings(**{**given, **changes})
    progress = None if seen is None else seen.append
    return fit_mixture(TrainingData(points=points), settings, torch.Generator().manual_seed(seed), progress)


@pytest.mark.parametrize("ladder", [FAR_BELOW, FAR_ABOVE], ids=["below", "above"])
def test_a_ladder_in_the_wrong_place_is_extended_to_the_right_one(ladder: Tensor) -> None:
    fitted = fit(sample(120, 1), bandwidths=ladder, adaptive=True)
    bandwidths = fitted.mixture.bandwidths
    assert torch.allclose(bandwidths.log2().diff(), torch.ones(len(bandwidths) - 1).double())
    assert bandwidths[0] <= 0.5
    assert bandwidths[-1] >= 2.0
    assert error(fitted) < 0.1


@pytest.mark.parametrize("ladder", [FAR_BELOW, FAR_ABOVE], ids=["below", "above"])
def test_a_ladder_that_is_given_stays_where_it_is(ladder: Tensor) -> None:
    assert torch.equal(fit(sample(120, 1), bandwidths=ladder).mixture.bandwidths, ladder)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_weights_are_no_weights(exact: bool, weighted: bool) -> None:
    points, training = sample(100, 1), AnalyticSettings(weighted=weighted)
    equal = LabelledSet(X=points.X, y=points.y, weight=7.3 * points.weight)
    ours, theirs = (fit(p, exact=exact, training=training).mixture.predict(points.X) for p in (points, equal))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_act_on_the_training_on_request_only(weighted: bool) -> None:
    points = sample(100, 1)
    unequal = LabelledSet(X=points.X, y=points.y, weight=0.1 + 5.0 * points.X[:, 0])
    training = AnalyticSettings(weighted=weighted)
    ours, theirs = (fit(p, training=training).mixture.predict(points.X).mean for p in (points, unequal))
    assert torch.equal(ours, theirs) == (not weighted)


@pytest.mark.parametrize("exact", [False, True])
def test_residuals_are_those_of_labels_predicted_from_the_others(exact: bool) -> None:
    """Larger than those of the fit, and about as large as the noise."""
    points = sample(150, 1)
    fitted = fit(points, exact=exact)
    assert fitted.residual is not None
    fit_error, left_out = points.y - fitted.mixture.predict(points.X).mean, fitted.residual
    assert fit_error.square().mean() < left_out.square().mean()
    assert 0.09 < left_out.square().mean().sqrt().item() < 0.13


@pytest.mark.parametrize("exact", [False, True])
def test_squared_errors_serve_labels_without_noise(exact: bool) -> None:
    x = torch.linspace(0, 1, 100, dtype=torch.float64)[:, None]
    points = LabelledSet(X=x, y=torch.sin(9 * x[:, 0]), weight=torch.ones(100).double())
    assert error(fit(points, exact=exact, training=AnalyticSettings(squared=True))) < 1e-3
