"""How settings are chosen before a fit.

"off" takes the settings as given: the ladder as it is and, for the ordinal gate, the middle one of its widths. "fast"
leaves the choice to the fit: under the analytic engine a pilot finds ladder, gate width and noise; under Adam it is the
same as "off". "full" compares trainings before the fit: Algorithm 2 under Adam, a grid of gates under the analytic
engine.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import torch

from lobal.mixture.data import TrainingData
from lobal.mixture.engines import engine_for
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.tuning_record import Report, Tuned

BUDGET = 48  # fits: about as many as Algorithm 2 needs

Tuning: TypeAlias = Callable[[TrainingData, MixtureSettings, torch.Generator], Tuned]


def tuned_settings(
    data: TrainingData,
    settings: MixtureSettings,
    generator: torch.Generator,
    *,
    budget: int = BUDGET,
    progress: Report | None = None,
) -> Tuned:
    """The settings that validate best, found with at most `budget` trainings (of gates, under the analytic engine)."""
    if budget < 1:
        raise ValueError(f"budget must be at least one training, got {budget}")
    return engine_for(settings.training).tune(data, settings, generator, budget, progress)


def untuned_settings(_: TrainingData, settings: MixtureSettings, __: torch.Generator) -> Tuned:
    """Settings with a fixed ladder and no pilot."""
    return Tuned(replace(settings, adaptive=False, pilot=False), [])


def _fast(_: TrainingData, settings: MixtureSettings, __: torch.Generator) -> Tuned:
    return Tuned(settings, [])


TUNINGS: dict[str, Tuning] = {"off": untuned_settings, "fast": _fast, "full": tuned_settings}
