"""The Adam engine."""

from lobal.mixture.adam.fit import fit_by_adam
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.tuning import tuned_adam
from lobal.mixture.engine import Engine

ADAM = Engine(settings=AdamSettings, fit=fit_by_adam, tune=tuned_adam)
