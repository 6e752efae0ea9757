"""The interface of the experts: L Gaussian processes side by side in one batched tensor."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Inputs, Scalar


class Posterior(NamedTuple):
    """Mean and variance of the latent function under each expert; the label noise is not in it."""

    mean: Float[Tensor, "L n"]
    variance: Float[Tensor, "L n"]


class Hyperparameters(NamedTuple):
    """Hyperparameters of all experts besides their bandwidths: mu_E, lambda_E and the label noise variance v.

    The noise is one number (homoscedastic) or one per training point (heteroscedastic).
    """

    mean: Scalar
    scale: Scalar
    noise: Float[Tensor, "..."]


class Experts(ABC):
    """L fitted Gaussian processes with bandwidths sigma_1 < ... < sigma_L."""

    hyperparameters: Hyperparameters

    @abstractmethod
    def mean(self, X: Inputs) -> Float[Tensor, "L n"]:
        """Posterior mean, which costs less than mean and variance."""

    @abstractmethod
    def posterior(self, X: Inputs) -> Posterior:
        """Posterior mean and latent variance of every expert at every input.

        Far from the data the mean tends to mu_E and the variance to lambda_E; the variance never exceeds lambda_E
        and is never negative.
        """

    @abstractmethod
    def joint_covariance(self, X: Inputs, expert: int) -> Float[Tensor, "n n"]:
        """Posterior covariance C_l(x, x') of the latent function between all inputs, under the expert of that number.

        Its diagonal is the variance of `posterior`, up to rounding. One expert at a time: a matrix of all inputs takes
        O(n^2) memory.
        """
