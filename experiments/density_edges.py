"""Errors of the density of a pool on densities that are known, in particular at edges.

Compares `lobal.core.density.pool_density` with what it was before: kernels of one width in up to three columns, the
distance to the 16th neighbour in more. The error is the standard deviation of log(estimate / truth) over the pool; on
the unit cube also the mean of estimate / truth, relative to that of the pool, at points within 3 percent of one face
and of as many faces as there are columns (corners).

The estimate and its constants were chosen on the densities in `CHOSEN_ON`; those in `REPORTED` were only reported,
except that equal values are left out of the likelihood of a column since `refined_grid` and `repeated` were seen.

python -m experiments density_edges --output docs/results/density_edges.json
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeAlias

import numpy as np
import torch
import typer
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console
from rich.table import Table
from scipy.spatial import cKDTree

from experiments.repetitions import FirstSeed, Jobs, Output, Repetitions, Result, Seeds
from lobal.core.density import LARGEST_SAMPLE, KernelDensity, density_at, intrinsic_dimension

SIZES = (300, 2000, 20_000)
BORDER, PROBES = 0.03, 300

Sample: TypeAlias = tuple[Float[ndarray, "n d"], Float[ndarray, " n"]]  # points, logarithm of their density
Draw: TypeAlias = Callable[[int, np.random.Generator], Sample]


def exponential(n: int, rng: np.random.Generator, *, d: int, rate: float = 3.0) -> Sample:
    """exp(-rate x) in every column of the unit cube; rate 0 is the uniform density."""
    X = rng.random((n, d))
    X = -np.log1p(X * math.expm1(-rate)) / rate if rate else X
    return X, -rate * X.sum(1)


def normal(n: int, rng: np.random.Generator, *, d: int, correlation: float = 0.0) -> Sample:
    """A normal density with the same correlation of all columns."""
    covariance = correlation + (1.0 - correlation) * np.eye(d)
    X = rng.standard_normal((n, d)) @ np.linalg.cholesky(covariance).T
    return X, -0.5 * (X * np.linalg.solve(covariance, X.T).T).sum(1)


def clusters(n: int, rng: np.random.Generator, *, d: int) -> Sample:
    """Four normal clusters with widths from 0.3 to 1.2."""
    fixed = np.random.default_rng(d)
    centres, widths = 4.0 * fixed.standard_normal((4, d)), 0.3 * 2.0 ** fixed.integers(0, 3, 4)
    shares = fixed.dirichlet(3.0 * np.ones(4))
    which = rng.choice(4, n, p=shares)
    X = centres[which] + widths[which, None] * rng.standard_normal((n, d))
    squared = ((X[:, None] - centres) ** 2).sum(2)
    return X, np.logaddexp.reduce(np.log(shares) - d * np.log(widths) - 0.5 * squared / widths**2, axis=1)


def heavy_tails(n: int, rng: np.random.Generator, *, d: int) -> Sample:
    """Student's t with two degrees of freedom in every column."""
    X = rng.standard_t(2, (n, d))
    return X, -1.5 * np.log1p(X**2 / 2.0).sum(1)


def disc(n: int, rng: np.random.Generator) -> Sample:
    """Uniform on the unit disc."""
    angle, radius = 2.0 * math.pi * rng.random(n), np.sqrt(rng.random(n))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), np.zeros(n)


def l_shape(n: int, rng: np.random.Generator) -> Sample:
    """Uniform on three quarters of the unit square."""
    X = rng.random((2 * n + 20, 2))
    return X[~(X > 0.5).all(1)][:n], np.zeros(n)


def refined_grid(n: int, rng: np.random.Generator) -> Sample:
    """About n cell centres; the sides of the cells are 1, 1/4 and 1/16 in three zones of the unit square."""
    coarse = math.sqrt(n / (0.5 + 0.25 * 16.0 + 0.25 * 256.0))
    zones = []
    for low, high, side in ((0.0, 0.5, 1.0), (0.5, 0.75, 0.25), (0.75, 1.0, 0.0625)):
        shape = [max(1, round(length * coarse / side)) for length in (high - low, 1.0)]
        x, y = ((np.arange(cells) + 0.5) / cells for cells in shape)
        cells = np.stack(np.meshgrid(low + (high - low) * x, y), axis=-1).reshape(-1, 2)
        zones.append((cells, np.full(len(cells), math.log(len(cells) / (high - low)))))
    X, truth = (np.concatenate(parts) for parts in zip(*zones, strict=True))
    order = rng.permutation(len(X))
    return X[order], truth[order]


