"""Other models trained on the superior training set: random forest, RBF network and kernel ridge regression.

The labels are those of an active campaign on the Doppler function; its mixture is not used otherwise. Each model is
compared with itself on equally many random labels.

python -m experiments other_models --n 4096 --seeds 16 --jobs 2 --output docs/results/other_models.json \
    --figure docs/results/figures/other_models.png
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import root_mean_squared_error
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from experiments.doppler import N_VALIDATION, Sample, doppler_data
from experiments.doppler_active import N_INDUCING, campaign
from experiments.figures.models import curve_panels
from experiments.rbf_network import fitted_networks
from experiments.repetitions import Figure, Jobs, Output, Repetitions, Result, Seeds, values_by_seed
from lobal.active.learner import ActiveLearner
from lobal.cli.demo import LEARNERS, N_TEST, errors_on_grid
from lobal.report.campaign_figures import Curve
from lobal.report.figures import save_figure
from lobal.report.savings import Savings, relative_sample_sizes

# Hyperparameters that are chosen by the validation labels, in all arms.
LEAF_SIZES = (1, 2, 3, 5, 8, 12, 20)
UNITS_PER_LABEL = (1 / 8, 1 / 4, 1 / 2)
OVERLAPS = (1.0, 2.0, 4.0, 8.0, 16.0)
RIDGES = (0.001, 0.01, 0.1, 1.0)  # a Gaussian process would take noise over signal variance, 1/49
BANDWIDTHS = tuple(10.0 ** (-3.0 + k / 4.0) for k in range(7))

# Active labels with and without importance weights q/p, which a locally adaptive model may not need.
ARMS = {"random": "random", "active": "active", "weighted": "active, weighted by q/p"}


class TrainingSet(NamedTuple):
    """Labels and the weight of each."""

    X: Float[ndarray, "n 1"]
    y: Float[ndarray, " n"]
    weight: Float[ndarray, " n"]


def forests(labels: TrainingSet, seed: int) -> Iterator[Any]:
    """Random forests, scikit-learn's defaults but for the size of their leaves."""
    for leaf in LEAF_SIZES:
        forest = RandomForestRegressor(min_samples_leaf=leaf, random_state=seed)
        yield forest.fit(labels.X, labels.y, sample_weight=labels.weight)


def networks(labels: TrainingSet, seed: int) -> Iterator[Any]:
    """RBF networks of different size, overlap and regularisation."""
    for share in UNITS_PER_LABEL:
        n_units = int(share * len(labels.y))
        yield from fitted_networks(*labels, n_units=n_units, overlaps=OVERLAPS, ridges=RIDGES, seed=seed)


def kernel_ridges(labels: TrainingSet, seed: int) -> Iterator[Any]:  # noqa: ARG001 - nothing random in them
    """Kernel ridge regressions with one Gaussian bandwidth: a model that is not locally adaptive."""
    for bandwidth, ridge in product(BANDWIDTHS, RIDGES):
        model = KernelRidge(kernel="rbf", gamma=0.5 / bandwidth**2, alpha=ridge)
        yield model.fit(labels.X, labels.y, sample_weight=labels.weight)


class Family(NamedTuple):
    """A kind of model: its name, and the candidates fitted to a training set with a seed."""

    title: str
    fitted: Callable[[TrainingSet, int], Iterator[Any]]


FAMILIES = {
    "forest": Family("random forest", forests),
    "network": Family("RBF network", networks),
    "ridge": Family("kernel ridge", kernel_ridges),
}


