"""Where a campaign stands, in words: what `lobal.ActiveLearner.summary` does not say."""

from lobal.active.learner import ActiveLearner
from lobal.active.summary import Summary

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
EVEN = "The local complexity hardly varies so far, so that they are spread about evenly."
AS_SET = "The last points were spread as if the target were equally complex everywhere, as the settings say."


def counts(learner: ActiveLearner, summary: Summary, n_inputs: int) -> str:
    """How many labels there are, to come, and failed, and what there is to choose from."""
    inputs = "one input" if n_inputs == 1 else f"{n_inputs} inputs"
    space = (
        f"Any feasible point of {inputs}" if learner.is_box else f"{len(learner.candidates)} candidates with {inputs}"
    )
    return f"{summary.counts()} {space}."


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


def follows(learner: ActiveLearner) -> bool:
    """Whether the points of the last step follow the local complexity, all of it or half."""
    return practice(learner) in ([PRACTICE[0.5]], [PRACTICE[1.0]])
