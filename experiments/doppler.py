"""The Doppler experiment of Sec. 5.1 under random test sampling, with the comparisons of its appendix.

python -m experiments.doppler --n 2048
python -m experiments.doppler statistics --sizes 1024,2048,4096 --seeds 10 --jobs 2 --output FILE.json
"""

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
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
from rich.table import Table

from experiments.repetitions import Repetitions, Result
from lobal.core.dataset import LabelledSet
from lobal.core.doppler import Doppler
from lobal.core.files import write_atomically
from lobal.core.metrics import maximum_absolute_error, root_mean_squared_error
from lobal.experts.features import StoredFeatures
from lobal.experts.leave_one_out import condition
from lobal.experts.svgp import SparseExperts
from lobal.mixture.estimator import MixtureRegressor
from lobal.report import figures

DOPPLER = Doppler()
N_VALIDATION = 1024  # labels beside the training set that steer it
N_TEST = 10_000  # midpoints of equal cells, where the noise-free function is compared
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


class Errors(NamedTuple):
    """Root mean squared and maximum absolute error."""

    rmse: float
    max_error: float


@final
@dataclass(frozen=True, kw_only=True)
class DopplerResult:
    """Errors against the noise-free function, of the mixture and, on request, of the best single Gaussian process."""

    n: int
    seed: int
    rmse: float
    max_error: float
    seconds: float  # to fit
    epochs: int
    noise: float  # learned variance of the labels; the truth is 1
    single_scale_rmse: float | None = None
    single_scale_max_error: float | None = None
    single_scale_seconds: float | None = None


class DopplerFit(NamedTuple):
    """The data, the models fitted to them, and what came out."""

    sample: Sample
    validation: Sample
    mixture: MixtureRegressor
    result: DopplerResult
    single_scale: MixtureRegressor | None = None


def doppler_data(n: int, seed: int, *, stream: int = 0) -> Sample:
    """n uniform inputs with labels; larger n continues the same sequence, another stream is independent of it."""
    inputs, noise = (np.random.default_rng(child) for child in np.random.SeedSequence([seed, stream]).spawn(2))
    x = inputs.uniform(size=n)
    return Sample(x[:, None], DOPPLER.labels(x, noise))


def paper_model(seed: int, **changes: Any) -> MixtureRegressor:  # noqa: ANN401 - any option of the estimator
    """The unfitted mixture with the paper's options, less the changes."""
    return MixtureRegressor(**{**asdict(PAPER), "engine": "adam", "random_state": seed, **changes})


def single_scale_model(sample: Sample, validation: Sample, seed: int) -> MixtureRegressor:
    """The fitted mixture of one exact expert: a single Gaussian process with the bandwidth that validates best.

    The estimator takes bandwidth, noise and regularisation from the marginal likelihood of at most 1000 labels. More
    of them bear a smaller bandwidth, so it shrinks from there by steps of sqrt(2) while the validation error falls.
    """
    best, best_error, factor = None, math.inf, 1.0
    while True:
        model = MixtureRegressor(bandwidths=[factor], experts="exact", random_state=seed)
        model.fit(*sample, validation=validation)
        error = root_mean_squared_error(model.predict(validation.X), validation.y)
        if best is not None and error >= best_error:
            return best
        best, best_error, factor = model, error, factor / math.sqrt(2.0)


def fit(n: int, seed: int, **changes: Any) -> DopplerFit:  # noqa: ANN401 - as above
    """The paper's mixture, less the changes to its options, fitted to n labels and compared with the truth."""
    sample, validation = doppler_data(n, seed), doppler_data(N_VALIDATION, seed, stream=1)
    start = time.perf_counter()
    mixture = paper_model(seed, **changes).fit(*sample, validation=validation)
    seconds = time.perf_counter() - start
    errors = errors_on_grid(mixture)
    result = DopplerResult(
        n=n,
        seed=seed,
        rmse=errors.rmse,
        max_error=errors.max_error,
        seconds=seconds,
        epochs=len(mixture.history_),
        noise=mixture.noise_,
    )
    return DopplerFit(sample, validation, mixture, result)


