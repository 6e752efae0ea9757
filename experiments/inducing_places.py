"""Where inducing points lie on the Doppler function, Fig. (fig:dopplerExperiment_IPdistribution_test_vs_opt).

128 points drawn at random from the test distribution, and as many by Stein variational gradient descent whose density
is sqrt(p LFC), Eq. (eq:optimizedIPdistribution), beside the labels they were found from.

python -m experiments inducing_places --scale quick --into docs/results
"""

from functools import partial
from typing import Annotated

import numpy as np
import torch
import typer
from matplotlib.axes import Axes

from experiments.doppler import doppler_data
from experiments.inducing_points import TARGETS, random_reference
from experiments.repetitions import Figure, FirstSeed, Jobs, Output, Repetitions, Result, Seeds
from lobal.cli.demo import DOPPLER
from lobal.inducing.random_points import random_points
from lobal.inducing.select import select_inducing
from lobal.report.figures import DATA, LINES, TRUTH, rows_figure, save_figure

CHOICES = {"random": "points at random", "optimised": r"points by $\sqrt{p \cdot \mathrm{LFC}}$"}
NEAR = 0.2  # below which points are counted


def run(n: int, seed: int, *, m: int, n_inducing: int) -> Result:
    """Both sets of points for n uniform labels, sorted, and the share of each below 0.2."""
    reference = random_reference(n, seed, n_inducing=n_inducing, device="cpu")
    X, weight = reference.tensor(reference.X), reference.tensor(TARGETS["geometric"](reference))
    generator = torch.Generator().manual_seed(seed)
    points = {
        "random": random_points(X, m, generator=generator),
        "optimised": select_inducing(X, m, method="svgd", generator=generator, weight=weight),
    }
    result: Result = {"n": n, "seed": seed}
    for name, places in points.items():
        x = np.sort(places[:, 0].cpu().numpy())
        result |= {f"{name}_points": x.round(6).tolist(), f"{name}_near": float(np.mean(x < NEAR))}
    return result


def draw_choice(axes: Axes, result: Result, *, name: str) -> None:
    """Labels, the function, and one set of points below them."""
    X, y = doppler_data(result["n"], result["seed"])
    shown = f"data, $n = {result['n']}$"
    axes.plot(X[:, 0], y, ".", color=DATA, markersize=2.5, markeredgewidth=0.0, label=shown)
    x = np.linspace(0.0, 1.0, 5000)[1:]
    axes.plot(x, DOPPLER(x), color=TRUTH, linewidth=0.8, label="truth")
    points, bottom = result[f"{name}_points"], 1.1 * y.min()
    axes.plot(points, np.full(len(points), bottom), "|", color=LINES[0], markersize=10.0, label=CHOICES[name])
    axes.set_ylabel("$y$")


def main(
    output: Output,
    n: Annotated[int, typer.Option(min=32, help="Uniform random labels.")] = 2048,
    m: Annotated[int, typer.Option(min=4, help="Inducing points.")] = 128,
    seeds: Seeds = 1,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    n_inducing: Annotated[int, typer.Option(min=1, help="Those of the mixture that estimates the LFC.")] = 512,
    figure: Figure = None,
) -> None:
    """Choose inducing points at random and by complexity, and draw them."""
    repetitions = Repetitions(
        experiment="Doppler function, places of inducing points",
        settings={"m": m, "n_inducing": n_inducing, "near": NEAR},
        run=partial(run, m=m, n_inducing=n_inducing),
    )
    record = repetitions.complete([(n, seed) for seed in range(first_seed, first_seed + seeds)], output, jobs=jobs)
    if figure is not None:
        (first, *_) = record["results"]
        X, _ = doppler_data(first["n"], first["seed"])
        save_figure(rows_figure(X, [partial(draw_choice, result=first, name=name) for name in CHOICES]), figure)
