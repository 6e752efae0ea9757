"""What tuning is worth and what it costs: models with nothing set, with tuning off, and with the paper's values.

On the Doppler function under random labels, by the error against the function and by seconds of CPU. The default model
has no validation labels; Adam has the paper's, 1024 beside the training set.

python -m experiments.tuning --n 2048 --seeds 8 --output docs/results/tuning.json
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from experiments.doppler import N_VALIDATION, doppler_data, errors_on_grid, paper_model
from experiments.repetitions import Repetitions, Result
from lobal.mixture.estimator import MixtureRegressor

MODELS: Mapping[str, Callable[[int], MixtureRegressor]] = {
    "default": lambda seed: MixtureRegressor(random_state=seed),
    "off": lambda seed: MixtureRegressor(tuning="off", random_state=seed),
    "full": lambda seed: MixtureRegressor(tuning="full", random_state=seed),
    "paper": lambda seed: paper_model(seed, tuning="off"),
    "adam_full": lambda seed: MixtureRegressor(engine="adam", tuning="full", random_state=seed),
}
TITLES = {
    "default": "MixtureRegressor()",
    "off": "tuning off",
    "full": "tuning in full",
    "paper": "Adam, the paper's values",
    "adam_full": "Adam, tuning in full",
}


def run(n: int, seed: int) -> Result:
    """Errors and seconds of all models."""
    sample, validation = doppler_data(n, seed), doppler_data(N_VALIDATION, seed, stream=1)
    result: Result = {"n": n, "seed": seed}
    for name, make in MODELS.items():
        model = make(seed)
        begun = time.process_time()
        model.fit(*sample, validation=validation if model.engine == "adam" else None)
        result[f"{name}_cpu_seconds"] = time.process_time() - begun
        result[f"{name}_rmse"] = errors_on_grid(model).rmse
    return result


def main(
    output: Annotated[Path, typer.Option(help="JSON file; results it already has are not computed again.")],
    n: Annotated[int, typer.Option(min=64, help="Labels.")] = 2048,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 8,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")] = 1,
) -> None:
    """Fit the Doppler function with tuning and without."""
    repetitions = Repetitions(
        experiment="Doppler function, random labels: errors and seconds with tuning and without",
        command=f"python -m experiments.tuning --n {n} --seeds {seeds} --first-seed {first_seed} --jobs {jobs}"
        f" --output {output}",
        settings={"n_validation": N_VALIDATION},
        run=run,
    )
    try:
        record = repetitions.complete([(n, seed) for seed in range(first_seed, first_seed + seeds)], output, jobs=jobs)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    numbers = next(entry for entry in record["summary"] if entry["n"] == n)
    table = Table("model", title=f"n = {n}, repetitions: {numbers['repetitions']}", title_justify="left")
    for column in ("RMSE", "CPU seconds"):
        table.add_column(column, justify="right")
    for name, title in TITLES.items():
        rmse, seconds = (numbers[f"{name}_{what}"]["mean"] for what in ("rmse", "cpu_seconds"))
        table.add_row(title, f"{rmse:.4f}", f"{seconds:.2f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
