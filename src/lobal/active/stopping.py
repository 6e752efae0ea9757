"""Rules that end a run early: functions of the learner, checked after every size."""

import math

import numpy as np

from lobal.active.learner import ActiveLearner, StoppingRule
from lobal.core.checks import real_number

FEWEST_SIZES, MOST_SIZES = 3, 4  # at the end of a learning curve that are extrapolated from


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
        curve = {step.labels: step.validation_error for step in learner.history} | {len(learner.labelled.y): last}
        known = sorted((n, error) for n, error in curve.items() if n and error)
        return len(known) >= FEWEST_SIZES and most_gained_by_doubling(known[-MOST_SIZES:]) < gain

    return exhausted


def most_gained_by_doubling(curve: list[tuple[int, float]]) -> float:
    """By what share twice the labels lower the error, plus its standard error.

    Logarithms of errors are fitted by a line in log n; those at n labels have a variance of at least 1 / (2 n), that of
    a root mean square of n normal errors.
    """
    n, error = np.array(curve).T
    x, y = np.log(n), np.log(error)
    slope, intercept = np.polyfit(x, y, 1, w=np.sqrt(n))
    residual = np.square(y - slope * x - intercept) @ n / (len(n) - 2)
    spread = n @ np.square(x - np.average(x, weights=n))
    return float(1.0 - 2.0 ** (slope - math.sqrt(max(residual, 0.5) / spread)))


def no_advantage(share: float = 0.1) -> StoppingRule:
    """Stop when following the local complexity is expected to save less than this share of the labels.

    Labels may still lower the error as much as before, and points spread evenly then lower it about as well. What
    chance may hide counts against stopping: with few labels the rule does not apply, nor to models that do not know
    their errors, such as those of molecules.
    """
    real_number("share", share, least=0.0, most=1.0, hint="0.1 for ten percent")

    def exhausted(learner: ActiveLearner) -> bool:
        savings = learner.expected_savings()
        return savings is not None and savings.by_chance is not None and savings.share + savings.by_chance < share

    return exhausted
