"""Active learning and random sampling on pools of real data, and on a homogeneous control with nothing to gain.

Errors are those at rows held out, label noise included: with noisy labels, relative sample sizes are closer to one
than those of the noise-free function. The function of the control is known, and errors are measured against it.

python -m experiments pools $LOBAL_DATA/volcano.npz --jobs 2 --output docs/results/pool_volcano.json
python -m experiments pools $LOBAL_DATA/thermal_cavity_098.npz --density-key inputDensity --uniform-test \
    --jobs 2 --output docs/results/pool_cavity.json
python -m experiments pools stationary --jobs 2 --output docs/results/pool_stationary.json
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, final

import numpy as np
import typer
from jaxtyping import Float, Real
from numpy import ndarray
from sklearn.metrics import max_error, root_mean_squared_error

from experiments.data_files import load_npz
from experiments.repetitions import FirstSeed, Jobs, Output, Repetitions, Result, Seeds, print_summary, values_by_seed
from lobal.active.learner import ActiveLearner
from lobal.active.spaces import Pool
from lobal.cli.checks import whole_numbers
from lobal.cli.demo import LEARNERS
from lobal.core.arrays import as_column
from lobal.mixture.estimator import SMALLEST_TRAINING_SET, MixtureRegressor
from lobal.report.savings import Savings, relative_sample_sizes

SIZES = "256,512,1024,2048"
TEST_SHARE, LARGEST_TEST_SET = 0.2, 5000  # rows held out: enough for an error to two or three percent
# Independent random streams of a repetition, in addition to the learner's.
SPLIT, FUNCTION = 0, 1

STATIONARY = "stationary"  # the control's name on the command line
STATIONARY_BANDWIDTH = 0.1  # about a hundred bumps in the unit square, which 256 labels begin to resolve
STATIONARY_NOISE = 0.1  # standard deviation of the labels' noise; the function's is one
STATIONARY_ROWS = 20_000
STATIONARY_WAVES = 1000  # random Fourier features; enough for a practically Gaussian sample


class Problem(NamedTuple):
    """Rows that can be labelled, and the values that predictions are compared with: the function itself if known."""

    X: Real[ndarray, "n d"]
    y: Float[ndarray, " n"]
    truth: Float[ndarray, " n"]
    density: Float[ndarray, " n"] | None = None  # p_X at the rows; estimated where it is not known


class Split(NamedTuple):
    """A pool with its labels, and the rows held out to measure errors on."""

    pool: Pool
    y: Float[ndarray, " N"]
    X_test: Real[ndarray, "m d"]
    truth: Float[ndarray, " m"]
    weight: Float[ndarray, " m"]  # of the test rows, proportional to q / p_X


@final
@dataclass(frozen=True, kw_only=True)
class PoolSettings:
    """Everything that a repetition depends on, except for its seed."""

    data: str  # an .npz file, or the control by its name
    sizes: tuple[int, ...]  # numbers of labels n_0 < n_1 < ...
    n_inducing: int = 512
    density_key: str | None = None  # array of the file that holds p_X; estimated from the pool by default
    uniform_test: bool = False  # whether q is uniform; the pool's density by default

    def __post_init__(self) -> None:
        if len(self.sizes) < 2 or self.sizes[0] < SMALLEST_TRAINING_SET or (np.diff(self.sizes) <= 0).any():
            raise ValueError(
                f"sizes must be two or more ascending numbers of labels from {SMALLEST_TRAINING_SET} on, "
                f"got {list(self.sizes)}"
            )
        if self.data == STATIONARY and self.density_key is not None:
            raise ValueError(f"the control {STATIONARY!r} has no arrays, got density_key={self.density_key!r}")
        if self.uniform_test and self.density_key is None:
            raise ValueError(
                "a uniform test density needs the density of the file's rows as weights of the test errors; name its "
                "array with --density-key"
            )

    @property
    def name(self) -> str:
        """The name of the file without folder and suffix, or that of the control."""
        return Path(self.data).stem

    def problem(self, seed: int) -> Problem:
        """The file's rows, or the control of that seed."""
        if self.data == STATIONARY:
            return stationary_problem(seed)
        X, y, extras = load_npz(self.data)
        if self.density_key is None:
            return Problem(X, y, y)
        if self.density_key not in extras:
            raise ValueError(
                f"{self.data} has no array {self.density_key!r} in addition to X and y, only {sorted(extras)}"
            )
        values = extras[self.density_key]
        column = values[:, 0] if values.shape == (len(X), 1) else values
        return Problem(X, y, y, as_column(column, name=self.density_key, length=len(X), positive=True))

    def split(self, seed: int) -> Split:
        """The seed's test set, a random share of the rows, and the pool of all others."""
        X, y, truth, density = self.problem(seed)
        n_test = min(round(TEST_SHARE * len(y)), LARGEST_TEST_SET)
        order = _generator(seed, SPLIT).permutation(len(y))
        test, rest = order[:n_test], np.sort(order[n_test:])
        if len(rest) < self.sizes[-1]:
            raise ValueError(
                f"{self.name} leaves a pool of {len(rest)} rows and {n_test} to test on, fewer than the "
                f"{self.sizes[-1]} labels asked for"
            )
        pool = Pool(
            X[rest],
            density=None if density is None else density[rest],
            test_density="uniform" if self.uniform_test else "pool",
        )
        # The test rows follow p_X. Drawing them uniformly instead would empty the pool where its density is low.
        weight = 1.0 / density[test] if self.uniform_test and density is not None else np.ones(n_test)
        return Split(pool, y[rest], X[test], truth[test], weight)


