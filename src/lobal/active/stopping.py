"""Rules that end a run early: functions of the learner, looked at after every size."""

from lobal.active.learner import ActiveLearner, StoppingRule


def target_error(rmse: float) -> StoppingRule:
    """Stop when the validation error is at most this.

    It is the error of labels and not of the function: it does not fall below the noise.
    """

    def reached(learner: ActiveLearner) -> bool:
        return learner.model is not None and learner.model.validation_error_ <= rmse

    return reached


def no_further_gain(share: float = 0.95) -> StoppingRule:
    """Stop when active learning would need more than this share of the labels that random ones need."""

    def exhausted(learner: ActiveLearner) -> bool:
        return learner.model is not None and learner.headroom() > share

    return exhausted
