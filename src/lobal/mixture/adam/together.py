"""Candidates trained together: the trainings of `adam`, several in one tensor program.

A training is bound by reading the features, forward and backward, for a product with one row per expert. Candidates
that share points, features and the order of batches share that reading: their rows make a matrix. What each of them
moves lies in a row of one matrix, so that Adam's rule is a few operations for all. Who has finished, diverged or been
given up leaves the matrix.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.mixture.adam.gradients import Parameters, bandwidth_prices, elbo_gradients
from lobal.mixture.adam.recording import Replays, Rows, epoch_of
from lobal.mixture.adam.responses import SparseResponses
from lobal.mixture.adam.training import NO_NOISE, AdamSettings, Descent, Draws, Epoch, Schedule, can_fuse
from lobal.mixture.gate import SoftmaxGate

if TYPE_CHECKING:
    from lobal.mixture.adam.fused import FusedStep

# Adam's, as in torch.optim, which has no rate for each row.
MEMORY, SQUARE_MEMORY, TINY = 0.9, 0.999, 1e-8

# Which of `AdamSettings.rates` inducing values, mean, log scale, log noise, the gate's values and its means have.
GROUPS = (0, 1, 1, 1, 2, 3)

GoesOn: TypeAlias = Callable[[int, Epoch], bool]


class Candidate(NamedTuple):
    """A gate to start from and how to train: alike in all but rates, penalty, gate noise and kappa."""

    gate: SoftmaxGate
    settings: AdamSettings


class Trained(NamedTuple):
    """The best gate of a candidate, and the values of the experts' leaf tensors that belong to it."""

    gate: SoftmaxGate
    experts: list[Tensor]


def sparse_softmax(channels: Float[Tensor, "C L n"], kappa: Int[Tensor, " C"]) -> Float[Tensor, "C L n"]:
    """`top_kappa_softmax` with a kappa for each candidate, read from a tensor: a recording need not know it."""
    order = channels.argsort(dim=1, descending=True, stable=True)
    is_cut = torch.arange(channels.shape[1], device=channels.device)[:, None] >= kappa[:, None, None]
    cut = torch.empty_like(is_cut.expand_as(channels)).scatter_(1, order, is_cut.expand_as(channels))
    return torch.softmax(channels.masked_fill(cut, -math.inf), dim=1)


@final
class _Runner:
    """What a candidate keeps outside of tensors."""

    def __init__(self, number: int, candidate: Candidate) -> None:
        self.number, (self.gate, self.settings) = number, candidate
        self.descent = Descent(len(self.gate.means), self.settings)
        self.schedule = Schedule(self.settings.patience, self.settings.smallest_rate)
        self.noise = self.settings.gate_noise

    def shaken(self) -> float:
        """The standard deviation of the noise in the next epoch."""
        noise = self.noise if self.noise >= NO_NOISE else 0.0
        self.noise *= self.settings.gate_noise_decay
        return noise


class _Rows(NamedTuple):
    """The tensors that have a row for each candidate."""

    values: Float[Tensor, "C P"]  # all that is trained: the experts' parameters, the gate's values, the gate's means
    first: Float[Tensor, "C P"]  # running mean of the derivatives
    second: Float[Tensor, "C P"]  # and of their squares
    best: Float[Tensor, "C P"]  # values at the best validation error
    first_rates: Float[Tensor, "C 4"]  # learning rates at the beginning
    rates: Float[Tensor, "C 4"]  # learning rates
    prices: Float[Tensor, "C L"]
    gate_root: Float[Tensor, "C 1 1"]  # sqrt(lambda_G)
    noise: Float[Tensor, "C 1 1"]  # on the channels
    kappa: Int[Tensor, " C"]


