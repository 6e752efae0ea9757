"""A trained force field: energies and forces of new configurations, in a file or in memory."""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.arrays import Bandwidths, resolve_device
from lobal.molecules.descriptor import Positions, describe
from lobal.molecules.expert import MolecularExperts
from lobal.molecules.kernel import MolecularKernel
from lobal.molecules.labels import Labels
from lobal.molecules.prediction import Predictor
from lobal.molecules.radial import RADIAL_KERNELS, radial_kernel_named
from lobal.record import load_record, save_record

KIND = "force field"  # how a file says what it holds
VERSION = 1  # of what a force field's file holds, within the format of `record.files`
TENSORS = ("species", "positions", "weights", "constants", "bandwidths", "shared", "permutations")


class Prediction(NamedTuple):
    """Energies in eV and forces in eV / Angstrom."""

    energies: Float[ndarray, " n"]
    forces: Float[ndarray, "n N 3"]


@final
@dataclass(frozen=True, kw_only=True)
class ForceField:
    """What the configurations learned from, and the weights of their labels, say about others.

    There is room for several experts, one bandwidth and one row of weights each. Which of them is in charge where is
    for a gate to say, and without one there is one expert.
    """

    species: Int[Tensor, " N"]  # atomic numbers
    kernel: MolecularKernel
    bandwidths: Bandwidths
    labels: Labels  # what was learned from
    positions: Positions  # of what was learned from, Angstrom
    weights: Float[Tensor, "L m"]  # lambda alpha, of all labels
    constants: Float[Tensor, " L"]  # added to the energies
    about: dict[str, Any]  # how it came about, in plain words and numbers

    def __post_init__(self) -> None:
        if len(self.bandwidths) != 1:
            raise ValueError(f"a force field without a gate has one expert, got {len(self.bandwidths)}")

    @classmethod
    def of(
        cls, experts: MolecularExperts, *, positions: Positions, species: Int[Tensor, " N"], about: dict[str, Any]
    ) -> "ForceField":
        """The force field of experts that were given labels at these positions."""
        return cls(
            species=species,
            kernel=experts.ladder.kernel,
            bandwidths=experts.ladder.bandwidths,
            labels=experts.ladder.labels,
            positions=positions,
            weights=experts.weights,
            constants=experts.constants,
            about=about,
        )

    @cached_property
    def predictor(self) -> Predictor:
        """Weights contracted with the Jacobians, once."""
        return Predictor.of(
            self.kernel,
            describe(self.positions),
            self.weights,
            bandwidths=self.bandwidths,
            labels=self.labels,
        )

    def predict(self, R: Any) -> Prediction:  # noqa: ANN401 - array-likes of any kind are welcome
        """Energies and forces of configurations (n, N, 3) in Angstrom, atoms in the order of `species`.

        Raises:
            ValueError: positions have another shape, are not finite, or atoms coincide.
        """
        positions = torch.as_tensor(np.asarray(R, dtype=np.float64) if not isinstance(R, Tensor) else R)
        if positions.ndim != 3 or positions.shape[1:] != self.positions.shape[1:]:
            raise ValueError(
                f"positions must have shape (n, {len(self.species)}, 3), got {tuple(positions.shape)}; "
                "a single configuration is R[None]"
            )
        energies, forces = self.predictor(positions.to(self.weights))
        return Prediction((energies + self.constants[:, None])[0].cpu().numpy(), forces[0].cpu().numpy())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file: positions, weights and hyperparameters, without pickle. It appears whole or not at all."""
        kept = (
            self.species,
            self.positions,
            self.weights,
            self.constants,
            self.bandwidths,
            self.kernel.shared,
            self.kernel.permutations,
        )
        radial = next(name for name, kernel in RADIAL_KERNELS.items() if kernel is self.kernel.radial)
        fields = {
            "kind": KIND,
            "version": VERSION,
            "radial": radial,
            "labels": self.labels.name,
            "gate": None,
            "about": self.about,
        }
        save_record(path, {name: part.detach().cpu().clone() for name, part in zip(TENSORS, kept, strict=True)}, fields)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | torch.device | None = None) -> "ForceField":
        """The force field that `save` wrote.

        Raises:
            ValueError: the file holds something else, or a newer lobal wrote it.
        """
        tensors, fields = load_record(path)
        if fields.get("kind") != KIND or not set(TENSORS) <= tensors.keys():
            raise ValueError(
                f"{os.fspath(path)!r} is a file of lobal's, but no force field; a model or a step of a campaign "
                "is loaded with MixtureRegressor.load or ActiveLearner.load"
            )
        if fields["version"] > VERSION or fields["gate"] is not None:
            raise ValueError(
                f"{os.fspath(path)!r} is a force field of version {fields['version']}, this lobal reads version "
                f"{VERSION}, without a gate; install a newer lobal"
            )
        species, positions, weights, constants, bandwidths, shared, permutations = (
            tensors[name].to(resolve_device(device)) for name in TENSORS
        )
        radial = radial_kernel_named(fields["radial"])
        return cls(
            species=species,
            kernel=MolecularKernel(radial=radial, shared=shared, permutations=permutations),
            bandwidths=bandwidths,
            labels=Labels[fields["labels"]],
            positions=positions,
            weights=weights,
            constants=constants,
            about=fields["about"],
        )
