"""How settings are chosen before a fit: not at all, by the fit itself, or by comparison."""

import torch

from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.fit import TUNINGS, fit_mixture, untuned_settings
from lobal.mixture.tuning_record import Decision, Trial
from tests.mixture.adam.test_tuning import LADDER, data, settings


def test_without_tuning_neither_pilot_nor_ladder_moves() -> None:
    seen: list[int] = []
    generator = torch.Generator().manual_seed(0)
    given = untuned_settings(data(), settings(training=AnalyticSettings(), bandwidths=LADDER[2:5]), generator).settings
    fitted = fit_mixture(data(), given, generator, lambda epoch: seen.append(epoch.number))
    assert torch.equal(fitted.mixture.bandwidths, LADDER[2:5])
    assert seen.count(0) == 1


def test_without_tuning_adam_is_as_it_was() -> None:
    found = untuned_settings(data(), settings(adaptive=True), torch.Generator()).settings
    assert vars(found) == vars(settings(adaptive=False, pilot=False))  # `==` of dataclasses cannot compare tensors


def test_what_is_found_without_comparing_trainings_leaves_no_record() -> None:
    given = settings()
    found = {name: TUNINGS[name](data(), given, torch.Generator()) for name in ("off", "fast")}
    assert found["fast"].settings is given
    assert not found["off"].settings.adaptive
    assert found["off"].decisions == found["fast"].decisions == []


def test_errors_of_a_decision_are_put_in_other_units() -> None:
    trials = (Trial(1.0, 0.5, 7, "finished"), Trial(2.0, None, 1, "diverged"))
    assert [trial.error for trial in Decision("theta", trials, 1.0).scaled(4.0).trials] == [2.0, None]
