"""Which density the methods of choosing inducing points reach in several columns, and how long they take.

Inputs have the density p ~ exp(-2 x_1) on the unit box, the target is exp(-5 x_1): an exponent of 5 is asked for. Two
estimates of the exponent that the points have: by maximum likelihood from their first column, and by regression of the
logarithm of the density of neighbours on x_1, in units of what points drawn from the target give. Seconds are CPU
seconds, relative to those of a fit of `MixtureRegressor` with as many inducing points.

python -m experiments inducing_density --seeds 3 --output docs/results/inducing_density.json
"""

import math
import time
from functools import partial
from typing import Annotated

import torch
import typer
from jaxtyping import Float
from rich.console import Console
from rich.table import Table
from scipy.optimize import brentq
from torch import Tensor

from experiments.repetitions import FirstSeed, Jobs, Output, Repetitions, Result, Seeds
from lobal.inducing import select_inducing
from lobal.mixture.estimator import MixtureRegressor

SIZES = (2000, 8000)
COLUMNS = (2, 3, 5, 8)
METHODS = ("kmeans", "cells", "distributional", "svgd", "random")
SAMPLE, TARGET = 2.0, 5.0  # the exponents of the inputs and of the target
NEIGHBOUR = 4  # fewer are noisy, more reach far


def sample(n: int, d: int, exponent: float, generator: torch.Generator) -> Float[Tensor, "n d"]:
    """Inputs with the density exp(-exponent x_1) on the unit box."""
    X = torch.rand(n, d, dtype=torch.float64, generator=generator)
    X[:, 0] = -torch.log1p(X[:, 0] * math.expm1(-exponent)) / exponent
    return X


def likeliest_exponent(points: Float[Tensor, "m d"]) -> float:
    """The a of exp(-a x_1) on [0, 1] under which the first column is most likely: its mean is the expected one."""
    mean = points[:, 0].mean().item()
    return float(brentq(lambda a: 1.0 / a - 1.0 / math.expm1(a) - mean, 1e-3, 200.0))


def neighbour_slope(points: Float[Tensor, "m d"]) -> float:
    """The slope of the logarithm of the density of neighbours against -x_1."""
    radius = torch.cdist(points, points).kthvalue(NEIGHBOUR + 1, dim=1).values
    x, log_density = points[:, 0] - points[:, 0].mean(), -points.shape[1] * radius.log()
    return -(x @ log_density / (x @ x)).item()


def run(n: int, seed: int, *, m: int) -> Result:
    """Exponents and seconds in names such as "cells_exponent_2", "cells_neighbours_2" and "cells_seconds_2"."""
    result: Result = {"n": n, "seed": seed}
    for d in COLUMNS:
        generator = torch.Generator().manual_seed(seed)
        X = sample(n, d, SAMPLE, generator)
        weight = torch.exp((SAMPLE - TARGET) * X[:, 0])
        drawn = [neighbour_slope(sample(m, d, TARGET, generator)) for _ in range(8)]
        begun = time.process_time()
        MixtureRegressor(experts="sparse", n_inducing=m, random_state=seed).fit(X.numpy(), _labels(X, generator))
        result[f"fit_seconds_{d}"] = fit = time.process_time() - begun
        for method in METHODS:
            begun = time.process_time()
            points = select_inducing(X, m, method=method, weight=weight, generator=generator)
            seconds = time.process_time() - begun
            result[f"{method}_exponent_{d}"] = likeliest_exponent(points)
            result[f"{method}_neighbours_{d}"] = TARGET * neighbour_slope(points) / (sum(drawn) / len(drawn))
            result[f"{method}_seconds_{d}"], result[f"{method}_share_{d}"] = seconds, seconds / fit
    return result


def _labels(X: Float[Tensor, "n d"], generator: torch.Generator) -> Float[Tensor, " n"]:
    noise = torch.randn(len(X), dtype=X.dtype, generator=generator)
    return torch.sin(6.0 * X[:, 0].square()) + 0.2 * X[:, 1:].sum(1).square() + 0.1 * noise


def main(
    output: Output,
    seeds: Seeds = 3,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    m: Annotated[int, typer.Option(min=8, help="Number of inducing points.")] = 512,
    sizes: Annotated[str, typer.Option(help="Numbers of inputs.")] = ",".join(map(str, SIZES)),
) -> None:
    """Compare the density of inducing points with the one asked for."""
    torch.set_num_threads(1)
    numbers = [int(size) for size in sizes.split(",")]
    repetitions = Repetitions(
        experiment="density of inducing points in several columns: exponent asked for 5",
        settings={"m": m, "columns": COLUMNS, "methods": METHODS, "sample": SAMPLE, "target": TARGET},
        run=partial(run, m=m),
    )
    pairs = [(n, seed) for n in numbers for seed in range(first_seed, first_seed + seeds)]
    record = repetitions.complete(pairs, output, jobs=jobs)
    table = Table("n", "method", *(f"d = {d}" for d in COLUMNS), title="exponent (share of a fit)")
    for entry in record["summary"]:
        for method in METHODS:
            shown = [(entry[f"{method}_exponent_{d}"]["mean"], entry[f"{method}_share_{d}"]["mean"]) for d in COLUMNS]
            table.add_row(str(entry["n"]), method, *(f"{exponent:.2f} ({share:.3f})" for exponent, share in shown))
    Console().print(table)
