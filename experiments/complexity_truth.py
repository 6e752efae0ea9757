"""How well the local complexity is found: its rank correlation with that of functions that are known.

The truth at an input is the curvature of the function there, the root mean square of the norm of its Hessian over a
ball of half the typical distance of labels, n^(-1/d) / 2. It is compared with 1 / local_bandwidth of the default model
by Spearman's rank correlation, at random inputs. Where the curvature vanishes at every turn of a wave, as that of the
chirps does, no model reaches one; `known_...` is the correlation of the truth with the frequency, which does not.

python -m experiments complexity_truth --seeds 5 --jobs 16 --output docs/results/complexity_truth.json \
    --figure docs/results/figures/complexity_truth.png
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Annotated, Any, NamedTuple, TypeAlias

import matplotlib.figure
import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from experiments.patch_size import PATCHES
from experiments.peers.problems import FUNCTIONS
from experiments.repetitions import Figure, FirstSeed, Jobs, Output, Repetitions, Result, Seeds
from lobal.cli.checks import whole_numbers
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.figures import LINES, save_figure

SIZES = (100, 200, 400, 800, 1600)
N_INPUTS = 2000  # at which true and estimated complexity are compared
NOISE_SHARE = 0.01  # of the labels' standard deviation
CLOUD = 64  # points of the ball around an input
STEP = 0.1  # of the finite differences, in radii of the ball
# Below this share of the largest, curvatures are equal: they are rounding errors, or tails of a Gaussian.
SMALLEST_CURVATURE = 1e-6
LABELS, INPUTS = 0, 1  # independent random streams of a repetition

Function: TypeAlias = Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]


class Known(NamedTuple):
    """A function, its number of columns and, where that is known, something that orders inputs by complexity."""

    function: Function
    columns: int
    order: Function | None = None


def _front2(X: Float[ndarray, "n 2"]) -> Float[ndarray, " n"]:
    """Steep across a curved line, smooth along it."""
    return np.asarray(np.tanh(25.0 * (X[:, 0] - 0.5 + 0.2 * np.sin(5.0 * X[:, 1]))) + X[:, 1])


def _front4(X: Float[ndarray, "n 4"]) -> Float[ndarray, " n"]:
    return np.asarray(np.tanh(12.0 * (X[:, :2].mean(1) - 0.5 + 0.2 * X[:, 2])) + np.sin(3.0 * X[:, 3]))


def _patch6(X: Float[ndarray, "n 6"]) -> Float[ndarray, " n"]:
    patch = np.sin(15.0 * X[:, 0]) * np.exp(-0.5 * np.square((X - 0.6) / 0.3).sum(1))
    return np.asarray(np.sin(3.0 * X[:, 0]) + X[:, 1] + 3.0 * patch)


def _jump4(X: Float[ndarray, "n 4"]) -> Float[ndarray, " n"]:
    return np.asarray(220.0 * (X[:, 0] + 0.3 * X[:, 1] > 0.7) + 20.0 * X[:, 2])


def _of_peers(name: str, columns: int | None = None, order: Function | None = None) -> Known:
    """A function of the comparison with peers; of more columns, only the first matter."""
    function, relevant, _ = FUNCTIONS[name]
    return Known(lambda X: function(X[:, :relevant], 0), columns or relevant, order)


def _chirp2_order(X: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """Its frequency falls with the distance from its centre."""
    return np.asarray(-np.linalg.norm(X[:, :2] - np.array([0.2, 0.3]), axis=1))


KNOWN: Mapping[str, Known] = {
    "chirp1": _of_peers("chirp1", order=lambda X: -X[:, 0]),
    "chirp2": _of_peers("chirp2", order=_chirp2_order),
    "patch2": Known(PATCHES["patch2"].function, 2),
    "peaks2": _of_peers("peaks2"),
    "front2": Known(_front2, 2),
    "patch3": Known(PATCHES["patch3"].function, 3),
    "front3": _of_peers("front3"),
    "patch4": _of_peers("patch4"),
    "front4": Known(_front4, 4),
    "chirp2_of_4": _of_peers("chirp2", columns=4, order=_chirp2_order),
    "jump4": Known(_jump4, 4),
    "patch6": Known(_patch6, 6),
    "front6": _of_peers("front6"),
    "chirp2_of_6": _of_peers("chirp2", columns=6, order=_chirp2_order),
}


def squared_hessian_norm(function: Function, X: Float[ndarray, "n d"], step: float) -> Float[ndarray, " n"]:
    """The squared Frobenius norm of the Hessian, by central differences."""
    h, middle = step * np.eye(X.shape[1]), 2.0 * function(X)
    total = np.zeros(len(X))
    for one in h:
        total += np.square(function(X + one) - middle + function(X - one))
    for one, other in combinations(h, 2):
        both, opposite = one + other, one - other
        mixed = function(X + both) + function(X - both) - function(X + opposite) - function(X - opposite)
        total += 2.0 * np.square(mixed / 4.0)  # an entry above the diagonal, and the one below
    return total / step**4


def curvature(
    function: Function, X: Float[ndarray, "n d"], radius: float, rng: np.random.Generator
) -> Float[ndarray, " n"]:
    """The root mean square of the norm of the Hessian over balls around the inputs, as far as they are in the cube."""
    n, d = X.shape
    total = np.zeros(n)
    for _ in range(CLOUD):
        direction = rng.standard_normal((n, d))
        distance = radius * rng.random((n, 1)) ** (1.0 / d)
        points = X + distance * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        total += squared_hessian_norm(function, np.clip(points, 0.0, 1.0), STEP * radius)
    found = np.sqrt(total / CLOUD)
    return np.asarray(np.maximum(found, SMALLEST_CURVATURE * found.max()))


def rank_correlation(a: Float[ndarray, " n"], b: Float[ndarray, " n"]) -> float:
    """Spearman's; zero where one of the two is the same everywhere, up to rounding, and orders nothing."""
    is_constant = any(np.ptp(values) <= 1e-9 * np.abs(values).max() for values in (a, b))
    return 0.0 if is_constant else float(spearmanr(a, b).statistic)


