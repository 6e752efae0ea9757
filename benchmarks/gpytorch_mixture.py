"""Training the stock GPyTorch models by the rules of lobal's Adam engine: same data, start, rates and end.

Labels are in units of their spread, numbers in float64, batches of 512. What starts them, the global expert and the
inducing points, is lobal's own, and counts in their seconds as it does in lobal's.
"""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

from benchmarks.gpytorch_models import (
    GPyTorchExperts,
    GPyTorchModel,
    MixtureModel,
    SingleModel,
    Start,
    gate_channels,
)
from benchmarks.measuring import finished_work, typical_lap
from experiments.doppler import PAPER
from lobal.core.arrays import resolve_device
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import gaussian
from lobal.experts.global_expert import GlobalExpert, fit_global_expert
from lobal.inducing.select import select_inducing
from lobal.mixture.adam.schedules import RateSchedule
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.start import column_widths

Predict: TypeAlias = Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]

ADAM = AdamSettings(
    kappa=PAPER.sparsity,
    penalty=PAPER.penalty,
    batch_size=PAPER.batch_size,
    learning_rate=PAPER.learning_rate,
    hyperparameter_rate=PAPER.hyperparameter_rate,
    gate_rate=PAPER.gate_rate,
    gate_noise=PAPER.gate_noise,
)
# "A short pre-training phase for each individual expert" (Appendix, "Design choices"), in steps of Adam. Of 20 epochs
# and 200, 400 and 800 steps, tried with 1024 and 2048 labels and m = 128, 400 had the least errors and fewest epochs.
PRETRAINING_STEPS = 400


class GPyTorchFit(NamedTuple):
    """A trained model and what its training took; times are seconds since its first epoch began."""

    predict: Predict
    epochs: int
    seconds: float  # of all, the start included
    validation_errors: list[float]  # root mean squared, after every epoch
    times: list[float]  # at which the epochs ended
    best: int  # the epoch whose state was kept
    is_finished: bool  # or cut off by max_epochs

    @property
    def seconds_per_epoch(self) -> float:
        """The median."""
        return typical_lap(self.times)

    @property
    def seconds_to_best(self) -> float:
        """Until the best epoch: the cost of a training that stops at the right time."""
        return self.seconds - self.times[-1] + self.times[self.best]


def fit_gpytorch_mixture(
    X: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    X_val: Float[ndarray, "k d"],
    y_val: Float[ndarray, " k"],
    *,
    m: int,
    max_epochs: int,
    device: str,
    seed: int,
) -> GPyTorchFit:
    """The mixture of the Doppler experiment (Sec. 5.1) in stock GPyTorch, trained jointly with its gate by Adam."""

    def model(points: LabelledSet, settings: AdamSettings, label_scale: float) -> GPyTorchModel:
        generator = torch.Generator().manual_seed(seed)
        expert = _global_expert(points, generator)
        scale = torch.full_like(expert.hyperparameters.scale, PAPER.scale / label_scale**2)
        shared = expert.hyperparameters._replace(scale=scale)
        bandwidths = torch.tensor(PAPER.bandwidths, dtype=points.X.dtype, device=points.X.device)
        gate = gate_channels(
            select_inducing(points.X, PAPER.n_gate_inducing, generator=generator),
            len(bandwidths),
            bandwidth=PAPER.gate_bandwidth,
            scale=PAPER.gate_scale,
        )
        experts = GPyTorchExperts(Start(shared, select_inducing(points.X, m, generator=generator)), bandwidths)
        pretraining = pretraining_epochs(len(points), settings)
        noise_draws = torch.Generator(device=points.X.device).manual_seed(seed)
        return MixtureModel(experts, gate, shared.noise, settings, noise_draws, pretraining=pretraining)

    return _fit(model, (X, y), (X_val, y_val), max_epochs, device, seed)


