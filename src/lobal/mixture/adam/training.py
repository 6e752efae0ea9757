"""Joint training of gate and experts by Adam, the protocol of Sec. 4.4.2."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.dataset import LabelledSet
from lobal.mixture.adam.cuda_graphs import GraphCache
from lobal.mixture.adam.gradients import bandwidth_prices
from lobal.mixture.adam.responses import Response, Responses, Rows
from lobal.mixture.gate import SoftmaxGate, top_kappa_softmax
from lobal.mixture.objective import (
    expert_shares,
    gated_negative_elbo,
    mixture_squared_error,
    small_bandwidth_penalty,
)
from lobal.mixture.progress import Epoch, Progress


class DivergedError(ValueError):
    """The objective is not finite any more."""


# Noise on the gate's channels below this changes no choice of experts worth mentioning, and is not drawn any more.
NO_NOISE = 1e-4

Objective: TypeAlias = Callable[[Float[Tensor, "b L"], Response, LabelledSet, Float[Tensor, " L"], int], Scalar]


def elbo(
    gate: Float[Tensor, "b L"],
    response: Response,
    batch: LabelledSet,
    divergence: Float[Tensor, " L"],
    n: int,
) -> Scalar:
    """The gate-weighted negative ELBO, for noisy labels."""
    return gated_negative_elbo(gate, response.log_likelihood, batch.weight, divergence, n)


def squared_error(
    gate: Float[Tensor, "b L"],
    response: Response,
    batch: LabelledSet,
    divergence: Float[Tensor, " L"],
    n: int,
) -> Scalar:
    """The mixture's mean squared error, for (almost) noise-free labels; divergence and n do not enter."""
    del divergence, n
    return mixture_squared_error(gate, response.mean, batch.y, batch.weight)


