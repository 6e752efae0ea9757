"""A deep Gaussian process trained on random, equidistant, superior and ALC labels of the Doppler function, Sec. 5.1.

As in Fig. (fig:dopplerExperiment_DGP_EquiVsUncertaintyVsPOpt) all training sets begin with 128 equidistant labels.
Random test sampling, equidistant inputs and superior sampling, by the gate of a mixture as in `mogpu`, know nothing of
the deep Gaussian process; active learning Cohn (ALC) goes by its variances, and its chains go on with every batch of
labels. For the errors the model is fitted anew at every size, alike in all arms.

python -m experiments deep_gp --scale paper --into docs/results
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray
from scipy.stats import qmc

from experiments.figures.errors import by_size
from experiments.figures.mogpu import BINS, PLACES, sampling_figure
from experiments.mogpu import gate_model
from experiments.repetitions import (
    Figure,
    FirstSeed,
    Jobs,
    Output,
    Repetitions,
    Result,
    Seeds,
    mean_and_error,
    print_summary,
)
from lobal.baselines.deep_gp import DeepGaussianProcess, alc
from lobal.cli.checks import whole_numbers
from lobal.cli.demo import DOPPLER, N_TEST, errors_on_grid
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.figures import save_figure

# From the first curve to the last; the figure tells four apart.
ARMS = {"random": "random", "equidistant": "equidistant", "alc": "ALC", "superior": "superior sampling"}
BATCH = 8  # labels of ALC between two updates of the chains
CANDIDATES = 512  # of ALC, one in each cell of [0, 1], drawn anew for every batch; its references too
UPDATE = {"burn_in": 5, "sweeps": 10, "thinning": 5}  # of the chains, by every batch
START = 128  # equidistant labels in all arms
DRAWS, NOISE, PLACED, MODEL = 16, 17, 18, 19  # random streams


class Task(NamedTuple):
    """One seed: what all arms share."""

    seed: int
    n: int  # labels at the end
    start: int
    sizes: Sequence[int]
    gate: MixtureRegressor
    options: dict[str, Any]  # of the deep Gaussian process

    def labels(self, x: Float[ndarray, " m"]) -> Float[ndarray, " m"]:
        """Labels of the first inputs; the noise of the i-th label is the same in all arms."""
        noise = np.random.default_rng([self.seed, NOISE]).standard_normal(self.n)[: len(x)]
        return np.asarray(DOPPLER(x) + np.sqrt(DOPPLER.noise) * noise)

    def generator(self, stream: int) -> np.random.Generator:
        """A random stream of this seed."""
        return np.random.default_rng([self.seed, stream])

    def model(self, **changes: Any) -> DeepGaussianProcess:  # noqa: ANN401 - any option of the model
        """An unfitted deep Gaussian process."""
        seed = int(self.generator(MODEL).integers(2**31 - 1))
        return DeepGaussianProcess(bounds=(0.0, 1.0), random_state=seed, **{**self.options, **changes})


Inputs: TypeAlias = Float[ndarray, " n"]


def equidistant_inputs(task: Task) -> Inputs:
    """Nested equidistant inputs; with a power of two of them all gaps are equal."""
    return np.asarray(qmc.Halton(1, scramble=False).random(task.n)[:, 0])


def random_inputs(task: Task) -> Inputs:
    """Random test sampling after the equidistant inputs."""
    drawn = task.generator(DRAWS).random(task.n - task.start)
    return np.concatenate([equidistant_inputs(task)[: task.start], drawn])


def superior_inputs(task: Task) -> Inputs:
    """Independent draws after the equidistant inputs, so that all inputs together follow the superior density.

    It is Eq. (eq:GeneralizedOptimalSamplingInfAlpha), which is LOB^(-1/2) here. Where there are more inputs than it
    asks for, no others are drawn.
    """
    cells = (np.arange(N_TEST) + 0.5) / N_TEST
    superior = task.gate.local_bandwidth(cells[:, None]) ** -0.5
    superior /= superior.sum()
    expected = np.full(N_TEST, task.start / N_TEST)  # numbers of inputs by cell
    drawn, inputs = task.generator(DRAWS), [equidistant_inputs(task)[: task.start]]
    for before, after in zip(task.sizes, task.sizes[1:], strict=False):
        missing = np.maximum(after * superior - expected, 0.0)
        missing *= (after - before) / missing.sum()
        ends = np.concatenate([[0.0], np.cumsum(missing)])
        inputs.append(np.interp(drawn.random(after - before) * ends[-1], ends, np.linspace(0.0, 1.0, N_TEST + 1)))
        expected += missing
    return np.concatenate(inputs)


def alc_inputs(task: Task) -> Inputs:
    """Inputs by active learning Cohn after the equidistant ones; the chains are updated after every batch."""
    x, placed = equidistant_inputs(task)[: task.start], task.generator(PLACED)
    model = task.model(warm_start=True).fit(x[:, None], task.labels(x))
    model.set_params(**UPDATE)
    while len(x) < task.n:
        candidates = (np.arange(CANDIDATES) + placed.random(CANDIDATES)) / CANDIDATES
        rows = alc(model, candidates[:, None], min(BATCH, task.n - len(x)))
        x = np.concatenate([x, candidates[rows]])
        model.fit(x[:, None], task.labels(x))
    return x


INPUTS: Mapping[str, Callable[[Task], Inputs]] = {
    "random": random_inputs,
    "equidistant": equidistant_inputs,
    "alc": alc_inputs,
    "superior": superior_inputs,
}


def errors_by_size(task: Task, x: Inputs, known: Mapping[int, Mapping[str, float]]) -> dict[int, Mapping[str, float]]:
    """Errors of the model with the first labels, at all sizes; those that are known are not computed again."""
    found = dict(known)
    for size in task.sizes:
        if size not in found:
            begun = time.process_time()
            model = task.model().fit(x[:size, None], task.labels(x[:size]))
            errors = errors_on_grid(model)._asdict()
            found[size] = {**errors, "noise": model.noise_, "fit_seconds": time.process_time() - begun}
    return found


def run(
    n: int,
    seed: int,
    *,
    sizes: Sequence[int],
    start: int,
    gate_labels: int,
    n_inducing: int,
    **options: Any,  # noqa: ANN401 - of the deep Gaussian process
) -> Result:
    """Errors in columns such as "alc_rmse_256", histograms of the n inputs, seconds, and the LOB of the gate."""
    gate = gate_model(gate_labels, seed, n_inducing=n_inducing)
    task = Task(seed, n, start, sizes, gate, options)
    result: Result = {"n": n, "seed": seed}
    at_start: dict[int, Mapping[str, float]] = {}  # where all arms are the same
    for arm, inputs in INPUTS.items():
        begun = time.process_time()
        x = inputs(task)
        result[f"{arm}_seconds"] = time.process_time() - begun
        errors = errors_by_size(task, x, at_start)
        at_start = {start: errors[start]}
        result |= {f"{arm}_{name}_{size}": value for size, row in errors.items() for name, value in row.items()}
        result[f"{arm}_counts"] = np.histogram(x, BINS, (0.0, 1.0))[0].tolist()
    bandwidth = gate.local_bandwidth(PLACES[:, None])
    return result | {"local_bandwidth": [float(f"{value:.5g}") for value in bandwidth]}


def ratios(rows: Sequence[Result], arm: str, reference: str, name: str) -> dict[str, dict[str, float | None]]:
    """Geometric means over seeds of the ratios of two arms' errors, by size, with standard errors."""
    found = {}
    for n in sorted({row["n"] for row in rows}):
        pairs = [(row[f"{arm}_{name}"], row[f"{reference}_{name}"]) for row in rows if row["n"] == n]
        logarithm = mean_and_error([float(np.log(one / other)) for one, other in pairs])
        ratio = float(np.exp(logarithm["mean"] or 0.0))
        error = logarithm["standard_error"]
        found[str(n)] = {"ratio": ratio, "standard_error": None if error is None else ratio * error}
    return found


