"""The points a learner chooses from, with the densities at them: what every space turns into.

Pool, box or molecules is decided once, when a `Space` makes its candidates. From there on the learner works with
candidate numbers 0 ... N - 1, densities at the candidates, and the methods below.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Real
from numpy import ndarray
from scipy.spatial import KDTree
from torch import Tensor

from lobal.active.outputs import (
    Curve,
    Outputs,
    check_outputs,
    has_label,
    label_width,
    labels_of,
    outputs_from_json,
    outputs_to_json,
)
from lobal.active.pending_points import BoxColumn, recognised
from lobal.core.arrays import MAPPED_ARRAY, PUT_BACK, MappedArray, rows_at
from lobal.core.checks import shown
from lobal.core.density import LARGEST_SAMPLE, column_spread, density_at, intrinsic_dimension
from lobal.core.kernels import squared_distances
from lobal.core.real_numbers import as_numbers, check_complete
from lobal.core.schema import FINITE, TINY, optional, table
from lobal.core.stored_tensors import StoredTensors
from lobal.core.units import Units

DIGITS = 1e-6  # of a box's width: how far outside a point may be that was written with few digits
# Candidates a model is evaluated at together: 4 MiB of kernels take half the time per candidate of 128 MiB.
CHUNK = 2**12
FARTHEST = 1e150  # coordinates in files: squares are finite
LOOKED_AT = 1024  # rows of a memory-mapped pool that are checked when it is opened
NEIGHBOURS = 16  # a share among so many is known up to an eighth

UserInput: TypeAlias = Any  # whatever a user passes: numbers, lists, arrays, frames; checked at run time
Batch: TypeAlias = Any  # points as a user knows them: row numbers, inputs, or a table of named columns
IsKnown: TypeAlias = Callable[[tuple[float, ...]], bool]  # whether recorded inputs are those of a point
Points: TypeAlias = tuple[list[int], Float[ndarray, "_ d"]]  # candidate numbers and recorded inputs
Pending: TypeAlias = Callable[[], Points]  # looks through all points, so it is called where it is needed only


class Metric(NamedTuple):
    """How far apart points are: squared distances between coordinates that are computed once."""

    coordinates: Callable[[ndarray], Float[Tensor, "n k"]]  # of model inputs
    squared_distances: Callable[[Float[Tensor, "n k"], Float[Tensor, "m k"]], Float[Tensor, "n m"]]


class Candidates(ABC):
    """N points to choose from. Densities count up to a constant factor; q and p_0 have equal norm with p_X.

    Each point of a campaign has a candidate number and recorded inputs, a row of `n_columns` numbers that the journal
    keeps. A pool of molecules records none, since the candidate number says which configuration it is.
    """

    kind: ClassVar[str]  # name in a campaign's header
    keeps_repeats: ClassVar[bool] = True  # several labels of one point are all learned from, or the last one only

    pool_density: Float[Tensor, " N"]  # p_X
    test_density: Float[Tensor, " N"]  # q
    cost: Float[Tensor, " N"] | None = None  # of a label; none where all cost the same
    outputs: Outputs | None = None  # none: a label is one number, or what the space takes

    @property
    def output_units(self) -> dict[str, str]:
        """Units of outputs that have one, by name."""
        named = (self.outputs,) if isinstance(self.outputs, Curve) else self.outputs or ()
        return {output.name: output.unit for output in named if output.unit}

    @property
    def initial_density(self) -> Float[Tensor, " N"]:
        """p_0, which the first points are drawn from; the test density unless a space knows better."""
        return self.test_density

    def __len__(self) -> int:
        return len(self.pool_density)

    @property
    @abstractmethod
    def X(self) -> Real[ndarray, "N d"]:  # noqa: N802 - a matrix, as in the paper
        """Coordinates of all candidates, for draws and figures."""

    @property
    @abstractmethod
    def is_box(self) -> bool:
        """Whether a candidate stands for a cell with room for many points, which are told by their inputs."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """How many numbers are recorded for each point."""

    @property
    def n_inputs(self) -> int:
        """How many columns models have as their inputs."""
        return self.n_columns

    @property
    def input_names(self) -> list[str] | None:
        """Names of these columns for figures; none where the space has no names."""
        return None

    @property
    def is_uniform_box(self) -> bool:
        """Whether the candidates are a Sobol sequence, and predictions are wanted everywhere alike."""
        return False

    def generator(self, seed: int, step: int) -> torch.Generator:
        """The source of everything random in the draws of one step."""
        return torch.Generator().manual_seed(seed_of(seed, step))

    @abstractmethod
    def intrinsic_dimension(self, seed: int) -> float:
        """delta, estimated."""

    @abstractmethod
    def place(
        self, indices: Int[Tensor, " b"], *, generator: torch.Generator, taken: Sequence[int] | None = None
    ) -> Float[ndarray, "b d"]:
        """Inputs to record for candidates that were drawn.

        Points of a box are placed at random within the cells of their candidates; with `taken` only those whose
        candidate is taken already, or there twice, and others at the candidates themselves.
        """

    @abstractmethod
    def locate(self, batch: UserInput) -> Points:
        """Candidate numbers and recorded inputs of points as a user gives them.

        Raises:
            ValueError: a point is not one of the space.
        """

    def locate_among(self, batch: UserInput, pending: Pending, is_known: IsKnown) -> Points:
        """The same, where points that are not known and nearly equal pending ones may be taken for these."""
        del pending, is_known
        return self.locate(batch)

    def check_recorded(self, inputs: Float[ndarray, "n d"]) -> None:
        """Refuse recorded inputs of points that no point can have; a row of a pool may have any.

        Raises:
            ValueError: a point lies outside the space; shows it.
        """
        del inputs

    @abstractmethod
    def batch(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n d"]) -> Batch:
        """Points as a user knows them."""

    def named(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n d"]) -> list[Any]:
        """Each point for itself: a row number, a tuple of inputs or, of named variables, a text or values by name."""
        return [row.item() if row.ndim == 0 else tuple(row.tolist()) for row in np.asarray(self.batch(numbers, inputs))]

    @abstractmethod
    def model_inputs(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n d"]) -> ndarray:
        """What models take as the inputs of points, one entry a point."""

    def oracle_inputs(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n d"]) -> Batch:
        """What oracles take as the inputs of points; what models take unless a space has names for them."""
        return self.model_inputs(numbers, inputs)

    def encoded(self, points: UserInput) -> ndarray:
        """Model inputs of any points, as a user gives them."""
        return np.asarray(points)

    def save_model(self, model: Any, path: str | os.PathLike[str]) -> None:  # noqa: ANN401 - a fitted model
        """Write a model to a file, together with what is needed to predict with it."""
        model.save(path)

    @abstractmethod
    def inputs_at(self, numbers: Int[Tensor, " n"]) -> ndarray:
        """Model inputs of candidates."""

    @abstractmethod
    def parts(self) -> Iterator[tuple[slice, ndarray]]:
        """Model inputs of consecutive candidates that fit into memory, each part with its place."""

    @abstractmethod
    def labels(self, values: UserInput, n: int, *, name: str) -> Float[ndarray, "n *label"]:
        """Labels of n points as numbers, one entry a point; entries that are not finite are failures.

        Raises:
            ValueError: they are not numbers or have the wrong shape.
        """

    def has_label(self, labels: Float[ndarray, "n *label"]) -> Bool[ndarray, " n"]:
        """Which points these numbers label; at the others the measurement failed."""
        return has_label(None, labels)

    @property
    def allows_gaps(self) -> bool:
        """Whether a label may lack some of its numbers."""
        return False

    def cost_of(self, numbers: Sequence[int]) -> float:
        """What labels of points cost together, by their candidates; without costs, one each."""
        return float(len(numbers) if self.cost is None else self.cost[torch.as_tensor(numbers, dtype=torch.long)].sum())

    @abstractmethod
    def density_of(self, numbers: Sequence[int], inputs: Float[ndarray, "n d"], seed: int) -> Float[Tensor, " N"]:
        """An estimate, at the candidates, of the density that given points follow."""

    @property
    @abstractmethod
    def metric(self) -> Metric:
        """Distances of the space itself, as long as no model has learned better ones."""

    @abstractmethod
    def neighbours(self, at: Points, among: Points, k: int) -> Int[ndarray, "n k"]:
        """For each of some points, the positions of the k nearest among others, in the metric of the space."""

    def label_share(self, labelled: Points, drawn: Points, has_label: Bool[ndarray, " n"]) -> Float[ndarray, " m"]:
        """The share of labelled points among the sixteen drawn nearest to every labelled point, itself included.

        Its reciprocal is how many drawn points a labelled one stands for.
        """
        k = min(NEIGHBOURS, len(has_label))
        # Where many points are the same, a point may not find itself among them.
        return np.asarray(has_label[self.neighbours(labelled, drawn, k)].mean(axis=1).clip(min=1.0 / k))

    def grown(self, drawn: Float[ndarray, "n d"], space: Any) -> "Candidates":  # noqa: ANN401 - a Space
        """The candidates of another space behind the points so far, which are given by their recorded inputs.

        Raises:
            ValueError: the candidates are fixed, or those of the space are none of the same kind.
        """
        del drawn, space
        raise ValueError(
            "the candidates of this campaign are fixed; those of a molecule may grow: MoleculePool(..., grows=True)"
        )

    @classmethod
    @abstractmethod
    def check_fields(cls, fields: Mapping[str, Any]) -> None:
        """Refuse fields of a file that `to_tensors` cannot have returned.

        Raises:
            ValueError: names the field, what was expected and what was got.
        """

    @classmethod
    @abstractmethod
    def check_tensors(cls, stored: StoredTensors, fields: Mapping[str, Any]) -> None:
        """Refuse tensors of a file that `to_tensors` cannot have returned, those of validation data included."""

    @abstractmethod
    def to_tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything but functions, as tensors and JSON fields; `from_tensors` puts it together again."""

    @classmethod
    @abstractmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], fields: Mapping[str, Any], space: Any) -> "Candidates":  # noqa: ANN401 - a Space
        """The candidates that `to_tensors` took apart; `space` has the inputs where they were not saved."""


