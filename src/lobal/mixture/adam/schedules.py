"""What changes from epoch to epoch: the learning rate, kappa, the order of the points and the noise on the gate."""

import math
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.mixture.adam.responses import Responses
from lobal.mixture.adam.settings import AdamSettings


@final
class RateSchedule:
    """The learning rate: halved when the validation error has not improved for `patience` epochs."""

    def __init__(self, patience: int, smallest_rate: float) -> None:
        self.rate = 1.0
        self._patience, self._smallest = patience, smallest_rate
        self._best, self._waited = math.inf, 0

    def improved(self, error: float) -> bool:
        """Record an error; true if it is the least so far."""
        if error < self._best:
            self._best, self._waited = error, 0
            return True
        self._waited += 1
        if self._waited >= self._patience:
            self.rate, self._waited = 0.5 * self.rate, 0
        return False

    @property
    def finished(self) -> bool:
        """Whether the rate has fallen below the smallest allowed."""
        return self.rate < self._smallest


@final
class KappaSchedule:
    """kappa, which falls from all L experts to its terminal value."""

    def __init__(self, L: int, settings: AdamSettings) -> None:
        self.kappa, self.terminal = L, min(settings.kappa, L)
        # A short training still spends half of its epochs at the terminal kappa.
        most = max(settings.max_epochs // (2 * max(L - self.terminal, 1)), 1)
        self._epochs_per_kappa = min(settings.epochs_per_kappa, most)

    def after(self, number: int) -> int:
        """kappa after the epoch of that number."""
        if not self.ended and (number + 1) % self._epochs_per_kappa == 0:
            self.kappa -= 1
        return self.kappa

    @property
    def ended(self) -> bool:
        """Whether kappa is terminal: earlier errors are those of another model and not compared."""
        return self.kappa <= self.terminal


@final
class EpochSampler:
    """The random numbers of a training.

    With a separate generator for the noise, the orders do not depend on how much noise is drawn.
    """

    def __init__(
        self,
        responses: Responses,
        settings: AdamSettings,
        orders: torch.Generator,
        noises: torch.Generator | None = None,
    ) -> None:
        n = len(responses.points)
        self._n, self._size, self._is_shuffled = n, min(n, settings.epoch_size), responses.is_shuffled
        self._orders, self._noises = orders, orders if noises is None else noises

    def order(self) -> Int[Tensor, " n"]:
        """The rows of an epoch in random order.

        Points that are shuffled already are traversed from a random row on, so that no features have to be copied.
        """
        if not self._is_shuffled:
            return torch.randperm(self._n, generator=self._orders)[: self._size]
        start = torch.randint(self._n, (), generator=self._orders)
        return (start + torch.arange(self._size)) % self._n

    def noise(self, L: int, dtype: torch.dtype) -> Float[Tensor, "n L"]:
        """Standard normal noise on their channels."""
        return torch.randn(self._size, L, generator=self._noises, dtype=dtype)
