"""Active learning of the Doppler function, Sec. 5.1: the superior sampling scheme and random test sampling.

The arm "active" is the default learner, "spread" the same with constant complexity, "draws" the paper's independent
draws from the superior density, and "random" random test sampling. The model is the default one, with no option set
except for the number of inducing points, or the paper's with Adam.

The arms "paper" and "paper_random" are the paper's experiment: `preset="paper"` of learner and model, with the values
that Sec. 5.1 gives or, with --hyper-init, with those that Algorithm 2 finds at the first size. They have a labelled
validation set.

python -m experiments doppler_active active --seeds 16 --jobs 2 --output docs/results/doppler_active_arm.json
python -m experiments doppler_active random --seeds 16 --jobs 2 --output docs/results/doppler_random_arm.json
python -m experiments doppler_active paper --n 32768 --seeds 20 --device cuda --output docs/results/doppler_paper.json
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from experiments.doppler import N_VALIDATION, doppler_data, oracle_rmse, paper_model
from experiments.repetitions import Device, FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary
from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Box
from lobal.cli.demo import LEARNERS, DopplerOracle, errors_on_grid
from lobal.mixture.adam.engine import Adam
from lobal.mixture.estimator import MixtureRegressor
from lobal.mixture.options import N_INDUCING as DEFAULT_N_INDUCING

START = 512  # uniform random labels, doubled until there are enough
# Sec. 5.1: fewer inducing points are needed under active sampling, since they follow the complexity.
N_INDUCING = {"active": 512, "draws": 512, "spread": 1024, "random": 1024, "paper": 512, "paper_random": 1024}
PAPER_ARMS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper"},
    "paper_random": {"preset": "paper", "exploration": 1.0},
}
DOPPLER_ARMS = {**LEARNERS, "draws": {"draw": "random"}, **PAPER_ARMS}

Callback = Callable[[ActiveLearner], None]


class CampaignErrors(NamedTuple):
    """A learner's numbers, by number of labels."""

    rmse: dict[int, float]
    max_error: dict[int, float]
    oracle_rmse: dict[int, float]  # with the best of the same bandwidths at every place; on request
    expected_savings: dict[int, float]  # 1 - the relative sample size of the superior density
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
    hyper_init: bool = False,
    with_oracle: bool = False,
    shrink_inducing: bool = False,
    callbacks: Sequence[Callback] = (),
    **changes: Any,  # noqa: ANN401 - options of the model
) -> tuple[ActiveLearner, CampaignErrors]:
    """One campaign on [0, 1] and its errors at every size."""
    model = _model(arm, seed, engine, hyper_init, {"n_inducing": N_INDUCING[arm], **changes})
    learner = ActiveLearner(
        Box(0.0, 1.0),
        seed=seed,
        model=model,
        validation=doppler_data(N_VALIDATION, seed, stream=1) if isinstance(model.engine, Adam) else None,
        shrink_inducing=shrink_inducing,
        **DOPPLER_ARMS[arm],
    )
    errors = CampaignErrors(*({} for _ in CampaignErrors._fields))
    begun, begun_cpu = time.perf_counter(), time.process_time()

    def measure(learner: ActiveLearner) -> None:
        nonlocal begun, begun_cpu
        model = learner.model
        assert model is not None  # sizes exceed the smallest training set
        X, y, _ = learner.labelled
        errors.seconds[len(y)] = time.perf_counter() - begun
        errors.cpu_seconds[len(y)] = time.process_time() - begun_cpu
        errors.n_inducing[len(y)] = DEFAULT_N_INDUCING if model.n_inducing is None else model.n_inducing
        errors.n_gate_inducing[len(y)] = model.n_gate_inducing
        errors.rmse[len(y)], errors.max_error[len(y)] = errors_on_grid(model)
        errors.expected_savings[len(y)] = 1.0 - learner.attainable()
        if with_oracle:
            errors.oracle_rmse[len(y)] = oracle_rmse(model, X, y)
        begun, begun_cpu = time.perf_counter(), time.process_time()

    learner.run(DopplerOracle(seed), sizes=sizes, callbacks=[measure, *callbacks])
    return learner, errors


def _model(arm: str, seed: int, engine: str, hyper_init: bool, options: dict[str, Any]) -> MixtureRegressor:
    """The model of an arm; of the paper's, Sec. 5.1 says what `hyper_init` would otherwise find."""
    if arm in PAPER_ARMS:
        if hyper_init:
            return MixtureRegressor(preset="paper", **options)
        return paper_model(seed, preset="paper", tuning="off", **options)
    if engine == "adam":
        # A constant theta of 0.5 leaves a bias that outlasts the noise (docs/paper_map.md): by default it falls with n.
        return paper_model(seed, **{"penalty": None, **options})
    return MixtureRegressor(**options)


def run(n: int, seed: int, *, arm: str, start: int = START, **options: Any) -> Result:  # noqa: ANN401 - of `campaign`
    """One arm up to n labels, in columns such as "rmse_1024"."""
    _, errors = campaign(arm, seed, sizes=sizes_up_to(n, start), **options)
    numbers = {f"{name}_{size}": value for name, column in errors._asdict().items() for size, value in column.items()}
    return {"n": n, "seed": seed, **numbers}


def main(
    arm: Annotated[str, typer.Argument(help="active, spread, draws, random, paper or paper_random.")],
    output: Output,
    seeds: Seeds = 16,
    first_seed: FirstSeed = 0,
    n: Annotated[int, typer.Option(min=16, help="Labels at the end.")] = 4096,
    start: Annotated[int, typer.Option(min=16, help="Labels at the beginning.")] = START,
    jobs: Jobs = 1,
    engine: Annotated[str, typer.Option(help="analytic, or adam, as the paper's arms have it.")] = "analytic",
    hyper_init: Annotated[bool, typer.Option(help="Paper's arms: Algorithm 2 at the first size.")] = False,
    n_inducing: Annotated[int | None, typer.Option(min=1, help="By default 512 (active) or 1024 (random).")] = None,
    oracle: Annotated[bool, typer.Option(help="Measure what the best bandwidths would have reached.")] = False,
    shrink_inducing: Annotated[bool, typer.Option(help="Reduce the inducing points at the second size.")] = False,
    device: Device = "cpu",
) -> None:
    """Repeat one arm over seeds and keep its errors in one JSON file; for equal seeds both arms start alike."""
    if arm not in DOPPLER_ARMS:
        raise ValueError(f"the arm must be one of {sorted(DOPPLER_ARMS)}, got {arm!r}")
    if hyper_init and arm not in PAPER_ARMS:
        raise ValueError(f"--hyper-init is for the arms {sorted(PAPER_ARMS)}, got {arm!r}")
    m = N_INDUCING[arm] if n_inducing is None else n_inducing
    engine = "adam" if arm in PAPER_ARMS else engine
    options: dict[str, Any] = {"engine": engine, "n_inducing": m, "device": device}
    options |= {"hyper_init": hyper_init} if arm in PAPER_ARMS else {}
    settings = {**options, "learner": DOPPLER_ARMS[arm], "shrink_inducing": shrink_inducing}
    settings |= {} if start == START else {"start": start}
    with_oracle = oracle and engine == "analytic"
    repetitions = Repetitions(
        experiment=f"Doppler function, {arm} sampling, uniform start",
        settings=settings,
        run=partial(run, arm=arm, start=start, with_oracle=with_oracle, shrink_inducing=shrink_inducing, **options),
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds)]
    print_summary(repetitions.complete(pairs, output, jobs=jobs), n, "rmse", "n_inducing", "n_gate_inducing")
