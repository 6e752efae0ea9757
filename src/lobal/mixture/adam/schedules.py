"""What changes from epoch to epoch: the learning rate and kappa."""

import math
from typing import final

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
        self.kappa, self.terminal = L, min(settings.sparsity, L)
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
