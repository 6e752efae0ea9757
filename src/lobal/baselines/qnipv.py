"""BoTorch's qNegIntegratedPosteriorVariance of a `SingleTaskGP`, maximised greedily over the candidates.

The value of adding a point to the batch is computed by rank-one updates of one posterior covariance, which gives the
numbers of `qNegIntegratedPosteriorVariance` (a test compares them); evaluating BoTorch's function at every candidate
for every point of the batch would take minutes.
"""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.active.draws import DrawTask, draw_random
from lobal.baselines.shortlist import LARGEST, Shortlist, chosen, required
from lobal.core.arrays import rows_at

# Inputs that the variance is averaged over: the error of an average over so many is a few per cent.
INTEGRATION = 2**9


def qnipv(task: DrawTask) -> Int[Tensor, " b"]:
    """Points that lower the variance, averaged over the test density, most; pending points count as labelled."""
    gp, fit = _botorch("models"), _botorch("fit").fit_gpytorch_mll
    settings, likelihoods = _botorch("settings"), required("gpytorch.mlls", "botorch")
    places = _test_points(task)

    def choice(shortlist: Shortlist) -> Int[ndarray, " b"]:
        y = torch.from_numpy(shortlist.standardised().y)[:, None]
        X, labelled, unlabelled, at = _in_unit_cube(shortlist.X, shortlist.labelled, shortlist.unlabelled, places)
        with settings.validate_input_scaling(False):  # of constant columns and labels
            model = gp.SingleTaskGP(labelled, y, outcome_transform=None)
        fit(likelihoods.ExactMarginalLogLikelihood(model.likelihood, model))
        with torch.no_grad():
            S = model.posterior(torch.cat([X, at, unlabelled])).distribution.covariance_matrix.clone()
        return greedy_rows(S, model.likelihood.noise.item(), len(X), len(at), shortlist.b).numpy()

    return chosen(task, choice, most=LARGEST)


def _botorch(module: str) -> Any:  # noqa: ANN401 - a module without types
    return required(f"botorch.{module}", "botorch")


def _test_points(task: DrawTask) -> Float[ndarray, "M d"]:
    """Candidates drawn from the test density."""
    weights = task.candidates.test_density / task.candidates.pool_density
    number = min(INTEGRATION, int((weights > 0).sum()))
    rows = draw_random(weights, task.candidates.X, number, generator=task.generator)
    return rows_at(task.candidates.X, rows.numpy())


def _in_unit_cube(*parts: Float[ndarray, "_ d"]) -> list[Float[Tensor, "_ d"]]:
    """Inputs scaled to the unit cube, as BoTorch's priors expect."""
    lower, upper = (
        bound([bound(part, axis=0, initial=start) for part in parts], axis=0)
        for bound, start in ((np.min, math.inf), (np.max, -math.inf))
    )
    width = np.where(upper > lower, upper - lower, 1.0)
    return [torch.from_numpy((part - lower) / width) for part in parts]


def greedy_rows(S: Float[Tensor, "s s"], noise: float, k: int, places: int, b: int) -> Int[Tensor, " b"]:
    """b of the first k points, each lowering the total variance at the next `places` most; the others are given.

    S is the posterior covariance of all points and is overwritten. A label at x lowers the variance at z by
    S(z, x)^2 / (S(x, x) + noise).
    """
    for given in range(k + places, len(S)):
        _condition(S, noise, given)
    rows = torch.empty(b, dtype=torch.long)
    for i in range(b):
        gain = S[:k, k : k + places].square().sum(1) / (S.diagonal()[:k] + noise)
        gain[rows[:i]] = -math.inf
        rows[i] = gain.argmax()
        _condition(S, noise, int(rows[i]))
    return rows


def _condition(S: Float[Tensor, "s s"], noise: float, row: int) -> None:
    """Update the covariance by a label at one of the points."""
    change = S[row] / (S[row, row].clamp_min(0.0) + noise).sqrt()
    S.addr_(change, change, alpha=-1.0)
