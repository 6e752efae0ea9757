"""Greedy fast forward selection of inducing points for every expert, Fig. (fig:dopplerExperiment_ourIPsVsGFF).

Every expert has inducing points of its own, selected until none has more information than a threshold. The number of
those of the smallest bandwidth, which are the most, is compared with the number of points that all experts share, drawn
at random from the labels or spread by sqrt(p LFC). The paper finds that the greedy choice saves almost no points, that
their number is about proportional to 1 / sigma, and that they are uniformly distributed.

python -m experiments greedy_points --scale quick --into docs/results
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Annotated, Any, final

import numpy as np
import torch
import typer
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from experiments.doppler_active import campaign
from experiments.figures.greedy_points import ARMS, greedy_figure
from experiments.inducing_points import CHOICES, Reference, covariance, random_reference, with_points
from experiments.repetitions import Figure, FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary
from lobal.cli.checks import whole_numbers
from lobal.cli.demo import N_TEST, errors_on_grid
from lobal.core.kernels import WhitenedFeatures
from lobal.experts.features import StoredFeatures
from lobal.experts.leave_one_out import LeaveOneOut, condition, sparse_leave_one_out
from lobal.experts.svgp import SparseExperts
from lobal.inducing.greedy import Selection, fast_forward
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.analytic.training import fit_gate
from lobal.mixture.gate import Gate, gated_mean
from lobal.report.figures import save_figure

THRESHOLDS = (3.0, 2.5, 2.0, 1.5, 1.0, 0.1)  # epsilon_J
SIZES = "32,64,128,256,512,1024"
SHARED = ("drawn", "geometric")  # choices of points that all experts share
GROWTH = 8  # of the campaign
NEAR = 0.2  # below which points are counted; a fifth of them lies there if they are uniform


@final
@dataclass(frozen=True, kw_only=True)
class SeparatePoints:
    """A mixture whose experts have inducing points of their own."""

    reference: Reference
    experts: Sequence[SparseExperts]  # of one bandwidth each
    gate: Gate

    def predict(self, X: Float[ndarray, "n 1"]) -> Float[ndarray, " n"]:
        """Predicted labels."""
        inputs, model = self.reference.tensor(X), self.reference.model
        mean = gated_mean(self.gate(inputs), torch.cat([expert.mean(inputs) for expert in self.experts]))
        return np.asarray(model.label_mean_ + model.label_scale_ * mean.cpu().numpy())


def superior_reference(n: int, seed: int, *, n_inducing: int) -> Reference:
    """n labels that were drawn from the superior density, and the model of the campaign in the end."""
    sizes = [n // GROWTH**2, n // GROWTH, n]
    learner, _ = campaign("draws", seed, sizes=sizes, n_inducing=n_inducing, kernel="gaussian")
    (X, y, candidate), model = learner.labelled, learner.model
    assert model is not None  # sizes exceed the smallest training set
    return Reference(X, y, learner.training_density()[candidate], model, model.local_complexity(X))


def selections(reference: Reference, most: int) -> list[Selection]:
    """The greedy choice of every expert, down to the smallest of the thresholds."""
    labels, experts = reference.labelled(), reference.experts
    noise, mean = experts.hyperparameters.noise.item(), experts.hyperparameters.mean
    options: dict[str, Any] = {"y": labels.y - mean, "noise": noise, "threshold": min(THRESHOLDS)}
    widths = experts.features.bandwidths * experts.features.shared_bandwidth
    return [fast_forward(labels.X, most, kernel=covariance(reference, width), **options) for width in widths]


def selected(selection: Selection, threshold: float) -> list[int]:
    """The rows that a selection with this threshold ends with; one at least."""
    count = sum(1 for _ in takewhile(lambda information: information > threshold, selection.information))
    return selection.rows[: max(count, 1)]


def separate(reference: Reference, points: Sequence[Float[Tensor, "_ 1"]]) -> SeparatePoints:
    """The reference's ladder and hyperparameters with inducing points for every expert; the gate is fitted anew."""
    labels, old = reference.labelled(), reference.experts
    hyperparameters, gate_features = old.hyperparameters, reference.model.mixture_.gate.features
    features = [
        WhitenedFeatures.at(
            own, bandwidths=width[None], shared_bandwidth=old.features.shared_bandwidth, kernel=old.features.kernel
        )
        for own, width in zip(points, old.features.bandwidths, strict=True)
    ]
    stored = [StoredFeatures(each, labels.X) for each in features]
    predictions = [
        sparse_leave_one_out(each, labels, hyperparameters, condition(each, labels, hyperparameters)) for each in stored
    ]
    together = LeaveOneOut(*(torch.cat(parts) for parts in zip(*predictions, strict=True)))
    phi = gate_features(labels.X)[0]
    gate = fit_gate(gate_features, phi, labels, together, hyperparameters, AnalyticSettings()).gate
    weights = gate(labels.X)
    means = [
        condition(each, labels, hyperparameters, weights[:, number : number + 1]).whitened_mean
        for number, each in enumerate(stored)
    ]
    experts = [
        SparseExperts(features=each, hyperparameters=hyperparameters, whitened_mean=mean)
        for each, mean in zip(features, means, strict=True)
    ]
    return SeparatePoints(reference=reference, experts=experts, gate=gate)


