"""Predictions in units of the labels: mean, standard deviation, covariance and paths."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.core.linalg import Correlation
from lobal.mixture.model import MixturePrediction
from lobal.mixture.units import as_array


class LabelPrediction(NamedTuple):
    """Mean and variances at every input."""

    mean: Float[ndarray, " n"]
    latent: Float[ndarray, " n"]  # variance of the function
    noise: Float[ndarray, " n"]  # variance of the noise; zero for predictions of the function

    def interval(self, half_width: float) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
        """The ends of intervals around the mean, `half_width` standard deviations away."""
        reach = half_width * self.std
        return self.mean - reach, self.mean + reach

    def widened(self, factor: float) -> "LabelPrediction":
        """The same with standard deviations times the factor; what is not the noise of labels is the function's."""
        return self._replace(latent=factor**2 * self.latent + (factor**2 - 1.0) * self.noise)

    def of_the_function(self) -> "LabelPrediction":
        """The same without noise."""
        return self._replace(noise=np.zeros_like(self.noise))

    @property
    def std(self) -> Float[ndarray, " n"]:
        """Standard deviation of the function and the noise together."""
        return np.asarray(np.sqrt(self.latent + self.noise))

    def covariance(self, correlation: Correlation) -> Float[ndarray, "n n"]:
        """Covariance of all inputs, given the correlation of the function; noise is on the diagonal only."""
        deviation = np.sqrt(self.latent)
        C: Float[ndarray, "n n"] = deviation * deviation[:, None] * as_array(correlation.matrix)
        np.fill_diagonal(C, self.latent + self.noise)
        return C

    def paths(self, correlation: Correlation, n: int, random: np.random.RandomState) -> Float[ndarray, "inputs n"]:
        """n draws from the normal distribution of this mean and covariance.

        The same random state gives the same paths of the function with noise and without.
        """
        shape = len(self.mean), n
        paths = as_array(correlation.factor) @ random.standard_normal(shape)
        deviation, noise = (np.sqrt(variance)[:, None] for variance in (self.latent, self.noise))
        return np.asarray(self.mean[:, None] + deviation * paths + noise * random.standard_normal(shape))


def in_label_units(
    prediction: MixturePrediction, units: tuple[float, float], noise: Float[ndarray, " n"] | float
) -> LabelPrediction:
    """The mixture's prediction for labels of the given mean and standard deviation.

    `noise` is in units of the labels already. All standard deviations, covariances and paths of a fitted model are made
    here.
    """
    centre, scale = units
    mean, variance = (as_array(part) for part in prediction)
    return LabelPrediction(centre + scale * mean, scale**2 * variance, np.broadcast_to(noise, mean.shape))
