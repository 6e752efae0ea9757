"""A trained force field: energies and forces of new configurations, in a file or in memory, and their errors."""

import hashlib
import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.core.arrays import Bandwidths, resolve_device
from lobal.core.files import load_record, save_record
from lobal.core.schema import optional, read_from, real, table, text, whole
from lobal.core.stored_tensors import StoredTensors, check_memory
from lobal.core.superior_density import local_bandwidth, local_complexity
from lobal.molecules.field.gate import ForceGate
from lobal.molecules.field.gate_storage import GATE_KINDS, check_gate, gate_from, gate_kind, gate_tensors
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.radial import RADIAL_KERNELS, radial_kernel_named
from lobal.molecules.geometry.descriptor import Positions, describe
from lobal.molecules.geometry.trajectory import HEAVIEST, Trajectory, check_species

KIND = "force field"  # of the file
VERSION = 1  # of a force field's file, within the format of `core.files`
OWN_TENSORS = ("species", "positions", "weights", "constants", "bandwidths")
LEARNED = "learned"  # an optional tensor of files
FINGERPRINT_BYTES = 8  # two of a million configurations have the same one with a probability of 3e-8
# delta of files that do not name it: the paper's for malonaldehyde, two angles of rotation (Sec. 5.2).
INTRINSIC_DIMENSION = 2.0
LOOKED_AT = 4  # configurations that predictions of a file are checked at
FIELDS = table(
    {
        "radial": text(*RADIAL_KERNELS),
        "labels": text(*Labels.__members__),
        "gate": optional(text(*GATE_KINDS)),
        "about": table(
            {},
            configurations=whole(),
            dimension=real(1e-6, 1e6),
            errors=optional(table({}, force_rmse=real(0.0, words=(None,)))),
        ),
    }
)
ABOUT_GATES = ("shares", "gate_width", "gate_scale")


class Prediction(NamedTuple):
    """Energies in eV and forces in eV / Angstrom."""

    energies: Float[ndarray, " n"]
    forces: Float[ndarray, "n N 3"]


