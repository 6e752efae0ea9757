"""One stock sparse Gaussian process of GPyTorch, trained by the rules of lobal's Adam engine.

Labels are in units of their standard deviation, numbers in float64, batches of 512. Global expert and inducing points,
from which it starts, are lobal's and count in its seconds.
"""

import copy
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast, final

import gpytorch
import numpy as np
import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from benchmarks.measuring import finished_work, typical_lap
from experiments.doppler import PAPER
from lobal.core.arrays import Inputs, resolve_device
from lobal.core.dataset import LabelledSet
from lobal.core.density import column_spread
from lobal.core.kernels import gaussian
from lobal.experts.global_expert import GlobalExpert, fit_global_expert
from lobal.inducing.select import select_inducing
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.adam.training import RateSchedule

Predict: TypeAlias = Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]
ADAM = AdamSettings(
    batch_size=PAPER.batch_size, learning_rate=PAPER.learning_rate, hyperparameter_rate=PAPER.hyperparameter_rate
)


class GPyTorchFit(NamedTuple):
    """A trained model and the seconds of its training; times are counted from its first epoch."""

    predict: Predict
    seconds: float  # in all, including the start
    validation_errors: list[float]  # root mean squared, after every epoch
    times: list[float]  # at which the epochs ended
    is_finished: bool  # or cut off by max_epochs

    @property
    def seconds_per_epoch(self) -> float:
        """The median."""
        return typical_lap(self.times)


@final
class SparseGP(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # GPyTorch ships no types
    """A sparse variational Gaussian process with a learned bandwidth per column, as in GPyTorch's documentation."""

    def __init__(self, inducing: Float[Tensor, "m d"], start: GlobalExpert) -> None:
        distribution = CholeskyVariationalDistribution(len(inducing), mean_init_std=0.0)
        super().__init__(VariationalStrategy(self, inducing, distribution, learn_inducing_locations=False))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = ScaleKernel(RBFKernel(ard_num_dims=len(start.bandwidth)))
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self.mean_module.initialize(constant=float(start.hyperparameters.mean))
        self.covar_module.outputscale = float(start.hyperparameters.scale)
        self.covar_module.base_kernel.lengthscale = start.bandwidth.tolist()
        self.likelihood.noise = max(float(start.hyperparameters.noise), 1e-3)  # above the least that GPyTorch allows
        self.to(device=inducing.device, dtype=inducing.dtype)

    def forward(self, X: Inputs) -> MultivariateNormal:
        """The prior at X."""
        return MultivariateNormal(self.mean_module(X), self.covar_module(X))

    def loss(self, X: Inputs, y: Float[Tensor, " n"], n: int) -> Float[Tensor, ""]:
        """Minus the evidence lower bound on a batch of n points in all."""
        return cast(Tensor, -gpytorch.mlls.VariationalELBO(self.likelihood, self, num_data=n)(self(X), y))

    def optimiser(self) -> torch.optim.Adam:
        """Adam with lobal's rates for inducing values and hyperparameters."""
        eta = ADAM.learning_rate
        groups: list[dict[str, Any]] = [
            {"params": list(self.variational_parameters()), "lr": eta, "base": eta},
            {"params": list(self.hyperparameters()), "lr": (rate := ADAM.hyperparameter_rate * eta), "base": rate},
        ]
        return torch.optim.Adam(groups)


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
    """The trained model in its best state, by the error of the validation labels."""
    begun = time.perf_counter()
    where = resolve_device(device)
    shift, scale = float(y.mean()), float(y.std())
    points, steering = (
        _labelled(*part, where) for part in ((X, (y - shift) / scale), (X_val, (y_val - shift) / scale))
    )
    generator = torch.Generator().manual_seed(seed)
    start = fit_global_expert(
        points, unit=column_spread(points.X), kernel=gaussian, anisotropic=True, generator=generator
    )
    model = SparseGP(select_inducing(points.X, m, generator=generator), start)
    errors, times, is_finished = _train(model, points, steering, max_epochs, torch.Generator().manual_seed(seed))

    @torch.no_grad()
    def predict(X: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        return np.asarray(shift + scale * model(torch.as_tensor(X, device=where)).mean.cpu().numpy())

    seconds = time.perf_counter() - begun
    return GPyTorchFit(predict, seconds, [scale * error for error in errors], times, is_finished)


def _train(
    model: SparseGP, points: LabelledSet, validation: LabelledSet, max_epochs: int, generator: torch.Generator
) -> tuple[list[float], list[float], bool]:
    """Train until the learning rate is spent, and leave the model in its best state."""
    optimiser, schedule = model.optimiser(), RateSchedule(ADAM.patience, ADAM.smallest_rate)
    state, errors, times = copy.deepcopy(model.state_dict()), list[float](), list[float]()
    begun = finished_work(points.X.device)
    while len(errors) < max_epochs and not schedule.finished:
        model.train()
        order = torch.randperm(len(points), generator=generator)[: ADAM.epoch_size].to(points.X.device)
        for rows in order.split(ADAM.batch_size):
            optimiser.zero_grad()
            model.loss(points.X[rows], points.y[rows], len(points)).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            errors.append((validation.y - model(validation.X).mean).square().mean().sqrt().item())
        if schedule.improved(errors[-1]):
            state = copy.deepcopy(model.state_dict())
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate * group["base"]
        times.append(finished_work(points.X.device) - begun)
    model.load_state_dict(state)
    return errors, times, schedule.finished


def _labelled(X: Float[ndarray, "n d"], y: Float[ndarray, " n"], device: torch.device) -> LabelledSet:
    inputs, labels = (torch.as_tensor(values, dtype=torch.float64, device=device) for values in (X, y))
    return LabelledSet(X=inputs, y=labels, weight=torch.ones_like(labels))
