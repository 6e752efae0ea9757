"""Training of the paper's gate by Adam, jointly with the mu and lambda of the experts (Sec. 4.4.2 and 5.2).

The gate learns from configurations that the experts have not: a set of further labels or, without one, those of the
experts, each predicted without itself. The loss is that of the mixture as it predicts, forces being minus the
derivative of its energy, with importance weights and the penalty on small bandwidths, Eq. (eq:smallBWpenalty).

With the residuals r_l of the experts, h_l = -dg_l / ds along the directions of the molecule and G = softmax(g),

    r_E = sum_l G_l r_E,l,    r_F = sum_l G_l (r_F,l + (r_E,l - r_E) h_l).
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.core.interrupts import prepare_optimisers
from lobal.mixture.adam.engine import LARGEST_VALIDATION_SET
from lobal.mixture.adam.objective import expert_shares
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.training import NO_NOISE, DivergedError, KappaSchedule, RateSchedule
from lobal.mixture.gate import top_kappa_softmax
from lobal.mixture.ladder import bandwidth_prices
from lobal.molecules.field.mixture import Residuals

logger = logging.getLogger(__name__)

VALIDATION_SHARE = 0.2  # of the gate's configurations: training stops by them, as in `lobal.Adam`


@dataclass(frozen=True, kw_only=True)
class GateData:
    """What the gate learns from: features of configurations, and errors of the experts there."""

    phi: Float[Tensor, "n labels m"]  # of energies, and of forces along the directions
    residuals: Residuals  # forces along the directions
    slopes: Sequence[Residuals]  # their derivatives by the hyperparameters that are trained with the gate
    weight: Float[Tensor, " n"]  # w, importance weights; only their ratios count

    def at(self, rows: Int[Tensor, " k"]) -> "GateData":
        """Some of the configurations."""
        slopes = [each.at(rows) for each in self.slopes]
        return GateData(phi=self.phi[rows], residuals=self.residuals.at(rows), slopes=slopes, weight=self.weight[rows])

    def units(self) -> list[float]:
        """Weighted mean squares of energies and of forces, each of the expert for which they are least."""
        squares = [
            None if each is None else each @ self.weight / self.weight.sum() for each in self.residuals.squares()
        ]
        tiny = torch.finfo(torch.float64).tiny
        return [1.0 if each is None else max(each.min().item(), tiny) for each in squares]

    def moved(self, hyperparameters: Float[Tensor, " k"]) -> Residuals:
        """Residuals of the experts at hyperparameters so far from those at the start, to first order."""
        columns = zip(self.residuals, *self.slopes, strict=True)
        return Residuals(*(_moved(column, hyperparameters) for column in columns))


def _moved(column: tuple[Tensor | None, ...], by: Float[Tensor, " k"]) -> Tensor | None:
    first, *slopes = (part for part in column if part is not None) if column[0] is not None else (None,)
    return first if first is None else sum((step * slope for step, slope in zip(by, slopes, strict=True)), first)


class GateParameters(NamedTuple):
    """What is trained."""

    means: Float[Tensor, " L"]  # mu_g
    whitened_mean: Float[Tensor, "L m"]  # b
    hyperparameters: Float[Tensor, " k"]  # of the experts, from those at the start


class TrainedGate(NamedTuple):
    """The best parameters, and how they were found."""

    parameters: GateParameters
    epochs: int
    validation_loss: float  # root of the mean loss, in units of the best expert's


def mixture_residuals(
    residuals: Residuals, gate: Float[Tensor, "n L"], channel_forces: Float[Tensor, "n c L"]
) -> Residuals:
    """Residuals of the mixture as of one expert, channel forces being minus the derivatives of the channels.

    Where energies are no labels, their part in the forces is left out.
    """
    energies = None if residuals.energies is None else (gate.mT * residuals.energies).sum(0)[None]
    forces = None if residuals.forces is None else torch.einsum("nl,lnc->nc", gate, residuals.forces)[None]
    if residuals.energies is not None and forces is not None and energies is not None:
        spread = gate * (residuals.energies - energies).mT
        forces = forces + torch.einsum("nl,ncl->nc", spread, channel_forces)
    return Residuals(energies, forces)


def trained_gate(data: GateData, training: AdamSettings, *, generator: torch.Generator) -> TrainedGate:
    """The parameters of least loss at a fifth of the configurations, after training on the others.

    Configurations of weight zero are left out: a batch of them alone would have no mean loss.
    """
    counted = data.weight.nonzero()[:, 0]
    n_validation = min(max(1, round(VALIDATION_SHARE * len(counted))), LARGEST_VALIDATION_SET)
    order = counted[torch.randperm(len(counted), generator=generator).to(counted.device)]
    units = data.units()
    return _Trainer(data.at(order[n_validation:]), data.at(order[:n_validation]), units, training, generator).run()


@final
class _Trainer:
    """The leaf tensors, the optimiser and the schedules of gate noise, kappa and eta."""

    def __init__(
        self,
        data: GateData,
        validation: GateData,
        units: list[float],
        training: AdamSettings,
        generator: torch.Generator,
    ) -> None:
        self._data, self._validation, self._units, self._training = data, validation, units, training
        some = data.residuals.energies if data.residuals.forces is None else data.residuals.forces
        assert some is not None
        L, like = len(some), data.phi
        self._generator, self._noise = generator, training.gate_noise
        self._root = math.sqrt(training.gate_scale)
        self._prices = bandwidth_prices(L, training.penalty, like=like)
        self._kappa, self._rate = KappaSchedule(L, training), RateSchedule(training.patience, training.smallest_rate)
        self._leaves = GateParameters(
            like.new_zeros(L), like.new_zeros(L, like.shape[2]), like.new_zeros(len(data.slopes))
        )
        eta, eta_H, eta_G = training.learning_rate, training.hyperparameter_rate, training.gate_rate
        rates = (eta_H * eta_G * eta, eta_G * eta, eta_H * eta)
        groups = [
            {"params": [leaf.requires_grad_()], "lr": rate, "base": rate}
            for leaf, rate in zip(self._leaves, rates, strict=True)
            if leaf.numel() > 0
        ]
        prepare_optimisers()
        self._optimiser = torch.optim.Adam(groups)

    def run(self) -> TrainedGate:
        """Train until the learning rate is below its minimum."""
        best, least, number = self._state(), math.inf, 0
        for number in range(1, self._training.max_epochs + 1):
            passed = self._pass()
            self._kappa.after(number - 1)
            objective, loss = torch.stack([passed, self._validation_loss()]).tolist()
            if not math.isfinite(objective):
                rate = self._training.learning_rate
                raise DivergedError(
                    f"training of the gate diverged: the objective became {objective}; lower learning_rate, now {rate}"
                )
            if not self._kappa.ended or self._rate.improved(loss):
                best, least = self._state(), loss
            if self._rate.finished:
                break
            for group in self._optimiser.param_groups:
                group["lr"] = self._rate.rate * group["base"]
            logger.info("gate, epoch %d: validation loss %.4f, rate x %.2g", number, loss, self._rate.rate)
        return TrainedGate(best, number, math.sqrt(least))

    def _state(self) -> GateParameters:
        return GateParameters(*(leaf.detach().clone() for leaf in self._leaves))

    def _pass(self) -> Scalar:
        """One step for every batch of the configurations in random order; the mean objective."""
        n, L, device = len(self._data.weight), len(self._prices), self._prices.device
        size = self._training.batch_size
        order = torch.randperm(n, generator=self._generator).to(device).split(size)
        if self._noise < NO_NOISE:
            noise = self._prices.new_zeros(n, L)
        else:
            drawn = torch.randn(n, L, generator=self._generator, dtype=self._prices.dtype)
            noise = self._noise * drawn.to(device)
            self._noise *= self._training.gate_noise_decay
        steps = zip(order, noise.split(size), strict=True)
        return torch.stack([self._step(self._data.at(rows), each) for rows, each in steps]).mean()

    def _step(self, batch: GateData, noise: Float[Tensor, "b L"]) -> Scalar:
        gate, loss = self._loss(batch, noise)
        objective = loss + expert_shares(gate, batch.weight) @ self._prices
        self._optimiser.zero_grad()
        objective.backward()
        self._optimiser.step()
        return objective.detach()

    @torch.no_grad()
    def _validation_loss(self) -> Scalar:
        return self._loss(self._validation, self._prices.new_zeros(()))[1]

    def _loss(self, batch: GateData, noise: Float[Tensor, "..."]) -> tuple[Float[Tensor, "b L"], Scalar]:
        """The gate at a batch, and the weighted mean of the losses there."""
        channels = self._root * (batch.phi @ self._leaves.whitened_mean.mT)
        gate = top_kappa_softmax(self._leaves.means + channels[:, 0] + noise, self._kappa.kappa)
        residuals = mixture_residuals(batch.moved(self._leaves.hyperparameters), gate, channels[:, 1:])
        return gate, (residuals.losses(self._units)[0] @ batch.weight) / batch.weight.sum()