def sizes_up_to(n: int) -> list[int]:
    """n/8, n/4, n/2 and n: the uniform start of a campaign, doubled three times."""
    return [n // 8, n // 4, n // 2, n]


def training_sets(
    n: int,
    seed: int,
    **changes: Any,  # noqa: ANN401 - options of the campaign's model
) -> dict[str, dict[int, TrainingSet]]:
    """The labels of every arm at every size."""
    weighted: dict[int, TrainingSet] = {}

    def keep(learner: ActiveLearner) -> None:
        X, y, _ = learner.labelled
        weighted[len(y)] = TrainingSet(X, y, learner.importance_weights())

    campaign("active", seed, sizes=sizes_up_to(n), callbacks=[keep], **changes)
    X, y = doppler_data(n, seed)
    return {
        "random": {size: TrainingSet(X[:size], y[:size], np.ones(size)) for size in sizes_up_to(n)},
        "active": {size: labels._replace(weight=np.ones(size)) for size, labels in weighted.items()},
        "weighted": weighted,
    }


def best_validated(models: Iterable[Any], validation: Sample) -> Any:  # noqa: ANN401 - a fitted regression model
    """The model with the smallest error on the validation labels."""
    best, smallest = None, math.inf
    for model in models:
        error = root_mean_squared_error(model.predict(validation.X), validation.y)
        if error < smallest:
            best, smallest = model, error
    if best is None:
        raise ValueError("there must be at least one model with a finite validation error, got none")
    return best


def run(n: int, seed: int, **changes: Any) -> Result:  # noqa: ANN401 - as above
    """Errors of every model, arm and size of one seed, in columns such as "forest_active_rmse_1024"."""
    validation = doppler_data(N_VALIDATION, seed, stream=1)
    result: Result = {"n": n, "seed": seed}
    with threadpool_limits(1):  # jobs are processes of one thread each, and scikit-learn does not ask torch
        for arm, sets in training_sets(n, seed, **changes).items():
            for (size, labels), (name, family) in product(sets.items(), FAMILIES.items()):
                errors = errors_on_grid(best_validated(family.fitted(labels, seed), validation))
                result[f"{name}_{arm}_rmse_{size}"] = errors.rmse
                result[f"{name}_{arm}_max_error_{size}"] = errors.max_error
    return result


def errors_by_seed(results: Sequence[Result], name: str, arm: str) -> Float[ndarray, "seeds sizes"]:
    """RMSE of one model in one arm; all results have the same n."""
    return values_by_seed(results, f"{name}_{arm}_rmse", sizes_up_to(results[0]["n"]))


def savings(results: Sequence[Result], name: str, arm: str) -> Savings:
    """Relative sample sizes of one model after the uniform start, by the rate n^(-1/2) of an infinitely smooth target.

    For a model that learns more slowly, as a forest of piecewise constant trees does, the true relative sample size
    lies on the same side of one, but further from it than this says.
    """
    active, random = (errors_by_seed(results, name, which)[:, 1:] for which in (arm, "random"))
    return relative_sample_sizes(active, random, smoothness=math.inf, dimension=1.0)


def curves(results: Sequence[Result]) -> dict[str, dict[str, dict[str, Curve]]]:
    """Learning curves by the names of models and arms, for the figure."""
    sizes = sizes_up_to(results[0]["n"])
    return {
        family.title: {title: {"": Curve(sizes, errors_by_seed(results, name, arm))} for arm, title in ARMS.items()}
        for name, family in FAMILIES.items()
    }


def main(
    output: Output,
    n: Annotated[int, typer.Option(min=128, help="Labels at the end, a multiple of eight.")] = 4096,
    seeds: Seeds = 16,
    jobs: Jobs = 1,
    figure: Figure = None,
) -> None:
    """Train other models on active and on random labels, and print what the active ones saved."""
    if n % 8:
        raise ValueError(f"n must be a multiple of eight, got {n}")
    repetitions = Repetitions(
        experiment="Doppler function, other models trained on active and on random labels",
        settings={
            "n_inducing": N_INDUCING["active"],
            "learner": LEARNERS["active"],
            "n_validation": N_VALIDATION,
            "n_test": N_TEST,
            "forest": {"min_samples_leaf": LEAF_SIZES},
            "network": {"units_per_label": UNITS_PER_LABEL, "overlap": OVERLAPS, "ridge": RIDGES},
            "ridge": {"bandwidth": BANDWIDTHS, "ridge": RIDGES},
        },
        run=run,
    )
    record = repetitions.complete([(n, seed) for seed in range(seeds)], output, jobs=jobs)
    results = [result for result in record["results"] if result["n"] == n]
    for name, family in FAMILIES.items():
        for arm in ("active", "weighted"):
            print(f"{family.title}, {ARMS[arm]}: {savings(results, name, arm).verdict()}")
    if figure is not None:
        save_figure(curve_panels(curves(results), "labels $n$"), figure)
