"""Candidates of a space of named variables: rows of a table, all points of a finite space, or cells of a region.

Of every point its codes are recorded: numbers as they are, levels of categories by their place. Models see the inputs
that the variables make of them, users see tables.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.spatial import KDTree
from torch import Tensor

from lobal.active.candidates import ArrayCandidates, Candidates, IsKnown, Metric, Pending, Points, UserInput
from lobal.active.feasible_points import moved as moved_points
from lobal.active.frames import Table, as_table, columns_of, is_table
from lobal.active.output_models import OutputModels
from lobal.active.outputs import Outputs, check_outputs, label_width, outputs_from_json, outputs_to_json
from lobal.active.pending_points import recognised
from lobal.active.recognition import RowFinder
from lobal.active.region import ROUNDING, Region
from lobal.active.space_fields import SPACE, column_groups, constraint_fields, region_from, units_of
from lobal.active.space_model import SpaceModel
from lobal.core.checks import shown
from lobal.core.density import column_spread, density_at
from lobal.core.kernels import squared_distances
from lobal.core.schema import FINITE, TINY, table
from lobal.core.stored_tensors import StoredTensors
from lobal.core.variables import SLACK, Categorical, Real
from lobal.experts.column_groups import ColumnGroups

TRIES = 16  # of placing a point in its cell
OUTPUT = "y"  # the name of the only output


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class SearchCandidates(Candidates):
    """Points of named variables to choose from."""

    kind: ClassVar[str] = "search_space"

    region: Region
    codes: Float[ndarray, "N v"]
    pool_density: Float[Tensor, " N"]
    test_density: Float[Tensor, " N"]
    cell: float | None = None  # width of a cell in shares of the ranges; none where candidates are all there is
    index: list[Any] | None = None  # labels of a table's rows
    is_table: bool = False  # whether candidates are the rows of a table
    outputs: Outputs | None = None  # none: a label is one number
    cost: Float[Tensor, " N"] | None = None  # of a label at every candidate

    @cached_property
    def array(self) -> ArrayCandidates:
        """The same candidates as inputs of models."""
        inputs = self.region.inputs(self.codes)
        return ArrayCandidates(
            inputs=inputs, pool_density=self.pool_density, test_density=self.test_density, outputs=self.outputs
        )

    @property
    def X(self) -> Float[ndarray, "N d"]:  # noqa: N802 - a matrix, as in the paper
        return np.asarray(self.array.inputs)

    @property
    def is_box(self) -> bool:
        return self.cell is not None

    @property
    def is_uniform_box(self) -> bool:
        return self.is_box and self.region.equalities is None and self.test_density is self.pool_density

    @property
    def n_columns(self) -> int:
        return len(self.region.variables)

    @property
    def n_inputs(self) -> int:
        return sum(variable.n_inputs for variable in self.region.variables)

    @property
    def input_names(self) -> list[str] | None:
        return [name for variable in self.region.variables for name in variable.input_names]

    def intrinsic_dimension(self, seed: int) -> float:
        """The number of free numbers; of a table what TwoNN finds, if that is less."""
        free = float(self.region.dimension)
        has_reals = any(isinstance(variable, Real) for variable in self.region.variables)
        if not (self.is_table and has_reals and len(np.unique(self.codes, axis=0)) > 2):
            return free
        return min(free, max(1.0, self.array.intrinsic_dimension(seed)))

    def place(
        self, indices: Int[Tensor, " b"], *, generator: torch.Generator, taken: Sequence[int] | None = None
    ) -> Float[ndarray, "b v"]:
        """Points within the cells of a region, with whole numbers and levels, that fulfil the constraints."""
        points: ndarray = self.codes[indices.numpy()]
        if self.cell is None:
            return points
        first = np.zeros(len(points), dtype=bool)
        first[np.unique(indices.numpy(), return_index=True)[1]] = True
        moves = ~(first & ~np.isin(indices.numpy(), taken)) if taken is not None else np.ones(len(points), dtype=bool)
        for _ in range(TRIES):
            rows = np.flatnonzero(moves)
            if not len(rows):
                break
            jitter = torch.rand((len(rows), points.shape[1]), dtype=torch.float64, generator=generator).numpy() - 0.5
            moved = moved_points(self.region, self.codes[indices.numpy()[rows]], self.cell * jitter)
            good = self.region.inside(moved) & self.region.fulfilled(moved)
            good &= (moved != points[rows]).any(axis=1)
            points[rows[good]] = moved[good]
            moves[rows[good]] = False
        return points

    # Points of users.

    def locate(self, batch: UserInput) -> Points:
        return self.locate_among(batch, lambda: ([], np.empty((0, self.n_columns))), lambda _: False)

    def locate_among(self, batch: UserInput, pending: Pending, is_known: IsKnown) -> Points:
        """Points of a table by their labels or values, others by their values; those nearly pending are these."""
        if not is_table(batch):
            rows = self._finder.labelled(batch)
            return rows, self.codes[rows].reshape(-1, self.n_columns)
        found = columns_of(batch, self.region.names)
        if not found.n:
            return [], np.empty((0, self.n_columns))
        codes = self.region.codes(found.columns)
        if not self.is_box:
            rows = self._finder.of(codes, found.labels, pending()[0])
            return rows, self.codes[rows]
        codes, numbers = recognised(self.region.variables, codes, pending, is_known)
        is_other = numbers < 0
        self.region.check(codes[is_other], slack=SLACK)
        numbers[is_other] = self._tree.query(self.region.inputs(codes[is_other]))[1]
        return numbers.tolist(), codes

    def check_recorded(self, inputs: Float[ndarray, "n v"]) -> None:
        """Codes lie within the bounds of their variables, and those of whole numbers and levels are whole."""
        are_whole = np.array([variable.n_values is not None for variable in self.region.variables])
        fractions = np.abs(inputs - np.rint(inputs))[:, are_whole]
        wrong = ~self.region.inside(inputs) | (fractions > ROUNDING).any(axis=1)
        if wrong.any():
            lower, upper = self.region.bounds.tolist()
            raise ValueError(
                f"inputs of {self.region.names} must lie between {lower} and {upper}, those of whole numbers and "
                f"levels be whole, got {inputs[wrong][0].tolist()}"
            )

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.X)

    @cached_property
    def _finder(self) -> RowFinder:
        return RowFinder(self.region, self.codes, self.index, is_table=self.is_table)

    def batch(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n v"]) -> Table:
        """A data frame, with the labels of a table's rows."""
        index = None
        if self.is_table:
            index = numbers.tolist() if self.index is None else [self.index[number] for number in numbers.tolist()]
        return as_table(self.region.columns(inputs), index=index, units=units_of(self.region.variables))

    def named(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n v"]) -> list[Any]:
        """Labels of a table's rows as text, otherwise values by name."""
        if self.is_table:
            return [str(number if self.index is None else self.index[number]) for number in numbers.tolist()]
        columns = {name: column.tolist() for name, column in self.region.columns(inputs).items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    # What models see.

    def oracle_inputs(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n v"]) -> Table:
        """The same as `ask` returns."""
        return self.batch(numbers, inputs)

    def model_inputs(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n v"]) -> ndarray:
        del numbers
        return self.region.inputs(inputs)

    def encoded(self, points: UserInput) -> ndarray:
        return self.region.inputs(self.region.codes(columns_of(points, self.region.names).columns))

    def inputs_at(self, numbers: Int[Tensor, " n"]) -> ndarray:
        return self.array.inputs_at(numbers)

    def parts(self) -> Iterator[tuple[slice, ndarray]]:
        return self.array.parts()

    def labels(self, values: UserInput, n: int, *, name: str) -> Float[ndarray, "n *label"]:
        return self.array.labels(values, n, name=name)

    def has_label(self, labels: Float[ndarray, "n *label"]) -> Bool[ndarray, " n"]:
        return self.array.has_label(labels)

    @property
    def allows_gaps(self) -> bool:
        return self.array.allows_gaps

    def density_of(self, numbers: Sequence[int], inputs: Float[ndarray, "n v"], seed: int) -> Float[Tensor, " N"]:
        del numbers
        return mixed_density(self.region, self.codes, of=inputs, seed=seed)

    @cached_property
    def metric(self) -> Metric:
        """Euclidean in columns of equal spread, those of the levels of one category in their common one."""
        spread = self._spread
        return Metric(lambda X: torch.from_numpy(np.asarray(X)) / spread, squared_distances)

    def neighbours(self, at: Points, among: Points, k: int) -> Int[ndarray, "n k"]:
        others, points = (self.region.inputs(each[1]) / self._spread.numpy() for each in (among, at))
        return np.asarray(KDTree(others).query(points, k=range(1, k + 1))[1])

    @cached_property
    def _spread(self) -> Float[Tensor, " d"]:
        spread = column_spread(torch.from_numpy(self.X))
        return ColumnGroups.of(column_groups(self.region.variables), spread).common(spread)

    def save_model(self, model: Any, path: str | os.PathLike[str]) -> None:  # noqa: ANN401 - a fitted model
        """With the variables, so that it predicts from raw columns."""
        if isinstance(model, OutputModels) and model.basis is not None:
            raise ValueError(
                "a model of curves cannot be written with its variables; keep the campaign's folder instead"
            )
        models = model.models if isinstance(model, OutputModels) else {OUTPUT: model}
        SpaceModel(self.region.variables, models).save(path)

    # Files.

    def to_tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Functions among the constraints are left out; null is in their place."""
        tensors = {"codes": torch.tensor(self.codes), "pool_density": self.pool_density}
        if self.test_density is not self.pool_density:
            tensors["test_density"] = self.test_density
        if self.cell is not None:
            tensors["cell"] = torch.tensor([self.cell], dtype=torch.float64)
        if self.index is not None:
            labels = json.dumps(self.index).encode()
            tensors["index"] = torch.frombuffer(bytearray(labels), dtype=torch.uint8)
        if self.cost is not None:
            tensors["cost"] = self.cost
        fields = {} if self.outputs is None else {"outputs": outputs_to_json(self.outputs)}
        return tensors, {"space": constraint_fields(self.region), "is_table": self.is_table, **fields}

    @classmethod
    def check_fields(cls, fields: Mapping[str, Any]) -> None:
        table({"space": SPACE, "is_table": _truth}, outputs=check_outputs)(fields, "candidates")
        region_from(fields["space"], None, check_only=True)

    @classmethod
    def check_tensors(cls, stored: StoredTensors, fields: Mapping[str, Any]) -> None:
        variables = region_from(fields["space"], None, check_only=True).variables
        stored.sizes |= {"v": len(variables), "d": sum(each.n_inputs for each in variables)}
        codes = stored.real("codes", "N v", least=-FINITE, most=FINITE)
        for variable, column in zip(variables, codes.numpy().T, strict=True):
            _check_codes(variable.name, column, variable.bounds, is_whole=variable.n_values is not None)
        stored.real("pool_density", "N", least=TINY, most=FINITE)
        if "test_density" in stored and not (stored.real("test_density", "N", least=0.0, most=FINITE) > 0).any():
            raise ValueError("test_density must be above zero somewhere, got zeros only")
        if "cell" in stored:
            stored.real("cell", "1", least=TINY, most=1.0)
        if "cost" in stored:
            stored.real("cost", "N", positive=True)
        if "index" in stored:
            _stored_index(stored.tensors["index"], stored.sizes["N"])
        if "validation.X" in stored:
            stored.real("validation.X", "k d", least=-1.0, most=2.0)
            shape = "k" if "outputs" not in fields else f"k {label_width(outputs_from_json(fields['outputs']))}"
            stored.real("validation.y", shape, least=-FINITE, most=FINITE)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], fields: Mapping[str, Any], space: Any) -> "SearchCandidates":  # noqa: ANN401 - a Space
        density, n = tensors["pool_density"], len(tensors["codes"])
        return cls(
            region=region_from(fields["space"], space),
            codes=tensors["codes"].numpy(),
            pool_density=density,
            test_density=tensors.get("test_density", density),
            cell=float(tensors["cell"][0]) if "cell" in tensors else None,
            index=_stored_index(tensors["index"], n) if "index" in tensors else None,
            is_table=fields["is_table"],
            outputs=outputs_from_json(fields["outputs"]) if "outputs" in fields else None,
            cost=tensors.get("cost"),
        )


def mixed_density(
    region: Region, codes: Float[ndarray, "N v"], *, of: Float[ndarray, "n v"], seed: int
) -> Float[Tensor, " N"]:
    """An estimate of the density that points follow: that of their numbers, times the frequencies of levels."""
    density = torch.ones(len(codes), dtype=torch.float64)
    are_levels = np.array([isinstance(variable, Categorical) for variable in region.variables])
    if not are_levels.all():
        numbers = Region(tuple(each for each in region.variables if not isinstance(each, Categorical)), ())
        at, sample = (numbers.inputs(each[:, ~are_levels]) for each in (codes, of))
        density *= density_at(at, of=sample, generator=torch.Generator().manual_seed(seed))
    for column in np.flatnonzero(are_levels):
        levels = np.arange(region.variables[column].bounds[1] + 1.0)
        counts = 1.0 + (of[:, column, None] == levels).sum(axis=0)  # no level is impossible
        density *= torch.from_numpy(counts / counts.mean())[torch.from_numpy(codes[:, column]).long()]
    return density


def _truth(value: object, name: str) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {shown(value)}")


def _check_codes(name: str, codes: ndarray, bounds: tuple[float, float], *, is_whole: bool) -> None:
    if codes.min() < bounds[0] or codes.max() > bounds[1]:
        raise ValueError(f"codes of {name!r} must be from {bounds[0]:g} to {bounds[1]:g}, got {codes.min()}")
    if is_whole and (codes != np.rint(codes)).any():
        raise ValueError(f"codes of {name!r} must be whole numbers, got {codes[codes != np.rint(codes)][0]}")


def _stored_index(content: Tensor, n: int) -> list[Any]:
    """The labels of n rows."""
    if content.dtype != torch.uint8:
        raise ValueError(f"index must be of type uint8, got {content.dtype}")
    labels = json.loads(bytes(content.numpy()).decode())
    if (
        not isinstance(labels, list)
        or len(labels) != n
        or not all(isinstance(each, str | int | float) for each in labels)
    ):
        raise ValueError(f"index must be {n} texts or numbers, got {shown(labels)}")
    return labels
