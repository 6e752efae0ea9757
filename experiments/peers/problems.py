"""Data sets and functions that strategies are compared on.

Everything that was chosen by comparing errors (powers of `lobal.active.spread`, what a start is, shares, limits) was
chosen on `DECISION`; `REPORT` is reported apart, and docs/peers.md says what was changed after it had been seen. The
halves were drawn up before the first comparison: real data with and without something to gain in both, and functions of
all kinds.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from experiments.data_files import load_npz
from experiments.peers import simulators
from lobal.core.doppler import Doppler

DECISION = (
    "thermal_cavity_098",
    "ecg",
    "uci_pol",
    "uci_kin40k",
    "uci_energy",
    "chirp1",
    "front3",
    "patch4",
    "peaks2",
    "stationary3",
)
REPORT = (
    "volcano",
    "jacksboro_dem",
    "uci_protein",
    "uci_powerplant",
    "diamonds",
    "ato",
    "doppler1",
    "chirp2",
    "peak5",
    "front6",
    "additive8",
)
# Smooth functions that the default design was chosen on, beside `DECISION`; see simulators.py.
SIMULATORS = ("borehole", "circuit", "piston", "wing", "ishigami", "friedman", "friedman_noisy", "robot")
LARGEST_POOL, LARGEST_TEST_SET, TEST_SHARE = 20_000, 3000, 0.2
GENERATED_POOL = 10_000
SPLIT, FUNCTION = 0, 1  # independent random streams of a repetition


class Problem(NamedTuple):
    """A pool with its labels, and test inputs with the values to predict."""

    X: Float[ndarray, "N d"]
    y: Float[ndarray, " N"]
    importance: Float[ndarray, " N"]  # q / p_X at the pool
    X_test: Float[ndarray, "m d"]
    truth: Float[ndarray, " m"]
    weight: Float[ndarray, " m"]  # of test errors
    y_test: Float[ndarray, " m"]  # labels of the test inputs: the truth of a file, with noise that of a function


class Generated(NamedTuple):
    """A function of inputs and a seed, the number of columns, and the standard deviation of the labels' noise."""

    function: Callable[[Float[ndarray, "n d"], int], Float[ndarray, " n"]]
    columns: int
    noise: float


def problem(name: str, seed: int, folder: Path) -> Problem:
    """The pool and the test set of that seed; data files are looked for in the folder."""
    return sampled(FUNCTIONS[name], seed) if name in FUNCTIONS else real(folder / f"{name}.npz", seed)


def real(path: Path, seed: int, *, largest_pool: int = LARGEST_POOL) -> Problem:
    """Rows of a file; the prices of diamonds as logarithms, cells of a flow weighted by their area."""
    X, y, extras = load_npz(path)
    labels = np.log(y) if path.stem == "diamonds" else y
    area = 1.0 / extras["inputDensity"].reshape(-1) if "inputDensity" in extras else np.ones(len(y))
    order = np.random.default_rng([seed, SPLIT]).permutation(len(y))
    n_test = min(round(TEST_SHARE * len(y)), LARGEST_TEST_SET)
    test, pool = order[:n_test], order[n_test:][:largest_pool]
    weights = [area[rows] / area[rows].mean() for rows in (pool, test)]
    truth = labels[test]
    return Problem(X[pool].astype(np.float64), labels[pool], weights[0], X[test], truth, weights[1], truth)


def sampled(generated: Generated, seed: int) -> Problem:
    """Uniform inputs in the unit cube; errors are those of the function, without noise."""
    function, d, noise = generated
    inputs = np.random.default_rng([seed, SPLIT]).random((GENERATED_POOL + LARGEST_TEST_SET, d))
    truth = function(inputs, seed)
    noisy = truth + noise * np.random.default_rng([seed, FUNCTION]).standard_normal(len(truth))
    pool, test = slice(GENERATED_POOL), slice(GENERATED_POOL, None)
    ones = np.ones(len(truth))
    return Problem(inputs[pool], noisy[pool], ones[pool], inputs[test], truth[test], ones[test], noisy[test])


def _distance(X: Float[ndarray, "n d"], *centre: float) -> Float[ndarray, " n"]:
    return np.asarray(np.linalg.norm(X - np.array(centre), axis=1))


