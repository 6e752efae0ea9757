"""Small campaigns in spaces of named variables that the tests of their report look at."""

import numpy as np

from lobal import ActiveLearner, Categorical, Integer, Output, Real, SearchSpace
from tests.report.setting import MODEL

FLOW = Real("flow", 0.01, 1000.0, log=True, unit="l/h")
VARIABLES = [FLOW, Integer("fins", 1, 12), Categorical("metal", ["steel", "copper"])]
MIXTURE = [Real("iron", 0.0, 100.0, unit="%"), Real("nickel", 0.0, 60.0), Real("chromium", 0.0, 60.0)]


def simulated(labels: int = 30) -> ActiveLearner:
    """Two outputs, of which the second has no unit and lacks every fifth label; three more points are asked for."""
    outputs = (Output("temperature", unit="K"), "pressure")
    learner = ActiveLearner(SearchSpace(VARIABLES, outputs=outputs, n_candidates=256), model=MODEL)
    points = learner.ask(labels)
    flow, fins = (np.asarray(points[name], dtype=np.float64) for name in ("flow", "fins"))
    pressure = np.where(np.arange(labels) % 5 == 0, np.nan, np.log(flow) + 0.1 * fins)
    learner.tell(points, np.column_stack([np.sin(np.log(flow)), pressure]))
    learner.ask(3)
    return learner


def mixed(labels: int = 25) -> ActiveLearner:
    """Parts that sum to 100."""
    space = SearchSpace(MIXTURE, constraints=["iron + nickel + chromium == 100"], n_candidates=256)
    learner = ActiveLearner(space, model=MODEL)
    points = learner.ask(labels)
    learner.tell(points, 0.1 * np.asarray(points["nickel"]))
    return learner