def sheet(n: int, rng: np.random.Generator) -> Sample:
    """A curved sheet in five columns; the density is that on the sheet."""
    u, v = -np.log1p(rng.random(n) * math.expm1(-1.5)) / 1.5, rng.random(n)
    one, zero = np.ones(n), np.zeros(n)
    along_u = np.stack([one, zero, 3.0 * np.cos(3.0 * u), v, zero], axis=1)
    along_v = np.stack([zero, one, zero, u, -2.0 * np.sin(2.0 * v)], axis=1)
    area = (along_u**2).sum(1) * (along_v**2).sum(1) - (along_u * along_v).sum(1) ** 2
    return np.stack([u, v, np.sin(3.0 * u), u * v, np.cos(2.0 * v)], axis=1), -1.5 * u - 0.5 * np.log(area)


def helix(n: int, rng: np.random.Generator) -> Sample:
    """A curve in three columns."""
    t = 6.0 * rng.random(n)
    return np.stack([np.cos(t), np.sin(t), 0.3 * t], axis=1), np.zeros(n)


def plane(n: int, rng: np.random.Generator) -> Sample:
    """A parallelogram in ten columns."""
    return rng.random((n, 2)) @ np.random.default_rng(1).standard_normal((2, 10)), np.zeros(n)


def one_hot(n: int, rng: np.random.Generator) -> Sample:
    """Three columns for a category, two numbers."""
    shares = np.array([0.2, 0.3, 0.5])
    which = rng.choice(3, n, p=shares)
    X, truth = exponential(n, rng, d=1, rate=2.0)
    return np.concatenate([np.eye(3)[which], X, rng.random((n, 1))], axis=1), np.log(shares[which]) + truth


def integers(n: int, rng: np.random.Generator) -> Sample:
    """Two columns of integers from 0 to 4 and a number."""
    shares = np.arange(1.0, 6.0) / 15.0
    which, X = rng.choice(5, (n, 2), p=shares), rng.standard_normal((n, 1))
    return np.concatenate([which, X], axis=1), np.log(shares[which]).sum(1) - 0.5 * X[:, 0] ** 2


