"""How far a fit looks for its own settings: not at all, by itself, or by comparing whole trainings.

"off" takes the settings as they are: the given ladder and, for the ordinal gate, the middle one of its widths. "fast"
is what a fit does by itself: under the analytic engine a pilot finds ladder, gate width and noise; under Adam it is the
same as "off". "full" comes before the fit: Algorithm 2 under Adam, a grid of gates under the analytic engine.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import torch

from lobal.mixture.adam.training import AdamSettings
from lobal.mixture.adam.tuning import tuned_adam
from lobal.mixture.analytic.training import AnalyticSettings
from lobal.mixture.analytic.tuning import tuned_analytic
from lobal.mixture.decisions import Report, Tuned
from lobal.mixture.fit import MixtureSettings, TrainingData

BUDGET = 48  # fits: about as many as Algorithm 2 asks for

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
    match settings.training:
        case AdamSettings() as adam:
            return tuned_adam(data, settings, adam, generator, budget, progress)
        case AnalyticSettings() as analytic:
            return tuned_analytic(data, settings, analytic, generator, budget, progress)


def untuned_settings(_: TrainingData, settings: MixtureSettings, __: torch.Generator) -> Tuned:
    """Settings with which a fit looks for nothing: the given ladder, the middle gate width, no pilot."""
    return Tuned(replace(settings, adaptive=False, pilot=False), [])


def _fast(_: TrainingData, settings: MixtureSettings, __: torch.Generator) -> Tuned:
    return Tuned(settings, [])


TUNINGS: dict[str, Tuning] = {"off": untuned_settings, "fast": _fast, "full": tuned_settings}