def fit_gpytorch_svgp(
    X: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    X_val: Float[ndarray, "k d"],
    y_val: Float[ndarray, " k"],
    *,
    m: int,
    max_epochs: int,
    device: str,
    seed: int,
) -> GPyTorchFit:
    """One stock sparse Gaussian process with full covariance of its inducing values and a learned bandwidth."""

    def model(points: LabelledSet, settings: AdamSettings, label_scale: float) -> GPyTorchModel:
        del settings, label_scale
        generator = torch.Generator().manual_seed(seed)
        expert = _global_expert(points, generator)
        start = Start(expert.hyperparameters, select_inducing(points.X, m, generator=generator))
        return SingleModel(start, expert.bandwidth)

    return _fit(model, (X, y), (X_val, y_val), max_epochs, device, seed)


def pretraining_epochs(n: int, settings: AdamSettings) -> int:
    """Epochs of `PRETRAINING_STEPS` with n labels; at most a quarter of a training that is cut short."""
    steps_an_epoch = math.ceil(min(n, settings.epoch_size) / settings.batch_size)
    return min(math.ceil(PRETRAINING_STEPS / steps_an_epoch), settings.max_epochs // 4)


def _fit(
    make_model: Callable[[LabelledSet, AdamSettings, float], GPyTorchModel],
    sample: tuple[Float[ndarray, "n d"], Float[ndarray, " n"]],
    validation: tuple[Float[ndarray, "k d"], Float[ndarray, " k"]],
    max_epochs: int,
    device: str,
    seed: int,
) -> GPyTorchFit:
    begun = time.perf_counter()
    where = resolve_device(device)
    shift, scale = float(sample[1].mean()), float(sample[1].std())
    points, steering = (_labelled(X, (y - shift) / scale, where) for X, y in (sample, validation))
    settings = replace(ADAM, max_epochs=max_epochs)
    model = make_model(points, settings, scale)
    course = _train(model, points, steering, settings, torch.Generator().manual_seed(seed))
    seconds = time.perf_counter() - begun

    @torch.no_grad()
    def predict(X: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        mean = model.mean(torch.as_tensor(X, device=where))
        return np.asarray(shift + scale * mean.cpu().numpy())

    errors = [scale * error for error in course.errors]
    return GPyTorchFit(predict, len(errors), seconds, errors, course.times, course.best, course.is_finished)


class _Course(NamedTuple):
    errors: list[float]
    times: list[float]
    best: int
    is_finished: bool


def _train(
    model: GPyTorchModel,
    points: LabelledSet,
    validation: LabelledSet,
    settings: AdamSettings,
    generator: torch.Generator,
) -> _Course:
    """Train until the learning rate is spent, and leave the model at its best."""
    optimiser = torch.optim.Adam([{**group, "base": group["lr"]} for group in model.groups(settings)])
    schedule = RateSchedule(settings.patience, settings.smallest_rate)
    state, best = copy.deepcopy(model.state_dict()), 0
    errors: list[float] = []
    times: list[float] = []
    begun = finished_work(points.X.device)
    while len(errors) < settings.max_epochs and not schedule.finished:
        model.train(model.has_training_mode)
        order = torch.randperm(len(points), generator=generator)[: settings.epoch_size].to(points.X.device)
        for rows in order.split(settings.batch_size):
            optimiser.zero_grad()
            model.loss(points.X[rows], points.y[rows], len(points)).backward()
            optimiser.step()
        model.end_epoch(len(errors))
        model.eval()
        with torch.no_grad():
            errors.append((validation.y - model.mean(validation.X)).square().mean().sqrt().item())
        # Errors seen before kappa has reached its terminal value are another model's and not compared.
        if not model.is_final or schedule.improved(errors[-1]):
            state, best = copy.deepcopy(model.state_dict()), len(errors) - 1
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate * group["base"]
        times.append(finished_work(points.X.device) - begun)
    model.load_state_dict(state)
    return _Course(errors, times, best, schedule.finished)


def _labelled(X: Float[ndarray, "n d"], y: Float[ndarray, " n"], device: torch.device) -> LabelledSet:
    inputs, labels = (torch.as_tensor(values, dtype=torch.float64, device=device) for values in (X, y))
    return LabelledSet(X=inputs, y=labels, weight=torch.ones_like(labels))


def _global_expert(points: LabelledSet, generator: torch.Generator) -> GlobalExpert:
    return fit_global_expert(
        points, unit=column_widths(points.X), kernel=gaussian, anisotropic=True, generator=generator
    )