@final
@dataclass(frozen=True, kw_only=True)
class ForceField:
    """Energies and forces of a molecule, predicted from weighted configurations.

    These are the ones learned from or, of sparse experts, the inducing ones among them. Experts have one bandwidth and
    one row of weights each. A gate weights several of them at each configuration; without one there is one expert.
    """

    species: Int[Tensor, " N"]  # atomic numbers
    kernel: MolecularKernel
    bandwidths: Bandwidths
    labels: Labels  # that have weights
    positions: Positions  # of the configurations with these labels, Angstrom
    weights: Float[Tensor, "L m"]  # lambda alpha, of all labels
    constants: Float[Tensor, " L"]  # added to the energies
    about: dict[str, Any]  # how it was trained, as JSON can hold it
    gate: ForceGate | None = None
    learned: Int[Tensor, " k"] | None = None  # fingerprints of what was learned from, if not of these positions alone

    def __post_init__(self) -> None:
        if self.gate is None and len(self.bandwidths) != 1:
            raise ValueError(f"a force field without a gate has one expert, got {len(self.bandwidths)}")

    def expert(self, number: int) -> "ForceField":
        """The force field of one of the experts alone."""
        one = slice(number, number + 1)
        return replace(
            self,
            gate=None,
            bandwidths=self.bandwidths[one],
            weights=self.weights[one],
            constants=self.constants[one],
            about={name: value for name, value in self.about.items() if name not in ABOUT_GATES},
        )

    def has_learned_from(self, R: Positions) -> Bool[Tensor, " n"]:
        """Whether labels of each configuration were learned from, recognised by exact positions."""
        return torch.isin(fingerprints(R), fingerprints(self.positions) if self.learned is None else self.learned)

    @cached_property
    def predictor(self) -> Predictor:
        """Weights contracted with the Jacobians."""
        training = describe(self.positions)
        return Predictor.of(self.kernel, training, self.weights, bandwidths=self.bandwidths, labels=self.labels)

    def predict(self, R: Any) -> Prediction:  # noqa: ANN401 - array-likes of any kind are welcome
        """Energies and forces of configurations (n, N, 3) in Angstrom, atoms in the order of `species`.

        Raises:
            ValueError: positions have another shape, are not finite, or atoms coincide.
        """
        return self.predict_local(R)[0]

    def predict_local(self, R: Any) -> tuple[Prediction, Float[ndarray, " n"] | None]:  # noqa: ANN401 - as above
        """Energies and forces, and the local bandwidth if the force field is a mixture."""
        geometry = describe(self._positions(R))
        if self.gate is None:
            energies, forces = self.predictor.at(geometry)
            return _prediction(energies + self.constants[:, None], forces), None
        (energies, forces), gate = self.gate.mixed(self.predictor, self.constants, geometry)
        return _prediction(energies, forces), local_bandwidth(gate, self.bandwidths).cpu().numpy()

    def local_bandwidth(self, R: Any) -> Float[ndarray, " n"]:  # noqa: ANN401 - as above
        """sigma(z), the factor of Sigma_E in the locally optimal bandwidth of configurations, Eq. (eq:gprLOB).

        Raises:
            ValueError: as `predict`, and if there is one expert alone.
        """
        if self.gate is None:
            raise ValueError("a force field of one expert has one bandwidth everywhere; train a mixture")
        return local_bandwidth(self.gate.at(describe(self._positions(R))), self.bandwidths).cpu().numpy()

    def local_complexity(self, R: Any, *, dimension: float | None = None) -> Float[ndarray, " n"]:  # noqa: ANN401 - as above
        """Local function complexity (LFC) of configurations at alpha = infinity, up to a constant factor.

        `dimension` is the intrinsic one, by default that of the configurations learned from.
        """
        return self.complexity_at(self.local_bandwidth(R), dimension=dimension)

    def complexity_at(self, bandwidth: Float[ndarray, " n"], *, dimension: float | None = None) -> Float[ndarray, " n"]:
        """The same from local bandwidths."""
        sigma = torch.from_numpy(bandwidth)
        delta = self.about.get("dimension", INTRINSIC_DIMENSION) if dimension is None else dimension
        return local_complexity(sigma, torch.ones_like(sigma), smoothness=math.inf, dimension=delta).numpy()

    def _positions(self, R: Any) -> Positions:  # noqa: ANN401 - as above
        positions = torch.as_tensor(np.asarray(R, dtype=np.float64) if not isinstance(R, Tensor) else R)
        if positions.ndim != 3 or positions.shape[1:] != self.positions.shape[1:]:
            raise ValueError(
                f"positions must have shape (n, {len(self.species)}, 3), got {tuple(positions.shape)}; "
                "a single configuration is R[None]"
            )
        return positions.to(self.weights)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file: positions, weights and hyperparameters, without pickle. It appears whole or not at all."""
        radial = next(name for name, kernel in RADIAL_KERNELS.items() if kernel is self.kernel.radial)
        gate = None if self.gate is None else gate_kind(self.gate)
        fields = {"kind": KIND, "version": VERSION, "radial": radial, "labels": self.labels.name, "gate": gate}
        tensors = {name: getattr(self, name) for name in OWN_TENSORS}
        tensors |= {"shared": self.kernel.shared_bandwidth, "permutations": self.kernel.permutations}
        tensors |= {} if self.gate is None else gate_tensors(self.gate)
        tensors |= {} if self.learned is None else {LEARNED: self.learned}
        parts = {name: part.detach().cpu().clone() for name, part in tensors.items()}
        save_record(path, parts, fields | {"about": self.about})

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | torch.device | None = None) -> "ForceField":
        """The force field that `save` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file holds something else, or a newer lobal wrote it.
        """
        if not Path(path).exists():
            raise FileNotFoundError(f"there is no file {os.fspath(path)}")
        tensors, fields = load_record(path)
        if fields.get("kind") != KIND or not {*OWN_TENSORS, "shared", "permutations"} <= tensors.keys():
            raise ValueError(
                f"{os.fspath(path)!r} is a file of lobal, but not a force field; load models with "
                "MixtureRegressor.load and campaigns with ActiveLearner.load"
            )
        version, gate = fields.get("version"), fields.get("gate")
        if not isinstance(version, int) or version > VERSION or gate not in (None, *GATE_KINDS):
            raise ValueError(
                f"{os.fspath(path)!r} is a force field of version {version!r}, gate {gate!r}; this "
                f"lobal reads version {VERSION}, gates None and {', '.join(GATE_KINDS)}; install a newer lobal"
            )
        with read_from(path, "a force field"):
            force_field = cls._assembled(tensors, fields, resolve_device(device))
            force_field._check_predictions()
        return force_field

    @classmethod
    def _assembled(cls, tensors: dict[str, Tensor], fields: dict[str, Any], device: torch.device) -> "ForceField":
        """The force field of a file, if its tensors fit together."""
        FIELDS(fields, "fields")
        _check_tensors(StoredTensors(tensors), Labels[fields["labels"]], gate=fields["gate"])
        learned = tensors.pop(LEARNED, None)  # compared on the CPU
        tensors = {name: part.to(device) for name, part in tensors.items()}
        radial, shared = radial_kernel_named(fields["radial"]), tensors["shared"]
        return cls(
            **{name: tensors[name] for name in OWN_TENSORS},
            kernel=MolecularKernel(radial=radial, shared_bandwidth=shared, permutations=tensors["permutations"]),
            labels=Labels[fields["labels"]],
            about=fields["about"],
            gate=None if fields["gate"] is None else gate_from(fields["gate"], tensors),
            learned=learned,
        )

    def _check_predictions(self) -> None:
        """Refuse a force field that does not predict numbers where it has learned."""
        prediction, width = self.predict_local(self.positions[:LOOKED_AT])
        if not all(np.isfinite(part).all() for part in (*prediction, 1.0 if width is None else np.log(width))):
            raise ValueError("its predictions must be finite, got NaN or infinity")


class Errors(NamedTuple):
    """Root mean squared and mean absolute errors, in eV and, of all force components, eV / Angstrom."""

    energy_rmse: float | None  # none where there are no energies to compare with
    energy_mae: float | None
    force_rmse: float | None
    force_mae: float | None


def unseen(force_field: ForceField, trajectory: Trajectory) -> Trajectory:
    """The configurations that the force field has not learned from, whose errors would be too good to be true.

    Raises:
        ValueError: there are no such configurations.
    """
    new = (~force_field.has_learned_from(trajectory.R)).nonzero()[:, 0]
    if len(new) == 0:
        raise ValueError(
            f"the force field has learned from all {len(trajectory)} configurations of {trajectory.source}; "
            "evaluate it on others"
        )
    return trajectory.at(new)


def errors_on(force_field: ForceField, trajectory: Trajectory, weight: Float[ndarray, " n"] | None = None) -> Errors:
    """The errors of a force field at all configurations of a trajectory, weighed where there are weights.

    Raises:
        ValueError: the trajectory is one of other atoms.
    """
    check_species(force_field.species.cpu(), trajectory.species, trajectory.source)
    energies, forces = force_field.predict(trajectory.R)
    off = [None if trajectory.energies is None else energies - trajectory.energies.numpy()]
    off.append(None if trajectory.forces is None else forces - trajectory.forces.numpy())
    return Errors(*(each for part in off for each in ((None, None) if part is None else _measured(part, weight))))


def _measured(errors: Float[ndarray, "..."], weight: Float[ndarray, " n"] | None) -> tuple[float, float]:
    """Root mean squared and mean absolute, over configurations and, in each, all components."""
    squares, sizes = (part.reshape(len(errors), -1).mean(1) for part in (np.square(errors), np.abs(errors)))
    return math.sqrt(np.average(squares, weights=weight)), float(np.average(sizes, weights=weight))


def fingerprints(R: Positions) -> Int[Tensor, " n"]:
    """A hash of every configuration, the same on all devices."""
    digests = (hashlib.blake2b(row.tobytes(), digest_size=FINGERPRINT_BYTES).digest() for row in R.cpu().numpy())
    return torch.from_numpy(np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64))


def _prediction(energies: Float[Tensor, "1 n"], forces: Float[Tensor, "1 n N 3"]) -> Prediction:
    return Prediction(energies[0].cpu().numpy(), forces[0].cpu().numpy())


def _check_tensors(stored: StoredTensors, labels: Labels, *, gate: str | None) -> None:
    """Refuse tensors of a file that do not fit together."""
    stored.check_one_type()
    N = len(stored.whole("species", "N", least=0, most=HEAVIEST))
    n, D = len(stored.real("positions", "n N 3")), N * (N - 1) // 2
    stored.sizes |= {"D": D, "labels": n * labels.width(N)}
    g = len(stored.whole("permutations", "g N", least=0, most=N - 1))
    stored.real("shared", "D", positive=True)
    L = len(stored.ascending("bandwidths", "L"))
    stored.real("weights", "L labels")
    stored.real("constants", "L")
    check_memory(L * n * g * D, "its predictor")
    if LEARNED in stored:
        stored.whole(LEARNED, "k", least=-(2**63), most=2**63 - 1)
    if gate is not None:
        check_gate(gate, stored)
