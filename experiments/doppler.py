"""The Doppler experiment of Sec. 5.1 under random test sampling, with the comparisons of its appendix.

python -m experiments doppler_fit --n 2048 --single-scale
python -m experiments doppler_statistics --sizes 1024,2048,4096 --seeds 10 --jobs 2 --output FILE.json
"""

import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple, final

import numpy as np
import torch
import typer
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console
from sklearn.metrics import root_mean_squared_error

from experiments.figures.models import comparison_figure
from experiments.repetitions import Jobs, Output, Repetitions, Result, Seeds
from lobal.cli.checks import whole_numbers
from lobal.cli.demo import DOPPLER, N_TEST, errors_on_grid
from lobal.core.dataset import LabelledSet
from lobal.core.files import write_atomically
from lobal.experts.features import StoredFeatures
from lobal.experts.leave_one_out import condition
from lobal.experts.svgp import SparseExperts
from lobal.mixture.adam.engine import Adam
from lobal.mixture.estimator import MixtureRegressor
from lobal.report import figures

N_VALIDATION = 1024  # validation labels, in addition to the training set
N_INTERVALS = 32  # on each of which an oracle may choose its bandwidth
SMALLEST_N = 10  # the estimator's


@final
@dataclass(frozen=True, kw_only=True)
class DopplerSettings:
    """The paper's options of the mixture for this experiment, Sec. 5.1, by the estimator's names."""

    bandwidths: tuple[float, ...] = tuple(10.0 ** ((j - 10) / 3) for j in range(1, 8))  # sigma_j
    shared_bandwidth: float = 1.0  # Sigma_E
    scale: float = 20.0  # lambda_E
    gate_bandwidth: float = 0.05  # sigma_G
    gate_scale: float = 10.0  # lambda_G
    n_inducing: int = 1024  # m_E under random test sampling
    n_gate_inducing: int = 128  # m_G
    sparsity: int = 2  # kappa
    penalty: float = 0.5  # theta_sigma
    batch_size: int = 512  # B
    learning_rate: float = 0.01  # eta_0
    hyperparameter_rate: float = 0.2  # eta_H
    gate_rate: float = 1.0  # eta_G
    gate_noise: float = 0.1  # s_0
    intrinsic_dimension: float = 1.0  # delta = d


PAPER = DopplerSettings()


class Sample(NamedTuple):
    """Inputs and their noisy labels."""

    X: Float[ndarray, "n 1"]
    y: Float[ndarray, " n"]


class DopplerFit(NamedTuple):
    """The data, the models fitted to them, and their errors, seconds, epochs and noise by name."""

    sample: Sample
    validation: Sample
    mixture: MixtureRegressor
    single_scale: MixtureRegressor | None
    result: Result


def doppler_data(n: int, seed: int, *, stream: int = 0) -> Sample:
    """n uniform inputs with labels; larger n continues the same sequence, another stream is independent of it."""
    inputs, noise = (np.random.default_rng(child) for child in np.random.SeedSequence([seed, stream]).spawn(2))
    x = inputs.uniform(size=n)
    return Sample(x[:, None], DOPPLER.labels(x, noise))


def paper_model(seed: int, **changes: Any) -> MixtureRegressor:  # noqa: ANN401 - any option of the estimator
    """The unfitted mixture with the paper's options, except for the changes."""
    options = {**asdict(PAPER), "random_state": seed, **changes}
    engine = Adam(**{name: options.pop(name) for name in Adam().get_params() if name in options})
    return MixtureRegressor(engine=engine, **options)


def single_scale_model(sample: Sample, validation: Sample, seed: int) -> MixtureRegressor:
    """The fitted mixture of one exact expert: a single Gaussian process with the bandwidth that validates best.

    The estimator takes bandwidth, noise and regularisation from the marginal likelihood of at most 1000 labels. More
    labels support a smaller bandwidth, so it shrinks from there by steps of sqrt(2) while the validation error falls.
    """
    best, best_error, factor = None, math.inf, 1.0
    while True:
        model = MixtureRegressor(bandwidths=[factor], experts="exact", random_state=seed)
        model.fit(*sample, validation=validation)
        error = root_mean_squared_error(model.predict(validation.X), validation.y)
        if best is not None and error >= best_error:
            return best
        best, best_error, factor = model, error, factor / math.sqrt(2.0)


def fit(n: int, seed: int, *, single_scale: bool = False, quiet: bool = True, **changes: Any) -> DopplerFit:  # noqa: ANN401 - as above
    """The paper's mixture, except for changes to its options and, on request, a single GP of the same data."""
    sample, validation = doppler_data(n, seed), doppler_data(N_VALIDATION, seed, stream=1)
    model = paper_model(seed, verbose=not quiet, **changes)
    mixture, numbers = _measured(lambda: model.fit(*sample, validation=validation))
    result: Result = {"n": n, "seed": seed, **numbers, "epochs": len(mixture.history_), "noise": mixture.noise_}
    single = None
    if single_scale:
        with nullcontext() if quiet else Console().status("fitting a single Gaussian process"):
            single, numbers = _measured(lambda: single_scale_model(sample, validation, seed))
        result |= {f"single_scale_{name}": value for name, value in numbers.items()}
    return DopplerFit(sample, validation, mixture, single, result)


