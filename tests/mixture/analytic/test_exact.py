"""Exact experts: bandwidths and noise from a pilot among neighbours, one fit."""

import pytest
import torch
from torch import Tensor

from lobal.mixture.analytic import exact as exact_module
from tests.mixture.analytic.test_fit import FAR_ABOVE, FAR_BELOW, fit
from tests.mixture.test_fit import error, sample


@pytest.mark.parametrize("ladder", [FAR_BELOW, FAR_ABOVE], ids=["below", "above"])
def test_the_ladder_of_exact_experts_goes_where_it_is_used(ladder: Tensor) -> None:
    fitted = fit(sample(120, 1), bandwidths=ladder, adaptive=True, exact=True)
    assert 0.25 <= fitted.mixture.bandwidths[0] <= fitted.mixture.bandwidths[-1] <= 4.0
    assert error(fitted) < 0.1


def test_a_ladder_that_is_given_to_exact_experts_stays_where_it_is() -> None:
    assert torch.equal(fit(sample(120, 1), bandwidths=FAR_BELOW, exact=True).mixture.bandwidths, FAR_BELOW)


def test_the_noise_of_exact_experts_follows_the_labels_left_out() -> None:
    points = sample(300, 1)
    learned, kept = (fit(points, exact=True, pilot=pilot).hyperparameters.noise.item() for pilot in (True, False))
    assert learned != kept
    assert learned == pytest.approx(kept, rel=0.5)


def test_neighbourhoods_are_enough_to_find_the_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_module, "NEIGHBOURS", 60)
    assert error(fit(sample(300, 1), adaptive=True, exact=True, gate_bandwidth=None)) < 0.06


def test_the_pilot_finds_the_bandwidths_in_use() -> None:
    """Neighbourhoods of three labels would lead to bandwidths of up to 27."""
    bandwidths = fit(sample(300, 1), adaptive=True, exact=True).mixture.bandwidths
    assert bandwidths[0] < 0.5
    assert bandwidths[-1] <= 3.0
