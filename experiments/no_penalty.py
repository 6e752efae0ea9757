"""Active learning of the Doppler function without a penalty on small bandwidths, Appendix G.2.

As Fig. (fig:dopplerExperiment_noBWPen_dataset_LOB): the paper's mixture, engine and draws up to 2^12 labels, with theta
= 0 and with the paper's theta = 0.5. Without the penalty the gate takes noise for complexity: local bandwidths are far
too small where the function is flat, and the loop spends labels there.

python -m experiments no_penalty --scale quick --into docs/results
"""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray

from experiments.doppler import N_VALIDATION, PAPER, doppler_data, paper_model
from experiments.doppler_active import START, sizes_up_to
from experiments.figures.no_penalty import ARMS, FLAT, PLACES, without_penalty_figure
from experiments.repetitions import Device, Figure, FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary
from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Box
from lobal.cli.demo import N_TEST, DopplerOracle, errors_on_grid
from lobal.report.figures import save_figure

PENALTIES = dict(zip(ARMS, (0.0, PAPER.penalty), strict=True))
SHOWN = 4  # every so many-th label is kept for the figure
N_INDUCING = 512  # Sec. 5.1


def run(n: int, seed: int, *, start: int, n_inducing: int, max_epochs: int, device: str) -> Result:
    """Both campaigns, in columns such as "without_rmse_1024"."""
    result: Result = {"n": n, "seed": seed}
    for arm, penalty in PENALTIES.items():
        learner = ActiveLearner(
            Box(0.0, 1.0),
            seed=seed,
            model=paper_model(seed, penalty=penalty, n_inducing=n_inducing, max_epochs=max_epochs, device=device),
            validation=doppler_data(N_VALIDATION, seed, stream=1),
            draw="random",
            exploration=0.0,
        )
        errors = partial(_measure, result=result, arm=arm)
        learner.run(DopplerOracle(seed), sizes=sizes_up_to(n, start), callbacks=[errors])
        assert learner.model is not None  # sizes exceed the smallest training set
        result |= {f"{arm}_{name}": value for name, value in described(learner.model, *learner.labelled[:2]).items()}
    return result


def _measure(learner: ActiveLearner, result: Result, arm: str) -> None:
    errors, size = errors_on_grid(learner.model), len(learner.labelled.y)
    result |= {f"{arm}_{name}_{size}": value for name, value in errors._asdict().items()}


def described(
    model: Any,  # noqa: ANN401 - a fitted mixture
    X: Float[ndarray, "n 1"],
    y: Float[ndarray, " n"],
) -> dict[str, Any]:
    """Labels, prediction and LOB for the figure; the least LOB where the function is flat, and the labels there."""
    bandwidth, prediction = model.local_bandwidth(PLACES[:, None]), model.predict(PLACES[:, None])
    lists = {"inputs": X[::SHOWN, 0], "labels": y[::SHOWN], "local_bandwidth": bandwidth, "prediction": prediction}
    return {
        "least_flat_bandwidth": float(bandwidth[PLACES > FLAT].min()),
        "flat_share": float(np.mean(X[:, 0] > FLAT)),
        **{name: [float(f"{value:.5g}") for value in values] for name, values in lists.items()},
    }


def worst(results: Sequence[Result]) -> Result:
    """The repetition with the smallest local bandwidth where the function is flat."""
    return min(results, key=lambda result: float(result["without_least_flat_bandwidth"]))


def main(
    output: Output,
    n: Annotated[int, typer.Option(min=16, help="Labels at the end.")] = 2**12,
    start: Annotated[int, typer.Option(min=16, help="Uniform random labels at the beginning.")] = START,
    seeds: Seeds = 20,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    n_inducing: Annotated[int, typer.Option(min=1, help="Inducing points of the experts.")] = N_INDUCING,
    max_epochs: Annotated[int, typer.Option(min=1, help="Epochs of a training at most.")] = 1000,
    device: Device = "cpu",
    figure: Figure = None,
) -> None:
    """Repeat campaigns without and with the penalty, and draw the worst one without it."""
    options: dict[str, Any] = {"start": start, "n_inducing": n_inducing, "max_epochs": max_epochs, "device": device}
    repetitions = Repetitions(
        experiment="Doppler function, active learning without a penalty on small bandwidths",
        settings={**options, "penalties": PENALTIES, "flat_above": FLAT, "n_test": N_TEST},
        run=partial(run, **options),
    )
    record = repetitions.complete([(n, seed) for seed in range(first_seed, first_seed + seeds)], output, jobs=jobs)
    print_summary(record, n, "rmse", "flat")
    if figure is not None:
        save_figure(without_penalty_figure(worst(record["results"])), figure)
