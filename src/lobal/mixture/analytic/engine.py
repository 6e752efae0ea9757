"""The analytic engine."""

from lobal.mixture.analytic.fit import fit_analytic
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.analytic.tuning import tuned_analytic
from lobal.mixture.engine import Engine

ANALYTIC = Engine(settings=AnalyticSettings, fit=fit_analytic, tune=tuned_analytic)
