"""Heteroscedastic noise, estimated from labels and compared with replicates held out.

The file's array Z holds several labels (replicates) of every row. A mixture is fitted to some replicates of some rows;
the noise variance that it estimates is compared, at the other rows, with the variance of all replicates. The superior
training density there should follow the noise: at alpha = infinity it is sqrt(v LFC q), so log p_sup minus the parts of
LFC and q is compared with the variance of the replicates too.

python -m experiments noise $LOBAL_DATA/ato.npz --seeds 4 --jobs 2 --output docs/results/noise_ato.json
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from jaxtyping import Float
from numpy import ndarray
from scipy.stats import spearmanr

from experiments.data_files import load_npz
from experiments.repetitions import Jobs, Output, Repetitions, Result, Seeds, print_summary
from lobal.active.mixture_surrogate import FittedMixtureSurrogate
from lobal.active.scoring import evaluated, scores_from
from lobal.active.spaces import Pool
from lobal.cli.checks import whole_numbers
from lobal.core.arrays import as_matrix
from lobal.mixture.estimator import MixtureRegressor

REPLICATES = "1,2,5"


class Replicates(NamedTuple):
    """Inputs, and several labels of each."""

    X: Float[ndarray, "n d"]
    Z: Float[ndarray, "n k"]


def load(data: str, replicates: Sequence[int]) -> Replicates:
    """The rows of an .npz file and their replicates, from which so many labels of a row are to be learned from."""
    X, _, extras = load_npz(data)
    if "Z" not in extras:
        raise ValueError(f"{data} must hold an array 'Z' of replicates, it holds X, y, {sorted(extras)}")
    Z = as_matrix(extras["Z"], name="Z").astype(np.float64)
    if not 1 <= min(replicates) <= max(replicates) <= Z.shape[1] or Z.shape[1] < 4:
        raise ValueError(f"replicates must be between 1 and {Z.shape[1]}, of four or more in {data}, got {replicates}")
    return Replicates(X.astype(np.float64), Z)


def run(n: int, seed: int, *, data: str, replicates: Sequence[int], n_inducing: int) -> Result:
    """Estimates from n rows at all others, in columns such as "rank_2" for two labels per row.

    rank: rank correlation with the true variance; ratio: estimated over true variance; error: leave-one-out RMSE;
    spread: largest over smallest variance; follows: correlation of the noise part of the superior density with the
    true variance; share: share of that part in the density.
    """
    X, Z = load(data, replicates)
    order = np.random.default_rng(seed).permutation(len(X))
    rows, rest = order[:n], order[n:]
    truth = Z[rest].var(axis=1, ddof=1)
    result: Result = {"n": n, "seed": seed, "attainable_rank": attainable_rank(Z[rest])}
    for k in replicates:
        inputs, labels = np.repeat(X[rows], k, axis=0), Z[rows, :k].reshape(-1)
        model = MixtureRegressor(noise="estimate", n_inducing=n_inducing, random_state=seed)
        found = model.fit(inputs, labels).noise_variance(X[rest])
        density = density_parts(model, X[rest], seed)
        result[f"rank_{k}"] = rank_correlation(found, truth)
        result[f"ratio_{k}"] = float(found.mean() / truth.mean())
        result[f"error_{k}"] = model.validation_error_
        result[f"spread_{k}"] = float(found.max() / found.min())
        result[f"follows_{k}"] = correlation(density.noise, np.log(truth))
        result[f"share_{k}"] = share_of_variance(density.noise, density.complexity)
    return result


class DensityParts(NamedTuple):
    """The parts of the log superior training density due to noise and complexity, up to constants."""

    noise: Float[ndarray, " n"]
    complexity: Float[ndarray, " n"]


def density_parts(model: MixtureRegressor, X: Float[ndarray, "n d"], seed: int) -> DensityParts:
    """The parts of a learner's target density with this model, if X were its pool and alpha infinite.

    The part of the noise is what remains without complexity and test density.
    """
    candidates = Pool(X).candidates(seed)
    scores = scores_from(
        *evaluated(FittedMixtureSurrogate(model, {}), candidates),
        torch.ones_like(candidates.test_density),
        candidates,
        smoothness=math.inf,
        dimension=model.intrinsic_dimension_,
    )
    noise = scores.superior.log() - 0.5 * scores.complexity.log() - 0.5 * candidates.test_density.log()
    return DensityParts(noise.numpy(), (0.5 * scores.complexity.log()).numpy())


def share_of_variance(part: Float[ndarray, " n"], other: Float[ndarray, " n"]) -> float:
    """The share of a part in the variance of the sum of both; the shares of the two add up to one."""
    total = np.var(part + other)
    return (
        0.0 if total == 0.0 else float(np.mean((part - part.mean()) * (part + other - (part + other).mean())) / total)
    )


def correlation(found: Float[ndarray, " n"], truth: Float[ndarray, " n"]) -> float:
    """Pearson's; zero for a constant."""
    return 0.0 if np.ptp(found) <= 1e-9 else float(np.corrcoef(found, truth)[0, 1])


def rank_correlation(found: Float[ndarray, " n"], truth: Float[ndarray, " n"]) -> float:
    """Spearman's; zero for a constant."""
    return 0.0 if np.ptp(found) <= 1e-12 * found.max() else float(spearmanr(found, truth).statistic)


def attainable_rank(Z: Float[ndarray, "n k"]) -> float:
    """About the rank correlation that the true variance itself would have with the variance of the replicates.

    The variances of two halves of the replicates correlate by r; those of all with the truth by sqrt(2 r / (1 + r))
    (Spearman-Brown).
    """
    half = Z.shape[1] // 2
    r = max(rank_correlation(Z[:, :half].var(axis=1), Z[:, half:].var(axis=1)), 0.0)
    return math.sqrt(2.0 * r / (1.0 + r))


def main(
    data: Annotated[str, typer.Argument(help=".npz file with inputs X, labels y and replicates Z (n, k).")],
    output: Output,
    n: Annotated[int, typer.Option(min=10, help="Training rows; the others are compared with.")] = 1000,
    replicates: Annotated[str, typer.Option(help="Labels of each row, separated by commas.")] = REPLICATES,
    seeds: Seeds = 4,
    jobs: Jobs = 1,
    n_inducing: Annotated[int, typer.Option(min=1, help="Inducing points of the experts.")] = 512,
) -> None:
    """Estimate the noise from some replicates, and compare it with those held out."""
    options: dict[str, Any] = {"replicates": whole_numbers(replicates), "n_inducing": n_inducing}
    rows = len(load(data, options["replicates"]).X)
    if n >= rows - 1:
        raise ValueError(f"n must leave rows to compare with, got {n} of {rows}")
    name = Path(data).stem
    repetitions = Repetitions(
        experiment=f"{name}: noise variance estimated from labels and by repeated labels held out",
        settings={"data": name, **options},
        run=partial(run, data=data, **options),
    )
    print_summary(repetitions.complete([(n, seed) for seed in range(seeds)], output, jobs=jobs), n)
