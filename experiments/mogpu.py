"""Uncertainty sampling by MoGPU, equidistant inputs and superior sampling on the Doppler function, Sec. 5.1.

A gate of 2^15 actively sampled labels stays fixed. MoGPU, Eq. (eq:MoGPU), takes the point of greatest uncertainty, one
after the other; superior sampling draws independently from its density; both are determined by the gate. All are judged
by the same gate over full Gaussian processes. In Fig. (fig:dopplerExperiment_SABER_EquiVsUncertaintyVsPOpt2) the inputs
of MoGPU have the density 1 / LOB, and it is worse than superior sampling in RMSE and better in the largest error.

python -m experiments mogpu --scale quick --into docs/results
"""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
import typer
from jaxtyping import Float
from numpy import ndarray
from scipy.stats import qmc

from experiments.doppler_active import campaign
from experiments.figures.errors import by_size, sample_sizes
from experiments.figures.mogpu import ARMS, BINS, PLACES, sampling_figure
from experiments.repetitions import Figure, FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary
from lobal.baselines.greedy_variance import Covariances, greedy_rows
from lobal.cli.checks import whole_numbers
from lobal.cli.demo import DOPPLER, N_TEST, Errors, errors_on_grid
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures
from lobal.experts.features import StoredFeatures
from lobal.experts.leave_one_out import condition
from lobal.experts.svgp import FullCovariance, SparseExperts
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.figures import save_figure

GROWTH = 8  # of the campaign whose gate is used
CANDIDATES_PER_POINT = 4  # of MoGPU
N_EVALUATION = 512  # inducing points that stand for full Gaussian processes; tests/experiments/test_mogpu.py compares
DRAWS, NOISE = 6, 7  # random streams
SIZES = ",".join(str(2**k) for k in range(7, 14))