def conclusion(results: Sequence[Result]) -> dict[str, Any]:
    """Ratios of errors by size, such as ratios["rmse"]["superior/random"]["256"]."""
    rows = by_size(results)
    pairs = [("superior", "random"), ("superior", "equidistant"), ("alc", "superior")]
    names = ("rmse", "max_error") if rows else ()
    return {"ratios": {name: {f"{a}/{b}": ratios(rows, a, b, name) for a, b in pairs} for name in names}}


def main(
    output: Output,
    sizes: Annotated[
        str, typer.Option(help="Numbers of labels, ascending; the first ones are equidistant.")
    ] = "128,256,512",
    seeds: Seeds = 16,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    gate_labels: Annotated[int, typer.Option(min=640, help="Labels of the mixture whose gate is used.")] = 2**13,
    n_inducing: Annotated[int, typer.Option(min=1, help="Its inducing points.")] = 256,
    chains: Annotated[int, typer.Option(min=1, help="Markov chains of every deep Gaussian process.")] = 4,
    ascent: Annotated[int, typer.Option(min=0, help="Steps of gradient ascent to their starts.")] = 200,
    burn_in: Annotated[int, typer.Option(min=0, help="Sweeps that are left out.")] = 50,
    sweeps: Annotated[int, typer.Option(min=1, help="Sweeps after these.")] = 150,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    figure: Figure = None,
) -> None:
    """Compare labels of greatest ALC with random, equidistant and superior ones in a deep Gaussian process."""
    numbers = whole_numbers(sizes)
    if list(numbers) != sorted(set(numbers)):
        raise ValueError(f"sizes must ascend, got {sizes}")
    model: dict[str, Any] = {"chains": chains, "ascent": ascent, "burn_in": burn_in, "sweeps": sweeps}
    options: dict[str, Any] = {
        "sizes": numbers,
        "start": numbers[0],
        "gate_labels": gate_labels,
        "n_inducing": n_inducing,
    }
    repetitions = Repetitions(
        experiment="Doppler function, a deep Gaussian process on random, equidistant, ALC and superior labels",
        settings={**options, **model, "batch": BATCH, "candidates": CANDIDATES, "update": UPDATE, "n_test": N_TEST},
        run=partial(run, **options, **model, device=device),
        conclude=conclusion,
    )
    pairs = [(numbers[-1], seed) for seed in range(first_seed, first_seed + seeds)]
    record = repetitions.complete(pairs, output, jobs=jobs)
    print_summary(record, numbers[-1], "rmse", "max_error", "seconds")
    if figure is not None:
        save_figure(sampling_figure(record["results"], ARMS), figure)
