"""The relative required sample size of the Doppler experiment by several estimators, from the records of both arms.

The paper's estimator, Eq. (eq:relSampleSizeGPRApprox), is the ratio of two errors at equal n to the power 1 / tau, and
its text names one value and no n. Here are the values at every size, averages over sizes, and other readings of
Def. (def:relSampleSize), all with jackknifed standard errors over pairs of seeds.

python -m experiments sample_size_estimators docs/results/doppler_paper.json docs/results/doppler_paper_random.json
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
import typer
from jaxtyping import Float
from numpy import ndarray

from experiments.doppler_curves import Arm
from experiments.repetitions import values_by_seed
from lobal.report.savings import Estimate

TAU = 0.5  # alpha is infinite
LARGE = 8192  # labels from which on n times the squared error hardly changes

Errors: TypeAlias = Float[ndarray, "seeds sizes"]
Estimator: TypeAlias = Callable[[Errors, Errors, Sequence[int]], float]  # rho from active and random errors


def at_largest(active: Errors, random: Errors, sizes: Sequence[int]) -> float:
    """At the largest size, from the mean squared errors."""
    del sizes
    return float(_ratios(active, random)[-1])


def at_largest_from_means(active: Errors, random: Errors, sizes: Sequence[int]) -> float:
    """At the largest size, from the means of the root mean squared errors."""
    del sizes
    return float((active[:, -1].mean() / random[:, -1].mean()) ** (1.0 / TAU))


def at_largest_by_seed(active: Errors, random: Errors, sizes: Sequence[int]) -> float:
    """At the largest size, the mean over seeds of rho of each."""
    del sizes
    return float(np.mean((active[:, -1] / random[:, -1]) ** (1.0 / TAU)))


def over_sizes(active: Errors, random: Errors, sizes: Sequence[int]) -> float:
    """The geometric mean over all sizes: the ratio of constants C_p of power laws n^-tau fitted to both curves."""
    del sizes
    return float(np.exp(np.log(_ratios(active, random)).mean()))


def over_large_sizes(active: Errors, random: Errors, sizes: Sequence[int]) -> float:
    """The same over large sizes; NaN if there are none."""
    large = np.array(sizes) >= LARGE
    return over_sizes(active[:, large], random[:, large], sizes) if large.any() else math.nan


def with_fitted_rate(active: Errors, random: Errors, sizes: Sequence[int]) -> float:
    """(C_active / C_random)^(1 / tau) with a common tau fitted to both curves."""
    n = np.log(sizes)
    curves = np.log([_pooled(active), _pooled(random)])
    tau = -float(((curves - curves.mean(axis=1, keepdims=True)) @ (n - n.mean())).sum() / (2.0 * n.var() * len(n)))
    return math.exp(float(curves[0].mean() - curves[1].mean()) / tau)


def by_equal_errors(active: Errors, random: Errors, sizes: Sequence[int]) -> float:
    """n' / n where n' active labels have the error of n random ones, the definition itself, at the largest n.

    Between sizes, errors are interpolated as powers of n.
    """
    n = np.log(sizes)
    needed = np.interp(-np.log(_pooled(random)[-1]), -np.log(_pooled(active)), n)
    return math.exp(float(needed - n[-1]))


class Reading(NamedTuple):
    """An estimator, and in words what it reads off."""

    words: str
    rho: Estimator


READINGS = {
    "largest": Reading("largest n, mean squared errors over seeds", at_largest),
    "largest_means": Reading("largest n, mean RMSE over seeds", at_largest_from_means),
    "largest_by_seed": Reading("largest n, mean over seeds of rho of each", at_largest_by_seed),
    "equal_errors": Reading("largest n, labels for equal errors", by_equal_errors),
    "large_sizes": Reading(f"power laws of rate 1/2 fitted from {LARGE} labels on", over_large_sizes),
    "all_sizes": Reading("power laws of rate 1/2 fitted to all sizes", over_sizes),
    "fitted_rate": Reading("power laws of one fitted rate, all sizes", with_fitted_rate),
}


def estimates(active: Errors, random: Errors, sizes: Sequence[int]) -> dict[str, Estimate]:
    """rho by every estimator, with its standard error."""
    return {name: jackknifed(reading.rho, active, random, sizes) for name, reading in READINGS.items()}


def jackknifed(estimator: Estimator, active: Errors, random: Errors, sizes: Sequence[int]) -> Estimate:
    """An estimate and its standard error, from leaving out every pair of seeds in turn; on the logarithm."""
    value = estimator(active, random, sizes)
    if len(active) < 2 or math.isnan(value):
        return Estimate(value, None)
    without = [estimator(*_without(seed, active, random), sizes) for seed in range(len(active))]
    return Estimate(value, value * math.sqrt((len(active) - 1) * float(np.var(np.log(without)))))


def _without(
    seed: int, active: Errors, random: Errors
) -> tuple[Float[ndarray, "fewer sizes"], Float[ndarray, "fewer sizes"]]:
    return np.delete(active, seed, axis=0), np.delete(random, seed, axis=0)


def paired_errors(active: Arm, random: Arm) -> tuple[Errors, Errors, list[int]]:
    """The errors of both arms at the sizes after the start, of the seeds that both have."""
    sizes = [size for size in active.sizes if size in random.sizes][1:]
    seeds = sorted({*active.seeds} & {*random.seeds})
    if not (sizes and seeds):
        raise ValueError(f"the arms share sizes {sizes} after the start and seeds {seeds}; both need some")
    rows = [[arm.seeds.index(seed) for seed in seeds] for arm in (active, random)]
    errors = [values_by_seed(arm.results, "rmse", sizes) for arm in (active, random)]
    return errors[0][rows[0]], errors[1][rows[1]], sizes


def _pooled(errors: Errors) -> Float[ndarray, " sizes"]:
    return np.asarray(np.sqrt(np.square(errors).mean(axis=0)))


def _ratios(active: Errors, random: Errors) -> Float[ndarray, " sizes"]:
    return np.asarray((_pooled(active) / _pooled(random)) ** (1.0 / TAU))


def main(
    active: Annotated[Path, typer.Argument(help="Results of the active arm.", exists=True, dir_okay=False)],
    random: Annotated[Path, typer.Argument(help="Results of the random arm.", exists=True, dir_okay=False)],
) -> None:
    """Print rho by every estimator."""
    pair = paired_errors(Arm.read(active), Arm.read(random))
    sizes = pair[2]
    print(f"{len(pair[0])} pairs of seeds, {sizes[0]} to {sizes[-1]} labels")
    for name, (value, error) in estimates(*pair).items():
        print(f"  {READINGS[name].words:52} {value:.3f}" + ("" if error is None else f" ± {error:.3f}"))