def run(n: int, seed: int, *, sizes: Sequence[int], n_inducing: int) -> Result:
    """Errors in columns such as "random_greedy_rmse_0.1" (by threshold) and "random_drawn_rmse_128" (by number)."""
    references = {
        "superior": partial(superior_reference, n_inducing=n_inducing),
        "random": partial(random_reference, n_inducing=n_inducing, device="cpu"),
    }
    result: Result = {"n": n, "seed": seed}
    for arm in ARMS:
        reference = references[arm](n, seed)
        X, found = reference.tensor(reference.X), selections(reference, max(sizes))
        widths = reference.experts.features.bandwidths * reference.experts.features.shared_bandwidth
        result[f"{arm}_bandwidths"] = widths.reshape(-1).tolist()
        for threshold in THRESHOLDS:
            points = [X[selected(each, threshold)] for each in found]
            result[f"{arm}_greedy_rmse_{threshold}"] = errors_on_grid(separate(reference, points)).rmse
            result[f"{arm}_greedy_counts_{threshold}"] = [len(each) for each in points]
            result[f"{arm}_greedy_near_{threshold}"] = float((points[0] < NEAR).double().mean())
        for choice in SHARED:
            for m, shared in CHOICES[choice](reference, sizes, torch.Generator().manual_seed(seed)).items():
                result[f"{arm}_{choice}_rmse_{m}"] = errors_on_grid(with_points(reference, shared)).rmse
    return result


def main(
    output: Output,
    n: Annotated[int, typer.Option(min=640, help="Labels of a training set.")] = 2**15,
    sizes: Annotated[str, typer.Option(help="Numbers of inducing points.")] = SIZES,
    seeds: Seeds = 20,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    n_inducing: Annotated[int, typer.Option(min=1, help="Those of the mixture that estimates the LFC.")] = 512,
    figure: Figure = None,
) -> None:
    """Compare greedy inducing points of every expert with shared ones."""
    options: dict[str, Any] = {"sizes": whole_numbers(sizes), "n_inducing": n_inducing}
    repetitions = Repetitions(
        experiment="Doppler function, greedy inducing points of every expert",
        settings={**options, "thresholds": THRESHOLDS, "near": NEAR, "n_test": N_TEST},
        run=partial(run, **options),
    )
    record = repetitions.complete([(n, seed) for seed in range(first_seed, first_seed + seeds)], output, jobs=jobs)
    print_summary(record, n, "rmse", "near")
    if figure is not None:
        save_figure(greedy_figure(record["results"], THRESHOLDS, options["sizes"]), figure)
