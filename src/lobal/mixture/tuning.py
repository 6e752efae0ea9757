"""How settings are chosen before a fit.

"off" takes the settings as given: the ladder as it is and, for the ordinal gate, the middle one of its widths. "fast"
leaves the choice to the fit: under the analytic engine a pilot finds ladder, gate width and noise; under Adam it is the
same as "off". "full" compares trainings before the fit: Algorithm 2 under Adam, a grid of gates under the analytic
engine.
"""

from dataclasses import replace

import torch

from lobal.mixture.data import TrainingData
from lobal.mixture.engine import Tune
from lobal.mixture.engines import engine_for
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.tuning_record import Tuned


def tuned_settings(data: TrainingData, settings: MixtureSettings, generator: torch.Generator) -> Tuned:
    """The settings that validate best, by the method of their engine."""
    return engine_for(settings.training).tune(data, settings, generator)


def untuned_settings(_: TrainingData, settings: MixtureSettings, __: torch.Generator) -> Tuned:
    """Settings with a fixed ladder and no pilot."""
    return Tuned(replace(settings, adaptive=False, pilot=False), [])


TUNINGS: dict[str, Tune] = {
    "off": untuned_settings,
    "fast": lambda _, settings, __: Tuned(settings, []),
    "full": tuned_settings,
}
