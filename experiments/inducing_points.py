"""How many inducing points the Doppler function takes, and where they should lie: Sec. 5.1.

On labels of the superior density and on random ones, the mixture is fitted anew for every number of inducing points,
distributed as the training density p, as the LFC, or as sqrt(p LFC), Eq. (eq:optimizedIPdistribution); its gate's
points are distributed alike, 128 of them throughout. Other points are chosen one by one: by greedy fast forward
selection, as in the paper, and by the largest LFC times conditional variance.

python -m experiments inducing_points --n 32768 --seeds 20 --jobs 4 --device cuda \
    --output docs/results/inducing_points.json --figure docs/results/figures/inducing_points.png
"""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import torch
import typer
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from experiments.doppler import doppler_data
from experiments.doppler_active import START, campaign
from experiments.figures.models import curve_panels
from experiments.repetitions import (
    Device,
    Figure,
    FirstSeed,
    Jobs,
    Output,
    Repetitions,
    Result,
    Seeds,
    print_summary,
    values_by_seed,
)
from lobal.cli.checks import whole_numbers
from lobal.cli.demo import LEARNERS, N_TEST, Errors, errors_on_grid
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures, gaussian, squared_distances
from lobal.experts.features import StoredFeatures
from lobal.experts.leave_one_out import condition
from lobal.experts.svgp import FullCovariance, SparseExperts
from lobal.inducing.greedy import Covariance, fast_forward_points, variance_points
from lobal.inducing.random_points import random_points
from lobal.inducing.select import select_inducing
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.analytic.training import train
from lobal.mixture.estimator import MixtureRegressor
from lobal.report.campaign_figures import Curve
from lobal.report.figures import save_figure

SIZES = (32, 64, 128, 256, 512, 1024)  # m
N_INDUCING = 1024  # of the mixture that estimates the LFC
GROWTH = 8  # of a campaign from step to step: few fits lead to the superior density
MOST_CHOSEN = 256  # points given one by one; with more of them a kernel of one bandwidth has nothing left to explain
IN_USE = 0.01  # share of the points from which on a bandwidth of the ladder counts as used

ARMS = {"active": "superior density", "random": "random"}


class Reference(NamedTuple):
    """A training set, its density, and the mixture and the LFC at its inputs that were estimated from it."""

    X: Float[ndarray, "n 1"]
    y: Float[ndarray, " n"]
    density: Float[ndarray, " n"]
    model: MixtureRegressor
    complexity: Float[ndarray, " n"]

    @property
    def experts(self) -> SparseExperts:
        """The experts of the mixture."""
        experts = self.model.mixture_.experts
        assert isinstance(experts, SparseExperts)
        return experts

    def tensor(self, values: Float[ndarray, "..."]) -> Float[Tensor, "..."]:
        """Values as a tensor like the model's."""
        like = self.experts.whitened_mean
        return torch.as_tensor(values, dtype=like.dtype, device=like.device)

    def labelled(self) -> LabelledSet:
        """The training set in the model's units."""
        labels = self.tensor((self.y - self.model.label_mean_) / self.model.label_scale_)
        return LabelledSet(X=self.tensor(self.X), y=labels, weight=torch.ones_like(labels))


Weights: TypeAlias = Callable[[Reference], Float[ndarray, " n"]]
Choice: TypeAlias = Callable[[Reference, Sequence[int], torch.Generator], Mapping[int, Float[Tensor, "k 1"]]]

# Target densities of the inducing points over that of the training inputs, which they are chosen among.
TARGETS: Mapping[str, Weights] = {
    "p": lambda reference: np.ones_like(reference.density),
    "geometric": lambda reference: np.sqrt(reference.complexity / reference.density),
    "lfc": lambda reference: reference.complexity / reference.density,
}


def sizes_up_to(n: int) -> list[int]:
    """The sizes of the campaign: 512, 4096, 32768 ..., and n at the end."""
    sizes = [START]
    while GROWTH * sizes[-1] < n:
        sizes.append(GROWTH * sizes[-1])
    return [*(size for size in sizes if size < n), n]


def active_reference(n: int, seed: int, *, n_inducing: int, device: str) -> Reference:
    """n labels that were drawn from the superior density, and the model of the campaign in the end."""
    learner, _ = campaign("active", seed, sizes=sizes_up_to(n), n_inducing=n_inducing, device=device)
    X, y, candidate = learner.labelled
    model = learner.model
    assert model is not None  # sizes are above the smallest training set
    return Reference(X, y, learner.training_density()[candidate], model, model.local_complexity(X))


def random_reference(n: int, seed: int, *, n_inducing: int, device: str) -> Reference:
    """n uniform labels and the default model, its inducing points uniform as well."""
    X, y = doppler_data(n, seed)
    model = MixtureRegressor(n_inducing=n_inducing, device=device, random_state=seed).fit(X, y)
    return Reference(X, y, np.ones(n), model, model.local_complexity(X))


