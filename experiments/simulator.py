"""The simulator of examples/simulator.py: the default learner beside random points of the same space.

Its five inputs are raw: two over decades, an angle, a whole number, a material, with a corner that is infeasible. Both
outputs are learned together and, for comparison, the temperature for itself. Errors are those at random feasible
points, relative to the standard deviation of the output there, and the root mean square of both; coverage is the share
of these points whose value lies within the model's interval of 95%.

OMP_NUM_THREADS=1 python -m experiments simulator --seeds 50 --output docs/results/simulator.json
"""

import importlib.util
import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray

from experiments.repetitions import FirstSeed, Jobs, Output, Repetitions, Result, Seeds, mean_and_error, print_summary
from lobal.active.frames import Table
from lobal.active.learner import ActiveLearner
from lobal.active.search_space import SearchSpace

PROGRAM = Path(__file__).parents[1] / "examples" / "simulator.py"
SIZES = (25, 50, 100)
N_TEST, PROBABILITY, OTHER_SEED = 4000, 0.95, 2**20
OUTPUTS, TOGETHER = ("temperature", "pressure"), "together"
TASKS: dict[str, tuple[str, ...]] = {"both": OUTPUTS, "alone": OUTPUTS[:1]}  # what is learned together
ARMS: dict[str, dict[str, Any]] = {"active": {}, "random": {"draw": "random", "exploration": 1.0}}


@cache
def program() -> ModuleType:
    """The simulator as a module; examples are files to copy, and no package."""
    spec = importlib.util.spec_from_file_location("simulator", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def simulated(table: Table, names: Sequence[str]) -> Float[ndarray, "n m"]:
    """The outputs of these names at the points of a table."""
    variables = [variable["name"] for variable in program().SPACE["variables"]]
    rows = zip(*(np.asarray(table[variable]).tolist() for variable in variables), strict=True)
    values = [program().simulated(*row) for row in rows]
    return np.array([[each[name] for name in names] for each in values])


def feasible_points(space: SearchSpace, seed: int) -> Mapping[str, ndarray]:
    """Random feasible points, as a table; those of the learner are other ones."""
    rng = np.random.default_rng([OTHER_SEED, seed])
    shares = rng.random((2 * N_TEST, len(space.variables)))
    codes = np.column_stack([each.drawn(share) for each, share in zip(space.variables, shares.T, strict=True)])
    return space.region.columns(codes[space.region.fulfilled(codes)][:N_TEST])


def campaign(names: tuple[str, ...], options: Mapping[str, Any], sizes: Sequence[int], seed: int) -> dict[str, float]:
    """Errors and coverages at all sizes, by names such as "temperature_error_100"."""
    space = SearchSpace.from_json(program().SPACE, outputs=names)
    table, found = feasible_points(space, seed), {}
    X, truth = space.encode(table), simulated(table, names)

    def evaluate(learner: ActiveLearner) -> None:
        assert learner.fitted is not None
        interval, n = learner.fitted.interval(X, PROBABILITY), learner.ledger.n_labels
        assert interval is not None
        errors = np.sqrt(np.square(learner.fitted.predict(X) - truth).mean(axis=0)) / truth.std(axis=0)
        covered = ((interval[0] <= truth) & (truth <= interval[1])).mean(axis=0)
        for name, error, share in zip(names, errors.tolist(), covered.tolist(), strict=True):
            found[f"{name}_error_{n}"], found[f"{name}_coverage_{n}"] = error, share
        found[f"{TOGETHER}_error_{n}"] = math.sqrt(np.square(errors).mean())

    learner = ActiveLearner(space, seed=seed, **options)
    learner.run(partial(simulated, names=names), sizes=sizes, callbacks=[evaluate])
    return found


def run(n: int, seed: int) -> Result:
    """Both arms, with both outputs and with the temperature alone."""
    result: Result = {"n": n, "seed": seed}
    for task, names in TASKS.items():
        for arm, options in ARMS.items():
            found = campaign(names, options, [size for size in SIZES if size <= n], seed)
            result |= {f"{task}_{arm}_{name}": value for name, value in found.items()}
    return result


def conclude(results: Sequence[Result]) -> dict[str, Any]:
    """Geometric means of errors, and of their ratios, by name; a standard error is that of the mean."""
    names = [name for name in (results[0] if results else {}) if "_active_" in name]
    errors = [name for name in names if "_error_" in name]
    both_arms = [each for name in errors for each in (name, name.replace("_active_", "_random_"))]
    ratios = {
        name.replace("_active_", "_ratio_"): geometric_mean(
            [each[name] / each[name.replace("_active_", "_random_")] for each in results]
        )
        for name in errors
    }
    means = {name: geometric_mean([each[name] for each in results]) for name in both_arms}
    return {"geometric_means": means | ratios, "coverage": coverage(results)}


def geometric_mean(values: Sequence[float]) -> dict[str, float | None]:
    """The geometric mean and its standard error, by the delta method; a single value has none."""
    logs = mean_and_error([math.log(value) for value in values])
    assert logs["mean"] is not None
    mean, error = math.exp(logs["mean"]), logs["standard_error"]
    return {"mean": mean, "standard_error": None if error is None else mean * error}


def coverage(results: Sequence[Result]) -> dict[str, Any]:
    """Mean coverage over outputs by arm, of all sizes and at every size."""
    names = [name for name in (results[0] if results else {}) if "_coverage_" in name]
    sizes = dict.fromkeys(name.rsplit("_", 1)[1] for name in names)
    groups = {arm: [name for name in names if f"_{arm}_" in name] for arm in ARMS if names}
    groups |= {
        f"{arm}_{size}": [name for name in groups[arm] if name.endswith(f"_{size}")] for arm in ARMS for size in sizes
    }
    return {
        group: mean_and_error([float(np.mean([each[name] for name in those])) for each in results])
        for group, those in groups.items()
    }


def main(
    output: Output,
    n: Annotated[int, typer.Option(min=SIZES[0], help="Number of labels.")] = SIZES[-1],
    seeds: Seeds = 20,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
) -> None:
    """Compare the default learner with random points on the simulator of the examples."""
    repetitions = Repetitions(
        experiment="the simulator of the examples: relative root mean squared errors and coverage of 95% intervals",
        settings={"n_test": N_TEST, "sizes": [size for size in SIZES if size <= n], "probability": PROBABILITY},
        run=run,
        conclude=conclude,
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds)]
    print_summary(repetitions.complete(pairs, output, jobs=jobs), n)
