"""Active learning of the Doppler function, Sec. 5.1: the superior sampling scheme beside random test sampling.

python -m lobal.experiments.doppler_active active --seeds 16 --jobs 16 --output docs/results/doppler_active_arm.json
python -m lobal.experiments.doppler_active random --seeds 16 --jobs 2 --output docs/results/doppler_random_arm.json
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
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

# A constant theta of 0.5 leaves a bias that outlasts the noise (docs/paper_map.md): it falls with n, the default.
PENALTY = None

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
        model=paper_model(seed, **{"n_inducing": N_INDUCING[arm], "penalty": PENALTY, **changes}),
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


def run(n: int, seed: int, *, arm: str, **changes: Any) -> Result:  # noqa: ANN401 - options of the model
    """One arm up to n labels, in columns such as "rmse_1024"."""
    _, errors = campaign(arm, seed, sizes=[size for size in SIZES if size <= n], **changes)
    columns = {f"rmse_{size}": value for size, value in errors.rmse.items()}
    return {"n": n, "seed": seed, **columns, **{f"max_error_{size}": v for size, v in errors.max_error.items()}}


def main(
    arm: Annotated[str, typer.Argument(help="active or random.")],
    output: Annotated[Path, typer.Option(help="JSON file; results it already has are not computed again.")],
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 16,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    n: Annotated[int, typer.Option(help="Labels in the end.")] = SIZES[-1],
    jobs: Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")] = 1,
) -> None:
    """Repeat one arm over seeds and keep its errors in one JSON file; seed by seed both arms start alike."""
    if arm not in EXPLORATION:
        raise typer.BadParameter(f"the arm must be one of {sorted(EXPLORATION)}, got {arm!r}")
    console = Console()
    settings = {**asdict(PAPER), "penalty": "0.5 min(1, sqrt(1024 / n))", "n_inducing": N_INDUCING[arm]}
    repetitions = Repetitions(
        experiment=f"Doppler function, {arm} sampling, uniform start",
        command=f"python -m lobal.experiments.doppler_active {arm} --seeds {seeds} --first-seed {first_seed} "
        f"--jobs {jobs} --output {output}",
        settings={**settings, "exploration": EXPLORATION[arm], "sizes": list(SIZES)},
        run=partial(run, arm=arm),
    )
    done = repetitions.complete(
        [(n, seed) for seed in range(first_seed, first_seed + seeds)],
        output,
        jobs=jobs,
        notify=lambda result: console.print(f"seed {result['seed']}: RMSE {result[f'rmse_{n}']:.4f}"),
    )
    for name, numbers in done["summary"][0].items():
        if "rmse" in name:
            console.print(f"{name}: {numbers['mean']:.4f} ± {numbers['standard_error'] or 0:.4f}")


if __name__ == "__main__":
    typer.run(main)
