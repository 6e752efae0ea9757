"""Force fields as the surrogate of a learner."""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.candidates import Candidates, Metric, seed_of
from lobal.active.surrogate import FitTask, FittedSurrogate, NoiseFunction, Surrogate, Validation
from lobal.core.arrays import resolve_device
from lobal.molecules.field.forcefield import ForceField, errors_on
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.geometry.descriptor import descriptors
from lobal.molecules.geometry.permutations import Permutations, symmetrised_bandwidth, symmetrised_squared_distances
from lobal.molecules.geometry.trajectory import Trajectory

logger = logging.getLogger(__name__)

MOLECULES = "molecules"  # kind of the candidates
MODEL = "model.lobal"  # file of the last force field in a campaign's folder
FIT = 1  # what a seed is for; draws have another number
SHARED_BANDWIDTH = "shared"  # Sigma_E, by its name in files of campaigns


@final
class FittedForceField(FittedSurrogate):
    """A force field; its validation error is the root mean squared one of forces, in eV / Angstrom."""

    def __init__(self, model: ForceField, *, is_bandwidth_kept: bool) -> None:
        self.model: ForceField = model
        self.validation_error: float | None = (model.about.get("errors") or {}).get("force_rmse")
        self.noise: float | None = None
        self._is_bandwidth_kept = is_bandwidth_kept

    def predict(self, X: ndarray) -> ndarray:
        """Energies and forces in one row."""
        energies, forces = self.model.predict(X)
        return np.concatenate([energies[:, None], forces.reshape(len(X), -1)], axis=1)

    def local_bandwidth(self, X: ndarray) -> Float[ndarray, " n"]:
        return self.model.local_bandwidth(X)

    def metric(self, candidates: Candidates) -> Metric:
        permutations = _molecule(candidates)[1]
        shared = self.model.kernel.shared_bandwidth.detach()
        return symmetrised_metric(permutations, shared.device, symmetrised_bandwidth(shared.cpu(), permutations))

    def relative_error(self, labels: ndarray) -> float | None:
        """Of the forces."""
        return None if self.validation_error is None else self.validation_error / float(labels[:, 1:].std())

    def noise_variance(self, X: ndarray) -> Float[ndarray, " n"]:
        return np.ones(len(X))

    def kept(self) -> dict[str, Tensor]:
        """Sigma_E, once it was trained with as many configurations as it is meant to be."""
        shared_bandwidth = self.model.kernel.shared_bandwidth.detach().cpu().clone()
        return {SHARED_BANDWIDTH: shared_bandwidth} if self._is_bandwidth_kept else {}

    def save(self, path: str | os.PathLike[str]) -> None:
        self.model.save(path)