def repeated(n: int, rng: np.random.Generator) -> Sample:
    """Every row four times, uniform in four columns."""
    return np.repeat(rng.random((n // 4, 4)), 4, axis=0), np.zeros(4 * (n // 4))


CHOSEN_ON: dict[str, Draw] = {
    **{f"uniform_{d}": partial(exponential, d=d, rate=0.0) for d in (2, 5, 8)},
    **{f"normal_{d}": partial(normal, d=d) for d in (2, 5)},
    "correlated_3": partial(normal, d=3, correlation=0.8),
    **{f"clusters_{d}": partial(clusters, d=d) for d in (2, 5)},
    "exponential_3": partial(exponential, d=3),
    "disc": disc,
    "sheet": sheet,
    "one_hot": one_hot,
}
REPORTED: dict[str, Draw] = {
    **{f"uniform_{d}": partial(exponential, d=d, rate=0.0) for d in (1, 3, 10)},
    **{f"normal_{d}": partial(normal, d=d) for d in (1, 8, 10)},
    "correlated_6": partial(normal, d=6, correlation=0.8),
    **{f"clusters_{d}": partial(clusters, d=d) for d in (1, 3, 8)},
    **{f"exponential_{d}": partial(exponential, d=d) for d in (1, 6)},
    **{f"heavy_tails_{d}": partial(heavy_tails, d=d) for d in (2, 5)},
    "l_shape": l_shape,
    "refined_grid": refined_grid,
    "helix": helix,
    "plane": plane,
    "integers": integers,
    "repeated": repeated,
}
CUBES = {"uniform": 0.0, "exponential": 3.0}  # rates


def earlier(X: Float[ndarray, "N d"], *, of: Float[ndarray, "n d"], generator: torch.Generator) -> torch.Tensor:
    """The estimate before edges were corrected."""
    rows = torch.randperm(len(of), generator=generator)[:LARGEST_SAMPLE]
    sample, d = torch.from_numpy(of)[rows], of.shape[1]
    if d <= 3:
        kernels = KernelDensity.fit(sample, generator=generator)
        return kernels(torch.from_numpy(X)).clamp_min(kernels.floor * len(rows) / len(of))
    spread = of[rows.numpy()].std(axis=0)
    spread[spread == 0.0] = 1.0
    distances = cKDTree(sample.numpy() / spread).query(X / spread, k=17)[0]
    r = torch.from_numpy(np.where(distances[:, 0] == 0.0, distances[:, 16], distances[:, 15]))
    r = r.clamp_min(r[r > 0].min()) / r.median()
    return r.pow(-intrinsic_dimension(sample, generator=generator)).clamp(1e-12, 1e12)


def at_edges(d: int, rng: np.random.Generator) -> Float[ndarray, "600 d"]:
    """Points of the unit cube close to one face, then as many close to a corner."""
    near = BORDER * rng.random((2 * PROBES, d))
    near = np.where(rng.random(near.shape) < 0.5, near, 1.0 - near)
    inside, column = rng.random((PROBES, d)), rng.integers(0, d, PROBES)
    inside[np.arange(PROBES), column] = near[np.arange(PROBES), column]
    return np.concatenate([inside, near[PROBES:]])


def errors(name: str, draw: Draw, n: int, seed: int) -> Result:
    """Numbers in names such as "before_uniform_2" and "uniform_2_corner"."""
    rng = np.random.default_rng([seed, n])
    X, truth = draw(n, rng)
    points, rate = X, CUBES.get(name.rpartition("_")[0])
    if rate is not None:
        points = np.concatenate([X, at_edges(X.shape[1], rng)])
        truth = -rate * points.sum(1)
    result: Result = {}
    for prefix, estimate in (("before_", earlier), ("", density_at)):
        p = estimate(points, of=X, generator=torch.Generator().manual_seed(seed)).numpy()
        ratio = p / np.exp(truth)
        result[f"{prefix}{name}"] = float(np.log(ratio[: len(X)]).std())
        if rate is not None:
            border, corner = (ratio[len(X) :].reshape(2, -1).mean(1) / ratio[: len(X)].mean()).tolist()
            result |= {f"{prefix}{name}_border": border, f"{prefix}{name}_corner": corner}
    return result


def run(n: int, seed: int) -> Result:
    """The errors on all densities."""
    result: Result = {"n": n, "seed": seed}
    for name, draw in (CHOSEN_ON | REPORTED).items():
        result |= errors(name, draw, n, seed)
    return result


def main(
    output: Output,
    seeds: Seeds = 1,
    first_seed: FirstSeed = 100,
    jobs: Jobs = 1,
    sizes: Annotated[str, typer.Option(help="Numbers of points.")] = ",".join(map(str, SIZES)),
) -> None:
    """Compare the density of a pool with known ones."""
    torch.set_num_threads(1)
    names = {"chosen_on": list(CHOSEN_ON), "reported": list(REPORTED)}
    repetitions = Repetitions(experiment="errors of the density of a pool", settings=names, run=run)
    pairs = [(int(n), seed) for n in sizes.split(",") for seed in range(first_seed, first_seed + seeds)]
    record = repetitions.complete(pairs, output, jobs=jobs)
    table = Table("density", *(f"{entry['n']} before, now" for entry in record["summary"]))
    for name in (key for key in record["summary"][0] if f"before_{key}" in record["summary"][0]):
        shown = [(entry[f"before_{name}"]["mean"], entry[name]["mean"]) for entry in record["summary"]]
        table.add_row(name, *(f"{before:.2f} {now:.2f}" for before, now in shown))
    Console().print(table)