REFERENCES = {"active": active_reference, "random": random_reference}


def fitted_errors(reference: Reference, m: int, weight: Float[ndarray, " n"], seed: int) -> Errors:
    """Errors of the default mixture with m inducing points, fitted anew from beginning to end."""
    model = MixtureRegressor(n_inducing=m, device=reference.model.device, random_state=seed)
    return errors_on_grid(model.fit(reference.X, reference.y, inducing_weight=weight))


def with_points(reference: Reference, points: Float[Tensor, "m 1"]) -> MixtureRegressor:
    """The reference with its experts on the given inducing points: experts, gate and noise are learned anew.

    The ladder of bandwidths, lambda_E, and the gate's own inducing points stay, so that choices of points differ in
    nothing else.
    """
    old, labels = reference.experts, reference.labelled()
    features = WhitenedFeatures.at(
        points,
        bandwidths=old.features.bandwidths,
        shared_bandwidth=old.features.shared_bandwidth,
        kernel=old.features.kernel,
    )
    stored = StoredFeatures(features, labels.X)
    gate_features = reference.model.mixture_.gate.features
    trained = train(stored, labels, gate_features, old.hyperparameters, AnalyticSettings())
    conditioned = condition(stored, labels, trained.hyperparameters, trained.gate(labels.X))
    experts = SparseExperts(
        features=features,
        hyperparameters=trained.hyperparameters,
        whitened_mean=conditioned.whitened_mean,
        covariance=FullCovariance.best(conditioned.factor),
    )
    model = copy.copy(reference.model)
    model.mixture_ = replace(model.mixture_, experts=experts, gate=trained.gate)
    return model


def smallest_bandwidth(reference: Reference) -> Float[Tensor, "..."]:
    """The bandwidth of the first expert that the gate gives some of the points to."""
    mixture = reference.model.mixture_
    shares = mixture.gate(reference.tensor(reference.X)).mean(dim=0)
    return mixture.bandwidths[shares > IN_USE][0] * mixture.shared_bandwidth


def global_bandwidth(reference: Reference) -> Float[Tensor, "..."]:
    """The bandwidth of the best single Gaussian process, which the ladder is built around."""
    return reference.model.mixture_.shared_bandwidth


def covariance(reference: Reference, bandwidth: Float[Tensor, "..."]) -> Covariance:
    """A Gaussian process's prior covariance with one bandwidth and the mixture's lambda_E."""
    scale = reference.experts.hyperparameters.scale
    return lambda A, B: scale * gaussian(squared_distances(A / bandwidth, B / bandwidth))


def following(
    reference: Reference, sizes: Sequence[int], generator: torch.Generator, *, target: str
) -> dict[int, Float[Tensor, "k 1"]]:
    """Evenly spread points that follow a target density."""
    X, weight = reference.tensor(reference.X), reference.tensor(TARGETS[target](reference))
    return {m: select_inducing(X, m, generator=generator, weight=weight) for m in sizes}


def drawn(reference: Reference, sizes: Sequence[int], generator: torch.Generator) -> dict[int, Float[Tensor, "k 1"]]:
    """Training inputs at random."""
    return {m: random_points(reference.tensor(reference.X), m, generator=generator) for m in sizes}


def fast_forward(
    reference: Reference,
    sizes: Sequence[int],
    generator: torch.Generator,
    *,
    bandwidth: Callable[[Reference], Float[Tensor, "..."]],
) -> dict[int, Float[Tensor, "k 1"]]:
    """Greedy fast forward selection: the first m points are those of the threshold at which it ends with m.

    It ends with fewer where even without a threshold no point has anything to add.
    """
    del generator  # nothing is random
    labels, hyperparameters = reference.labelled(), reference.experts.hyperparameters
    points = fast_forward_points(
        labels.X,
        max(sizes),
        y=labels.y - hyperparameters.mean,
        kernel=covariance(reference, bandwidth(reference)),
        noise=hyperparameters.noise.item(),
    )
    return {m: points[:m] for m in sizes}


def complex_variance(
    reference: Reference, sizes: Sequence[int], generator: torch.Generator
) -> dict[int, Float[Tensor, "k 1"]]:
    """Greedy variance reduction with the LFC for its quality."""
    del generator  # nothing is random
    points = variance_points(
        reference.tensor(reference.X),
        max(sizes),
        weight=reference.tensor(reference.complexity),
        kernel=covariance(reference, global_bandwidth(reference)),
    )
    return {m: points[:m] for m in sizes}


CHOICES: Mapping[str, Choice] = {
    **{target: partial(following, target=target) for target in TARGETS},
    "drawn": drawn,
    "fast_forward": partial(fast_forward, bandwidth=global_bandwidth),
    "fast_forward_smallest": partial(fast_forward, bandwidth=smallest_bandwidth),
    "variance": complex_variance,
}

