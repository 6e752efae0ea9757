"""Query strategies of scikit-activeml, on standardised inputs."""

from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.neighbors import KNeighborsRegressor
from torch import Tensor

from lobal.active.draws import DrawTask
from lobal.baselines.shortlist import LARGEST, Shortlist, chosen, required
from lobal.baselines.uncertainty import fitted_process

COMMITTEE = 100  # trees, scikit-learn's default
# The KL divergence takes a Gaussian process for every candidate, ten milliseconds each with so many labels and inputs
# to compare it at.
LARGEST_KL, LABELS_KL, COMPARED = 2**9, 2**9, 2**7


def _activeml(module: str) -> Any:  # noqa: ANN401 - a module without types
    return required(f"skactiveml.{module}", "scikit-activeml")


def gsx(task: DrawTask) -> Int[Tensor, " b"]:
    """Greedy sampling of inputs: each point is the farthest from all before it (Wu, Lin and Huang, 2019)."""
    pool = _activeml("pool")

    def choice(shortlist: Shortlist) -> Int[ndarray, " b"]:
        scaled = shortlist.standardised()
        strategy = pool.GreedySamplingX(random_state=shortlist.seed)
        labels = np.zeros(len(scaled.known))  # any: points with a label count as chosen
        return _queried(strategy, scaled, X=scaled.known, y=labels)

    return chosen(task, choice, most=LARGEST)


def igs(task: DrawTask) -> Int[Tensor, " b"]:
    """Improved greedy sampling (the same paper): distances of inputs times distances of labels.

    Labels of candidates and pending points are what the learner's model predicts.
    """
    pool, regressor, fitted = _activeml("pool"), _activeml("regressor"), task.fitted

    def choice(shortlist: Shortlist) -> Int[ndarray, " b"]:
        assert fitted is not None  # else nothing is chosen
        scaled = shortlist.standardised()
        labels = [shortlist.y, *(fitted.predict(points) for points in (shortlist.unlabelled,) if len(points))]
        # The nearest candidate of a candidate is itself: this looks up what the model predicts.
        predictions = regressor.SklearnRegressor(KNeighborsRegressor(n_neighbors=1))
        predictions.fit(scaled.X, fitted.predict(shortlist.X))
        strategy = pool.GreedySamplingTarget(method="GSi", random_state=shortlist.seed)
        given = {"X": scaled.known, "y": np.concatenate(labels), "reg": predictions, "fit_reg": False}
        return _queried(strategy, scaled, **given)

    return chosen(task, choice, most=LARGEST)


def qbc(task: DrawTask) -> Int[Tensor, " b"]:
    """Query by committee: where the trees of a random forest disagree most (Burbidge, Rowland and King, 2007)."""
    pool, regressor = _activeml("pool"), _activeml("regressor")

    def choice(shortlist: Shortlist) -> Int[ndarray, " b"]:
        scaled = shortlist.standardised()
        forest = RandomForestRegressor(n_estimators=COMMITTEE, random_state=shortlist.seed)
        strategy = pool.QueryByCommittee(random_state=shortlist.seed)
        ensemble = regressor.SklearnRegressor(forest)
        return _queried(strategy, scaled, X=scaled.labelled, y=scaled.y, ensemble=ensemble)

    return chosen(task, choice, most=LARGEST)


def kl(task: DrawTask) -> Int[Tensor, " b"]:
    """Greatest expected KL divergence between a model with and without the label (Elreedy, Atiya and Shaheen, 2019).

    The model is a Gaussian process, compared at some of the candidates. scikit-activeml's quadrature is exact for it;
    for its own kernel regressor, whose predictions have heavy tails, it ranks candidates among labels highest.
    """
    pool, regressor = _activeml("pool"), _activeml("regressor")

    def choice(shortlist: Shortlist) -> Int[ndarray, " b"]:
        scaled, random = shortlist.standardised(), np.random.default_rng(shortlist.seed)
        (_, scale, noise), widths, *_ = fitted_process(scaled)
        kernel = ConstantKernel(scale.item()) * RBF(widths.numpy()) + WhiteKernel(noise.item())
        labelled = random.permutation(len(scaled.y))[:LABELS_KL]
        compared = random.permutation(scaled.X)[:COMPARED]
        X = np.concatenate([scaled.labelled[labelled], compared])
        y = np.concatenate([scaled.y[labelled], np.full(len(compared), np.nan)])
        process = regressor.SklearnNormalRegressor(GaussianProcessRegressor(kernel, optimizer=None))
        strategy = pool.KLDivergenceMaximization(random_state=shortlist.seed)
        return _queried(strategy, scaled, X=X, y=y, reg=process)

    return chosen(task, choice, most=LARGEST_KL)


def _queried(strategy: Any, scaled: Shortlist, **given: object) -> Int[ndarray, " b"]:  # noqa: ANN401
    """The rows of the candidates that a strategy asks for."""
    return np.asarray(strategy.query(candidates=scaled.X, batch_size=scaled.b, **given))
