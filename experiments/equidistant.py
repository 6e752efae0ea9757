"""Equidistant against random inputs of the Doppler function, Sec. 5.1.

Equidistant inputs are nested: those of the next size lie halfway between the inputs so far, so that all distances are
halved. The paper takes them for the best that any choice by the geometry of the inputs alone can be, and finds that
their advantage over random inputs has vanished at 2^15 labels, Fig. (fig:dopplerExperiment_GPR_UnifVsEqui).

python -m experiments equidistant --scale quick --into docs/results
"""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Annotated, Any

import matplotlib.figure
import numpy as np
import typer
from scipy.stats import qmc

from experiments.doppler import N_VALIDATION, Sample, doppler_data, paper_model
from experiments.figures.errors import LABELS, error_panels, measured_curve, sample_sizes
from experiments.repetitions import Device, Figure, FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary
from lobal.cli.checks import whole_numbers
from lobal.cli.demo import DOPPLER, N_TEST, errors_on_grid
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.figures import save_figure

SIZES = ",".join(str(2**k) for k in range(8, 16))
NOISE = 3  # random stream of the labels' noise
ARMS = {"random": "random test sampling", "equidistant": "equidistant sampling"}
MEASURES = {"rmse": "RMSE", "max_error": "largest error"}


def equidistant_data(n: int, seed: int) -> Sample:
    """n equidistant inputs with labels; a larger power of two continues the same sequence."""
    x = qmc.Halton(1, scramble=False).random(n)[:, 0]  # van der Corput's sequence: of 2^k inputs, the multiples of 2^-k
    return Sample(x[:, None], DOPPLER.labels(x, np.random.default_rng([seed, NOISE])))


DATA = {"random": doppler_data, "equidistant": equidistant_data}


def fitted(sample: Sample, seed: int, *, engine: str, n_inducing: int, device: str) -> MixtureRegressor:
    """The paper's mixture, trained by Adam or fitted in closed form."""
    if engine == "adam":
        validation = doppler_data(N_VALIDATION, seed, stream=1)
        return paper_model(seed, n_inducing=n_inducing, device=device).fit(*sample, validation=validation)
    return MixtureRegressor(kernel="gaussian", n_inducing=n_inducing, device=device, random_state=seed).fit(*sample)


def run(n: int, seed: int, *, engine: str, n_inducing: int, device: str) -> Result:
    """Errors of both kinds of inputs, in columns such as "equidistant_rmse"."""
    result: Result = {"n": n, "seed": seed}
    for arm, data in DATA.items():
        errors = errors_on_grid(fitted(data(n, seed), seed, engine=engine, n_inducing=n_inducing, device=device))
        result |= {f"{arm}_{name}": value for name, value in errors._asdict().items()}
    return result


def conclusion(results: Sequence[Result]) -> dict[str, Any]:
    """The share of random labels that equidistant ones need for the same error, by size."""
    return {"relative_sample_sizes": sample_sizes(results, "equidistant", "random")}


def comparison_figure(results: Sequence[Result]) -> matplotlib.figure.Figure:
    """RMSE and largest error of both kinds of inputs against the number of labels."""
    panels = {
        title: {label: measured_curve(results, f"{arm}_{name}") for arm, label in ARMS.items()}
        for name, title in MEASURES.items()
    }
    return error_panels(panels, LABELS)


def main(
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of labels, powers of two separated by commas.")] = SIZES,
    seeds: Seeds = 20,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    engine: Annotated[str, typer.Option(help="analytic, or adam: the paper's.")] = "analytic",
    n_inducing: Annotated[int, typer.Option(min=1, help="Inducing points of the experts.")] = 512,
    device: Device = "cpu",
    figure: Figure = None,
) -> None:
    """Fit the mixture to random and to equidistant inputs of several sizes."""
    numbers = whole_numbers(sizes)
    if any(n < 1 or n & (n - 1) for n in numbers):
        raise ValueError(f"sizes must be powers of two, got {sizes!r}")
    options: dict[str, Any] = {"engine": engine, "n_inducing": n_inducing, "device": device}
    repetitions = Repetitions(
        experiment="Doppler function, equidistant and random inputs",
        settings={**options, "n_test": N_TEST},
        run=partial(run, **options),
        conclude=conclusion,
    )
    pairs = [(n, seed) for seed, n in product(range(first_seed, first_seed + seeds), numbers)]
    record = repetitions.complete(pairs, output, jobs=jobs)
    print_summary(record, numbers[-1])
    if figure is not None:
        save_figure(comparison_figure(record["results"]), figure)
