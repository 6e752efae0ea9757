"""The Doppler function (Donoho and Johnstone 1994) in the scaling of the paper's Sec. 5.1."""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.integrate import quad


@final
@dataclass(frozen=True, kw_only=True)
class Doppler:
    """f(x) = C sqrt(x (1 - x)) sin(2 pi (1 + eps) / (x + eps)) on [0, 1] with ||f||_2 = norm.

    Labels carry Gaussian noise of variance `noise`, or of variance (3 - 4 |x - 1/2|)^2 if `heteroscedastic`.
    """

    epsilon: float = 0.05
    norm: float = 7.0
    noise: float = 1.0
    heteroscedastic: bool = False
    amplitude: float = field(init=False, repr=False)  # C

    def __post_init__(self) -> None:
        if not (self.epsilon > 0 and self.norm > 0 and self.noise >= 0):
            raise ValueError(f"epsilon and norm must exceed zero and noise be at least zero, got {self}")
        square, _ = quad(lambda x: _shape(x, self.epsilon) ** 2, 0.0, 1.0, limit=1000, epsabs=1e-10)
        object.__setattr__(self, "amplitude", self.norm / math.sqrt(square))

    def __call__(self, x: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape"]:
        """The function without noise."""
        return np.asarray(self.amplitude * _shape(x, self.epsilon))

    def noise_variance(self, x: Float[ndarray, "*shape"]) -> Float[ndarray, "*shape"]:
        """v(x), the variance of a label at x."""
        if self.heteroscedastic:
            return np.asarray((3.0 - 4.0 * np.abs(x - 0.5)) ** 2)
        return np.full_like(x, self.noise)

    def labels(self, x: Float[ndarray, "*shape"], rng: np.random.Generator) -> Float[ndarray, "*shape"]:
        """Noisy labels at x."""
        return np.asarray(self(x) + np.sqrt(self.noise_variance(x)) * rng.standard_normal(x.shape))


def _shape(x: Float[ndarray, "*shape"] | float, epsilon: float) -> Float[ndarray, "*shape"]:
    envelope = np.sqrt(np.asarray(x) * (1.0 - np.asarray(x)))
    return np.asarray(envelope * np.sin(2.0 * np.pi * (1.0 + epsilon) / (np.asarray(x) + epsilon)))
