"""Configurations of a molecule as the space of a learner: symmetrised distances, and densities by them."""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.active.candidates import Candidates, Metric, Points, seed_of
from lobal.active.spaces import Space
from lobal.active.surrogate import Surrogate, Validation
from lobal.core.checks import shown
from lobal.core.density import normalised
from lobal.core.real_numbers import as_numbers, check_complete
from lobal.core.schema import FINITE, TINY, flag, list_of, positive, real, table, text, whole
from lobal.core.stored_tensors import StoredTensors
from lobal.molecules.density import (
    TEST_DENSITIES,
    configuration_density,
    density_width,
    error_weights,
    intrinsic_dimension,
    named_test_density,
)
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.descriptor import Positions, describe, descriptors
from lobal.molecules.geometry.permutations import Permutations, check_group, symmetrised_squared_distances
from lobal.molecules.geometry.symmetry import permutation_group
from lobal.molecules.geometry.trajectory import HEAVIEST, Trajectory, check_species
from lobal.molecules.surrogate import MOLECULES, ForceFieldSurrogate, symmetrised_metric

logger = logging.getLogger(__name__)

# Fields of the candidates in a campaign's header.
IDENTITY = table({"sha256": text(), "n": whole(1), "species": list_of(whole(0, HEAVIEST)), "source": text()})


def _check_test_density(value: object, name: str) -> None:
    (real(0.0, 1.0) if isinstance(value, float) else text(*TEST_DENSITIES))(value, name)


