"""Active learning of the Doppler function, Sec. 5.1: the superior sampling scheme beside random test sampling.

The model is the default one, with no option set but the number of inducing points, or the paper's under Adam.

python -m experiments.doppler_active active --seeds 16 --jobs 2 --output docs/results/doppler_active_arm.json
python -m experiments.doppler_active random --seeds 16 --jobs 2 --output docs/results/doppler_random_arm.json
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console

from experiments.doppler import (
    DOPPLER,
    N_VALIDATION,
    doppler_data,
    errors_on_grid,
    oracle_rmse,
    paper_model,
)
from experiments.repetitions import Repetitions, Result
from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Box
from lobal.mixture.estimator import MixtureRegressor
from lobal.mixture.options import N_INDUCING as USUAL_N_INDUCING

START = 512  # uniform random labels, doubled until there are enough
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
    oracle_rmse: dict[int, float]  # with the same bandwidths, had the best of them been known; only where asked for
    headroom: dict[int, float]  # what the learner expects of active learning
    seconds: dict[int, float]  # since the size before: labels, inducing points, fit, densities
    cpu_seconds: dict[int, float]  # likewise, of this process
    n_inducing: dict[int, float]  # m_E
    n_gate_inducing: dict[int, float]  # m_G


def sizes_up_to(n: int, start: int = START) -> list[int]:
    """start, 2 start, 4 start ... n; all of them at most n."""
    return [start * 2**k for k in range((n // start).bit_length())]


def campaign(
    arm: str,
    seed: int,
    *,
    sizes: Sequence[int] = (512, 1024, 2048, 4096),
    engine: str = "analytic",
    with_oracle: bool = False,
    shrink_inducing: bool = False,
    callbacks: Sequence[Callback] = (),
    **changes: Any,  # noqa: ANN401 - options of the model
) -> tuple[ActiveLearner, CampaignErrors]:
    """One campaign on [0, 1] and its errors at every size."""
    options = {"n_inducing": N_INDUCING[arm], **changes}
    is_adam = engine == "adam"
    learner = ActiveLearner(
        Box(0.0, 1.0),
        seed=seed,
        # A constant theta of 0.5 leaves a bias that outlasts the noise (docs/paper_map.md): by default it falls with n.
        model=paper_model(seed, **{"penalty": None, **options}) if is_adam else MixtureRegressor(**options),
        validation=doppler_data(N_VALIDATION, seed, stream=1) if is_adam else None,
        exploration=EXPLORATION[arm],
        shrink_inducing=shrink_inducing,
    )
    errors = CampaignErrors(*({} for _ in CampaignErrors._fields))
    begun, begun_cpu = time.perf_counter(), time.process_time()

    def measure(learner: ActiveLearner) -> None:
        nonlocal begun, begun_cpu
        model = learner.model
        assert model is not None  # sizes are above the smallest training set
        X, y, _ = learner.labelled
        errors.seconds[len(y)] = time.perf_counter() - begun
        errors.cpu_seconds[len(y)] = time.process_time() - begun_cpu
        errors.n_inducing[len(y)] = USUAL_N_INDUCING if model.n_inducing is None else model.n_inducing
        errors.n_gate_inducing[len(y)] = model.n_gate_inducing
        errors.rmse[len(y)], errors.max_error[len(y)] = errors_on_grid(model)
        errors.headroom[len(y)] = learner.headroom()
        if with_oracle:
            errors.oracle_rmse[len(y)] = oracle_rmse(model, X, y)
        begun, begun_cpu = time.perf_counter(), time.process_time()

    learner.run(SeededOracle(seed), sizes=sizes, callbacks=[measure, *callbacks])
    return learner, errors


def run(n: int, seed: int, *, arm: str, **options: Any) -> Result:  # noqa: ANN401 - those of `campaign`
    """One arm up to n labels, in columns such as "rmse_1024"."""
    _, errors = campaign(arm, seed, sizes=sizes_up_to(n), **options)
    numbers = {f"{name}_{size}": value for name, column in errors._asdict().items() for size, value in column.items()}
    return {"n": n, "seed": seed, **numbers}


def main(
    arm: Annotated[str, typer.Argument(help="active or random.")],
    output: Annotated[Path, typer.Option(help="JSON file; results it already has are not computed again.")],
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 16,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    n: Annotated[int, typer.Option(min=START, help="Labels in the end.")] = 4096,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")] = 1,
    engine: Annotated[str, typer.Option(help="analytic: the default model; adam: the paper's.")] = "analytic",
    n_inducing: Annotated[int | None, typer.Option(min=1, help="By default 512 (active) or 1024 (random).")] = None,
    oracle: Annotated[bool, typer.Option(help="Measure what the best bandwidths would have reached.")] = False,
    shrink_inducing: Annotated[bool, typer.Option(help="Look at the second size how few inducing points do.")] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Repeat one arm over seeds and keep its errors in one JSON file; seed by seed both arms start alike."""
    if arm not in EXPLORATION:
        raise typer.BadParameter(f"the arm must be one of {sorted(EXPLORATION)}, got {arm!r}")
    console = Console()
    m = N_INDUCING[arm] if n_inducing is None else n_inducing
    oracle = oracle and engine == "analytic"
    settings = {"engine": engine, "n_inducing": m, "exploration": EXPLORATION[arm], "device": device}
    repetitions = Repetitions(
        experiment=f"Doppler function, {arm} sampling, uniform start",
        command=f"python -m experiments.doppler_active {arm} --n {n} --seeds {seeds} --first-seed {first_seed}"
        f" --jobs {jobs} --engine {engine} --n-inducing {m}{' --oracle' * oracle}"
        f"{' --shrink-inducing' * shrink_inducing} --device {device} --output {output}",
        # Files from before the option are of the same settings without it.
        settings=settings | ({"shrink_inducing": True} if shrink_inducing else {}),
        run=partial(
            run,
            arm=arm,
            engine=engine,
            n_inducing=m,
            with_oracle=oracle,
            shrink_inducing=shrink_inducing,
            device=device,
        ),
    )
    done = repetitions.complete(
        [(n, seed) for seed in range(first_seed, first_seed + seeds)],
        output,
        jobs=jobs,
        notify=lambda result: console.print(f"seed {result['seed']}: RMSE {result[f'rmse_{n}']:.4f}"),
    )
    for name, numbers in done["summary"][0].items():
        if "rmse" in name or "n_inducing" in name or "n_gate_inducing" in name:
            console.print(f"{name}: {numbers['mean']:.4f} ± {numbers['standard_error'] or 0:.4f}")


if __name__ == "__main__":
    typer.run(main)