@final
@dataclass(frozen=True, kw_only=True)
class AdamSettings:
    """How to train; defaults are the paper's for the Doppler experiment (Sec. 5.1) where it names one."""

    kappa: int = 2  # kappa, the terminal number of experts at a point
    penalty: float = 0.5  # theta, price of small bandwidths
    batch_size: int = 512  # B
    learning_rate: float = 0.01  # eta_0
    hyperparameter_rate: float = 0.2  # eta_H, relative to eta
    gate_rate: float = 1.0  # eta_G, relative to eta
    gate_noise: float = 0.1  # s_0, standard deviation of the noise on the channels
    gate_noise_decay: float = math.sqrt(0.5)  # eta_s, per epoch
    objective: Objective = elbo
    # The paper halves eta "as soon as the validation performance gets stuck": no improvement for this many epochs.
    patience: int = 10
    smallest_rate: float = 1e-3  # training ends when eta falls below this share of eta_0
    # The paper does not say when kappa falls; one expert fewer every so many epochs worked alike for 2, 5 and 10.
    epochs_per_kappa: int = 5
    # An epoch is a pass over the data, or over this many points if there are more.
    epoch_size: int = 8192
    max_epochs: int = 2000

    def __post_init__(self) -> None:
        positive = (
            "kappa",
            "batch_size",
            "learning_rate",
            "patience",
            "epochs_per_kappa",
            "max_epochs",
            "epoch_size",
        )
        for name in positive:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must exceed zero, got {getattr(self, name)!r}")
        for name in ("penalty", "hyperparameter_rate", "gate_rate", "gate_noise"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be at least zero and finite, got {getattr(self, name)!r}")
        for name in ("gate_noise_decay", "smallest_rate"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must lie between zero and one, got {getattr(self, name)!r}")

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """Learning rates of inducing values, hyperparameters, the gate's values and the gate's means."""
        eta, eta_H, eta_G = self.learning_rate, self.hyperparameter_rate, self.gate_rate
        return eta, eta_H * eta, eta_G * eta, eta_H * eta_G * eta


@final
class Schedule:
    """The learning rate's way down: halved when the validation error has not improved for `patience` epochs."""

    def __init__(self, patience: int, smallest_rate: float) -> None:
        self.rate = 1.0
        self._patience, self._smallest = patience, smallest_rate
        self._best, self._waited = math.inf, 0

    def improved(self, error: float) -> bool:
        """Take note of an error; true if it is the best so far."""
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
class Descent:
    """The way of kappa from all L experts down to its terminal value."""

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
        """Whether kappa is terminal: errors seen before are another model's and not compared."""
        return self.kappa <= self.terminal


@final
class Draws:
    """The random numbers of a training.

    Noise from a generator of its own leaves the orders the same however much of it is drawn.
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

        Points that are in random order themselves are run through from anywhere among them: another order would have
        their features copied at every step.
        """
        if not self._is_shuffled:
            return torch.randperm(self._n, generator=self._orders)[: self._size]
        start = torch.randint(self._n, (), generator=self._orders)
        return (start + torch.arange(self._size)) % self._n

    def noise(self, L: int, dtype: torch.dtype) -> Float[Tensor, "n L"]:
        """Standard normal noise on their channels."""
        return torch.randn(self._size, L, generator=self._noises, dtype=dtype)


@final
class Trainer:
    """One training run: the leaf tensors, the optimiser and the schedules of gate noise, kappa and eta."""

    def __init__(
        self,
        responses: Responses,
        gate: SoftmaxGate,
        settings: AdamSettings,
        generator: torch.Generator,
        noises: torch.Generator | None = None,
    ) -> None:
        self.responses, self.settings = responses, settings
        self._draws = Draws(responses, settings, generator, noises)
        self._gate = gate
        self._phi = gate.features(responses.points.X)[0]
        self._phi_validation = gate.features(responses.validation.X)[0]
        for tensor in (gate.whitened_mean, gate.means):
            tensor.requires_grad_()
        L, self._noise = len(gate.means), settings.gate_noise
        self._descent = Descent(L, settings)
        self._schedule = Schedule(settings.patience, settings.smallest_rate)
        self._is_on_gpu = self._phi.device.type == "cuda"
        self._is_closed_form = settings.objective is elbo and responses.has_closed_form
        self._prices = bandwidth_prices(L, settings.penalty, like=self._phi)
        self._call = GraphCache(self._phi.device)
        self._groups = self._parameter_groups()
        self._optimiser = self._make_optimiser()
        self._best = self._state()

    def _parameter_groups(self) -> list[tuple[list[Tensor], float]]:
        """Leaf tensors and their learning rates: of inducing values, hyperparameters, the gate's values and means."""
        leaves = (
            self.responses.inducing_parameters(),
            self.responses.hyperparameters(),
            [self._gate.whitened_mean],
            [self._gate.means],
        )
        return [*zip(leaves, self.settings.rates, strict=True)]

    def _make_optimiser(self) -> torch.optim.Adam:
        # A CUDA graph reads a new rate only from a tensor, which the fused optimiser requires in single precision.
        rate = (
            functools.partial(torch.tensor, dtype=torch.float32, device=self._phi.device) if self._is_on_gpu else float
        )
        return torch.optim.Adam(
            [{"params": leaves, "lr": rate(lr), "base": lr} for leaves, lr in self._groups if leaves],
            capturable=self._is_on_gpu,
            fused=True,
        )

    def _set_rate(self) -> None:
        for group in self._optimiser.param_groups:
            lr = self._schedule.rate * group["base"]
            group["lr"] = group["lr"].fill_(lr) if self._is_on_gpu else lr

    def _leaves(self) -> list[Tensor]:
        return [tensor for leaves, _ in self._groups for tensor in leaves]

    def _state(self) -> list[Tensor]:
        return [tensor.detach().clone() for tensor in self._leaves()]

    @torch.no_grad()
    def _restore(self, state: list[Tensor]) -> None:
        for leaf, value in zip(self._leaves(), state, strict=True):
            leaf.copy_(value)

    def run(self, progress: Progress | None = None) -> SoftmaxGate:
        """Train until the learning rate is spent and return the best gate; the experts are left at their best."""
        for epoch in self.epochs():
            if progress is not None:
                progress(epoch)
        return self.best_gate()

    def epochs(self) -> Iterator[Epoch]:
        """Train, one epoch at a time, until the learning rate is spent."""
        drawn = self._draw()
        for number in range(self.settings.max_epochs):
            passed = self._pass(*drawn)
            kappa = self._descent.after(number)
            seen = self._validated()
            drawn = self._draw()  # while a GPU is still busy
            objective, error = torch.stack([passed, seen]).tolist()
            self._check(objective)
            if not self._descent.ended or self._schedule.improved(error):
                self._best = self._state()
            yield Epoch(number, kappa, self._schedule.rate, objective, error)
            if self._schedule.finished:
                break
            self._set_rate()

    def best_error(self, epochs: Sequence[Epoch]) -> float:
        """The least validation error of these epochs at the terminal kappa; infinite if there is none."""
        terminal = self._descent.terminal
        return min((epoch.validation_error for epoch in epochs if epoch.kappa <= terminal), default=math.inf)

    def best_gate(self) -> SoftmaxGate:
        """The best gate, with the terminal kappa and detached from training; the experts are put to their best too."""
        self._restore(self._best)
        self._descent.kappa = self._descent.terminal
        return replace(
            self._gate,
            means=self._gate.means.detach(),
            whitened_mean=self._gate.whitened_mean.detach(),
            kappa=self._descent.kappa,
        )

    def _check(self, objective: float) -> None:
        if not math.isfinite(objective):
            rate = self.settings.learning_rate
            raise DivergedError(
                f"training diverged: the objective became {objective}; lower learning_rate, now {rate:g}"
            )

    def _draw(self) -> tuple[Int[Tensor, " n"], Float[Tensor, "n L"]]:
        """The rows of an epoch, and the noise on their channels."""
        order, L = self._draws.order().to(self._phi.device), len(self._gate.means)
        if self._noise < NO_NOISE:
            return order, self._phi.new_zeros(len(order), L)
        noise = self._noise * self._draws.noise(L, self._phi.dtype)
        self._noise *= self.settings.gate_noise_decay
        return order, noise.to(self._phi.device)

    def _pass(self, order: Int[Tensor, " n"], noise: Float[Tensor, "n L"]) -> Scalar:
        """One step for every batch."""
        if not self._is_closed_form:
            return self._steps(order, noise)
        return self._call("epoch", self._descent.kappa, self._steps, order, noise)

    def _steps(self, order: Int[Tensor, " n"], noise: Float[Tensor, "n L"]) -> Scalar:
        """One step for every batch of the rows; the mean objective."""
        size = self.settings.batch_size
        batches = zip(map(_as_slice, order.split(size)), noise.split(size), strict=True)
        return torch.stack([self._step(rows, batch_noise) for rows, batch_noise in batches]).mean(0)

    def _validated(self) -> Scalar:
        return self._call("validation", self._descent.kappa, self._validation)

    def _step(self, rows: Rows, noise: Float[Tensor, "b L"]) -> Scalar:
        objective = (self._closed_form if self._is_closed_form else self._by_autograd)(rows, noise)
        self._optimiser.step()
        return objective

    @torch.no_grad()
    def _closed_form(self, rows: Rows, noise: Float[Tensor, "b L"]) -> Scalar:
        """The objective of a batch; gradients from their formulas."""
        phi = self._phi[rows]
        gate = top_kappa_softmax(self._gate.channels(phi) + noise, self._descent.kappa)
        objective, slope = self.responses.elbo_gradients(rows, gate, self._prices)
        self._gate.whitened_mean.grad = self._gate.scale.sqrt() * (slope.mT @ phi)
        self._gate.means.grad = slope.sum(0)
        return objective

    def _by_autograd(self, rows: Rows, noise: Float[Tensor, "b L"]) -> Scalar:
        """The objective of a batch, whatever it is made of."""
        gate = top_kappa_softmax(self._gate.channels(self._phi[rows]) + noise, self._descent.kappa)
        points = self.responses.points
        batch = points[rows]
        loss = self.settings.objective(gate, self.responses.at(rows), batch, self.responses.divergence(), len(points))
        loss = loss + self.settings.penalty * small_bandwidth_penalty(expert_shares(gate, batch.weight))
        self._optimiser.zero_grad()
        loss.backward()
        return loss.detach()

    def validation_error(self) -> float:
        """Importance-weighted root mean squared error of the mixture on the validation set."""
        return self._validation().item()

    @torch.no_grad()
    def _validation(self) -> Scalar:
        gate = top_kappa_softmax(self._gate.channels(self._phi_validation), self._descent.kappa)
        validation = self.responses.validation
        error = mixture_squared_error(gate, self.responses.validation_mean(), validation.y, validation.weight)
        return error.sqrt()


def _as_slice(rows: Int[Tensor, " b"]) -> Rows:
    """Consecutive rows as a slice, which copies nothing; on a GPU as they are, since a CUDA graph cannot know them."""
    if rows.device.type != "cpu":
        return rows
    run = slice(int(rows[0]), int(rows[0]) + len(rows))
    return run if torch.equal(rows, torch.arange(run.start, run.stop)) else rows
