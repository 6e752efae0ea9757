"""The price of leverage and the scale of the gate, chosen by cross-validation."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.mixture.analytic import tuning
from lobal.mixture.analytic.settings import AnalyticSettings
from tests.mixture.adam.test_tuning import tuned


@pytest.mark.parametrize("exact", [False, True])
def test_price_and_gate_scale_of_the_analytic_engine_are_compared(exact: bool) -> None:
    found = tuned(training=AnalyticSettings(), exact=exact)
    (only,) = found.decisions
    assert len(only.trials) == 9
    assert isinstance(found.settings.training, AnalyticSettings)
    assert only.chosen == (found.settings.training.price, found.settings.training.gate_scale)
    assert only.trials[0].value == (4.0, 4.0)


def test_with_a_theta_the_price_has_no_say() -> None:
    found = tuned(training=AnalyticSettings(penalty=0.1, gate_scale=2.0))
    assert [trial.value for trial in found.decisions[0].trials] == [(4.0, 2.0), (4.0, 1.0), (4.0, 4.0), (4.0, 16.0)]


def test_the_final_fit_does_not_compare_measures_again() -> None:
    found = tuned(training=AnalyticSettings(penalty=0.1, compared=True))
    assert isinstance(found.settings.training, AnalyticSettings)
    assert not found.settings.training.compared


@pytest.mark.parametrize(("gain", "is_taken"), [(0.05, False), (0.2, True)])
def test_the_given_settings_are_kept_unless_others_are_better_by_a_standard_error(
    gain: float, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standard error of 120 differences of +-1 is 0.09."""

    def losses(*arguments: Any) -> Tensor:
        sign = 2.0 * (torch.arange(120) % 2).double() - 1.0
        given = {(4.0, 4.0): 1.0 + 0.0 * sign, (16.0, 1.0): 1.0 - gain + sign}
        return given.get((arguments[-1].price, arguments[-1].gate_scale), torch.full_like(sign, 2.0))

    monkeypatch.setattr(tuning, "held_out_losses", losses)
    found = tuned(training=AnalyticSettings())
    assert found.decisions[0].chosen == ((16.0, 1.0) if is_taken else (4.0, 4.0))
