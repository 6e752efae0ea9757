"""How far labels are from their predictions, in standard deviations: what intervals and standard deviations rest on.

A label that is predicted from all others has the score |z| = |y - mean| / sd. Scores of labels that took no part in the
tuning are exchangeable with that of a new label, so an interval mean +- k sd with k at the 95% quantile of the scores
contains 95% of new labels, whatever the model (conformal prediction; Vovk et al. 2005, jackknife: Barber et al. 2021).
Labels that were chosen actively are not drawn from the test density q: their scores count with the weights q/p
(Tibshirani et al. 2019).

Intervals are never narrower than those of a normal distribution, and standard deviations never smaller than the
model's: where there is hardly any noise, scores far below one are those of smooth regions, and the rare large ones are
what matters.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.core.comparison import standard_error


@final
@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The scores |z| of the training labels in ascending order, and their weights, one on average."""

    scores: Float[Tensor, " n"]
    weights: Float[Tensor, " n"]

    @classmethod
    def of(cls, z: Float[Tensor, " n"], weight: Float[Tensor, " n"]) -> "Calibration":
        """The calibration of scores in any order; only ratios of the weights matter, those of zero not at all."""
        z, weight = z[weight > 0], weight[weight > 0]
        scores, order = z.abs().sort(stable=True)
        return cls(scores=scores, weights=(weight / weight.mean())[order])

    @classmethod
    def none(cls) -> "Calibration":
        """Standard deviations as they are, and intervals of a normal distribution."""
        return cls.of(torch.zeros(1), torch.ones(1))

    @property
    def factor(self) -> float:
        """By how much standard deviations are too small: the root of the mean squared score, at least one."""
        return max(1.0, math.sqrt((self.weights @ self.scores.square()).item() / len(self.scores)))

    @property
    def tail(self) -> float:
        """By how many standard errors the kurtosis of the scores exceeds three, that of normal ones.

        The kurtosis is the mean fourth power over the square of the mean square. Of n normal scores it has a standard
        error of about sqrt(24 / n).
        """
        squares = self.scores.square()
        mean = squares.mean().item()
        if mean == 0.0:
            return 0.0
        return (squares.square().mean().item() / mean**2 - 3.0) * math.sqrt(len(squares) / 24.0)

    def expected_error(self, deviation: Float[ndarray, " m"]) -> tuple[float, float]:
        """The root mean squared error of new labels with the model's standard deviations, and its standard error.

        Squared errors are to variances as at the training labels. Weights would count twice here: where new labels are
        is in the deviations.
        """
        squares = self.scores.square()
        mean, spread = squares.mean().item(), float(np.mean(np.square(deviation)))
        error = math.sqrt(mean * spread)
        # The error of a root is that of its square over twice the root.
        return error, 0.5 * error * standard_error(squares) / mean if error > 0 else 0.0

    def half_width(self, level: float) -> float:
        """Half the width of an interval that contains a new label with that probability, in standard deviations.

        The new label has the average weight. If the scores are too few for the level, the largest counts.
        """
        normal = NormalDist().inv_cdf(0.5 + 0.5 * level)
        reached = self.weights.cumsum(0) >= level * (len(self.scores) + 1)
        place = int(reached.to(self.scores).argmax()) if reached.any() else -1
        return max(normal, self.scores[place].item())
