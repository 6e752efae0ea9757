"""Two outputs that are complex in different places: a common design beside random points and designs for one output.

The inputs are a square. The first output oscillates ever faster towards one corner, the second has a steep step on an
arc around the opposite corner. Every design chooses n points in the same batches; both
outputs are then learned from the labels at those points, and compared with the functions at random inputs.

OMP_NUM_THREADS=1 python -m experiments several_outputs --n 200 --seeds 5 --output docs/results/several_outputs.json
"""

from typing import Annotated, Any

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray

from experiments.repetitions import FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary
from lobal.active.learner import ActiveLearner
from lobal.active.outputs import Output as NamedOutput
from lobal.active.spaces import Box
from lobal.mixture.estimator import MixtureRegressor

N_TEST, N_CANDIDATES = 4000, 2**12
# Weights of the two outputs; none for random points.
DESIGNS: dict[str, tuple[float, float] | None] = {
    "random": None,
    "first": (1.0, 0.0),
    "second": (0.0, 1.0),
    "common": (1.0, 1.0),
}


def outputs(X: Float[ndarray, "n 2"]) -> Float[ndarray, "n 2"]:
    """Both functions, without noise."""
    near, far = np.hypot(*X.T), np.hypot(*(1.0 - X).T)
    first = np.sin(2.0 / (near + 0.15)) + 0.5 * X[:, 1]
    second = np.tanh((far - 0.35) / 0.04) + 0.5 * X[:, 0]
    return np.stack([first, second], axis=1)


def sizes_up_to(n: int) -> list[int]:
    """Batches of a tenth of the labels, after two tenths at the start."""
    return [n * tenths // 10 for tenths in range(2, 11)]


def chosen_points(design: str, n: int, seed: int) -> Float[ndarray, "n 2"]:
    """The inputs that a design labels."""
    weights = DESIGNS[design]
    if weights is None:
        return np.random.default_rng([seed, 1]).random((n, 2))
    names = [NamedOutput(name, weight) for name, weight in zip(("first", "second"), weights, strict=True)]
    learner = ActiveLearner(Box([0.0, 0.0], [1.0, 1.0], n_candidates=N_CANDIDATES, outputs=names), seed=seed)
    learner.run(outputs, sizes=sizes_up_to(n))
    return learner.labelled.X


def relative_errors(X: Float[ndarray, "n 2"], seed: int) -> list[float]:
    """Root mean squared errors of both outputs, in units of their spread, as a model of their labels has them."""
    test = np.random.default_rng([seed, 2]).random((N_TEST, 2))
    truth, labels = outputs(test), outputs(X)
    models = [MixtureRegressor(random_state=seed).fit(X, column) for column in labels.T]
    predicted = np.stack([model.predict(test) for model in models], axis=1)
    return list(np.sqrt(np.square(predicted - truth).mean(axis=0)) / truth.std(axis=0))


def run(n: int, seed: int) -> Result:
    """Errors of both outputs, and the larger of the two, under all designs."""
    result: Result = {"n": n, "seed": seed}
    for design in DESIGNS:
        errors = relative_errors(chosen_points(design, n, seed), seed)
        named = dict(zip(("first", "second"), map(float, errors), strict=True))
        result |= {f"{design}_design_{name}": error for name, error in named.items()}
        result[f"{design}_design_worse"] = max(named.values())
    return result


def main(
    output: Output,
    n: Annotated[int, typer.Option(min=50, help="Number of labels.")] = 200,
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
) -> None:
    """Compare designs for two outputs."""
    settings: dict[str, Any] = {"n_test": N_TEST, "n_candidates": N_CANDIDATES, "sizes": sizes_up_to(n)}
    repetitions = Repetitions(
        experiment="two outputs, complex in different places: relative root mean squared errors by design",
        settings=settings,
        run=run,
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds)]
    print_summary(repetitions.complete(pairs, output, jobs=jobs), n)