def _measured(make: Callable[[], MixtureRegressor]) -> tuple[MixtureRegressor, dict[str, float]]:
    """A fitted model, its errors, and the seconds it took."""
    begun = time.perf_counter()
    model = make()
    seconds = time.perf_counter() - begun
    return model, {**errors_on_grid(model)._asdict(), "seconds": seconds}


def run(n: int, seed: int, **options: Any) -> Result:  # noqa: ANN401 - those of `fit`
    """The numbers of one fit."""
    return fit(n, seed, **options).result


def oracle_rmse(model: MixtureRegressor, X: Float[ndarray, "n 1"], y: Float[ndarray, " n"]) -> float:
    """The error that the model's bandwidths allow: on each of `N_INTERVALS` the expert closest to the truth is used.

    The experts are the model's, conditioned on all labels equally; only the oracle knows which of them to use. The
    intervals widen with x as the bandwidths do: they are equal in log(x + epsilon). On shorter intervals the oracle
    would fit the noise.
    """
    experts = model.mixture_.experts
    assert isinstance(experts, SparseExperts)
    like = experts.whitened_mean
    inputs, labels = (torch.as_tensor(values, dtype=like.dtype, device=like.device) for values in (X, y))
    labels = (labels - model.label_mean_) / model.label_scale_
    stored = StoredFeatures(experts.features, inputs)
    points = LabelledSet(X=inputs, y=labels, weight=torch.ones_like(labels))
    values = condition(stored, points, experts.hyperparameters).whitened_mean
    x = (np.arange(N_TEST) + 0.5) / N_TEST
    grid = torch.as_tensor(x[:, None], dtype=like.dtype, device=like.device)
    mean = replace(experts, whitened_mean=values).mean(grid)
    prediction = model.label_mean_ + model.label_scale_ * mean.cpu().numpy()
    squares = np.square(prediction - DOPPLER(x))
    position = np.log1p(x / DOPPLER.epsilon) / np.log1p(1.0 / DOPPLER.epsilon)
    starts = np.searchsorted(position, np.arange(N_INTERVALS) / N_INTERVALS)
    return math.sqrt(np.add.reduceat(squares, starts, axis=1).min(axis=0).sum() / N_TEST)


def save_figures(fitted: DopplerFit, folder: Path) -> None:
    """Draw the paper's figures of this experiment."""
    (X, y), mixture = fitted.sample, fitted.mixture
    label = rf"mixture, $\vartheta_\sigma = {mixture.get_params()['engine__penalty']:g}$"
    drawn = {
        "overview": figures.overview_figure(mixture, X, y, DOPPLER),
        "bandwidth": figures.bandwidth_figure({label: mixture}, X, y, DOPPLER),
    }
    if fitted.single_scale is not None:
        models = {"mixture": mixture, "single-scale GP": fitted.single_scale}
        drawn["comparison"] = comparison_figure(models, X, y, DOPPLER)
    for name, figure in drawn.items():
        figures.save_figure(figure, folder / f"{name}.png")


Penalty = Annotated[float, typer.Option(min=0.0, help="Penalty on small bandwidths; 0 overfits.")]
SingleScale = Annotated[bool, typer.Option(help="Fit the best single Gaussian process too.")]


def fit_command(
    n: Annotated[int, typer.Option(min=SMALLEST_N, help="Number of labels.")] = 2048,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and model.")] = 0,
    output: Annotated[Path, typer.Option(help="Folder for numbers and figures.")] = Path("out/doppler"),
    penalty: Penalty = PAPER.penalty,
    single_scale: SingleScale = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress line.")] = False,
) -> None:
    """Fit the function with the paper's settings, print the errors and draw the figures."""
    output.mkdir(parents=True, exist_ok=True)  # fails before the work, not after it
    fitted = fit(n, seed, penalty=penalty, single_scale=single_scale, quiet=quiet)
    write_atomically(output / "result.json", (json.dumps(fitted.result, indent=1) + "\n").encode())
    save_figures(fitted, output)
    print(json.dumps(fitted.result, indent=1))


def statistics_command(
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of labels, separated by commas.")] = "1024,2048,4096",
    seeds: Seeds = 10,
    jobs: Jobs = 1,
    single_scale: SingleScale = True,
    penalty: Penalty = PAPER.penalty,
) -> None:
    """Repeat the fit over sizes and seeds and keep errors, means and standard errors in one JSON file."""
    repetitions = Repetitions(
        experiment="Doppler function, random test sampling",
        settings=asdict(PAPER)
        | {"penalty": penalty, "n_validation": N_VALIDATION, "n_test": N_TEST, "single_scale": single_scale},
        run=partial(run, single_scale=single_scale, penalty=penalty),
    )
    repetitions.complete([*product(whole_numbers(sizes), range(seeds))], output, jobs=jobs)