def _bump(X: Float[ndarray, "n d"], width: float, *centre: float) -> Float[ndarray, " n"]:
    return np.asarray(np.exp(-0.5 * np.square(_distance(X, *centre) / width)))


def _chirp1(X: Float[ndarray, "n 1"], _: int) -> Float[ndarray, " n"]:
    return np.asarray(np.sin(4.0 * np.pi / (X[:, 0] + 0.08)))


def _doppler1(X: Float[ndarray, "n 1"], _: int) -> Float[ndarray, " n"]:
    return Doppler()(X[:, 0])


def _chirp2(X: Float[ndarray, "n 2"], _: int) -> Float[ndarray, " n"]:
    return np.asarray(np.sin(40.0 * np.exp(-2.5 * _distance(X, 0.2, 0.3))) + X[:, 1])


def _front3(X: Float[ndarray, "n 3"], _: int) -> Float[ndarray, " n"]:
    return np.asarray(np.tanh(25.0 * (X[:, 0] - 0.5 + 0.2 * np.sin(5.0 * X[:, 1]) + 0.2 * X[:, 2])) + X[:, 1])


def _patch4(X: Float[ndarray, "n 4"], _: int) -> Float[ndarray, " n"]:
    patch = 1.5 * np.sin(25.0 * X[:, 0]) * _bump(X, 0.2, 0.6, 0.6, 0.6, 0.6)
    return np.asarray(np.sin(3.0 * X[:, 0]) + X[:, 1] + patch)


def _peaks2(X: Float[ndarray, "n 2"], _: int) -> Float[ndarray, " n"]:
    return _bump(X, 0.05, 0.25, 0.7) + 0.7 * _bump(X, 0.1, 0.7, 0.3) + 0.5 * X[:, 0]


def _peak5(X: Float[ndarray, "n 5"], _: int) -> Float[ndarray, " n"]:
    return np.asarray(3.0 * _bump(X, 0.25, *[0.4] * 5) + X[:, 0] * X[:, 1])


def _front6(X: Float[ndarray, "n 6"], _: int) -> Float[ndarray, " n"]:
    return np.asarray(np.tanh(8.0 * (X[:, :3].mean(1) - 0.5)) + 0.5 * np.sin(3.0 * X[:, 3]) + 0.3 * X[:, 4])


def _stationary3(X: Float[ndarray, "n 3"], seed: int) -> Float[ndarray, " n"]:
    """A sample of a Gaussian process of one bandwidth: nothing to gain from complexity."""
    generator = np.random.default_rng([seed, FUNCTION, 3])
    frequencies, phases = generator.standard_normal((3, 500)) / 0.25, generator.uniform(0.0, 2.0 * np.pi, 500)
    return np.asarray(np.sqrt(2.0 / 500) * np.cos(X @ frequencies + phases).sum(1))


def _additive8(X: Float[ndarray, "n 8"], _: int) -> Float[ndarray, " n"]:
    """Smooth and equally complex everywhere: nothing to gain."""
    return np.asarray(np.sin(2.0 * X + np.arange(8)).sum(1))


FUNCTIONS = {
    "chirp1": Generated(_chirp1, 1, 0.0),
    "doppler1": Generated(_doppler1, 1, 1.0),
    "chirp2": Generated(_chirp2, 2, 0.0),
    "peaks2": Generated(_peaks2, 2, 0.05),
    "front3": Generated(_front3, 3, 0.0),
    "stationary3": Generated(_stationary3, 3, 0.0),
    "patch4": Generated(_patch4, 4, 0.05),
    "peak5": Generated(_peak5, 5, 0.0),
    "front6": Generated(_front6, 6, 0.1),
    "additive8": Generated(_additive8, 8, 0.2),
    "borehole": Generated(simulators.borehole, 8, 0.0),
    "circuit": Generated(simulators.circuit, 6, 0.0),
    "piston": Generated(simulators.piston, 7, 0.0),
    "wing": Generated(simulators.wing, 10, 0.0),
    "ishigami": Generated(simulators.ishigami, 3, 0.0),
    "friedman": Generated(simulators.friedman, 5, 0.0),
    "friedman_noisy": Generated(simulators.friedman, 5, 1.0),
    "robot": Generated(simulators.robot, 8, 0.0),
}
