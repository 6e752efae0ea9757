import itertools
import math
from typing import Any

import pytest
import torch

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.experts.interface import Hyperparameters
from lobal.experts.svgp import COVARIANCES, DiagonalCovariance, InducingCovariance, ZeroCovariance
from lobal.mixture.adam.engine import Adam
from lobal.mixture.adam.objective import squared_error
from lobal.mixture.adam.responses import SparseResponses
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.training import RateSchedule, Trainer
from lobal.mixture.gate import SoftmaxGate
from lobal.mixture.progress import Epoch

BANDWIDTHS = torch.tensor([0.02, 0.06, 0.2]).double()


def sample(n: int, seed: int) -> LabelledSet:
    """A function that is wiggly on the left and flat on the right, with little noise."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, dtype=torch.float64, generator=generator)
    f = torch.sin(8.0 / (x + 0.2))
    y = f + 0.1 * torch.randn(n, dtype=torch.float64, generator=generator)
    return LabelledSet(X=x[:, None], y=y, weight=torch.ones(n).double())


def features(points: int, bandwidths: torch.Tensor) -> WhitenedFeatures:
    grid = torch.linspace(0, 1, points, dtype=torch.float64)[:, None].to(bandwidths)
    return WhitenedFeatures.at(
        grid, bandwidths=bandwidths, shared_bandwidth=bandwidths.new_tensor(1.0), kernel=gaussian
    )


def make_trainer(
    settings: AdamSettings,
    covariance: type[InducingCovariance] = ZeroCovariance,
    seed: int = 0,
    device: str = "cpu",
) -> Trainer:
    start = Hyperparameters(*(torch.tensor(v).double().to(device) for v in (0.0, 1.0, 0.02)))
    points, validation = sample(120, 1).to(device), sample(60, 2).to(device)
    responses = SparseResponses(points, validation, features(40, BANDWIDTHS.to(device)), start, covariance=covariance)
    gate = SoftmaxGate.uniform(features(15, torch.tensor([0.2]).double().to(device)), n_experts=3, scale=10.0)
    return Trainer(responses, gate, settings, torch.Generator().manual_seed(seed))


def quick(**changes: Any) -> AdamSettings:
    return AdamSettings(**{"batch_size": 32, "max_epochs": 30, "epochs_per_kappa": 2, **changes})


def run(trainer: Trainer) -> list[Epoch]:
    epochs: list[Epoch] = []
    trainer.run(epochs.append)
    return epochs


def test_the_rate_is_halved_after_patience_epochs_without_improvement() -> None:
    schedule = RateSchedule(patience=3, smallest_rate=1e-3)
    assert schedule.improved(1.0)
    rates = []
    for _ in range(6):
        assert not schedule.improved(1.0)
        rates.append(schedule.rate)
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.5, 0.25]


def test_an_improvement_resets_the_wait() -> None:
    schedule = RateSchedule(patience=2, smallest_rate=1e-3)
    for error in (1.0, 1.1, 0.9, 1.0):
        schedule.improved(error)
    assert schedule.rate == 1.0


def test_training_ends_when_the_rate_falls_below_a_thousandth() -> None:
    schedule = RateSchedule(patience=1, smallest_rate=1e-3)
    schedule.improved(1.0)
    halvings = 0
    while not schedule.finished:
        schedule.improved(2.0)
        halvings += 1
    assert halvings == 10


def test_kappa_falls_from_all_experts_to_its_terminal_value() -> None:
    epochs = run(make_trainer(quick(sparsity=1)))
    kappas = [epoch.kappa for epoch in epochs]
    assert kappas[0] == 3
    assert kappas[-1] == 1
    assert all(later - earlier in (0, -1) for earlier, later in itertools.pairwise(kappas))


def test_a_terminal_kappa_above_the_number_of_experts_means_all() -> None:
    assert make_trainer(quick(sparsity=9, max_epochs=2)).run().kappa == 3


def test_the_best_state_is_kept_not_the_last() -> None:
    trainer = make_trainer(quick(learning_rate=0.3, patience=100))
    epochs = run(trainer)
    best = min(epoch.validation_error for epoch in epochs if epoch.kappa == 2)
    assert epochs[-1].validation_error > best
    assert trainer.validation_error().item() == pytest.approx(best, rel=1e-12)


def test_training_lowers_objective_and_validation_error() -> None:
    epochs = run(make_trainer(quick(max_epochs=60)))
    assert epochs[-1].objective < epochs[0].objective
    assert min(e.validation_error for e in epochs) < epochs[0].validation_error


def test_the_same_seed_trains_the_same_gate() -> None:
    gates = [make_trainer(quick(), seed=3).run().whitened_mean for _ in range(2)]
    assert torch.equal(*gates)
    assert not torch.equal(gates[0], make_trainer(quick(), seed=4).run().whitened_mean)


@pytest.mark.parametrize("covariance", COVARIANCES.values())
def test_every_inducing_covariance_trains(covariance: type[InducingCovariance]) -> None:
    trainer = make_trainer(quick(), covariance)
    before = trainer.responses.experts()
    epochs = run(trainer)
    assert epochs[-1].objective < epochs[0].objective
    after = trainer.responses.experts()
    for name, tensor in after.covariance.parameters.items():  # type: ignore[attr-defined]
        assert not torch.equal(tensor, before.covariance.parameters[name])  # type: ignore[attr-defined]


def test_the_squared_error_objective_trains() -> None:
    epochs = run(make_trainer(quick(objective=squared_error, penalty=0.0)))
    assert epochs[-1].objective < epochs[0].objective


def test_the_penalty_moves_weight_to_larger_bandwidths() -> None:
    x = torch.linspace(0, 1, 20, dtype=torch.float64)[:, None]
    gates = [make_trainer(quick(penalty=theta, max_epochs=100)).run()(x) for theta in (0.0, 0.5)]
    without, with_penalty = ((gate @ BANDWIDTHS.log()).mean() for gate in gates)
    assert with_penalty > without + math.log(1.5)


def test_the_gate_gives_small_bandwidths_to_the_wiggly_side() -> None:
    gate = make_trainer(quick(penalty=0.5, max_epochs=150)).run()
    left, right = (gate(torch.tensor([[x]]).double())[0] for x in (0.03, 0.9))
    assert left @ BANDWIDTHS.log() < right @ BANDWIDTHS.log() - math.log(2)


def test_a_stall_halves_the_rate_of_every_group() -> None:
    trainer = make_trainer(quick(learning_rate=0.3, patience=1, max_epochs=25, hyperparameter_rate=0.1, gate_rate=0.5))
    epochs = run(trainer)
    assert epochs[-1].rate < 1.0
    rates = [group["lr"] for group in trainer._optimiser.param_groups]
    wanted = [0.3 * factor for factor in (1.0, 0.1, 0.5, 0.05)]
    last = epochs[-2].rate  # the rate in force during the last epoch
    assert rates == pytest.approx([last * rate for rate in wanted]) or rates == pytest.approx(
        [epochs[-1].rate * rate for rate in wanted]
    )


def test_a_short_training_reaches_the_terminal_kappa() -> None:
    epochs = run(make_trainer(AdamSettings(batch_size=32, max_epochs=6, sparsity=1, epochs_per_kappa=5)))
    assert epochs[-1].kappa == 1


def test_gate_noise_changes_the_training() -> None:
    gates = [make_trainer(quick(gate_noise=noise, max_epochs=3)).run().whitened_mean for noise in (0.0, 1.0)]
    assert not torch.equal(*gates)


def test_gate_noise_decays_with_every_epoch() -> None:
    trainer = make_trainer(quick(max_epochs=20, gate_noise=0.8, gate_noise_decay=0.5))
    seen = []
    original = trainer._pass
    trainer._pass = lambda order, noise: (seen.append(noise.std().item()), original(order, noise))[1]  # type: ignore[method-assign,func-returns-value]
    trainer.run()
    assert seen[:4] == pytest.approx([0.8, 0.4, 0.2, 0.1], rel=0.2)
    assert seen[-1] == 0.0  # too little to matter


def test_an_epoch_of_a_large_set_is_bounded() -> None:
    trainer = make_trainer(quick(epoch_size=64, batch_size=32, max_epochs=1))
    steps = []
    original = trainer._step
    trainer._step = lambda rows, noise: (steps.append(len(rows)), original(rows, noise))[1]  # type: ignore[method-assign,func-returns-value]
    trainer.run()
    assert steps == [32, 32]


@pytest.mark.parametrize(
    ("name", "value"),
    [("sparsity", 0), ("penalty", -0.1), ("batch_size", 0), ("learning_rate", 0.0), ("gate_scale", -1.0)],
)
def test_bad_settings_are_refused_with_their_value(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must .*got {value}"):
        Adam(**{name: value}).training(100, "elbo")


def test_closed_form_and_autograd_train_the_same() -> None:
    by_formula, by_autograd = (make_trainer(quick(max_epochs=12)) for _ in range(2))
    assert by_formula._closed is by_formula.responses
    by_autograd._closed = None
    gates = by_formula.run(), by_autograd.run()
    # Up to the single precision of the features.
    torch.testing.assert_close(*(gate.whitened_mean for gate in gates), rtol=1e-4, atol=1e-6)
    experts = [trainer.responses.experts().whitened_mean for trainer in (by_formula, by_autograd)]
    torch.testing.assert_close(*experts, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", [quick(objective=squared_error), quick()])
@pytest.mark.parametrize("covariance", [ZeroCovariance, DiagonalCovariance])
def test_the_closed_form_is_for_the_elbo_without_covariance(
    settings: AdamSettings, covariance: type[InducingCovariance]
) -> None:
    is_closed = settings.objective is not squared_error and covariance is ZeroCovariance
    assert (make_trainer(settings, covariance)._closed is not None) == is_closed


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_training_on_a_gpu_agrees_with_training_on_a_cpu() -> None:
    settings = quick(batch_size=50, max_epochs=20)
    on_gpu, on_cpu = ([e.validation_error for e in run(make_trainer(settings, device=d))] for d in ("cuda", "cpu"))
    assert on_gpu == pytest.approx(on_cpu, rel=1e-3)