@final
class JointTrainer:
    """The trainings of some candidates, all of which start from where the experts are; they are left there.

    For the ELBO and S = 0, see `gradients`.
    """

    def __init__(
        self,
        responses: SparseResponses,
        candidates: Sequence[Candidate],
        orders: torch.Generator,
        noises: torch.Generator,
    ) -> None:
        self._responses, self._settings = responses, _common(candidates)
        self._runners = [_Runner(number, candidate) for number, candidate in enumerate(candidates)]
        self._shapes = [tensor.shape for tensor in self._start(candidates[0])]
        gates = [candidate.gate for candidate in candidates]
        self._phi, self._phi_validation = (_features(gates, X) for X in (responses.points.X, responses.validation.X))
        self._rows = self._first_rows(candidates)
        self._count = self._phi.new_zeros(())  # of steps
        self._draws = Draws(responses, self._settings, orders, noises)
        self._replayed = Replays(self._phi.device)
        self._is_sparse = False  # whether any kappa is below L
        sizes = torch.tensor([shape.numel() for shape in self._shapes])
        self._groups = torch.tensor(GROUPS).repeat_interleave(sizes).to(self._phi.device)
        self._fused = self._fused_step()

    def _start(self, candidate: Candidate) -> list[Tensor]:
        """All that is trained, where it starts."""
        leaves = (*self._responses.parameters(), candidate.gate.whitened_mean, candidate.gate.means)
        return [leaf.detach() for leaf in leaves]

    def _first_rows(self, candidates: Sequence[Candidate]) -> _Rows:
        like = self._phi
        values = torch.stack([torch.cat([part.flatten() for part in self._start(c)]) for c in candidates])
        rates = like.new_tensor([candidate.settings.rates for candidate in candidates])
        L = len(candidates[0].gate.means)
        return _Rows(
            values=values,
            first=torch.zeros_like(values),
            second=torch.zeros_like(values),
            best=values.clone(),
            first_rates=rates,
            rates=rates.clone(),
            prices=torch.stack([bandwidth_prices(L, c.settings.penalty, like=like) for c in candidates]),
            gate_root=torch.stack([c.gate.scale.sqrt() for c in candidates])[:, None, None],
            noise=like.new_zeros(len(candidates), 1, 1),
            kappa=torch.full((len(candidates),), L, device=like.device),
        )

    def _fused_step(self) -> "FusedStep | None":
        """As in `adam.Trainer`, for the candidates that are left."""
        experts = self._responses.trainable() if self._phi.device.type == "cuda" and can_fuse() else None
        if experts is None:
            return None
        from lobal.mixture.adam.fused import Controls, FusedStep, GateTensors, Moments  # needs Triton

        rows = self._rows
        *moved, gate_values, gate_means = self._parts(rows.values)
        moments = []
        for matrix in (rows.first, rows.second):
            values, *_, of_gate_values, of_gate_means = self._parts(matrix)
            begun = self._shapes[0].numel()
            moments.append(Moments(values, matrix[:, begun : begun + 3], of_gate_values, of_gate_means))
        return FusedStep(
            experts._replace(**Parameters(*moved)._asdict()),
            GateTensors(self._phi.contiguous(), rows.gate_root, gate_values, gate_means),
            Controls(rows.rates, rows.prices, rows.noise, rows.kappa),
            (moments[0], moments[1]),
            self._count,
        )

    def run(self, goes_on: GoesOn) -> list[Trained | None]:
        """Train all candidates to their end; nothing of those that diverged or were not to go on after an epoch."""
        trained: list[Trained | None] = [None] * len(self._runners)
        drawn = self._draw()
        for number in range(self._settings.max_epochs):
            passed = self._pass(*drawn)
            self._lower_kappa(number)
            seen = self._replay("validation", self._validation)
            drawn = self._draw()  # while a GPU is still at work
            objectives, errors = torch.stack([passed, seen]).tolist()
            self._keep_best([self._is_best(runner, error) for runner, error in zip(self._runners, errors, strict=True)])
            staying = []
            for place, runner in enumerate(self._runners):
                epoch = Epoch(number, runner.descent.kappa, runner.schedule.rate, objectives[place], errors[place])
                if not (math.isfinite(epoch.objective) and goes_on(runner.number, epoch)):
                    continue
                if runner.schedule.finished or number + 1 == self._settings.max_epochs:
                    trained[runner.number] = self._trained(place)
                else:
                    staying.append(place)
            if not staying:
                break
            self._go_on_with(staying)
        return trained

    def _is_best(self, runner: _Runner, error: float) -> bool:
        return not runner.descent.ended or runner.schedule.improved(error)

    def _keep_best(self, is_best: list[bool]) -> None:
        rows = self._rows
        rows.best.copy_(torch.where(torch.tensor(is_best, device=rows.best.device)[:, None], rows.values, rows.best))

    def _lower_kappa(self, number: int) -> None:
        kappas, L = [runner.descent.after(number) for runner in self._runners], self._rows.prices.shape[1]
        self._is_sparse = min(kappas) < L
        self._rows.kappa.copy_(torch.tensor(kappas))

    def _go_on_with(self, staying: list[int]) -> None:
        """Leave out the others, and set the rates of the next epoch."""
        if len(staying) < len(self._runners):
            places = torch.tensor(staying, device=self._phi.device)
            self._runners = [self._runners[place] for place in staying]
            self._rows = _Rows(*(rows[places] for rows in self._rows))
            if self._phi.ndim > 2:
                self._phi, self._phi_validation = self._phi[places], self._phi_validation[places]
            self._fused = self._fused_step()
        pace = self._phi.new_tensor([runner.schedule.rate for runner in self._runners])
        torch.mul(self._rows.first_rates, pace[:, None], out=self._rows.rates)

    def _draw(self) -> tuple[Int[Tensor, " n"], Float[Tensor, "n L"]]:
        """The rows of an epoch, and standard normal noise on their channels, the same for all."""
        order, L = self._draws.order(), self._rows.prices.shape[1]
        is_noisy = any(runner.noise >= NO_NOISE for runner in self._runners)
        noise = self._draws.noise(L, self._phi.dtype) if is_noisy else self._phi.new_zeros(len(order), L)
        return order.to(self._phi.device), noise.to(self._phi.device)

    def _pass(self, order: Int[Tensor, " n"], noise: Float[Tensor, "n L"]) -> Float[Tensor, " C"]:
        """One step for every batch."""
        noises = [runner.shaken() for runner in self._runners]
        self._rows.noise.copy_(torch.tensor(noises, dtype=noise.dtype)[:, None, None])
        epoch = functools.partial(epoch_of, self._step, batch_size=self._settings.batch_size)
        return self._replay("epoch", epoch, order, noise)

    def _replay(self, name: str, function: Callable[..., Tensor], *inputs: Tensor) -> Float[Tensor, " C"]:
        return self._replayed(name, (len(self._runners), self._is_sparse), function, *inputs)

    def _parts(self, values: Float[Tensor, "C P"]) -> list[Tensor]:
        sizes = [shape.numel() for shape in self._shapes]
        parts = zip(values.split(sizes, dim=1), self._shapes, strict=True)
        return [part.unflatten(1, shape) if shape else part[:, 0] for part, shape in parts]

    def _gates(
        self,
        phi: Float[Tensor, "*own n m"],  # of each candidate, or of all
        values: Float[Tensor, "C L m"],
        means: Float[Tensor, "C L"],
        noise: Float[Tensor, "C L n"] | float,
    ) -> Float[Tensor, "C L n"]:
        channels = means[..., None] + self._rows.gate_root * (values @ phi.mT) + noise
        return sparse_softmax(channels, self._rows.kappa) if self._is_sparse else torch.softmax(channels, dim=1)

    @torch.no_grad()
    def _step(self, at: Rows, noise: Float[Tensor, "b L"]) -> Float[Tensor, " C"]:
        if self._fused is not None and isinstance(at, Tensor):
            return self._fused(at, noise)
        rows, n = self._rows, len(self._responses.points)
        *experts, gate_values, gate_means = self._parts(rows.values)
        phi = self._phi[..., at, :]
        gate = self._gates(phi, gate_values, gate_means, rows.noise * noise.mT)
        found = elbo_gradients(self._responses.batch(at), gate.mT, Parameters(*experts), rows.prices, n)
        slopes = [*found.parameters, rows.gate_root * (found.channels.mT @ phi), found.channels.sum(1)]
        self._move(torch.cat([slope.reshape(len(gate), -1) for slope in slopes], dim=1))
        return found.objective

    def _move(self, slopes: Float[Tensor, "C P"]) -> None:
        """Adam's rule."""
        rows = self._rows
        self._count += 1
        rows.first.lerp_(slopes, 1.0 - MEMORY)
        rows.second.mul_(SQUARE_MEMORY).addcmul_(slopes, slopes, value=1.0 - SQUARE_MEMORY)
        spread = (rows.second / (1.0 - SQUARE_MEMORY**self._count)).sqrt_().add_(TINY)
        rows.values.addcdiv_(
            rows.rates[:, self._groups] * rows.first, spread.mul_(1.0 - MEMORY**self._count), value=-1.0
        )

    @torch.no_grad()
    def _validation(self) -> Float[Tensor, " C"]:
        """Importance-weighted root mean squared errors on the validation set."""
        *experts, gate_values, gate_means = self._parts(self._rows.values)
        gate = self._gates(self._phi_validation, gate_values, gate_means, 0.0)
        means, validation = self._responses.validation_means(Parameters(*experts)), self._responses.validation
        residual = validation.y - (gate * means).sum(1)
        return (residual.square() @ validation.weight / validation.weight.sum()).sqrt()

    def _trained(self, place: int) -> Trained:
        *experts, gate_values, gate_means = (part[place].clone() for part in self._parts(self._rows.best))
        runner, leaves = self._runners[place], self._responses.parameters()
        gate = replace(runner.gate, whitened_mean=gate_values, means=gate_means, kappa=runner.descent.terminal)
        return Trained(gate, [value for leaf, value in zip(leaves, experts, strict=True) if leaf.requires_grad])


def _common(candidates: Sequence[Candidate]) -> AdamSettings:
    """What the candidates' settings have in common, in the settings of the first."""
    own = ("learning_rate", "hyperparameter_rate", "gate_rate", "gate_noise", "penalty", "kappa")
    first = candidates[0].settings
    for _, settings in candidates:
        if replace(settings, **{name: getattr(first, name) for name in own}) != first:
            raise ValueError(f"candidates trained together may differ in {', '.join(own)}, got {settings} and {first}")
    return first


def _features(gates: Sequence[SoftmaxGate], X: Float[Tensor, "n d"]) -> Float[Tensor, "*own n m"]:
    """The gates' features, without an axis for candidates if all have the same."""
    maps = {id(gate.features): gate.features for gate in gates}
    phi = {key: features(X)[0] for key, features in maps.items()}
    return next(iter(phi.values())) if len(phi) == 1 else torch.stack([phi[id(gate.features)] for gate in gates])
