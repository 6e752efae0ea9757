"""Where labels can be asked for: a pool of candidates, a box of inputs, or another `Space`."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Real
from numpy import ndarray
from scipy.stats import qmc
from sklearn.base import clone
from torch import Tensor

from lobal.active.candidates import ArrayCandidates, Candidates, UserInput
from lobal.active.draws import ADAPTIVE
from lobal.active.mixture_surrogate import MixtureSurrogate
from lobal.active.output_surrogate import OutputSurrogate
from lobal.active.outputs import Outputs, checked_outputs, labels_of
from lobal.active.surrogate import Surrogate, Validation
from lobal.core.arrays import as_column, as_matrix, row_parts, rows_at
from lobal.core.checks import shown
from lobal.core.density import LARGEST_SAMPLE, normalised, pool_density
from lobal.core.files import open_plain
from lobal.core.real_numbers import as_numbers
from lobal.core.units import stored_type, warn_of_unusable
from lobal.mixture.estimator import MixtureRegressor

DensityFunction: TypeAlias = Callable[[Float[ndarray, "m d"]], Float[ndarray, " m"]]


class Space(ABC):
    """A description of where labels can be asked for: cheap to make, checked when it is made."""

    default_draw: ClassVar[str] = ADAPTIVE  # the design where the user names none
    outputs: Outputs | None = None  # none: a label is one number, or what the space says

    @abstractmethod
    def candidates(self, seed: int) -> Candidates:
        """The points to choose from and the densities at them; may take a while."""

    @abstractmethod
    def default_surrogate(self, preset: str | None = None) -> Surrogate:
        """The model that learns from labels of this space where the user names none, by the options of a preset."""

    def mixture_options(self) -> dict[str, Any]:
        """Options that a `MixtureRegressor` of this space has, unless the user gave them."""
        return {}

    def surrogate_of(self, model: MixtureRegressor, *, shrink_inducing: bool = False) -> Surrogate:
        """A surrogate that fits this model to the labels, or one to each of several outputs."""
        mixture = clone(model)
        missing = {name: value for name, value in self.mixture_options().items() if getattr(mixture, name) is None}
        mixture.set_params(**missing)
        if self.outputs is None:
            return MixtureSurrogate(mixture, shrink_inducing=shrink_inducing)
        if shrink_inducing:
            raise ValueError("shrink_inducing must be False for a space with outputs, got True; set n_inducing instead")
        return OutputSurrogate(self.outputs, mixture)

    @abstractmethod
    def checked_validation(self, validation: UserInput) -> Validation:
        """Inputs and labels to validate models with, as arrays.

        Raises:
            ValueError: they do not fit the space.
        """


class ArraySpace(Space):
    """A space whose points are rows of numbers, with one number as the label, or with several outputs."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """d, the number of input columns."""

    def default_surrogate(self, preset: str | None = None) -> Surrogate:
        return self.surrogate_of(MixtureRegressor(preset=preset))

    def checked_validation(self, validation: UserInput) -> Validation:
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise TypeError(f"validation must be a pair (X, y) of inputs and labels, got {shown(validation)}")
        X = as_matrix(validation[0], name="the X of validation")
        if self.outputs is None:
            y = np.atleast_1d(as_numbers(validation[1], name="the y of validation"))
        else:
            y = labels_of(self.outputs, validation[1], len(X), name="the y of validation")
        if X.shape[1] != self.dimension:
            raise ValueError(
                f"the X of validation must have {self.dimension} columns, as the candidates have, got shape {X.shape}"
            )
        if (self.outputs is None and y.shape != (len(X),)) or not np.isfinite(y).all():
            raise ValueError(
                f"the y of validation must be {len(X)} finite labels, one for each row of its X, got shape {y.shape}"
                + ("" if np.isfinite(y).all() else " with NaN or infinite entries")
            )
        return Validation(X, y)


@final
@dataclass(frozen=True, init=False, eq=False)
class Pool(ArraySpace):
    """Candidates that can be labelled, one a row, and the densities that the labels are chosen by.

    Densities need not be normalised. `density` is p_X, the density that the pool was drawn from: its values at the
    rows, a function of inputs, or `None` to estimate it. `test_density` is q, the density of the inputs to predict:
    `"pool"` for p_X, `"uniform"` for a constant, values or a function. X keeps its type and may be memory-mapped.

    `outputs` names what is measured where that is more than one number: names or `Output`s, or a `Curve`. `cost` is
    what a label costs, values at the rows or a function of inputs, above zero; by default all cost the same.
    """

    X: Real[ndarray, "N d"]
    density: Float[ndarray, " N"] | DensityFunction | None
    test_density: Literal["pool", "uniform"] | Float[ndarray, " N"] | DensityFunction
    outputs: Outputs | None
    cost: Float[ndarray, " N"] | DensityFunction | None

    def __init__(
        self,
        X: UserInput,
        density: UserInput = None,
        test_density: UserInput = "pool",
        *,
        outputs: UserInput = None,
        cost: UserInput = None,
    ) -> None:
        matrix = as_matrix(X, name="X")
        if isinstance(test_density, str) and test_density not in ("pool", "uniform"):
            raise ValueError(
                f"test_density must be 'pool', 'uniform', values at the pool or a function, got {test_density!r}"
            )
        object.__setattr__(self, "X", matrix)
        object.__setattr__(self, "density", _density(density, "density", len(matrix), positive=True))
        object.__setattr__(self, "test_density", _density(test_density, "test_density", len(matrix), positive=False))
        object.__setattr__(self, "outputs", checked_outputs(outputs))
        object.__setattr__(self, "cost", _density(cost, "cost", len(matrix), positive=True))

    @staticmethod
    def from_npy(
        path: str | Path,
        *,
        density: UserInput = None,
        test_density: UserInput = "pool",
        outputs: UserInput = None,
        cost: UserInput = None,
    ) -> "Pool":
        """A pool whose inputs stay in the `.npy` file and are read from there when they are needed."""
        open_plain(path).close()
        try:
            X = np.load(path, mmap_mode="r", allow_pickle=False)
        except Exception as error:  # ValueError, EOFError, or what the header makes Python raise
            raise ValueError(
                f"{path} cannot be read as an npy file of numbers: {error or type(error).__name__}; write it anew with "
                "numpy.save"
            ) from error
        if not isinstance(X, ndarray):
            raise ValueError(
                f"{path} must hold one array, got an archive; use numpy.load and pass one of its arrays to lobal.Pool"
            )
        if X.dtype.kind not in "fiu":
            raise ValueError(f"{path} must hold real numbers, got type {X.dtype}; write it anew with numpy.save")
        try:
            return Pool(X, density=density, test_density=test_density, outputs=outputs, cost=cost)
        except ValueError as error:
            raise ValueError(f"{path}: {error}; correct the file or the densities") from error

    def __len__(self) -> int:
        return len(self.X)

    @property
    def dimension(self) -> int:
        return int(self.X.shape[1])

    def candidates(self, seed: int) -> ArrayCandidates:
        """The rows of the pool."""
        rows = np.linspace(0, len(self) - 1, min(len(self), LARGEST_SAMPLE)).astype(np.int64)
        warn_of_unusable(rows_at(self.X, rows).astype(stored_type(self.X)), name="the pool")
        if self.density is None:
            p_X = pool_density(self.X, generator=torch.Generator().manual_seed(seed))
        else:
            p_X = _values(self.density, self.X, name="density", positive=True)
        q = _test_density(self.test_density, self.X, p_X, same="pool")
        cost = costs_at(self.cost, self.X)
        return ArrayCandidates(inputs=self.X, pool_density=p_X, test_density=q, outputs=self.outputs, cost=cost)


@final
@dataclass(frozen=True, init=False, eq=False)
class Box(ArraySpace):
    """All inputs between two corners; any of them can be labelled.

    Densities on the box are evaluated at `n_candidates` evenly spread points. `test_density` is q, the density of the
    inputs to predict: `"uniform"` or a function of inputs, which need not be normalised.

    `outputs` names what is measured where that is more than one number: names or `Output`s, or a `Curve`. `cost` is
    a function of inputs, above zero: what a label costs.
    """

    lower: Float[ndarray, " d"]
    upper: Float[ndarray, " d"]
    n_candidates: int
    test_density: Literal["uniform"] | DensityFunction
    outputs: Outputs | None
    cost: DensityFunction | None

    def __init__(
        self,
        lower: UserInput,
        upper: UserInput,
        n_candidates: int = 2**15,
        test_density: UserInput = "uniform",
        *,
        outputs: UserInput = None,
        cost: UserInput = None,
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
        if cost is not None and not callable(cost):
            raise ValueError(f"cost of a box must be a function of inputs (m, d) that returns (m,), got {shown(cost)}")
        object.__setattr__(self, "lower", corners[0])
        object.__setattr__(self, "upper", corners[1])
        object.__setattr__(self, "n_candidates", n_candidates)
        object.__setattr__(self, "test_density", test_density)
        object.__setattr__(self, "outputs", checked_outputs(outputs))
        object.__setattr__(self, "cost", cost)

    @property
    def dimension(self) -> int:
        return len(self.lower)

    def candidates(self, seed: int) -> ArrayCandidates:
        """Evenly spread (scrambled Sobol) points of the box."""
        n, width = self.n_candidates, self.upper - self.lower
        sobol = qmc.Sobol(self.dimension, seed=np.random.default_rng(seed))
        X = self.lower + width * sobol.random_base2(math.ceil(math.log2(n)))[:n]
        p_X = torch.ones(n, dtype=torch.float64)
        return ArrayCandidates(
            inputs=X,
            pool_density=p_X,
            test_density=_test_density(self.test_density, X, p_X, same="uniform"),
            cell=width * n ** (-1.0 / self.dimension),
            bounds=np.stack([self.lower, self.upper]),
            outputs=self.outputs,
            cost=costs_at(self.cost, X),
        )


def costs_at(
    cost: Float[ndarray, " N"] | DensityFunction | None, X: Real[ndarray, "N d"]
) -> Float[Tensor, " N"] | None:
    """What a label costs at every candidate; none where all cost the same."""
    return None if cost is None else _values(cost, X, name="cost", positive=True)


def _values(
    density: Float[ndarray, " N"] | DensityFunction, X: Real[ndarray, "N d"], *, name: str, positive: bool
) -> Float[Tensor, " N"]:
    if isinstance(density, ndarray):
        return torch.tensor(density)
    values = np.empty(len(X))
    for rows, points in row_parts(X):
        values[rows] = as_column(density(points), name=f"{name}(X)", length=len(points), positive=positive)
    return torch.from_numpy(values)


def _test_density(
    given: str | Float[ndarray, " N"] | DensityFunction, X: Real[ndarray, "N d"], p_X: Float[Tensor, " N"], *, same: str
) -> Float[Tensor, " N"]:
    """q at the candidates, at equal norm with p_X; `same` is the word for p_X itself."""
    if isinstance(given, str):
        return p_X if given == same else normalised(torch.ones_like(p_X), p_X)
    return normalised(_values(given, X, name="test_density", positive=False), p_X)


def _density(values: UserInput, name: str, length: int, *, positive: bool) -> UserInput:
    if values is None or (isinstance(values, str) and not positive) or callable(values):
        return values
    column = as_numbers(values, name=name)
    column = column[:, 0] if column.shape == (length, 1) else column
    return as_column(column, name=name, length=length, positive=positive)


def _corner(values: UserInput, name: str) -> Float[ndarray, " d"]:
    corner = np.atleast_1d(as_numbers(values, name=name))
    if corner.ndim != 1 or not len(corner) or not np.isfinite(corner).all():
        raise ValueError(f"{name} must be a list of finite numbers, one per input column, got {values!r}")
    return corner


@final
class SavedSpace(Space):
    """The space of a campaign that was saved: its candidates are known already."""

    def __init__(self, candidates: Candidates, surrogate: Surrogate) -> None:
        self._candidates, self._surrogate = candidates, surrogate

    def candidates(self, seed: int) -> Candidates:
        del seed
        return self._candidates

    def default_surrogate(self, preset: str | None = None) -> Surrogate:
        del preset  # the surrogate has its options
        return self._surrogate

    def checked_validation(self, validation: UserInput) -> Validation:
        return Validation(*validation)  # was checked when it was saved
