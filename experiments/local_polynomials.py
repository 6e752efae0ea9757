"""Local polynomials and the mixture on the Doppler function, Sec. 5.1: what they estimate, and their learning curves.

Local polynomials of order 1 and 3 and the mixture learn from random labels, and from independent draws of the density
that each takes to be best, Eq. (eq:optimalSamplingFiniteLPS) and (eq:GeneralizedOptimalSampling). At the last size,
local bandwidth, complexity and density are also compared, all from the same random labels. The commands for seconds,
for minutes on one core, and for the paper's sizes and repetitions:

python -m experiments local_polynomials --start 16 --n 32 --candidates 64 --seeds 2 --output FILE.json
python -m experiments local_polynomials --n 2048 --seeds 4 --output FILE.json --figures FOLDER
python -m experiments local_polynomials --n 32768 --seeds 20 --candidates 32768 --jobs 16 --output FILE.json
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console
from rich.table import Table

from experiments.doppler_active import DOPPLER_ARMS, N_INDUCING, sizes_up_to
from experiments.figures.local_polynomials import curves_figure, estimates_figure
from experiments.repetitions import FirstSeed, Jobs, Output, Repetitions, Result, Seeds, mean_and_error, values_by_seed
from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Box
from lobal.baselines.local_polynomial import LocalPolynomials
from lobal.cli.demo import DopplerOracle, errors_on_grid
from lobal.core.superior_density import local_complexity, superior_density
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.figures import save_figure
from lobal.report.savings import relative_sample_sizes

START = 256  # labels at the beginning, doubled until there are enough
CANDIDATES = 2**11  # in the box; points are drawn in their cells
MIXTURE, ORDERS = "mixture", {"lps1": 1, "lps3": 3}  # local polynomials by their order Q
MODELS = (MIXTURE, *ORDERS)
ARMS = {"active": "draws", "random": "random"}  # by their names in `doppler_active`
# Intervals over which estimates are averaged: even on the logarithmic axis of the paper's figure, but for the first.
EDGES = np.concatenate([[0.0], np.geomspace(0.005, 1.0, 41)])
PER_INTERVAL = 8  # points
DIGITS = 4  # of estimates in the record


def smoothness(model: str) -> float:
    """alpha that a model is made for, Q + 1 of local polynomials."""
    return math.inf if model == MIXTURE else ORDERS[model] + 1.0


def campaign(model: str, arm: str, seed: int, *, sizes: Sequence[int], candidates: int) -> tuple[ActiveLearner, Result]:
    """A learner at its last size, and its errors at all sizes in columns such as "rmse_1024"."""
    name = ARMS[arm]
    surrogate = LocalPolynomials(ORDERS[model]) if model in ORDERS else MixtureRegressor(n_inducing=N_INDUCING[name])
    box = Box(0.0, 1.0, n_candidates=candidates)
    learner = ActiveLearner(box, seed=seed, model=surrogate, **DOPPLER_ARMS[name])
    errors: Result = {}

    def measure(learner: ActiveLearner) -> None:
        n = len(learner.labelled.y)
        errors[f"rmse_{n}"], errors[f"max_error_{n}"] = errors_on_grid(learner.model)
        errors[f"expected_{n}"] = learner.attainable()

    learner.run(DopplerOracle(seed), sizes=sizes, callbacks=[measure])
    return learner, errors


def estimates(learner: ActiveLearner) -> dict[str, list[float]]:
    """Local bandwidth, complexity and superior density over the intervals, from labels that are uniform on [0, 1].

    Bandwidths are geometric means, the other two densities with an integral of one.
    """
    fitted, alpha = learner.fitted, learner.settings.smoothness
    assert fitted is not None  # sizes exceed the smallest training set
    parts = (np.arange(PER_INTERVAL) + 0.5) / PER_INTERVAL
    x = (EDGES[:-1, None] + np.diff(EDGES)[:, None] * parts).reshape(-1, 1)
    bandwidth, noise = (torch.from_numpy(f(x)) for f in (fitted.local_bandwidth, fitted.noise_variance))
    ones, inside = torch.ones_like(noise), noise if fitted.is_noise_in_bandwidth else None
    complexity = local_complexity(bandwidth, ones, smoothness=alpha, dimension=1.0, noise=inside)
    density = superior_density(complexity, ones, noise, smoothness=alpha, dimension=1.0)
    return {
        "bandwidth": _rounded(np.exp(_interval_means(bandwidth.log()))),
        "complexity": _rounded(_as_density(complexity)),
        "density": _rounded(_as_density(density)),
    }


def _interval_means(values: Float[torch.Tensor, " n"]) -> Float[ndarray, " intervals"]:
    return np.asarray(values.numpy().reshape(-1, PER_INTERVAL).mean(axis=1))


def _as_density(values: Float[torch.Tensor, " n"]) -> Float[ndarray, " intervals"]:
    means = _interval_means(values)
    return np.asarray(means / (means @ np.diff(EDGES)))


def _rounded(values: Float[ndarray, " intervals"]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def run(n: int, seed: int, *, start: int, candidates: int) -> Result:
    """All models and arms up to n labels, in columns such as "lps3_active_rmse_1024", and the models' estimates."""
    result: Result = {"n": n, "seed": seed}
    for model in MODELS:
        for arm in ARMS:
            learner, errors = campaign(model, arm, seed, sizes=sizes_up_to(n, start), candidates=candidates)
            result |= {f"{model}_{arm}_{name}": value for name, value in errors.items()}
        result |= {f"{model}_{name}": values for name, values in estimates(learner).items()}  # of the random arm
    return result