def run(n: int, seed: int, *, functions: Sequence[str]) -> Result:
    """Rank correlations in names such as "rank_chirp2" and "known_chirp2"."""
    result: Result = {"n": n, "seed": seed}
    for name in functions:
        function, d, order = KNOWN[name]
        rng = np.random.default_rng([seed, LABELS])
        X = rng.random((n, d))
        truth = function(X)
        y = truth + NOISE_SHARE * truth.std() * rng.standard_normal(n)
        model = MixtureRegressor(random_state=seed).fit(X, y)
        rng = np.random.default_rng([seed, INPUTS])
        inputs = rng.random((N_INPUTS, d))
        complexity = curvature(function, inputs, n ** (-1.0 / d) / 2.0, rng)
        result[f"rank_{name}"] = rank_correlation(1.0 / model.local_bandwidth(inputs), complexity)
        if order is not None:
            result[f"known_{name}"] = rank_correlation(order(inputs), complexity)
    return result


def correlation_figure(record: dict[str, Any], functions: Sequence[str]) -> matplotlib.figure.Figure:
    """Rank correlation against the number of labels, one panel per number of columns."""
    columns = sorted({KNOWN[name].columns for name in functions})
    figure = matplotlib.figure.Figure(figsize=(2.6 * len(columns), 4.4), layout="constrained")
    sizes = [entry["n"] for entry in record["summary"]]
    for axes, d in zip(figure.subplots(1, len(columns), sharey=True, squeeze=False)[0], columns, strict=True):
        names = [name for name in functions if KNOWN[name].columns == d]
        for name, colour in zip(names, LINES, strict=False):
            numbers = [entry[f"rank_{name}"] for entry in record["summary"]]
            errors = [number["standard_error"] or 0.0 for number in numbers]
            means = [number["mean"] for number in numbers]
            axes.errorbar(sizes, means, errors, color=colour, marker="o", markersize=4.0, capsize=2.5, label=name)
        axes.axhline(0.0, color="0.8", linewidth=0.8, zorder=0.0)
        axes.set(xscale="log", xlabel="labels $n$", title="1 column" if d == 1 else f"{d} columns")
        axes.set_xticks(sizes, labels=[str(n) for n in sizes], fontsize="small")
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.22))
    lowest = min(entry[f"rank_{name}"]["mean"] for entry in record["summary"] for name in functions)
    figure.axes[0].set(ylabel="rank correlation with the truth", ylim=(min(lowest, 0.0) - 0.1, 1.02))
    return figure


def main(
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of labels.")] = ",".join(map(str, SIZES)),
    functions: Annotated[str, typer.Option(help="Functions, separated by commas.")] = ",".join(KNOWN),
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    figure: Figure = None,
) -> None:
    """Compare the local bandwidth of the default model with the curvature of known functions."""
    chosen = tuple(functions.split(","))
    if unknown := [name for name in chosen if name not in KNOWN]:
        raise ValueError(f"functions must be among {', '.join(KNOWN)}, got {', '.join(unknown)}")
    repetitions = Repetitions(
        experiment="rank correlation of 1 / local_bandwidth with the curvature of the function",
        settings={"functions": chosen, "noise_share": NOISE_SHARE, "inputs": N_INPUTS},
        run=partial(run, functions=chosen),
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds) for n in whole_numbers(sizes)]
    record = repetitions.complete(pairs, output, jobs=jobs)
    table = Table("function", *(str(entry["n"]) for entry in record["summary"]), title=record["experiment"])
    for row in rows(record):
        table.add_row(*row)
    Console().print(table)
    if figure is not None:
        save_figure(correlation_figure(record, chosen), figure)


def rows(record: dict[str, Any]) -> list[list[str]]:
    """The functions of a record, with mean and standard error at every size."""
    return [
        [name, *(_shown(entry[f"rank_{name}"]) for entry in record["summary"])]
        for name in record["settings"]["functions"]
    ]


def _shown(number: dict[str, float | None]) -> str:
    error = number["standard_error"]
    return f"{number['mean']:.2f}" + ("" if error is None else f" ± {error:.2f}")
