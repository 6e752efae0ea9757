"""Where a campaign stands, in words: counts, error and trend, savings, and whether to go on."""

import math
from collections.abc import Sequence

from lobal.active.learner import ActiveLearner
from lobal.active.stopping import FEWEST_SIZES, MOST_SIZES, most_gained_by_doubling
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.error_curve import Round
from lobal.report.savings import expectation

LITTLE_GAIN = 0.05  # of the error, from twice the labels: as in `lobal.stopping.flattened`
NEAR_NOISE = 1.1  # errors below so many standard deviations of the noise are mostly noise
MOST_DIGITS = 5  # after the point; smaller numbers are written with powers of ten
NO_MODEL = "Too few labels for a model yet: the next points do not depend on the labels."

CAUTION = (
    "The share of the labels that following the local complexity saves, for the same error, against points that follow "
    "an even density in the same way. It is estimated from the errors of the labels so far, each predicted from all "
    "others, and from how fast errors fall in the limit of many labels; ± is one standard error, of chance and of this "
    "prediction. What spreading the points evenly saves against random labels is not part of it and is not predicted: "
    "docs/peers.md has what it saved in tests. Use it to tell a lot from nothing, not to plan a budget."
)
FORMULA_CAUTION = (
    "The share of the labels that active learning saves against random labels for the same error, expected from how "
    "much the local complexity varies, since the errors of the labels are not known. It is correct in the limit of "
    "many labels, and optimistic for few, since errors of the estimated complexity look like variation. Use it to tell "
    "a lot from nothing, not to plan a budget."
)
# What the learner does, by the trust of the last step, with designs that follow the superior density.
PRACTICE = {
    0.0: "The last points were spread as if the target were equally complex everywhere: the errors of the labels do "
    "not show that following the local complexity pays.",
    0.5: "The last points follow half of the local complexity (its square root): the errors of the labels do not show "
    "that more or less of it pays.",
    1.0: "The last points follow the local complexity.",
}
AS_SET = "The last points were spread as if the target were equally complex everywhere, as the settings say."


def counts(learner: ActiveLearner, n_inputs: int) -> str:
    """How many labels there are, to come, and failed."""
    numbers = {"labels so far": len(learner.labelled.y), "to come": len(learner.pending), "failed": len(learner.failed)}
    counted = ", ".join(f"{number} {name}" for name, number in numbers.items() if number or name == "labels so far")
    inputs = "one input" if n_inputs == 1 else f"{n_inputs} inputs"
    return f"{counted}; {len(learner.candidates)} candidates with {inputs}."


def error_name(learner: ActiveLearner) -> str:
    """What the error is that the model gives of itself."""
    fitted = learner.fitted
    if fitted is None or (isinstance(fitted.model, MixtureRegressor) and fitted.standard_error is not None):
        return "error of the validation labels" if learner.has_validation else "leave-one-out error"
    return "validation error"


def error_now(rounds: Sequence[Round], name: str, target: str) -> str:
    """The error of the present model with its standard error."""
    if not rounds:
        return "not known yet: a model needs ten labels"
    now = rounds[-1]
    known = with_standard_error(now.error, now.standard_error)
    return f"{known} (root mean squared {name} of {target}, noise of the labels included)"


def with_standard_error(value: float, error: float | None) -> str:
    """A value with as many digits as its standard error allows, which has two."""
    if error is None or not 0.0 < error < math.inf:
        return f"{value:.3g}"
    digits = 1 - math.floor(math.log10(error))
    if not 0 <= digits <= MOST_DIGITS:
        return f"{value:.3g} ± {error:.2g}"
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def error_trend(rounds: Sequence[Round]) -> str:
    """How the error has changed since the round before, and since the first."""
    if len(rounds) < 2:
        return "no trend yet: it takes the models of two rounds"
    (first, before), now = (rounds[0], rounds[-2]), rounds[-1]
    since = f"{_change(before, now)} since the round before ({before.error:.3g} at {before.labels} labels)"
    if len(rounds) == 2:
        return since
    return f"{since}; {_change(first, now)} since the first model ({first.error:.3g} at {first.labels})"


def _change(before: Round, now: Round) -> str:
    """The change of an error in percent, as far as it is clear."""
    change = now.error / before.error - 1.0 if before.error > 0.0 else 0.0
    errors = [each.standard_error for each in (before, now)]
    chance = math.hypot(*(0.0 if error is None else error for error in errors))
    if abs(now.error - before.error) <= chance:
        return f"no clear change ({100.0 * change:+.0f}%)"
    return f"{'down' if change < 0.0 else 'up'} {100.0 * abs(change):.0f}%"


def stopping_advice(rounds: Sequence[Round], noise: float | None) -> str:
    """Whether more labels are expected to pay."""
    if not rounds:
        return "Go on: there is no model yet."
    if noise is not None and noise > 0.0 and rounds[-1].error <= NEAR_NOISE * math.sqrt(noise):
        return (
            f"Stopping is reasonable: the error is about the noise of single labels ({math.sqrt(noise):.3g}), below "
            "which it cannot fall. More labels still make the prediction of the noise-free value better."
        )
    known = [(each.labels, each.error) for each in rounds if each.error > 0.0][-MOST_SIZES:]
    if len(known) < FEWEST_SIZES:
        return f"Go on: at least {FEWEST_SIZES} rounds are needed to tell what more labels gain."
    gain = most_gained_by_doubling(known)
    if gain < LITTLE_GAIN:
        return f"Stopping is reasonable: twice the labels would lower the error by less than {100 * LITTLE_GAIN:.0f}%."
    return f"Go on: twice the labels may lower the error by up to {100.0 * gain:.0f}%."


def savings_now(learner: ActiveLearner) -> str:
    """The expected savings."""
    return "not known yet: there is no model" if learner.fitted is None else expectation(learner.expected_savings())


def caution(learner: ActiveLearner) -> str:
    """How the expected savings are estimated."""
    expected = learner.expected_savings()
    return CAUTION if expected is None or expected.by_chance is not None else FORMULA_CAUTION


def practice(learner: ActiveLearner) -> list[str]:
    """What the points of the last step follow, in one sentence; none before there was a model."""
    trust = learner.history[-1].trust if len(learner.history) else None
    if trust is None or learner.settings.exploration == 1.0:
        return []
    return [AS_SET if learner.settings.complexity == "constant" else PRACTICE[trust]]
