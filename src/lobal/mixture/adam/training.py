"""Joint training of gate and experts by Adam, the protocol of Sec. 4.4.2."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.interrupts import prepare_optimisers
from lobal.mixture.adam.objective import elbo, expert_shares, mixture_squared_error
from lobal.mixture.adam.responses import Responses, Rows, SparseResponses
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.gate import SoftmaxGate, top_kappa_softmax
from lobal.mixture.ladder import bandwidth_prices
from lobal.mixture.progress import Epoch, Progress

# Noise on the gate's channels below this hardly changes the choice of experts, and is not drawn any more.
NO_NOISE = 1e-4


class DivergedError(ValueError):
    """The objective is not finite any more."""


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


@final
class Trainer:
    """One training: the leaf tensors, the optimiser and the schedules of gate noise, kappa and eta."""

    def __init__(
        self,
        responses: Responses,
        gate: SoftmaxGate,
        settings: AdamSettings,
        generator: torch.Generator,
        noises: torch.Generator | None = None,
    ) -> None:
        self.responses, self.settings, self._gate = responses, settings, gate
        # With a generator of its own for the noise, the orders do not depend on how much noise is drawn.
        self._orders, self._noises = generator, generator if noises is None else noises
        self._phi = gate.features(responses.points.X)[0]
        self._phi_validation = gate.features(responses.validation.X)[0]
        for tensor in (gate.whitened_mean, gate.means):
            tensor.requires_grad_()
        L, self._noise = len(gate.means), settings.gate_noise
        self._kappa = KappaSchedule(L, settings)
        self._rate = RateSchedule(settings.patience, settings.smallest_rate)
        self._closed: SparseResponses | None = None  # the responses, if their gradients have a closed form
        if isinstance(responses, SparseResponses) and responses.has_closed_form and settings.objective is elbo:
            self._closed = responses
        self._prices = bandwidth_prices(L, settings.penalty, like=self._phi)
        eta, eta_H, eta_G = settings.learning_rate, settings.hyperparameter_rate, settings.gate_rate
        inducing, hyperparameters = responses.leaves()
        self._groups = [
            (inducing, eta),
            (hyperparameters, eta_H * eta),
            ([gate.whitened_mean], eta_G * eta),
            ([gate.means], eta_H * eta_G * eta),
        ]
        groups = [{"params": leaves, "lr": rate, "base": rate} for leaves, rate in self._groups if leaves]
        prepare_optimisers()
        self._optimiser = torch.optim.Adam(groups, fused=True)
        self._best = self._state()

    def _leaves(self) -> list[Tensor]:
        return [tensor for leaves, _ in self._groups for tensor in leaves]

    def _state(self) -> list[Tensor]:
        return [tensor.detach().clone() for tensor in self._leaves()]

    @torch.no_grad()
    def _restore(self, state: list[Tensor]) -> None:
        for leaf, value in zip(self._leaves(), state, strict=True):
            leaf.copy_(value)

    def run(self, progress: Progress | None = None) -> SoftmaxGate:
        """Train until the learning rate is below its minimum; the best gate. The experts are reset to their best."""
        for epoch in self.epochs():
            if progress is not None:
                progress(epoch)
        return self.best_gate()

    def epochs(self) -> Iterator[Epoch]:
        """Train, one epoch at a time, until the learning rate is below its minimum."""
        drawn = self._draw()
        for number in range(self.settings.max_epochs):
            passed = self._pass(*drawn)
            kappa = self._kappa.after(number)
            seen = self.validation_error()
            drawn = self._draw()  # while a GPU is still busy
            objective, error = torch.stack([passed, seen]).tolist()
            if not math.isfinite(objective):
                rate = self.settings.learning_rate
                raise DivergedError(
                    f"training diverged: the objective became {objective}; lower learning_rate, now {rate:g}"
                )
            if not self._kappa.ended or self._rate.improved(error):
                self._best = self._state()
            yield Epoch(number, kappa, self._rate.rate, objective, error)
            if self._rate.finished:
                break
            for group in self._optimiser.param_groups:
                group["lr"] = self._rate.rate * group["base"]

    def best_error(self, epochs: Sequence[Epoch]) -> float:
        """The least validation error of these epochs at the terminal kappa; infinite if there is none."""
        terminal = self._kappa.terminal
        return min((epoch.validation_error for epoch in epochs if epoch.kappa <= terminal), default=math.inf)

    def best_gate(self) -> SoftmaxGate:
        """The best gate, with the terminal kappa and detached from training; resets the experts to their best too."""
        self._restore(self._best)
        self._kappa.kappa = self._kappa.terminal
        return replace(
            self._gate,
            means=self._gate.means.detach(),
            whitened_mean=self._gate.whitened_mean.detach(),
            kappa=self._kappa.kappa,
        )

    def _draw(self) -> tuple[Int[Tensor, " n"], Float[Tensor, "n L"]]:
        """The rows of an epoch in random order, and the noise on their channels.

        Points that are shuffled already are traversed from a random row on, so that no features have to be copied.
        """
        n, L, device = len(self.responses.points), len(self._gate.means), self._phi.device
        size = min(n, self.settings.epoch_size)
        if self.responses.is_shuffled:
            order = (torch.randint(n, (), generator=self._orders) + torch.arange(size)) % n
        else:
            order = torch.randperm(n, generator=self._orders)[:size]
        if self._noise < NO_NOISE:
            return order.to(device), self._phi.new_zeros(size, L)
        noise = self._noise * torch.randn(size, L, generator=self._noises, dtype=self._phi.dtype)
        self._noise *= self.settings.gate_noise_decay
        return order.to(device), noise.to(device)

    def _pass(self, order: Int[Tensor, " n"], noise: Float[Tensor, "n L"]) -> Scalar:
        """One step for every batch of the rows; the mean objective."""
        size = self.settings.batch_size
        batches = zip(map(_as_slice, order.split(size)), noise.split(size), strict=True)
        return torch.stack([self._step(rows, batch_noise) for rows, batch_noise in batches]).mean(0)

    def _step(self, rows: Rows, noise: Float[Tensor, "b L"]) -> Scalar:
        objective = (
            self._by_autograd(rows, noise) if self._closed is None else self._closed_form(self._closed, rows, noise)
        )
        self._optimiser.step()
        return objective

    @torch.no_grad()
    def _closed_form(self, responses: SparseResponses, rows: Rows, noise: Float[Tensor, "b L"]) -> Scalar:
        """The objective of a batch; gradients from their formulas."""
        phi = self._phi[rows]
        gate = top_kappa_softmax(self._gate.channels(phi) + noise, self._kappa.kappa)
        objective, slope = responses.elbo_gradients(rows, gate, self._prices)
        self._gate.whitened_mean.grad = self._gate.scale.sqrt() * (slope.mT @ phi)
        self._gate.means.grad = slope.sum(0)
        return objective

    def _by_autograd(self, rows: Rows, noise: Float[Tensor, "b L"]) -> Scalar:
        """The objective of a batch; gradients by autograd."""
        gate = top_kappa_softmax(self._gate.channels(self._phi[rows]) + noise, self._kappa.kappa)
        points = self.responses.points
        batch = points[rows]
        loss = self.settings.objective(gate, self.responses.at(rows), batch, self.responses.divergence(), len(points))
        loss = loss + expert_shares(gate, batch.weight) @ self._prices
        self._optimiser.zero_grad()
        loss.backward()
        return loss.detach()

    @torch.no_grad()
    def validation_error(self) -> Scalar:
        """Importance-weighted root mean squared error of the mixture on the validation set."""
        gate = top_kappa_softmax(self._gate.channels(self._phi_validation), self._kappa.kappa)
        return mixture_squared_error(gate, self.responses.validation_mean(), self.responses.validation).sqrt()


def _as_slice(rows: Int[Tensor, " b"]) -> Rows:
    """Consecutive rows as a slice, which copies nothing; on a GPU as they are, since looking at them takes time."""
    if rows.device.type != "cpu":
        return rows
    run = slice(int(rows[0]), int(rows[0]) + len(rows))
    return run if torch.equal(rows, torch.arange(run.start, run.stop)) else rows
