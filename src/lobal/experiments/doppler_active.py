"""Active learning of the Doppler function, Sec. 5.1: the superior sampling scheme beside random test sampling.

python -m lobal.experiments.doppler_active --seeds 16 --jobs 16 --output docs/results/doppler_active.json
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console

from lobal.experiments.doppler import DOPPLER, N_VALIDATION, PAPER, doppler_data, errors_on_grid, paper_model
from lobal.experiments.repetitions import Repetitions, Result
from lobal.learner import ActiveLearner
from lobal.problems.spaces import Box

SIZES = (512, 1024, 2048, 4096)
# The test density's share in what the learner aims for: the learner's default, or all of it, which is random sampling.
EXPLORATION = {"active": 0.1, "random": 1.0}
# Sec. 5.1: fewer inducing points serve under active sampling, since they follow the complexity.
N_INDUCING = {"active": 512, "random": 1024}

Callback = Callable[[ActiveLearner], None]


class SeededOracle:
    """Noisy labels whose noise depends on the seed and on how many labels were bought before."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(np.random.SeedSequence([seed, 2]))

    def __call__(self, X: Float[ndarray, "m 1"]) -> Float[ndarray, " m"]:
        """Labels of the inputs."""
        return DOPPLER.labels(X[:, 0], self._rng)


class CampaignErrors(NamedTuple):
    """A learner's errors at the sizes it has passed."""

    rmse: dict[int, float]
    max_error: dict[int, float]


def campaign(
    arm: str,
    seed: int,
    *,
    sizes: Sequence[int] = SIZES,
    callbacks: Sequence[Callback] = (),
    **changes: Any,  # noqa: ANN401 - options of the model
) -> tuple[ActiveLearner, CampaignErrors]:
    """One campaign on [0, 1] with the paper's model, and its errors at every size."""
    learner = ActiveLearner(
        Box(0.0, 1.0),
        seed=seed,
        model=paper_model(seed, **{"n_inducing": N_INDUCING[arm], **changes}),
        validation=doppler_data(N_VALIDATION, seed, stream=1),
        exploration=EXPLORATION[arm],
    )
    errors = CampaignErrors({}, {})

    def measure(learner: ActiveLearner) -> None:
        assert learner.model is not None  # sizes are above the smallest training set
        found = errors_on_grid(learner.model)
        size = len(learner.labelled.y)
        errors.rmse[size], errors.max_error[size] = found.rmse, found.max_error

    learner.run(SeededOracle(seed), sizes=sizes, callbacks=[measure, *callbacks])
    return learner, errors


def run(n: int, seed: int, **changes: Any) -> Result:  # noqa: ANN401 - options of the model
    """Both arms up to n labels, in columns such as "active_rmse_1024"."""
    result: Result = {"n": n, "seed": seed}
    for arm in EXPLORATION:
        _, errors = campaign(arm, seed, sizes=[size for size in SIZES if size <= n], **changes)
        for size in errors.rmse:
            result[f"{arm}_rmse_{size}"] = errors.rmse[size]
            result[f"{arm}_max_error_{size}"] = errors.max_error[size]
    return result


def main(
    output: Annotated[Path, typer.Option(help="JSON file; results it already has are not computed again.")],
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 16,
    n: Annotated[int, typer.Option(help="Labels in the end.")] = SIZES[-1],
    jobs: Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")] = 1,
) -> None:
    """Repeat both arms over seeds and keep the errors in one JSON file."""
    console = Console()
    repetitions = Repetitions(
        experiment="Doppler function, superior against random test sampling, uniform start",
        command=f"python -m lobal.experiments.doppler_active --seeds {seeds} --jobs {jobs} --output {output}",
        settings={**asdict(PAPER), "n_inducing": N_INDUCING, "exploration": EXPLORATION, "sizes": list(SIZES)},
        run=run,
    )
    done = repetitions.complete(
        [(n, seed) for seed in range(seeds)],
        output,
        jobs=jobs,
        notify=lambda result: console.print(f"seed {result['seed']} done"),
    )
    for name, numbers in done["summary"][0].items():
        if "rmse" in name:
            console.print(f"{name}: {numbers['mean']:.4f} ± {numbers['standard_error'] or 0:.4f}")


if __name__ == "__main__":
    typer.run(main)