def conclusions(results: Sequence[Result], *, sizes: Sequence[int]) -> dict[str, Any]:
    """What active labels save, Eq. (eq:relSampleSizeLPSApprox), and errors in units of the mixture's, at every size."""
    if not results:
        return {}
    rmse = {f"{model}_{arm}": values_by_seed(results, f"{model}_{arm}_rmse", sizes) for model in MODELS for arm in ARMS}
    savings = {}
    for model in MODELS:
        arms = (rmse[f"{model}_{arm}"][:, 1:] for arm in ARMS)
        found = relative_sample_sizes(*arms, smoothness=smoothness(model), dimension=1.0)
        errors = [None] * len(found.rho) if found.standard_error is None else found.standard_error.tolist()
        savings[model] = {
            str(size): {"mean": rho, "standard_error": error}
            for size, rho, error in zip(sizes[1:], found.rho.tolist(), errors, strict=True)
        }
    behind = {
        f"{model}_{arm}": {
            str(size): mean_and_error((rmse[f"{model}_{arm}"] / rmse[f"{MIXTURE}_{arm}"])[:, place].tolist())
            for place, size in enumerate(sizes)
        }
        for model in ORDERS
        for arm in ARMS
    }
    return {"relative_sample_size": savings, "rmse_over_mixture": behind}


def main(
    output: Output,
    n: Annotated[int, typer.Option(min=16, help="Labels at the end.")] = 2048,
    start: Annotated[int, typer.Option(min=16, help="Labels at the beginning.")] = START,
    candidates: Annotated[int, typer.Option(min=16, help="Candidates in the box.")] = CANDIDATES,
    seeds: Seeds = 4,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    figures: Annotated[Path | None, typer.Option(help="Folder for the two figures.")] = None,
) -> None:
    """Repeat all models and arms over seeds, print their errors and what active labels save, and draw the figures."""
    sizes = sizes_up_to(n, start)
    if len(sizes) < 2 or sizes[-1] != n:
        raise ValueError(f"n must be the start, {start}, doubled at least once, got {n}")
    repetitions = Repetitions(
        experiment="Doppler function: local polynomials of order 1 and 3 and the mixture, active and random labels",
        settings={"start": start, "candidates": candidates, "arms": {arm: DOPPLER_ARMS[ARMS[arm]] for arm in ARMS}},
        run=partial(run, start=start, candidates=candidates),
        conclude=partial(conclusions, sizes=sizes),
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds)]
    record = repetitions.complete(pairs, output, jobs=jobs)
    _print(record, sizes)
    if figures is not None:
        save_figure(estimates_figure(record, MODELS, EDGES), figures / "local_polynomials_estimates.png")
        save_figure(curves_figure(record, MODELS, sizes), figures / "local_polynomials_curves.png")


def rows(record: dict[str, Any], sizes: Sequence[int]) -> list[list[str]]:
    """RMSE of every model and arm, and relative sample sizes of every model, at every size."""
    entry = record["summary"][-1]
    errors = [[_shown(entry[f"{model}_{arm}_rmse_{size}"]) for model in MODELS for arm in ARMS] for size in sizes]
    rho = [
        ["" if size == sizes[0] else _shown(record["relative_sample_size"][model][str(size)]) for model in MODELS]
        for size in sizes
    ]
    return [[str(size), *rmse, *saved] for size, rmse, saved in zip(sizes, errors, rho, strict=True)]


HEADER = ["n", *(f"{model} {arm}" for model in MODELS for arm in ARMS), *(f"rho {model}" for model in MODELS)]


def _print(record: dict[str, Any], sizes: Sequence[int]) -> None:
    table = Table(*HEADER, title=record["experiment"])
    for row in rows(record, sizes):
        table.add_row(*row)
    Console().print(table)


def _shown(number: dict[str, float | None]) -> str:
    error = number["standard_error"]
    return f"{number['mean']:.3f}" + ("" if error is None else f" ± {error:.3f}")
