"""Where labels can be asked for: a pool of candidates or a box of inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

import numpy as np
from jaxtyping import Float, Real
from numpy import ndarray

from lobal.core.arrays import as_column, as_matrix

DensityFunction: TypeAlias = Callable[[Float[ndarray, "m d"]], Float[ndarray, " m"]]
Oracle: TypeAlias = Callable[[Float[ndarray, "m d"]], Float[ndarray, " m"]]


@final
@dataclass(frozen=True, init=False, eq=False)
class Pool:
    """Candidates that can be labelled, one a row, and the densities that the labels are chosen by.

    Densities need not be normalised. `density` is p_X, the density that the pool was drawn from: its values at the
    rows, a function of inputs, or `None` to estimate it. `test_density` is q, the density of the inputs to predict:
    `"pool"` for p_X, `"uniform"` for a constant, values or a function. X keeps its type and may be memory-mapped.
    """

    X: Real[ndarray, "N d"]
    density: Float[ndarray, " N"] | DensityFunction | None
    test_density: Literal["pool", "uniform"] | Float[ndarray, " N"] | DensityFunction

    def __init__(
        self,
        X: Any,  # noqa: ANN401 - lists, arrays and frames are welcome
        density: Any = None,  # noqa: ANN401 - likewise
        test_density: Any = "pool",  # noqa: ANN401 - likewise
    ) -> None:
        matrix = as_matrix(X, name="X")
        if isinstance(test_density, str) and test_density not in ("pool", "uniform"):
            raise ValueError(
                f"test_density must be 'pool', 'uniform', values at the pool or a function, got {test_density!r}"
            )
        object.__setattr__(self, "X", matrix)
        object.__setattr__(self, "density", _density(density, "density", len(matrix), positive=True))
        object.__setattr__(self, "test_density", _density(test_density, "test_density", len(matrix), positive=False))

    @staticmethod
    def from_npy(
        path: str | Path,
        *,
        density: Any = None,  # noqa: ANN401 - as in Pool
        test_density: Any = "pool",  # noqa: ANN401 - as in Pool
    ) -> "Pool":
        """A pool whose inputs stay in the `.npy` file and are read from there when they are needed."""
        X = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(X, ndarray):
            raise ValueError(
                f"{path} must hold one array, got an archive; use numpy.load and pass one of its arrays to lobal.Pool"
            )
        return Pool(X, density=density, test_density=test_density)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def dimension(self) -> int:
        """d, the number of input columns."""
        return int(self.X.shape[1])


@final
@dataclass(frozen=True, init=False, eq=False)
class Box:
    """All inputs between two corners; any of them can be labelled.

    Densities on the box are evaluated at `n_candidates` evenly spread points. `test_density` is q, the density of the
    inputs to predict: `"uniform"` or a function of inputs, which need not be normalised.
    """

    lower: Float[ndarray, " d"]
    upper: Float[ndarray, " d"]
    n_candidates: int
    test_density: Literal["uniform"] | DensityFunction

    def __init__(
        self,
        lower: Any,  # noqa: ANN401 - a number or any array-like
        upper: Any,  # noqa: ANN401 - likewise
        n_candidates: int = 2**15,
        test_density: Any = "uniform",  # noqa: ANN401 - as in Pool; checked below
    ) -> None:
        corners = _corner(lower, "lower"), _corner(upper, "upper")
        if corners[0].shape != corners[1].shape:
            raise ValueError(
                f"lower and upper must be equally long, got {len(corners[0])} and {len(corners[1])} values"
            )
        if not (corners[0] < corners[1]).all():
            raise ValueError(f"lower must lie below upper, got {corners[0].tolist()} and {corners[1].tolist()}")
        if n_candidates < 1:
            raise ValueError(f"n_candidates must be at least 1, got {n_candidates}")
        if not callable(test_density) and test_density != "uniform":
            raise ValueError(f"test_density of a box must be 'uniform' or a function, got {test_density!r}")
        for name, value in zip(("lower", "upper"), corners, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "n_candidates", n_candidates)
        object.__setattr__(self, "test_density", test_density)

    @property
    def dimension(self) -> int:
        """d, the number of input columns."""
        return len(self.lower)


def _density(values: Any, name: str, length: int, *, positive: bool) -> Any:  # noqa: ANN401 - what Pool was given
    if values is None or isinstance(values, str) or callable(values):
        return values
    column = np.asarray(values)
    return as_column(
        column[:, 0] if column.shape == (length, 1) else column, name=name, length=length, positive=positive
    )


def _corner(values: Any, name: str) -> Float[ndarray, " d"]:  # noqa: ANN401 - any array-like
    corner = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if corner.ndim != 1 or not len(corner) or not np.isfinite(corner).all():
        raise ValueError(f"{name} must be a list of finite numbers, one per input column, got {values!r}")
    return corner
