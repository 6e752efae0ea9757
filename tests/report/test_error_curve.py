from dataclasses import replace

import numpy as np

from lobal.report.error_curve import Round, error_curve_figure, error_rounds
from tests.report.setting import campaign


def test_every_model_is_a_round_and_the_present_one_the_last() -> None:
    learner = campaign(1)
    learner.tell(learner.pending, np.zeros(5))
    rounds = error_rounds(learner, "y")["y"]
    step, fitted = learner.history[-1], learner.fitted
    assert fitted is not None
    assert [each.labels for each in rounds] == [30, 35]
    assert (rounds[0].error, rounds[0].standard_error) == (step.validation_error, step.standard_error)
    assert (rounds[1].error, rounds[1].standard_error) == (fitted.validation_error, fitted.standard_error)


def test_without_a_model_there_is_no_round() -> None:
    assert error_rounds(campaign(1, labels=3), "y") == {}


def test_the_band_is_one_standard_error_wide() -> None:
    rounds = (Round(labels=20, error=1.0, standard_error=0.2), Round(labels=40, error=0.5, standard_error=0.1))
    (band, *_) = error_curve_figure(rounds, "y").axes[0].collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (0.4, 1.2)


def test_one_round_and_unknown_standard_errors_can_be_drawn() -> None:
    only = Round(labels=20, error=1.0)
    for rounds in ((only,), (only, replace(only, labels=30))):
        error_curve_figure(rounds, "y").draw_without_rendering()
