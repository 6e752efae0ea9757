"""The engines by name."""

from lobal.mixture.adam.engine import Adam
from lobal.mixture.analytic.engine import Analytic
from lobal.mixture.engine import EngineOptions
from lobal.mixture.settings import TrainingSettings

ENGINES: dict[str, type[EngineOptions]] = {"analytic": Analytic, "adam": Adam}
DEFAULT_ENGINE = "analytic"


def engine_for(training: TrainingSettings) -> type[EngineOptions]:
    """The engine that the settings belong to."""
    return next(engine for engine in ENGINES.values() if isinstance(training, engine.settings))