def with_single_scale(fitted: DopplerFit) -> DopplerFit:
    """The same beside a single Gaussian process of the same data."""
    start = time.perf_counter()
    model = single_scale_model(fitted.sample, fitted.validation, fitted.result.seed)
    seconds = time.perf_counter() - start
    errors = errors_on_grid(model)
    result = replace(
        fitted.result,
        single_scale_rmse=errors.rmse,
        single_scale_max_error=errors.max_error,
        single_scale_seconds=seconds,
    )
    return fitted._replace(single_scale=model, result=result)


def run(n: int, seed: int, *, single_scale: bool = True, **changes: Any) -> DopplerResult:  # noqa: ANN401 - as above
    """The errors of the mixture and, unless told otherwise, of the single Gaussian process."""
    fitted = fit(n, seed, **changes)
    return with_single_scale(fitted).result if single_scale else fitted.result


def errors_on_grid(model: MixtureRegressor) -> Errors:
    """Errors against the noise-free function at (i + 1/2) / 10000."""
    x = (np.arange(N_TEST) + 0.5) / N_TEST
    prediction, truth = model.predict(x[:, None]), DOPPLER(x)
    return Errors(root_mean_squared_error(prediction, truth), maximum_absolute_error(prediction, truth))


def oracle_rmse(model: MixtureRegressor, X: Float[ndarray, "n 1"], y: Float[ndarray, " n"]) -> float:
    """The error that the model's bandwidths allow: on each of `N_INTERVALS` the expert closest to the truth answers.

    The experts are the model's, conditioned on all labels alike; only the oracle knows which of them to ask. The
    intervals widen with x as the bandwidths do: they are equal in log(x + epsilon). Finer ones would let the oracle
    choose the noise that suits it, not the bandwidth.
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


def statistics(
    sizes: Sequence[int],
    seeds: int,
    output: Path,
    *,
    jobs: int = 1,
    single_scale: bool = True,
    notify: Callable[[Result], None] | None = None,
    **changes: Any,  # noqa: ANN401 - as above
) -> dict[str, Any]:
    """The record of all sizes with seeds 0, 1, ..., kept in the JSON file `output`, which a second call resumes."""
    options = "".join(f" --{name} {value}" for name, value in changes.items())
    repetitions = Repetitions(
        experiment="Doppler function, random test sampling",
        command=f"python -m experiments.doppler statistics --sizes {','.join(map(str, sizes))} --seeds {seeds}"
        f" --{'' if single_scale else 'no-'}single-scale{options}",
        settings={
            **asdict(PAPER),
            **changes,
            "n_validation": N_VALIDATION,
            "n_test": N_TEST,
            "single_scale": single_scale,
        },
        run=partial(_plain_run, single_scale=single_scale, **changes),
    )
    return repetitions.complete([*product(sizes, range(seeds))], output, jobs=jobs, notify=notify)


def _plain_run(n: int, seed: int, **options: Any) -> Result:  # noqa: ANN401 - those of `run`
    return asdict(run(n, seed, **options))


def save_figures(fitted: DopplerFit, folder: Path) -> list[Path]:
    """Draw the paper's figures of this experiment and return their paths."""
    (X, y), mixture = fitted.sample, fitted.mixture
    drawn = {
        "overview": figures.overview_figure(mixture, X, y, DOPPLER),
        "bandwidth": figures.bandwidth_figure({_penalty_label(mixture): mixture}, X, y, DOPPLER),
    }
    if fitted.single_scale is not None:
        models = {"mixture": mixture, "single-scale GP": fitted.single_scale}
        drawn["comparison"] = figures.comparison_figure(models, X, y, DOPPLER)
    paths = [folder / f"{name}.png" for name in drawn]
    for figure, path in zip(drawn.values(), paths, strict=True):
        figures.save_figure(figure, path)
    return paths


