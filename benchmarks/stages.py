"""The stages of the analytic fit one by one: their seconds, and the least this machine could take for them.

Every stage is the engine's own function, called on the same objects as in a fit. The floor of a stage is its floating
point operations at the rate of a large matrix product, or the bytes it has to move at the rate of a large copy,
whichever takes longer. docs/performance.md derives the counts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from benchmarks.measuring import Rates, finished_work, typical_lap
from experiments.doppler import N_VALIDATION, PAPER, Sample
from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Box
from lobal.cli.demo import DopplerOracle
from lobal.core.dataset import LabelledSet
from lobal.core.density import column_spread
from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.experts.features import CACHE_BYTES, StoredFeatures
from lobal.experts.global_expert import fit_global_expert
from lobal.experts.interface import Hyperparameters
from lobal.experts.leave_one_out import condition, sparse_leave_one_out
from lobal.experts.svgp import FullCovariance
from lobal.inducing.select import select_inducing
from lobal.mixture.adam.responses import SparseResponses
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.training import Trainer
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.analytic.training import fit_gate
from lobal.mixture.estimator import MixtureRegressor
from lobal.mixture.gate import SoftmaxGate

Value = TypeVar("Value")

NUMBER = 8.0  # bytes of a float64
START, FEATURES, GRAM, LEVERAGES, GATE, REFIT = (
    "global expert",
    "features",
    "Gram matrices",
    "leverages",
    "gate",
    "refit",
)
EPOCH = "epoch of Adam"
STEP = "learner step"
TIMED_EPOCHS, ALIKE = 30, 12  # kappa falls in the first of them
CANDIDATES = 2**15
NEWTON_STEPS = 25  # of the gate: a typical number


@final
@dataclass(frozen=True, kw_only=True)
class Work:
    """What a stage cannot do without: floating point operations, and bytes read or written."""

    flops: float
    bytes: float

    def floor(self, rates: Rates) -> float:
        """Seconds at the machine's best rates."""
        return max(self.flops / rates.flops, self.bytes / rates.bytes)


class Stage(NamedTuple):
    """Measured seconds of a stage, and its floor if that is known."""

    name: str
    seconds: float
    floor: float | None = None


def stage_floors(n: int, m: int, L: int, *, m_gate: int = PAPER.n_gate_inducing) -> dict[str, Work]:
    """The work of every stage with n labels, L experts of m inducing points, and a gate of m_gate.

    A triangular solve of m equations for n right-hand sides takes n m^2 operations, and so does the product of an
    (n, m) matrix with itself; a Cholesky factor or the inverse of one takes m^3 / 3. Features that are kept are read
    once by every stage that needs them; those too many to keep are solved for again. In the refit the gate leaves two
    experts to a point.
    """
    phi = NUMBER * L * n * m
    again = 0.0 if phi <= CACHE_BYTES else float(L * m**2)  # operations per point
    pass_of_gate = NUMBER * n * (3 * m_gate + L)
    square = NUMBER * L * m**2
    seen = min(n, AdamSettings.epoch_size)
    return {
        FEATURES: Work(flops=L * (n * m**2 + m**3 / 3), bytes=phi + square),
        GRAM: Work(flops=L * (n * m**2 + m**3 / 3) + again * n, bytes=phi + square),
        LEVERAGES: Work(flops=L * n * m**2 + again * n, bytes=phi + square),
        GATE: Work(flops=float(NEWTON_STEPS * n * m_gate**2), bytes=NEWTON_STEPS * pass_of_gate),
        REFIT: Work(flops=min(L, 2) * n * m**2 + 2 * L * m**3 / 3 + again * n, bytes=min(L, 2) / L * phi + 2 * square),
        # A feature is read forward and backward, in single precision; those of the validation labels once, in double.
        EPOCH: Work(flops=4 * L * seen * m + again * seen, bytes=NUMBER * L * m * (seen + N_VALIDATION)),
    }


def fit_floor(n: int, m: int, L: int, rates: Rates) -> float:
    """Seconds of a fit that does everything once, and neither a global expert nor a pilot."""
    floors = {name: work.floor(rates) for name, work in stage_floors(n, m, L).items()}
    return sum(floors[name] for name in (FEATURES, GRAM, LEVERAGES, GATE, REFIT))


