"""Rules that end a run early: functions of the learner, looked at after every size."""

import math

from lobal.active.learner import ActiveLearner, StoppingRule


def target_error(rmse: float) -> StoppingRule:
    """Stop when the validation error is at most this.

    It is the error of labels and not of the function: it does not fall below the noise.
    """

    def reached(learner: ActiveLearner) -> bool:
        return _error(learner) <= rmse

    return reached


def no_further_gain(share: float = 0.05) -> StoppingRule:
    """Stop when active learning is expected to save less than this share of the labels."""

    def exhausted(learner: ActiveLearner) -> bool:
        return learner.fitted is not None and learner.expected_savings() < share

    return exhausted


def _error(learner: ActiveLearner) -> float:
    error = None if learner.fitted is None else learner.fitted.validation_error
    return math.inf if error is None else error
