"""Energies and forces as labels: which of them there are, and their order in a vector."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.molecules.geometry.descriptor import Geometry, Positions, describe


@final
class Labels(Enum):
    """Which labels a configuration has; energies come before forces."""

    ENERGIES = (True, False)
    FORCES = (False, True)
    BOTH = (True, True)

    @property
    def energies(self) -> bool:
        """Whether the energy is among them."""
        return self.value[0]

    @property
    def forces(self) -> bool:
        """Whether the forces are among them."""
        return self.value[1]

    @classmethod
    def named(cls, name: str) -> "Labels":
        """The labels of that name: "energies", "forces" or "both"."""
        if name.upper() not in cls.__members__:
            raise ValueError(f"labels must be one of {', '.join(cls.__members__).lower()}, got {name!r}")
        return cls[name.upper()]

    def width(self, number_of_atoms: int) -> int:
        """Labels per configuration: 1, 3 N or 1 + 3 N."""
        return self.energies + 3 * number_of_atoms * self.forces


class EnergiesForces(NamedTuple):
    """Predictions of every expert at every configuration."""

    energies: Float[Tensor, "L n"]
    forces: Float[Tensor, "L n N 3"]


@final
@dataclass(frozen=True, kw_only=True)
class LabelledMolecules:
    """Configurations of one molecule with energies, forces or both."""

    geometry: Geometry
    energies: Float[Tensor, " n"] | None
    forces: Float[Tensor, "n N 3"] | None

    @classmethod
    def at(cls, R: Positions, *, energies: Tensor | None = None, forces: Tensor | None = None) -> "LabelledMolecules":
        """Labels at positions, checked."""
        cls.check(R, energies=energies, forces=forces)
        return cls(geometry=describe(R), energies=energies, forces=forces)

    @staticmethod
    def check(R: Positions, *, energies: Tensor | None, forces: Tensor | None) -> None:
        """Raise a ValueError for labels that do not have the shape of the positions or are not finite."""
        for name, labels, shape in (("energies", energies, R.shape[:1]), ("forces", forces, R.shape)):
            if labels is not None:
                _check(labels, name, shape)

    def part(self, rows: slice | Int[Tensor, " k"]) -> "LabelledMolecules":
        """Some of the configurations, with their labels."""
        energies, forces = (None if part is None else part[rows] for part in (self.energies, self.forces))
        return LabelledMolecules(geometry=self.geometry.at(rows), energies=energies, forces=forces)

    def residual(self, labels: Labels, mean: Float[Tensor, ""]) -> Float[Tensor, "n w"]:
        """y - mu of the given labels; mu is the mean of energies, forces have mean zero."""
        columns = []
        if labels.energies:
            columns.append((_given(self.energies, "energies") - mean)[:, None])
        if labels.forces:
            columns.append(_given(self.forces, "forces").flatten(1))
        return torch.cat(columns, dim=1)


def split_labels(values: Float[Tensor, "L labels"], labels: Labels, number_of_atoms: int) -> EnergiesForces:
    """Energies and forces from a vector in the order of labels; zero for what is not among the labels."""
    each = values.unflatten(1, (-1, labels.width(number_of_atoms)))
    energies = each[..., 0] if labels.energies else torch.zeros_like(each[..., 0])
    if not labels.forces:
        return EnergiesForces(energies, each.new_zeros(*energies.shape, number_of_atoms, 3))
    return EnergiesForces(energies, each[..., int(labels.energies) :].unflatten(-1, (number_of_atoms, 3)))


def _check(labels: Tensor, name: str, shape: torch.Size) -> None:
    if labels.shape != shape:
        raise ValueError(f"{name} must have shape {tuple(shape)}, got {tuple(labels.shape)}")
    if not torch.isfinite(labels).all():
        first = (~torch.isfinite(labels)).nonzero()[0]
        where = f"configuration {int(first[0])}" + (f", atom {int(first[1])}" if len(first) > 1 else "")
        raise ValueError(f"{name} must be finite, got {labels[tuple(first)].item()} at {where}")


def _given(labels: Tensor | None, name: str) -> Tensor:
    if labels is None:
        raise ValueError(f"{name} are needed as labels, but the configurations have none")
    return labels
