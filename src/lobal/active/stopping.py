"""Rules that end a run early: functions of the learner, checked after every size."""

from lobal.active.learner import ActiveLearner, StoppingRule
from lobal.active.learning_curve import has_no_advantage, is_flat, learning_curve
from lobal.core.checks import real_number


def target_error(rmse: float) -> StoppingRule:
    """Stop when the validation error is at most this.

    It is the error of labels and not of the function: it does not fall below the noise.
    """

    def reached(learner: ActiveLearner) -> bool:
        error = None if learner.fitted is None else learner.fitted.validation_error
        return error is not None and error <= rmse

    return reached


def flattened(gain: float = 0.05) -> StoppingRule:
    """Stop when twice as many labels are expected to lower the validation error by less than this share of it.

    A power law through the errors of the last sizes is extrapolated; its standard error counts against stopping. Runs
    of less than three sizes go on.
    """
    real_number("gain", gain, least=0.0, most=1.0, hint="0.05 for five percent")

    def exhausted(learner: ActiveLearner) -> bool:
        last = None if learner.fitted is None else learner.fitted.validation_error
        fits = [(step.labels, step.validation_error) for step in learner.history]
        return is_flat(learning_curve([*fits, (len(learner.labelled.y), last)]), gain)

    return exhausted


def no_advantage(share: float = 0.1) -> StoppingRule:
    """Stop when following the local complexity is expected to save less than this share of the labels.

    Labels may still lower the error as much as before, and points spread evenly then lower it about as well. What
    chance may hide counts against stopping: with few labels the rule does not apply, nor to models that do not know
    their errors, such as those of molecules.
    """
    real_number("share", share, least=0.0, most=1.0, hint="0.1 for ten percent")

    def exhausted(learner: ActiveLearner) -> bool:
        return has_no_advantage(learner.expected_savings(), share)

    return exhausted
