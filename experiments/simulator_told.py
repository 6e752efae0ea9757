"""What knowing the place would save on the simulator of examples/simulator.py: labels where the flow becomes turbulent.

Half of the squared error of the temperature lies in the tenth of the space where the flow becomes turbulent. Here some
share of the labels is drawn there, as nobody could who did not know the function, and the rest elsewhere; the model is
that of the default learner. Errors are relative to those of as many random points.

OMP_NUM_THREADS=1 python -m experiments simulator_told --seeds 30 --output docs/results/simulator_told.json
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float, Int
from numpy import ndarray

from experiments.repetitions import FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary
from experiments.simulator import feasible_points, geometric_mean, program, simulated
from lobal.active.learner import ActiveLearner
from lobal.active.search_space import SearchSpace

SHARES = (0.1, 0.2, 0.3, 0.5)  # of the labels that are drawn where the flow becomes turbulent
REACH = 0.25  # decades of flow to either side of the middle, within which 99% of the change happens
POOL = 2000  # of the feasible points; errors are measured at the others
OUTPUT = ("temperature",)
DRAW = 4  # random stream of the labels


def from_transition(table: Mapping[str, ndarray]) -> Float[ndarray, " n"]:
    """Decades of flow from the middle of the transition, which examples/simulator.py has at this flow and angle."""
    return np.asarray(np.log10(table["flow"]) - 1.6 + 0.004 * table["angle"])


def placed(distance: Float[ndarray, " N"], n: int, share: float, rng: np.random.Generator) -> Int[ndarray, " n"]:
    """n rows of a pool, a share of them within reach of the transition."""
    near, far = (np.flatnonzero(is_there) for is_there in (np.abs(distance) < REACH, np.abs(distance) >= REACH))
    number = round(share * n)
    return np.concatenate([rng.choice(near, number, replace=False), rng.choice(far, n - number, replace=False)])


def run(n: int, seed: int) -> Result:
    """Errors of n random labels, and of as many with every share of them in the transition."""
    space = SearchSpace.from_json(program().SPACE, outputs=OUTPUT)
    table, rng = feasible_points(space, seed), np.random.default_rng([seed, DRAW])
    truth, distance = simulated(table, OUTPUT), from_transition(table)[:POOL]
    designs = {"random": rng.choice(POOL, n, replace=False)}
    designs |= {f"share_{share:g}": placed(distance, n, share, rng) for share in SHARES}
    result: Result = {"n": n, "seed": seed}
    for name, rows in designs.items():
        learner = ActiveLearner(space, seed=seed)
        learner.tell({column: values[rows] for column, values in table.items()}, truth[rows])
        assert learner.fitted is not None
        predicted = learner.fitted.predict(space.encode({column: values[POOL:] for column, values in table.items()}))
        residual = predicted.reshape(-1) - truth[POOL:, 0]
        result[name] = float(np.sqrt(np.square(residual).mean()) / truth[POOL:].std())
    return result


def conclude(results: Sequence[Result]) -> dict[str, Any]:
    """Geometric means of the errors over those of random labels, by share."""
    names = [f"share_{share:g}" for share in SHARES]
    return {"ratios": {name: geometric_mean([each[name] / each["random"] for each in results]) for name in names}}


def main(
    output: Output,
    n: Annotated[int, typer.Option(min=20, max=POOL // 20, help="Number of labels.")] = 100,
    seeds: Seeds = 30,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
) -> None:
    """Errors of the simulator's temperature with labels placed where it changes most."""
    repetitions = Repetitions(
        experiment="the simulator of the examples, labels placed where the flow becomes turbulent",
        settings={"shares": list(SHARES), "reach": REACH, "pool": POOL},
        run=run,
        conclude=lambda results: conclude(results) if results else {},
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds)]
    print_summary(repetitions.complete(pairs, output, jobs=jobs), n)