POOL_FIELDS = table({"test_density": _check_test_density, "width": positive(), "pool": IDENTITY}, grows=flag)
FEWEST = 10  # configurations to choose from
DRAW = 0  # what a seed is for; fits have another number
PART = 2**17  # candidates whose local bandwidths are computed at a time: their Jacobians take 100 MB


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class MolecularCandidates(Candidates):
    """Configurations to choose from. A user knows them by their rows in the pool, models by their positions.

    Of a pool that `grows`, positions are recorded with every point: rows are those of the present pool only, which
    begins with all points so far. Labels are energies in eV and forces in eV / Angstrom, as rows of 1 + 3 N numbers, or
    as a pair of arrays (n,) and (n, N, 3). Of several labels of one configuration, the last one counts.
    """

    kind: ClassVar[str] = MOLECULES
    keeps_repeats: ClassVar[bool] = False

    R: Positions  # Angstrom
    rows: Int[Tensor, " M"]  # in the pool
    pool_density: Float[Tensor, " M"]
    test_name: str | float  # of the test density
    permutations: Permutations
    width: float  # of the kernels of densities
    pool: Mapping[str, Any]  # how the pool is recognised
    grows: bool = False
    device: str | None = None

    @cached_property
    def test_density(self) -> Float[Tensor, " M"]:  # type: ignore[override]
        """q, at equal norm with p_X."""
        return normalised(named_test_density(self.test_name, self.pool_density), self.pool_density)

    @property
    def initial_density(self) -> Float[Tensor, " M"]:
        """q^(1/2): the first configurations are spread out farther than q (Sec. 5.3, "Active learning")."""
        return normalised(named_test_density(self.test_name, self.pool_density).sqrt(), self.pool_density)

    @cached_property
    def X(self) -> Float[ndarray, "M D"]:  # noqa: N802 - a matrix, as in the paper
        """Inverse interatomic distances."""
        return descriptors(self.R).numpy()

    @property
    def is_box(self) -> bool:
        return False

    @property
    def n_columns(self) -> int:
        """None where the candidate number says which configuration it is, else 3 N coordinates."""
        return 3 * self.R.shape[1] if self.grows else 0

    @property
    def n_inputs(self) -> int:
        """None: models have positions."""
        return 0

    def generator(self, seed: int, step: int) -> torch.Generator:
        return torch.Generator().manual_seed(seed_of(seed, step, DRAW))

    def intrinsic_dimension(self, seed: int) -> float:
        """By TwoNN on the symmetrised distance; the seed does not matter."""
        del seed
        return intrinsic_dimension(torch.from_numpy(self.X), self.permutations)

    def place(
        self, indices: Int[Tensor, " b"], *, generator: torch.Generator, taken: Sequence[int] | None = None
    ) -> Float[ndarray, "b d"]:
        del generator, taken
        return self._recorded(indices)

    def _recorded(self, numbers: Any) -> Float[ndarray, "n d"]:  # noqa: ANN401 - numbers of any kind
        """What the journal keeps of candidates: positions, or nothing."""
        return self.R[numbers].flatten(1).numpy() if self.grows else np.empty((len(numbers), 0))

    def check_recorded(self, inputs: Float[ndarray, "n d"]) -> None:
        if self.grows and len(inputs):
            describe(torch.from_numpy(inputs).unflatten(1, (-1, 3)))  # for its checks

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {row: number for number, row in enumerate(self.rows.tolist())}

    def locate(self, batch: Any) -> Points:  # noqa: ANN401 - array-likes of any kind are welcome
        """Configurations are given by their rows in the pool, each once."""
        try:
            points = np.asarray(batch)
        except ValueError:
            points = np.array([None])
        rows: list[Any] = points.tolist() if points.ndim == 1 else [None]
        if any(row not in self._numbers for row in rows):
            raise ValueError(
                f"configurations must be rows of the pool, {len(self)} of {self.pool['n']} to choose from, "
                f"got {shown(batch)}"
            )
        if len({*rows}) < len(rows):
            raise ValueError(f"configurations must be given once each, got {shown(batch)}")
        numbers = [self._numbers[row] for row in rows]
        return numbers, self._recorded(numbers)

    def batch(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n d"]) -> Int[ndarray, " n"]:
        del inputs
        return np.asarray(self.rows.numpy()[numbers])

    def model_inputs(self, numbers: Int[ndarray, " n"], inputs: Float[ndarray, "n d"]) -> Float[ndarray, "n N 3"]:
        del inputs
        return np.asarray(self.R.numpy()[numbers])

    def inputs_at(self, numbers: Int[Tensor, " n"]) -> Float[ndarray, "n N 3"]:
        return np.asarray(self.R[numbers].numpy())

    def parts(self) -> Iterator[tuple[slice, ndarray]]:
        logger.info("local bandwidths of %d configurations", len(self))
        for start in range(0, len(self), PART):
            rows = slice(start, min(start + PART, len(self)))
            yield rows, self.R[rows].numpy()

    def labels(self, values: Any, n: int, *, name: str) -> Float[ndarray, "n w"]:  # noqa: ANN401 - array-likes
        return joined_labels(values, (n, self.R.shape[1]), name=name)

    def density_of(self, numbers: Sequence[int], inputs: Float[ndarray, "n d"], seed: int) -> Float[Tensor, " M"]:
        del inputs, seed
        return self.density_at(self.R, self.R[torch.tensor(numbers)])

    def density_at(self, R: Positions, of: Float[Tensor, "m N 3"]) -> Float[Tensor, " n"]:
        """The density that configurations `of` follow, at others."""
        at, centres = (descriptors(part, self.device) for part in (R, of))
        return configuration_density(at, centres, self.permutations.to(at.device), width=self.width).cpu()

    @property
    def metric(self) -> Metric:
        """The symmetrised distance."""
        return symmetrised_metric(self.permutations, self.device)

    def neighbours(self, at: Points, among: Points, k: int) -> Int[ndarray, "n k"]:
        """By the symmetrised distance."""
        left, right = (torch.from_numpy(self.X[numbers]) for numbers, _ in (at, among))
        squared = symmetrised_squared_distances(left, right, self.permutations)
        # Rounding would make a neighbour of a configuration closer to it than itself.
        own = torch.tensor(at[0])[:, None] == torch.tensor(among[0])
        return squared.masked_fill_(own, -1.0).topk(k, largest=False).indices.numpy()

    def to_tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {"R": self.R.contiguous(), "rows": self.rows, "density": self.pool_density}
        fields = {"test_density": self.test_name, "width": self.width, "pool": dict(self.pool)}
        fields |= {"grows": True} if self.grows else {}
        return tensors | {"permutations": self.permutations}, fields

    @classmethod
    def check_fields(cls, fields: Mapping[str, Any]) -> None:
        POOL_FIELDS(fields, "candidates")

    @classmethod
    def check_tensors(cls, stored: StoredTensors, fields: Mapping[str, Any]) -> None:
        n, N = fields["pool"]["n"], len(fields["pool"]["species"])
        stored.sizes |= {"N": N, "w": 1 + 3 * N}
        rows = stored.whole("rows", "M", least=0, most=n - 1)
        if not (rows.diff() > 0).all():
            raise ValueError(f"rows must ascend, got {rows.tolist()[:8]}")
        stored.real("density", "M", least=TINY, most=FINITE)
        check_group(stored.whole("permutations", "g N", least=0, most=N - 1))
        if "R" in stored:
            R = stored.real("R", "M N 3")
            descriptors(R)  # for its checks
            species = torch.tensor(fields["pool"]["species"])
            if len(R) == n and fingerprint(species, R) != fields["pool"]["sha256"]:
                raise ValueError("configurations must be those of the campaign's pool, got others")
        if "validation.X" in stored:
            descriptors(stored.real("validation.X", "v N 3"))
            stored.real("validation.y", "v w", least=-FINITE, most=FINITE)
        if "validation.weight" in stored:
            stored.real("validation.weight", "v", least=0.0)

    @classmethod
    def from_tensors(
        cls,
        tensors: Mapping[str, Tensor],
        fields: Mapping[str, Any],
        space: Any,  # noqa: ANN401 - a MoleculePool
    ) -> "MolecularCandidates":
        """A pool that is given has to be the one the campaign began with; campaigns of version 0.1.0 need it."""
        pool = fields["pool"]
        if space is not None and not (isinstance(space, MoleculePool) and space.identity["sha256"] == pool["sha256"]):
            raise ValueError(
                f"{shown(space)} is not the pool of the campaign, {_described(pool)}; give the one it was begun with"
            )
        if "R" in tensors:
            R = tensors["R"]
        elif space is not None:
            R = space.trajectory.R[tensors["rows"]]
        else:
            raise ValueError(
                f"the campaign does not hold its pool, {_described(pool)}; pass it: "
                "ActiveLearner.load(path, pool=MoleculePool(trajectory))"
            )
        return cls(
            R=R,
            rows=tensors["rows"],
            pool_density=tensors["density"],
            test_name=fields["test_density"],
            permutations=tensors["permutations"],
            width=float(fields["width"]),
            pool=pool,
            grows=bool(fields.get("grows", False)),
            device=None if space is None else space.device,
        )

    def grown(self, drawn: Float[ndarray, "n d"], space: Any) -> Candidates:  # noqa: ANN401 - a Space
        if not self.grows:
            return super().grown(drawn, space)
        if not isinstance(space, MoleculePool):
            raise ValueError(
                f"the candidates of a growing MoleculePool can only be those of another, got {shown(space)}"
            )
        pool = space.trajectory
        check_species(torch.tensor(self.pool["species"]), pool.species, pool.source)
        R = torch.cat([torch.from_numpy(drawn).unflatten(1, (-1, 3)), pool.R[space.rows]])
        # Labels of the new configurations, if any, are not used.
        bare = replace(pool, R=R, energies=None, forces=None, number=None)
        return replace(space, trajectory=bare, available=None, grows=True)._candidates


@final
@dataclass(frozen=True, eq=False)
class MoleculePool(Space):
    """Configurations of one molecule to choose from.

    Args:
        trajectory: all configurations; labels that it may have are not used.
        available: which of them may be asked for; by default all.
        test_density: q: "pool" for p_X, the distribution of the trajectory, "uniform", or a power of p_X, 0.0 to 1.0.
        width: of the kernels that densities are estimated with, in 1 / Angstrom; by default found from the
            configurations. The paper has 0.03 for malonaldehyde.
        grows: whether other configurations may take the place of these later (`ActiveLearner.grow`), as where a force
            field simulates its own pool. Campaigns then record the positions of all points.
        symmetries: permutations of atoms that are known to be symmetries, such as `rotor_cycles`; others are found
            from the configurations.
        device: where densities are estimated, and force fields learned by default.

    Raises:
        ValueError: there are fewer than ten configurations to choose from, or shapes do not fit.

    Example:
        >>> pool = MoleculePool(read_trajectory("md.npz"))  # doctest: +SKIP
        >>> learner = lobal.ActiveLearner(pool, path="campaign")  # doctest: +SKIP
        >>> rows = learner.ask(512)  # doctest: +SKIP
        >>> learner.tell(rows, (energies, forces))  # doctest: +SKIP
    """

    default_draw: ClassVar[str] = "random"  # spread ones are no better: docs/peers.md

    trajectory: Trajectory
    available: Bool[Tensor, " n"] | None = None
    test_density: str | float = "pool"
    width: float | None = None
    grows: bool = False
    symmetries: Int[Tensor, "k N"] | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        named_test_density(self.test_density, torch.ones(1))
        if self.available is not None and self.available.shape != (n := len(self.trajectory),):
            raise ValueError(f"available must be one value per configuration, ({n},), got {self.available.shape}")
        if len(self.rows) < FEWEST:
            raise ValueError(f"need at least {FEWEST} configurations to choose from, got {len(self.rows)}")

    @cached_property
    def rows(self) -> Int[Tensor, " M"]:
        """The configurations that may be asked for."""
        return torch.arange(len(self.trajectory)) if self.available is None else self.available.nonzero()[:, 0]

    @cached_property
    def identity(self) -> dict[str, Any]:
        """How the pool is recognised: a hash of atoms and positions, with what messages name."""
        pool = self.trajectory
        return {
            "sha256": fingerprint(pool.species, pool.R),
            "n": len(pool),
            "species": pool.species.tolist(),
            "source": pool.source,
        }

    @cached_property
    def _candidates(self) -> MolecularCandidates:
        pool, rows = self.trajectory, self.rows
        logger.info("looking for symmetries of %d configurations", len(rows))
        permutations = permutation_group(pool.R[rows], pool.species, known=self.symmetries)
        values = descriptors(pool.R[rows], self.device)
        group = permutations.to(values.device)
        width = density_width(values, group) if self.width is None else self.width
        return MolecularCandidates(
            R=pool.R[rows],
            rows=rows,
            pool_density=configuration_density(values, values, group, width=width).cpu(),
            test_name=self.test_density,
            permutations=permutations,
            width=width,
            pool=self.identity,
            grows=self.grows,
            device=self.device,
        )

    def candidates(self, seed: int) -> MolecularCandidates:
        """The configurations that may be asked for, with their density and the symmetries that they show."""
        del seed
        return self._candidates

    def default_surrogate(self, preset: str | None = None) -> Surrogate:
        """A mixture of force fields."""
        return ForceFieldSurrogate(ForceFieldSettings(preset=preset, device=self.device))

    def checked_validation(self, validation: Any) -> Validation:  # noqa: ANN401 - a trajectory, or a pair of arrays
        """A trajectory with energies and forces, or a pair of positions and labels, that follow p_X.

        Under another test density their errors are weighted by q / p_X.
        """
        if isinstance(validation, Trajectory):
            check_species(self.trajectory.species, validation.species, validation.source)
            validation = (validation.R, (validation.energies, validation.forces))
        if not isinstance(validation, tuple | list) or len(validation) != 2:
            raise TypeError(f"validation must be a trajectory or a pair (R, labels), got {shown(validation)}")
        check_complete(validation[0], name="the positions of validation")
        R = torch.as_tensor(np.asarray(validation[0], dtype=np.float64))
        describe(R)  # for its checks
        y = joined_labels(validation[1], R.shape[:2], name="the labels of validation")
        if not np.isfinite(y).all():
            raise ValueError("the labels of validation must be finite, got NaN or infinite entries")
        if self.test_density == "pool":
            return Validation(R.numpy(), y)
        logger.info("density of %d validation configurations", len(R))
        # Each counts itself, as configurations of the pool do.
        density = 1.0 + self._candidates.density_at(R, self._candidates.R)
        return Validation(R.numpy(), y, error_weights(self.test_density, density).numpy())


def fingerprint(species: Int[Tensor, " N"], R: Positions) -> str:
    """A hash of atoms and positions."""
    content = (species.numpy().tobytes(), R.contiguous().numpy().tobytes())
    return hashlib.sha256(b"".join(content)).hexdigest()


def joined_labels(values: Any, shape: Sequence[int], *, name: str) -> Float[ndarray, "n w"]:  # noqa: ANN401 - array-likes
    """Labels of n configurations of N atoms as rows of energy and forces, from those or from a pair of arrays.

    Raises:
        ValueError: they are not numbers, or of another shape.
    """
    n, N = shape
    parts = [as_numbers(part, name=name) for part in (values if isinstance(values, tuple) else (values,))]
    if [part.shape for part in parts] == [(n,), (n, N, 3)]:
        return np.concatenate([parts[0][:, None], parts[1].reshape(n, 3 * N)], axis=1)
    if [part.shape for part in parts] == [(n, 1 + 3 * N)]:
        return parts[0]
    raise ValueError(
        f"{name} must be energies ({n},) and forces ({n}, {N}, 3) as a tuple, or rows ({n}, {1 + 3 * N}) of both, "
        f"got {' and '.join(str(part.shape) for part in parts)}"
    )


def _described(pool: Mapping[str, Any]) -> str:
    return f"{pool['source']} with {pool['n']} configurations of atoms {pool['species']}"
