"""Rules that end a run early: functions of the learner, checked after every size."""

from lobal.active.learner import ActiveLearner, StoppingRule


def target_error(rmse: float) -> StoppingRule:
    """Stop when the validation error is at most this.

    It is the error of labels and not of the function: it does not fall below the noise.
    """

    def reached(learner: ActiveLearner) -> bool:
        error = None if learner.fitted is None else learner.fitted.validation_error
        return error is not None and error <= rmse

    return reached


def no_further_gain(share: float = 0.05) -> StoppingRule:
    """Stop when active learning is expected to save less than this share of the labels."""

    def exhausted(learner: ActiveLearner) -> bool:
        return learner.fitted is not None and learner.expected_savings() < share

    return exhausted
