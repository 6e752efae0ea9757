"""The two kernels of a training step against the same step in torch; they need a GPU, and Triton."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from lobal.mixture.adam.gradients import Batch, Parameters, Trainable, bandwidth_prices, elbo_gradients
from lobal.mixture.adam.training import AdamSettings, Trainer, can_fuse
from lobal.mixture.gate import top_kappa_softmax

pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and can_fuse()), reason="needs a GPU, Triton and a C compiler"
)

RATES = torch.tensor([0.01, 0.002, 0.03, 0.02]).double()
KAPPA = 2


class Setting(NamedTuple):
    experts: Trainable
    gate_phi: Tensor
    gate_scale: Tensor
    gate_values: Tensor
    gate_means: Tensor

    def leaves(self) -> list[Tensor]:
        experts = self.experts
        learned = [] if experts.given_noise is not None else [experts.log_noise]
        shared = [experts.mean, experts.log_scale, *learned]
        return [experts.whitened_mean, self.gate_values, self.gate_means, *shared]


def setting(n: int, L: int, m: int, m_G: int, *, is_known: bool) -> Setting:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).cuda()

    experts = Trainable(
        phi=(normal(n, L, m) / m**0.5).float(),
        explained=0.9 * normal(n, L).sigmoid(),
        y=normal(n),
        weight=normal(n).exp(),
        given_noise=normal(n).exp() if is_known else None,
        whitened_mean=normal(L, m).float().double(),
        mean=normal(),
        log_scale=normal(),
        log_noise=normal(),
    )
    return Setting(experts, normal(n, m_G), normal().exp(), normal(L, m_G), normal(L))


def torch_step(at: Setting, leaves: list[Tensor], rows: Tensor, shaken: Tensor, prices: Tensor) -> float:
    """The objective, with the gradients left in the leaves."""
    values, gate_values, gate_means, mean, log_scale = (leaf.detach() for leaf in leaves[:5])
    experts = at.experts
    given = experts.given_noise
    log_noise = (leaves[5] if given is None else experts.log_noise).detach()
    phi = at.gate_phi[rows]
    gate = top_kappa_softmax(gate_means + at.gate_scale.sqrt() * phi @ gate_values.mT + shaken, KAPPA)
    batch = Batch(
        experts.phi[rows].permute(1, 0, 2),
        experts.explained[rows].mT,
        experts.y[rows],
        experts.weight[rows],
        None if given is None else given[rows],
    )
    parameters = Parameters(values, mean, log_scale, log_noise)
    found = elbo_gradients(batch, gate, parameters, prices, len(experts.y))
    inducing, *shared = found.parameters
    slopes = [inducing, at.gate_scale.sqrt() * (found.channels.mT @ phi), found.channels.sum(0), *shared]
    for leaf, slope in zip(leaves, slopes, strict=False):
        leaf.grad = slope
    return found.objective.item()


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("sizes", [(50, 5, 70, 9), (3000, 7, 1024, 128)])
def test_steps_agree_with_those_in_torch(is_known: bool, sizes: tuple[int, int, int, int]) -> None:
    from lobal.mixture.adam.fused import Controls, FusedStep, GateTensors, Moments

    ours, theirs = (setting(*sizes, is_known=is_known) for _ in range(2))
    leaves = [leaf.requires_grad_() for leaf in theirs.leaves()]
    rates = [RATES[group].item() for group in (0, 2, 3, 1, 1, 1)]
    groups = [{"params": [leaf], "lr": rate} for leaf, rate in zip(leaves, rates, strict=False)]
    optimiser = torch.optim.Adam(groups)
    prices = bandwidth_prices(sizes[1], 0.5, like=RATES.cuda())
    gate = GateTensors(ours.gate_phi, ours.gate_scale.sqrt(), ours.gate_values, ours.gate_means)
    controls = Controls(RATES.cuda(), prices, torch.ones_like(prices[0]), torch.tensor(KAPPA).cuda())
    moments = Moments.zero(ours.experts, gate), Moments.zero(ours.experts, gate)
    fused = FusedStep(ours.experts, gate, controls, moments, torch.zeros_like(prices[0]))
    generator = torch.Generator().manual_seed(1)
    for size in (33, 33, 33, 7):  # the last batch of an epoch may be small
        rows = torch.randperm(sizes[0], generator=generator)[:size].cuda()
        shaken = 0.1 * torch.randn(size, sizes[1], generator=generator, dtype=torch.float64).cuda()
        expected = torch_step(theirs, leaves, rows, shaken, prices)
        optimiser.step()
        assert fused(rows, shaken).item() == pytest.approx(expected, rel=1e-6)
    for mine, leaf in zip(ours.leaves(), leaves, strict=True):
        # In float32 a slope that should vanish is some 1e-8, which the first step of Adam divides by its own size.
        off = (mine - leaf.detach()).abs()
        assert off.mean() < 1e-6
        assert off.max() < 1e-4


def test_training_agrees_with_that_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.mixture.adam.test_training import trainer_on

    settings = AdamSettings(batch_size=50, max_epochs=20, epochs_per_kappa=2)
    fused = trainer_on("cuda", settings)
    monkeypatch.setattr("lobal.mixture.adam.training.can_fuse", lambda: False)
    plain = trainer_on("cuda", settings)

    def errors(trainer: Trainer) -> list[float]:
        seen: list[float] = []
        trainer.run(lambda epoch: seen.append(epoch.validation_error))
        return seen

    assert errors(fused) == pytest.approx(errors(plain), rel=1e-4)