def measured_stages(sample: Sample, m: int, device: torch.device, rates: Rates, *, seed: int) -> list[Stage]:
    """One pass through the analytic fit, stage by stage."""
    points = labelled(sample, device)
    bandwidths = torch.tensor(PAPER.bandwidths, dtype=torch.float64, device=device)
    work = stage_floors(len(points), m, len(bandwidths))
    stages: list[Stage] = []

    def timed(name: str, function: Callable[[], Value]) -> Value:
        begun = finished_work(device)
        value = function()
        seconds = finished_work(device) - begun
        stages.append(Stage(name, seconds, work[name].floor(rates) if name in work else None))
        return value

    generator = torch.Generator().manual_seed(seed)
    shared = timed(START, lambda: _start(points, generator))
    inducing = select_inducing(points.X, m, generator=generator)
    gate_features = _gate_features(points.X)
    stored = timed(FEATURES, lambda: StoredFeatures(_features(inducing, bandwidths), points.X))
    conditioned = timed(GRAM, lambda: condition(stored, points, shared))
    predictions = timed(LEVERAGES, lambda: sparse_leave_one_out(stored, points, shared, conditioned))
    phi = gate_features(points.X)[0]
    trained = timed(GATE, lambda: fit_gate(gate_features, phi, points, predictions, shared, AnalyticSettings()))
    gate = trained.gate(points.X)
    timed(REFIT, lambda: FullCovariance.best(condition(stored, points, shared, gate).factor))
    return stages


def learner_step_seconds(n: int, m: int, device: torch.device, *, seed: int) -> float:
    """Seconds from n labels to the next n points: inducing points, fit, complexity, densities, draws."""
    model = MixtureRegressor(
        n_inducing=m, bandwidths=PAPER.bandwidths, shared_bandwidth=PAPER.shared_bandwidth, device=str(device)
    )
    learner = ActiveLearner(Box(0.0, 1.0, n_candidates=max(CANDIDATES, 4 * n)), seed=seed, model=model)
    learner.run(DopplerOracle(seed), sizes=[n // 2, n])
    begun = finished_work(device)
    learner.ask(n)
    return finished_work(device) - begun


def adam_epoch_seconds(sample: Sample, validation: Sample, m: int, device: torch.device, *, seed: int) -> float:
    """Seconds of one epoch of lobal's Adam engine: the median of a few at the terminal kappa."""
    points, steering = labelled(sample, device), labelled(validation, device)
    generator = torch.Generator().manual_seed(seed)
    bandwidths = torch.tensor(PAPER.bandwidths, dtype=torch.float64, device=device)
    features = _features(select_inducing(points.X, m, generator=generator), bandwidths)
    half = torch.tensor(0.5, dtype=torch.float64, device=device)  # the time does not depend on the numbers
    responses = SparseResponses(points, steering, features, Hyperparameters(half, half, half), is_shuffled=True)
    gate = SoftmaxGate.uniform(_gate_features(points.X), n_experts=len(bandwidths), scale=PAPER.gate_scale)
    settings = AdamSettings(batch_size=PAPER.batch_size, max_epochs=TIMED_EPOCHS)
    trainer = Trainer(responses, gate, settings, generator)
    times: list[float] = []
    begun = finished_work(device)
    trainer.run(lambda _: times.append(finished_work(device) - begun))
    return typical_lap([time - times[-ALIKE - 1] for time in times[-ALIKE:]])


def labelled(sample: Sample, device: torch.device) -> LabelledSet:
    """The sample with labels in units of their spread, as the estimator hands it on."""
    X, y = (torch.as_tensor(values, device=device) for values in sample)
    return LabelledSet(X=X, y=(y - y.mean()) / y.std(), weight=torch.ones_like(y))


def _start(points: LabelledSet, generator: torch.Generator) -> Hyperparameters:
    expert = fit_global_expert(
        points, unit=column_spread(points.X), kernel=gaussian, anisotropic=True, generator=generator
    )
    return expert.hyperparameters


def _features(inducing: Float[Tensor, "m d"], bandwidths: Float[Tensor, " L"]) -> WhitenedFeatures:
    shared = bandwidths.new_tensor(PAPER.shared_bandwidth)
    return WhitenedFeatures.at(inducing, bandwidths=bandwidths, shared_bandwidth=shared, kernel=gaussian)


def _gate_features(X: Float[Tensor, "n d"]) -> WhitenedFeatures:
    inducing = select_inducing(X, PAPER.n_gate_inducing, generator=torch.Generator().manual_seed(0))
    return _features(inducing, X.new_tensor([PAPER.gate_bandwidth]))
