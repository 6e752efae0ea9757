"""What tuning gains and costs: models with nothing set, with tuning off, and with the paper's values.

Doppler function, random labels: error against the function, and CPU seconds. The default model has no validation
labels; Adam has the paper's, 1024 in addition to the training set.

python -m experiments tuning --n 2048 --seeds 8 --output docs/results/tuning.json
"""

import time
from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple

import typer

from experiments.doppler import N_VALIDATION, doppler_data, paper_model
from experiments.repetitions import FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary
from lobal.cli.demo import errors_on_grid
from lobal.mixture.estimator import MixtureRegressor


class Model(NamedTuple):
    """A model of a seed, and its name in the table."""

    title: str
    make: Callable[[int], MixtureRegressor]
    is_validated: bool = False  # whether it gets the validation labels


MODELS: Mapping[str, Model] = {
    "default": Model("MixtureRegressor()", lambda seed: MixtureRegressor(random_state=seed)),
    "off": Model("tuning off", lambda seed: MixtureRegressor(tuning="off", random_state=seed)),
    "full": Model("tuning in full", lambda seed: MixtureRegressor(tuning="full", random_state=seed)),
    "paper": Model("Adam, the paper's values", lambda seed: paper_model(seed, tuning="off"), True),
    "adam_full": Model(
        "Adam, tuning in full", lambda seed: MixtureRegressor(engine="adam", tuning="full", random_state=seed), True
    ),
}


def run(n: int, seed: int) -> Result:
    """Errors and seconds of all models."""
    sample, validation = doppler_data(n, seed), doppler_data(N_VALIDATION, seed, stream=1)
    result: Result = {"n": n, "seed": seed}
    for name, model in MODELS.items():
        begun = time.process_time()
        fitted = model.make(seed).fit(*sample, validation=validation if model.is_validated else None)
        result[f"{name}_cpu_seconds"] = time.process_time() - begun
        result[f"{name}_rmse"] = errors_on_grid(fitted).rmse
    return result


def main(
    output: Output,
    n: Annotated[int, typer.Option(min=64, help="Number of labels.")] = 2048,
    seeds: Seeds = 8,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
) -> None:
    """Fit the Doppler function with and without tuning."""
    repetitions = Repetitions(
        experiment="Doppler function, random labels: errors and seconds with tuning and without",
        settings={"n_validation": N_VALIDATION},
        run=run,
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds)]
    print_summary(repetitions.complete(pairs, output, jobs=jobs), n)