def demonstrate(
    n: int, seed: int, output: Path, *, penalty: float = PAPER.penalty, single_scale: bool = True, quiet: bool = False
) -> None:
    """Fit, print a table of errors and save figures: the body of the commands here and of `lobal demo`."""
    console = Console()
    try:
        output.mkdir(parents=True, exist_ok=True)  # before the work, not after it
        fitted = fit(n, seed, penalty=penalty, verbose=not quiet)
        if single_scale:
            with nullcontext() if quiet else console.status("fitting a single Gaussian process"):
                fitted = with_single_scale(fitted)
        write_atomically(output / "result.json", (json.dumps(asdict(fitted.result), indent=1) + "\n").encode())
        paths = save_figures(fitted, output)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    console.print(result_table(fitted.result))
    console.print(f"figures in {output}: {', '.join(path.name for path in paths)}")


def result_table(result: DopplerResult) -> Table:
    """The errors as a table for the terminal."""
    table = Table("", title=f"Doppler function, n = {result.n}, seed {result.seed}", title_justify="left")
    for column in ("RMSE", "max. error", "seconds"):
        table.add_column(column, justify="right")
    numbers = asdict(result)
    for name, prefix in {"mixture": "", "single-scale GP": "single_scale_"}.items():
        if numbers[f"{prefix}rmse"] is not None:
            cells = {"rmse": "{:.4f}", "max_error": "{:.3f}", "seconds": "{:.1f}"}
            table.add_row(name, *(form.format(numbers[prefix + cell]) for cell, form in cells.items()))
    return table


def _penalty_label(model: MixtureRegressor) -> str:
    return rf"mixture, $\vartheta_\sigma = {model.penalty:g}$"


app = typer.Typer(add_completion=False, help=__doc__)


@app.command("fit")
def fit_command(
    n: Annotated[int, typer.Option(min=SMALLEST_N, help="Number of labels.")] = 2048,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and model.")] = 0,
    output: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("out/doppler"),
    penalty: Annotated[float, typer.Option(min=0.0, help="Price of small bandwidths; 0 overfits.")] = PAPER.penalty,
    single_scale: Annotated[bool, typer.Option(help="Fit the best single Gaussian process too.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress line.")] = False,
) -> None:
    """Fit the function with the paper's settings, print the errors and draw the figures. May be left out."""
    demonstrate(n, seed, output, penalty=penalty, single_scale=single_scale, quiet=quiet)


@app.command("statistics")
def statistics_command(
    output: Annotated[Path, typer.Option(help="JSON file; results it already has are not computed again.")],
    sizes: Annotated[str, typer.Option(help="Numbers of labels, separated by commas.")] = "1024,2048,4096",
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions per size.")] = 10,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")] = 1,
    single_scale: Annotated[bool, typer.Option(help="Fit the best single Gaussian process too.")] = True,
    penalty: Annotated[float, typer.Option(min=0.0, help="Price of small bandwidths; 0 overfits.")] = PAPER.penalty,
) -> None:
    """Repeat the fit over sizes and seeds and keep errors, means and standard errors in one JSON file."""
    console = Console()
    try:
        numbers = [int(size) for size in sizes.split(",")]
        statistics(
            numbers,
            seeds,
            output,
            jobs=jobs,
            single_scale=single_scale,
            notify=lambda result: console.print("n = {n}, seed {seed}: RMSE {rmse:.4f}".format(**result)),
            penalty=penalty,
        )
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error


def full_command(arguments: Sequence[str]) -> list[str]:
    """The arguments with their command: options alone are those of `fit`."""
    named = arguments[:1] in (["fit"], ["statistics"], ["--help"])
    return [*arguments] if named else ["fit", *arguments]


if __name__ == "__main__":
    app(full_command(sys.argv[1:]))