def stationary_problem(seed: int, *, rows: int = STATIONARY_ROWS) -> Problem:
    """Noisy labels of a Gaussian process of one bandwidth on the unit square, another one for every seed.

    A sum of waves with random directions and phases, whose covariance is that of the Gaussian kernel: no place is more
    complex than another, and no density is better than random test sampling by more than chance.
    """
    generator = _generator(seed, FUNCTION)
    X = generator.uniform(size=(rows, 2))
    frequencies = generator.standard_normal((2, STATIONARY_WAVES)) / STATIONARY_BANDWIDTH
    phases = generator.uniform(0.0, 2.0 * np.pi, STATIONARY_WAVES)
    truth = math.sqrt(2.0 / STATIONARY_WAVES) * np.cos(X @ frequencies + phases).sum(axis=1)
    return Problem(X, truth + STATIONARY_NOISE * generator.standard_normal(rows), truth)


def campaign(arm: str, seed: int, settings: PoolSettings, split: Split) -> Iterator[tuple[int, ActiveLearner]]:
    """One arm: every size, and the learner with that many labels."""
    learner = ActiveLearner(
        split.pool, seed=seed, model=MixtureRegressor(n_inducing=settings.n_inducing), **LEARNERS[arm]
    )
    for size in settings.sizes:
        rows = learner.ask(size - len(learner.labelled.y))
        learner.tell(rows, split.y[rows])
        yield size, learner


def run(n: int, seed: int, *, settings: PoolSettings) -> Result:
    """All arms, in columns such as "active_rmse_512"; expected savings of the active arm."""
    split = settings.split(seed)
    result: Result = {"n": n, "seed": seed}
    for arm in LEARNERS:
        for size, learner in campaign(arm, seed, settings, split):
            assert learner.model is not None  # sizes are above the smallest training set
            prediction = learner.model.predict(split.X_test)
            result[f"{arm}_rmse_{size}"] = root_mean_squared_error(prediction, split.truth, sample_weight=split.weight)
            result[f"{arm}_max_error_{size}"] = max_error(prediction, split.truth)
            if arm == "active":
                result[f"expected_savings_{size}"] = 1.0 - learner.attainable()
                result["intrinsic_dimension"] = learner.settings.dimension
    return result


def savings_of(results: Sequence[Result], sizes: Sequence[int]) -> Savings:
    """Relative sample sizes at every size after the first; the arms share their seeds, so they go in pairs."""
    arms = (values_by_seed(results, f"{arm}_rmse", sizes[1:]) for arm in ("active", "random"))
    dimension = float(np.mean([result["intrinsic_dimension"] for result in results]))
    return relative_sample_sizes(*arms, smoothness=math.inf, dimension=dimension)


def conclusion(results: Sequence[Result], *, sizes: Sequence[int]) -> dict[str, Any]:
    """The savings as the record keeps them: rho and its standard error at every size after the first, and overall."""
    if not results:
        return {}
    savings = savings_of(results, sizes)
    return {
        "savings": {
            "sizes": list(sizes[1:]),
            "rho": savings.rho.tolist(),
            "standard_error": None if savings.standard_error is None else savings.standard_error.tolist(),
            "overall": savings.overall._asdict(),
            "expected_savings": values_by_seed(results, "expected_savings", sizes[1:]).mean(axis=0).tolist(),
            "verdict": savings.verdict(),
        }
    }


def _generator(seed: int, part: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))


def main(
    data: Annotated[str, typer.Argument(help=f".npz file with inputs X and labels y, or {STATIONARY!r}, the control.")],
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of labels, separated by commas.")] = SIZES,
    seeds: Seeds = 8,
    first_seed: FirstSeed = 0,
    jobs: Jobs = 1,
    n_inducing: Annotated[int, typer.Option(min=1, help="Inducing points of the experts, in both arms.")] = 512,
    density_key: Annotated[
        str | None, typer.Option(help="Array of the file with the density of its rows; estimated by default.")
    ] = None,
    uniform_test: Annotated[
        bool, typer.Option("--uniform-test", help="Test errors count equally everywhere, not as often as rows occur.")
    ] = False,
) -> None:
    """Repeat all arms over seeds, keep their errors in one JSON file, and print the savings."""
    settings = PoolSettings(
        data=data,
        sizes=tuple(whole_numbers(sizes)),
        n_inducing=n_inducing,
        density_key=density_key,
        uniform_test=uniform_test,
    )
    settings.split(first_seed)  # errors in the file are reported at once, not by a worker
    control = {"bandwidth": STATIONARY_BANDWIDTH, "noise": STATIONARY_NOISE} if data == STATIONARY else {}
    repetitions = Repetitions(
        experiment=f"{settings.name}: active against random sampling of a pool",
        settings=asdict(settings)
        | {"data": settings.name, "arms": LEARNERS, "largest_test_set": LARGEST_TEST_SET}
        | control,
        run=partial(run, settings=settings),
        conclude=partial(conclusion, sizes=settings.sizes),
    )
    pairs = [(settings.sizes[-1], seed) for seed in range(first_seed, first_seed + seeds)]
    done = repetitions.complete(pairs, output, jobs=jobs)
    print_summary(done, settings.sizes[-1], "rmse", "expected_savings")
    print(done["savings"]["verdict"])