@final
class ForceFieldSurrogate(Surrogate):
    """Fits a mixture of force fields at every step.

    Args:
        settings: how force fields are learned. `device` may change when a campaign goes on.
        shared_bandwidth: Sigma_E, one entry for every pair of atoms, where it is known; otherwise it is trained.

    The last force field of a saved campaign is in its folder. It is not fitted again, as after a restart, if nothing
    that it depends on has changed.

    Raises:
        ValueError: the settings are not those of a mixture, which alone has local bandwidths.
    """

    kind: ClassVar[str] = "force_field"

    def __init__(
        self, settings: ForceFieldSettings | None = None, *, shared_bandwidth: Float[Tensor, " D"] | None = None
    ) -> None:
        self.settings = ForceFieldSettings() if settings is None else settings
        self.shared_bandwidth = shared_bandwidth
        self._last_fit: Path | None = None
        self._is_read_only = False
        if not self.settings.mixture or self.settings.labels != "both":
            raise ValueError(
                "a campaign needs local bandwidths, which only a mixture has, and labels of both kinds; got "
                f"mixture={self.settings.mixture} and labels={self.settings.labels!r}"
            )

    def fit(self, task: FitTask) -> FittedForceField:
        task_hash = self._hash(task)
        model = self._read_last_fit(task_hash)
        if model is None:
            model = self._fit(task)
            model = replace(model, about=model.about | {"task": task_hash})
            if self._last_fit is not None and not self._is_read_only:
                model.save(self._last_fit)
        return self._fitted(model)

    def _fit(self, task: FitTask) -> ForceField:
        species, permutations = _molecule(task.candidates)
        generator = torch.Generator().manual_seed(seed_of(task.seed, task.step, FIT))
        model = fit_force_field(
            _trajectory(Validation(task.X, task.y), species),
            self.settings,
            shared_bandwidth=task.kept.get(SHARED_BANDWIDTH, self.shared_bandwidth),
            permutations=permutations,
            weight=None if self.settings.softmax_gate is None else torch.from_numpy(task.weight),
            generator=generator,
        )
        about = {**model.about, "dimension": task.dimension}
        if task.validation is not None:
            errors = errors_on(model, _trajectory(task.validation, species), task.validation.weight)
            about |= {"validation": len(task.validation.y), "errors": errors._asdict()}
        return replace(model, about=about)

    def _fitted(self, model: ForceField) -> FittedForceField:
        is_kept = model.about.get("configurations", 0) >= 2 * self.settings.anisotropy_size
        return FittedForceField(model, is_bandwidth_kept=is_kept)

    def _hash(self, task: FitTask) -> str:
        """A hash of everything that a fit depends on."""
        settings = {name: value for name, value in self.to_settings().items() if name != "device"}
        words = json.dumps([settings, task.seed, task.step, task.dimension])
        tensors = [tensor.numpy() for _, tensor in sorted(task.kept.items())]
        tensors += [] if self.settings.softmax_gate is None else [task.weight]
        arrays = [task.X, task.y, *tensors, *(part for part in task.validation or () if part is not None)]
        content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
        return hashlib.sha256(words.encode() + content).hexdigest()

    def _read_last_fit(self, task_hash: str) -> ForceField | None:
        if self._last_fit is None or not self._last_fit.exists():
            return None
        try:
            model = ForceField.load(self._last_fit, self.settings.device)
        except ValueError as error:
            logger.warning("%s cannot be read and is fitted again: %s", self._last_fit, error)
            return None
        return model if model.about.get("task") == task_hash else None

    def use_device(self, device: str) -> None:
        resolve_device(device)
        self.settings = replace(self.settings, device=device)

    def use_folder(self, folder: Path, *, read_only: bool) -> None:
        self._last_fit, self._is_read_only = folder / MODEL, read_only

    def load(self, path: str | os.PathLike[str]) -> FittedForceField:
        return self._fitted(ForceField.load(path, self.settings.device))

    def to_settings(self) -> dict[str, Any]:
        given = None if self.shared_bandwidth is None else self.shared_bandwidth.tolist()
        return asdict(self.settings) | {"shared_bandwidth": given}

    @classmethod
    def check_settings(cls, settings: Mapping[str, Any], n_columns: int) -> None:
        if n_columns:
            raise ValueError(f"force fields must be learned over molecules, got inputs of {n_columns} columns")
        cls(ForceFieldSettings.from_fields(settings))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], *, noise: NoiseFunction | None = None) -> "ForceFieldSurrogate":
        if noise is not None:
            raise ValueError("force fields have no function for their noise; leave noise out")
        given = settings.get("shared_bandwidth")
        shared_bandwidth = None if given is None else torch.tensor(given, dtype=torch.float64)
        return cls(ForceFieldSettings.from_fields(settings), shared_bandwidth=shared_bandwidth)

    @property
    def changed_options(self) -> dict[str, Any]:
        defaults = ForceFieldSurrogate().to_settings()
        return {name: value for name, value in self.to_settings().items() if value != defaults[name]}


def _molecule(candidates: Candidates) -> tuple[Tensor, Permutations]:
    """Atomic numbers and symmetries of the molecule."""
    if candidates.kind != MOLECULES:
        raise TypeError(f"force fields are learned over a MoleculePool, got candidates of kind {candidates.kind!r}")
    tensors, fields = candidates.to_tensors()
    return torch.tensor(fields["pool"]["species"]), tensors["permutations"]


def symmetrised_metric(
    permutations: Permutations, device: str | torch.device | None = None, width: Float[Tensor, " D"] | None = None
) -> Metric:
    """Distances of the closest representations, in units of a bandwidth that the group leaves as it is, on a device."""

    def coordinates(R: ndarray) -> Float[Tensor, "n D"]:
        values = descriptors(torch.from_numpy(np.ascontiguousarray(R)), device)
        return values if width is None else values / width.to(values.device)

    group = permutations.to(resolve_device(device))
    return Metric(coordinates, partial(symmetrised_squared_distances, permutations=group))


def _trajectory(labelled: Validation, species: Tensor) -> Trajectory:
    """Configurations with energies and forces."""
    R, y = (torch.from_numpy(np.ascontiguousarray(part)) for part in labelled[:2])
    return Trajectory(
        source="campaign", units="eV and Ang", species=species, R=R, energies=y[:, 0], forces=y[:, 1:].view_as(R)
    )