TITLES = {
    "p": "$p$",
    "geometric": r"$\sqrt{p \cdot \mathrm{LFC}}$",
    "lfc": "LFC",
    "drawn": "$p$, drawn at random",
    "fast_forward": "fast forward",
    "fast_forward_smallest": r"fast forward, $\sigma_1$",
    "variance": r"variance $\cdot$ LFC",
}


def fitted_results(reference: Reference, sizes: Sequence[int], seed: int) -> Iterator[tuple[str, int, Errors]]:
    """Target, number of inducing points and errors of the mixtures fitted anew."""
    for target, weights in TARGETS.items():
        weight = weights(reference)
        for m in sizes:
            yield target, m, fitted_errors(reference, m, weight, seed)


def given_results(reference: Reference, sizes: Sequence[int], seed: int) -> Iterator[tuple[str, int, Errors]]:
    """Choice, number of inducing points and errors of the mixtures that were given their points."""
    few = given_sizes(sizes)
    for name, choose in CHOICES.items() if few else ():
        for m, points in choose(reference, few, torch.Generator().manual_seed(seed)).items():
            yield name, m, errors_on_grid(with_points(reference, points))


def given_sizes(sizes: Sequence[int]) -> list[int]:
    """The numbers of inducing points for which choices are compared."""
    return [m for m in sizes if m <= MOST_CHOSEN]


def run(n: int, seed: int, *, sizes: Sequence[int], n_inducing: int, device: str) -> Result:
    """All errors of one seed, in columns such as "fitted_active_lfc_rmse_128" and "given_active_drawn_rmse_128"."""
    result: Result = {"n": n, "seed": seed}
    for arm in ARMS:
        begun = time.perf_counter()
        reference = REFERENCES[arm](n, seed, n_inducing=n_inducing, device=device)
        result[f"reference_{arm}_rmse"], result[f"reference_{arm}_max_error"] = errors_on_grid(reference.model)
        for how, results in {"fitted": fitted_results, "given": given_results}.items():
            for name, m, errors in results(reference, sizes, seed):
                result[f"{how}_{arm}_{name}_rmse_{m}"] = errors.rmse
                result[f"{how}_{arm}_{name}_max_error_{m}"] = errors.max_error
        result[f"seconds_{arm}"] = time.perf_counter() - begun
    return result


def curve(results: Sequence[Result], name: str, sizes: Sequence[int]) -> Curve:
    """RMSE (seeds, sizes) of the columns that begin so."""
    return Curve(sizes, values_by_seed(results, f"{name}_rmse", sizes))


def panels(results: Sequence[Result], sizes: Sequence[int]) -> dict[str, dict[str, dict[str, Curve]]]:
    """Curves by panel, choice of points and training set, for the figure."""
    drawn_panels = {
        "inducing points that follow a density": {
            TITLES[name]: {title: curve(results, f"fitted_{arm}_{name}", sizes) for arm, title in ARMS.items()}
            for name in TARGETS
        }
    }
    few = given_sizes(sizes)
    for arm, title in ARMS.items() if few else ():
        drawn_panels[f"given points, {title} training"] = {
            TITLES[name]: {title: curve(results, f"given_{arm}_{name}", few)} for name in CHOICES
        }
    return drawn_panels


def main(
    output: Output,
    n: Annotated[int, typer.Option(min=32, help="Labels of a training set.")] = 2**15,
    seeds: Seeds = 20,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    sizes: Annotated[str, typer.Option(help="Numbers of inducing points.")] = ",".join(map(str, SIZES)),
    n_inducing: Annotated[int, typer.Option(min=1, help="Those of the mixture that estimates the LFC.")] = N_INDUCING,
    device: Device = "cpu",
    figure: Figure = None,
) -> None:
    """Fit mixtures with few and many inducing points, placed in different ways, and compare their errors."""
    numbers = tuple(sorted({*whole_numbers(sizes)}))
    if numbers[0] < 1:
        raise ValueError(f"sizes must be above zero, got {sizes!r}")
    options: dict[str, Any] = {"sizes": numbers, "n_inducing": n_inducing, "device": device}
    repetitions = Repetitions(
        experiment="Doppler function, number and distribution of inducing points",
        settings=options
        | {"learner": LEARNERS["active"], "growth": GROWTH, "most_chosen": MOST_CHOSEN, "n_test": N_TEST},
        run=partial(run, **options),
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds)]
    record = repetitions.complete(pairs, output, jobs=jobs)
    results = [result for result in record["results"] if result["n"] == n]
    print_summary(record, n, "fitted", "given")
    if figure is not None:
        save_figure(curve_panels(panels(results, numbers), "inducing points $m$"), figure)
