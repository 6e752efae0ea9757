"""The engines by name."""

from lobal.mixture.adam.engine import ADAM
from lobal.mixture.analytic.engine import ANALYTIC
from lobal.mixture.engine import Engine
from lobal.mixture.settings import TrainingSettings

ENGINES: dict[str, Engine] = {"analytic": ANALYTIC, "adam": ADAM}
DEFAULT_ENGINE = "analytic"


def engine_for(training: TrainingSettings) -> Engine:
    """The engine that the settings belong to."""
    return next(engine for engine in ENGINES.values() if isinstance(training, engine.settings))
