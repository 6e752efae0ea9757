"""A small campaign that the tests of its report look at."""

import numpy as np

from lobal import ActiveLearner, MixtureRegressor, Pool
from lobal.report.campaign_figures import Landscape
from lobal.report.variables import variables_of

MODEL = MixtureRegressor(n_inducing=20, n_gate_inducing=10)


def campaign(dimension: int, labels: int = 30) -> ActiveLearner:
    """A pool of 80 points, some of them labelled and five more asked for."""
    X = np.random.default_rng(0).uniform(0.01, 1.0, size=(80, dimension))
    learner = ActiveLearner(Pool(X), seed=0, model=MODEL)
    if labels:
        rows = np.arange(labels)
        learner.tell(rows, np.sin(3.0 / (X[rows, 0] + 0.1)))
    learner.ask(5)
    return learner


def invented_landscape(dimension: int, n: int = 200) -> Landscape:
    """Candidates whose complexity falls with the last column, and rises a little with the first."""
    points = np.random.default_rng(0).uniform(size=(n, dimension))
    complexity = np.exp(points[:, 0] - 4.0 * points[:, -1])
    return Landscape(
        points=points,
        variables=variables_of(dimension, [f"column {j}" for j in range(dimension)]),
        complexity=complexity,
        superior_density=np.sqrt(complexity),
        training_density=np.ones(n),
        labelled=points[:30],
        suggested=points[30:40],
        failed=points[40:44],
        predictions={"target": points[:, 0]},
    )