def gate_model(n: int, seed: int, *, n_inducing: int) -> MixtureRegressor:
    """The mixture of n labels of a campaign by the paper's draws."""
    sizes = [n // GROWTH**2, n // GROWTH, n]
    learner, _ = campaign("draws", seed, sizes=sizes, n_inducing=n_inducing, kernel="gaussian")
    assert isinstance(learner.model, MixtureRegressor)  # sizes exceed the smallest training set
    return learner.model


def quantiles(model: MixtureRegressor, shares: Float[ndarray, " n"], power: float) -> Float[ndarray, " n"]:
    """Quantiles of the density LOB^-power on [0, 1]."""
    x = np.linspace(0.0, 1.0, N_TEST + 1)
    density = model.local_bandwidth(x[:, None]) ** -power
    mass = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return np.asarray(np.interp(shares, mass / mass[-1], x))


def superior_inputs(model: MixtureRegressor, n: int, seed: int) -> Float[ndarray, " n"]:
    """Independent draws from Eq. (eq:GeneralizedOptimalSamplingInfAlpha), which is LOB^(-1/2) here."""
    return quantiles(model, np.random.default_rng([seed, DRAWS]).random(n), 0.5)


def equidistant_inputs(model: MixtureRegressor, n: int, seed: int) -> Float[ndarray, " n"]:
    """Nested equidistant inputs."""
    del model, seed
    return np.asarray(qmc.Halton(1, scramble=False).random(n)[:, 0])


def mogpu_inputs(model: MixtureRegressor, n: int, seed: int) -> Float[ndarray, " n"]:
    """Inputs of greatest MoGPU, each given those before it; half of the candidates are equidistant."""
    del seed
    middles = (np.arange(CANDIDATES_PER_POINT * n // 2) + 0.5) / (CANDIDATES_PER_POINT * n // 2)
    X = np.concatenate([middles, quantiles(model, middles, 1.0)])[:, None]
    mixture = model.mixture_
    inputs = torch.from_numpy(model.input_units_(X))
    prior = Covariances(
        bandwidths=mixture.bandwidths,
        shared_bandwidth=mixture.shared_bandwidth,
        scale=mixture.experts.hyperparameters.scale,
        kernel=mixture.kernel,
    )
    noise = mixture.experts.hyperparameters.noise.expand(len(X))
    rows = greedy_rows(inputs, inputs[:0], prior, torch.from_numpy(model.gate(X)), noise, n)
    return np.asarray(X[rows.numpy(), 0])


INPUTS: Mapping[str, Callable[[MixtureRegressor, int, int], Float[ndarray, " n"]]] = {
    "equidistant": equidistant_inputs,
    "mogpu": mogpu_inputs,
    "superior": superior_inputs,
}


def with_labels(model: MixtureRegressor, X: Float[ndarray, "n 1"], y: Float[ndarray, " n"]) -> MixtureRegressor:
    """The model's gate and hyperparameters over experts that are conditioned on other labels, all alike."""
    old, middles = model.mixture_, (np.arange(N_EVALUATION) + 0.5) / N_EVALUATION
    features = WhitenedFeatures.at(
        torch.from_numpy(model.input_units_(quantiles(model, middles, 1.0)[:, None])),
        bandwidths=old.bandwidths,
        shared_bandwidth=old.shared_bandwidth,
        kernel=old.kernel,
    )
    labels = torch.from_numpy((y - model.label_mean_) / model.label_scale_)
    points = LabelledSet(X=torch.from_numpy(model.input_units_(X)), y=labels, weight=torch.ones_like(labels))
    hyperparameters = old.experts.hyperparameters
    conditioned = condition(StoredFeatures(features, points.X), points, hyperparameters)
    experts = SparseExperts(
        features=features,
        hyperparameters=hyperparameters,
        whitened_mean=conditioned.whitened_mean,
        covariance=FullCovariance.best(conditioned.factor),
    )
    changed = copy.copy(model)
    changed.mixture_ = replace(old, experts=experts)
    return changed


def errors_at(model: MixtureRegressor, x: Float[ndarray, " n"], y: Float[ndarray, " n"], size: int) -> Errors:
    """Errors of the model with the first labels."""
    return errors_on_grid(with_labels(model, x[:size, None], y[:size]))


def run(n: int, seed: int, *, sizes: Sequence[int], gate_labels: int, n_inducing: int) -> Result:
    """Errors in columns such as "mogpu_rmse_1024", histograms of the n inputs, seconds, and the LOB of the gate."""
    model = gate_model(gate_labels, seed, n_inducing=n_inducing)
    result: Result = {"n": n, "seed": seed}
    for arm, inputs in INPUTS.items():
        begun = time.process_time()
        x = inputs(model, n, seed)
        result[f"{arm}_seconds"] = time.process_time() - begun
        y = DOPPLER.labels(x, np.random.default_rng([seed, NOISE]))
        for size in sizes:
            errors = errors_at(model, x, y, size)
            result |= {f"{arm}_{name}_{size}": value for name, value in errors._asdict().items()}
        result[f"{arm}_counts"] = np.histogram(x, BINS, (0.0, 1.0))[0].tolist()
    bandwidth = model.local_bandwidth(PLACES[:, None])
    return result | {"local_bandwidth": [float(f"{value:.5g}") for value in bandwidth]}


def conclusion(results: Sequence[Result]) -> dict[str, Any]:
    """Relative sample sizes of superior sampling against the other two by size, and ratios of largest errors."""
    rows = by_size(results)
    rho = {other: sample_sizes(rows, "superior", other) for other in ARMS if other != "superior"} if rows else {}
    return {"relative_sample_sizes": rho}


def main(
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of labels, ascending.")] = SIZES,
    seeds: Seeds = 20,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    gate_labels: Annotated[int, typer.Option(min=640, help="Labels of the mixture whose gate is used.")] = 2**15,
    n_inducing: Annotated[int, typer.Option(min=1, help="Its inducing points.")] = 512,
    figure: Figure = None,
) -> None:
    """Compare labels of greatest MoGPU with equidistant ones and with superior sampling."""
    numbers = whole_numbers(sizes)
    options: dict[str, Any] = {"sizes": numbers, "gate_labels": gate_labels, "n_inducing": n_inducing}
    repetitions = Repetitions(
        experiment="Doppler function, uncertainty sampling by MoGPU under a fixed gate",
        settings={**options, "growth": GROWTH, "candidates_per_point": CANDIDATES_PER_POINT, "n_test": N_TEST},
        run=partial(run, **options),
        conclude=conclusion,
    )
    pairs = [(numbers[-1], seed) for seed in range(first_seed, first_seed + seeds)]
    record = repetitions.complete(pairs, output, jobs=jobs)
    print_summary(record, numbers[-1], f"_{numbers[-1]}", "seconds")
    if figure is not None:
        save_figure(sampling_figure(record["results"]), figure)