def seed_of(*entropy: int) -> int:
    """One seed from several numbers."""
    return int(np.random.SeedSequence(list(entropy)).generate_state(1)[0])


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ArrayCandidates(Candidates):
    """The rows of a pool, or evenly spread points of a box that each stand for the cell around them."""

    kind: ClassVar[str] = "array"

    inputs: Real[ndarray, "N d"]
    pool_density: Float[Tensor, " N"]
    test_density: Float[Tensor, " N"]
    cell: Float[ndarray, " d"] | None = None  # box: widths of a cell
    bounds: Float[ndarray, "2 d"] | None = None  # box: its two corners
    outputs: Outputs | None = None  # none: a label is one number
    cost: Float[Tensor, " N"] | None = None  # of a label at every candidate

    @property
    def X(self) -> Real[ndarray, "N d"]:  # noqa: N802 - a matrix, as in the paper
        return self.inputs

    @property
    def is_box(self) -> bool:
        return self.cell is not None

    @property
    def is_uniform_box(self) -> bool:
        return self.is_box and self.test_density is self.pool_density

    @property
    def n_columns(self) -> int:
        return int(self.inputs.shape[1])

    def inputs_at(self, numbers: Int[Tensor, " n"]) -> ndarray:
        return rows_at(self.inputs, numbers.numpy())

    def intrinsic_dimension(self, seed: int) -> float:
        """By TwoNN on a sample of a pool; the number of columns of a box."""
        if self.is_box:
            return float(self.n_columns)
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randperm(len(self), generator=generator)[:LARGEST_SAMPLE].sort().values
        sample = rows_at(self.inputs, rows.numpy())
        return intrinsic_dimension(torch.from_numpy(Units.of(sample)(sample)), generator=generator)

    def place(
        self, indices: Int[Tensor, " b"], *, generator: torch.Generator, taken: Sequence[int] | None = None
    ) -> Float[ndarray, "b d"]:
        """The rows of a pool, or points uniformly within the cells of a box, reflected at its bounds."""
        points = rows_at(self.inputs, indices.numpy())
        if self.cell is None or self.bounds is None:
            return points
        jitter = torch.rand(points.shape, dtype=torch.float64, generator=generator).numpy() - 0.5
        if taken is not None:
            first = np.zeros(len(points), dtype=bool)
            first[np.unique(indices.numpy(), return_index=True)[1]] = True
            jitter[first & ~np.isin(indices.numpy(), taken)] = 0.0
        points += jitter * self.cell
        lower, upper = self.bounds
        points = np.where(points < lower, 2.0 * lower - points, points)
        points = np.where(points > upper, 2.0 * upper - points, points)
        return np.asarray(np.clip(points, lower, upper))  # against rounding

    def locate(self, batch: UserInput) -> Points:
        """Points of a pool are given by row number, points in a box by their inputs."""
        return self.locate_among(batch, lambda: ([], np.empty((0, self.n_columns))), lambda _: False)

    def locate_among(self, batch: UserInput, pending: Pending, is_known: IsKnown) -> Points:
        """The same; a point of a box that nearly equals a pending one is this one, as in `pending_points`."""
        points = _as_points(batch, is_box=self.is_box)
        n, d = self.inputs.shape
        if not points.size:
            return [], np.empty((0, d))
        if self.bounds is None:
            rows = np.atleast_1d(points)
            if not np.issubdtype(rows.dtype, np.integer) or rows.ndim != 1 or ((rows < 0) | (rows >= n)).any():
                raise ValueError(f"points of a pool are its row numbers 0 ... {n - 1}, got {points!r}")
            return rows.tolist(), rows_at(self.inputs, rows)
        inputs = np.atleast_2d(points)
        if inputs.ndim != 2 or inputs.shape[1] != d or np.isnan(inputs).any():
            raise ValueError(f"points in a box are finite inputs of shape (n, {d}), got {points!r}")
        columns = [BoxColumn(width) for width in (self.bounds[1] - self.bounds[0]).tolist()]
        inputs, numbers = recognised(columns, inputs, pending, is_known)
        is_other = numbers < 0
        self.check_recorded(inputs[is_other])
        numbers[is_other] = self._tree.query(self._in_cells(inputs[is_other]))[1]
        return numbers.tolist(), inputs

    def check_recorded(self, inputs: Float[ndarray, "n d"]) -> None:
        """Points of a box lie within its bounds."""
        if self.bounds is not None:
            _check_inside(inputs, self.bounds)

    @cached_property
    def _tree(self) -> KDTree:
        """The candidates of a box in units of a cell."""
        return KDTree(self._in_cells(self.inputs))

    def _in_cells(self, points: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Points of a box in units of a cell, from its lower corner."""
        assert self.cell is not None and self.bounds is not None  # noqa: PT018 - a box has both
        return np.asarray((points - self.bounds[0]) / self.cell)

    def batch(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n d"]) -> ndarray:
        return inputs if self.is_box else numbers

    def model_inputs(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n d"]) -> ndarray:
        del numbers
        return inputs

    def parts(self) -> Iterator[tuple[slice, ndarray]]:
        for start in range(0, len(self), CHUNK):
            rows = slice(start, start + CHUNK)
            yield rows, rows_at(self.inputs, rows)

    def labels(self, values: UserInput, n: int, *, name: str) -> Float[ndarray, "n *label"]:
        """One number a point, or a row of numbers where there are several outputs."""
        if self.outputs is not None:
            return labels_of(self.outputs, values, n, name=name)
        labels = np.atleast_1d(as_numbers(values, name=name))
        if labels.shape != (n,):
            raise ValueError(f"{n} points need as many labels, got {name} of shape {labels.shape}")
        return labels

    def has_label(self, labels: Float[ndarray, "n *label"]) -> Bool[ndarray, " n"]:
        return has_label(self.outputs, labels)

    @property
    def allows_gaps(self) -> bool:
        return isinstance(self.outputs, tuple)

    def density_of(self, numbers: Sequence[int], inputs: Float[ndarray, "n d"], seed: int) -> Float[Tensor, " N"]:
        del numbers
        return density_at(self.inputs, of=inputs, generator=torch.Generator().manual_seed(seed))

    @cached_property
    def metric(self) -> Metric:
        """Euclidean in columns of equal spread."""
        rows = np.linspace(0, len(self) - 1, min(len(self), LARGEST_SAMPLE)).astype(np.int64)
        sample = rows_at(self.inputs, rows)
        units = Units.of(sample)
        spread = column_spread(torch.from_numpy(units(sample)))
        return Metric(lambda X: torch.from_numpy(units(X)) / spread, squared_distances)

    def neighbours(self, at: Points, among: Points, k: int) -> Int[ndarray, "n k"]:
        """Distances are taken in columns of equal spread."""
        units = Units.of(among[1])
        others = units(among[1])
        scale = column_spread(torch.from_numpy(others), correction=0).numpy()
        return np.asarray(KDTree(others / scale).query(units(at[1]) / scale, k=range(1, k + 1))[1])

    def to_tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """A memory-mapped pool stays in its file; the fields say where that is."""
        tensors = {"pool_density": self.pool_density}
        if self.test_density is not self.pool_density:
            tensors["test_density"] = self.test_density
        if self.cell is not None and self.bounds is not None:
            tensors |= {"cell": torch.tensor(self.cell), "bounds": torch.tensor(self.bounds)}
        if self.cost is not None:
            tensors["cost"] = self.cost
        fields = {} if self.outputs is None else {"outputs": outputs_to_json(self.outputs)}
        place = MappedArray.of(self.inputs)
        if place is not None:
            return tensors, {"memory_mapped": place._asdict(), **fields}
        dtype = np.float32 if self.inputs.dtype == np.float32 else np.float64
        inputs = torch.from_numpy(np.require(self.inputs, dtype, ["C", "W"]))
        return tensors | {"X": inputs}, {"memory_mapped": None, **fields}

    @classmethod
    def check_fields(cls, fields: Mapping[str, Any]) -> None:
        table({"memory_mapped": optional(MAPPED_ARRAY)}, outputs=check_outputs)(fields, "candidates")

    @classmethod
    def check_tensors(cls, stored: StoredTensors, fields: Mapping[str, Any]) -> None:
        if fields["memory_mapped"] is None:
            stored.real("X", "N d", most=FARTHEST, least=-FARTHEST)
        else:
            stored.sizes["d"] = fields["memory_mapped"]["shape"][1]
        _check_densities(stored)
        if {"cell", "bounds"} & {*stored.tensors}:
            _check_box(stored)
        if "cost" in stored:
            stored.real("cost", "N", positive=True)
        if "validation.X" in stored:
            stored.real("validation.X", "v d", most=FARTHEST, least=-FARTHEST)
            shape = "v" if "outputs" not in fields else f"v {label_width(outputs_from_json(fields['outputs']))}"
            stored.real("validation.y", shape, least=-FINITE, most=FINITE)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], fields: Mapping[str, Any], space: Any) -> "ArrayCandidates":  # noqa: ANN401 - a Space
        if fields["memory_mapped"] is None:
            if space is not None:
                raise ValueError(
                    "a pool is needed for a campaign whose pool was a memory-mapped file only, and this campaign has "
                    "its inputs with it; leave pool out"
                )
            inputs = tensors["X"].numpy()
        else:
            inputs = MappedArray.from_fields(fields["memory_mapped"]).open(None if space is None else space.X)
            _check_pool(inputs, tensors)
        return cls(
            inputs=inputs,
            pool_density=tensors["pool_density"],
            test_density=tensors.get("test_density", tensors["pool_density"]),
            cell=tensors["cell"].numpy() if "cell" in tensors else None,
            bounds=tensors["bounds"].numpy() if "bounds" in tensors else None,
            outputs=outputs_from_json(fields["outputs"]) if "outputs" in fields else None,
            cost=tensors.get("cost"),
        )


def _check_densities(stored: StoredTensors) -> None:
    stored.real("pool_density", "N", least=TINY, most=FINITE)
    if "test_density" in stored and not (stored.real("test_density", "N", least=0.0, most=FINITE) > 0).any():
        raise ValueError("test_density must be above zero somewhere, got zeros only")


def _check_box(stored: StoredTensors) -> None:
    stored.real("cell", "d", positive=True)
    bounds = stored.real("bounds", "2 d", most=FARTHEST, least=-FARTHEST)
    if not (bounds[0] < bounds[1]).all():
        raise ValueError(f"the lower bounds must lie below the upper ones, got {bounds.tolist()}")


def _check_pool(X: Real[ndarray, "N d"], tensors: Mapping[str, Tensor]) -> None:
    """Refuse a memory-mapped pool without as many densities, or without numbers where one looks."""
    n = len(tensors["pool_density"])
    if len(X) != n:
        raise ValueError(f"the pool must have {n} rows, as there are densities, got {len(X)}; {PUT_BACK}")
    if not np.isfinite(rows_at(X, np.linspace(0, n - 1, min(n, LOOKED_AT)).astype(np.int64))).all():
        raise ValueError(f"the pool must hold finite numbers only, got NaN or infinity; {PUT_BACK}")


def _as_points(batch: UserInput, *, is_box: bool) -> ndarray:
    """Points as an array: row numbers of a pool, or inputs in a box."""
    try:
        check_complete(batch, name="points")
        return np.asarray(batch, dtype=np.float64 if is_box else None)
    except (TypeError, ValueError) as error:
        wanted = "inputs in the box, one a row" if is_box else "row numbers of the pool"
        raise ValueError(f"points must be {wanted}, got {shown(batch)}: {error}") from error


def _check_inside(points: Float[ndarray, "n d"], bounds: Float[ndarray, "2 d"]) -> None:
    """Refuse points outside a box."""
    slack = DIGITS * (bounds[1] - bounds[0])
    outside = ((points < bounds[0] - slack) | (points > bounds[1] + slack)).any(axis=1)
    if outside.any():
        raise ValueError(
            f"points must lie in the box from {bounds[0].tolist()} to {bounds[1].tolist()}, got "
            f"{points[outside][0].tolist()}; leave such points out, or begin with a larger box"
        )
