"""What ends the page of a campaign: the steps, the settings, the versions."""

from collections.abc import Iterator

from lobal.active.learner import ActiveLearner
from lobal.core.versions import versions
from lobal.report.blocks import details_block, table_block, text_block

# Columns of the history, and the fields of a step they show.
HISTORY = {
    "step": "number",
    "labels before": "size",
    "asked for": "batch",
    "error": "validation_error",
    "standard error": "standard_error",
    "noise variance": "noise",
    "rho": "attainable",
    "trust": "trust",
    "check points": "check",
    "gamma_1": "gamma_1",
    "gamma_2": "gamma_2",
}
HISTORY_KEY = (
    "Error, noise variance, rho and trust are those of the model at the start of the step. rho: the "
    "relative sample size that the superior density reaches, against random labels, if the estimated complexity is "
    "right. trust: how far the points follow the local complexity; 0 not at all, 0.5 its square root, 1 all of it. "
    "check points: how many of the points asked for follow the test density, whatever the model says. "
    "gamma_1: the largest ratio of the training density to the target density. gamma_2: the share of the old training "
    "density in the new one; 0 means that the target density was reached."
)


def record_blocks(learner: ActiveLearner) -> Iterator[str]:
    """History, settings and versions, each shown on a click."""
    steps = learner.history.steps
    if steps:
        rows = [[getattr(step, field) for field in HISTORY.values()] for step in steps]
        yield details_block("History", [table_block(HISTORY, rows), text_block(HISTORY_KEY)])
    yield details_block("Settings", _settings(learner))
    yield details_block("Versions", [table_block(("package", "version"), versions().items())])


def _settings(learner: ActiveLearner) -> Iterator[str]:
    """The settings of the learner, and options of the model that differ from their defaults."""
    changed = learner.surrogate.changed_options
    rows = [*learner.settings.to_fields().items(), *((f"model.{name}", value) for name, value in changed.items())]
    yield table_block(("setting", "value"), rows)
    yield text_block("All other options of the model have their default values.")
