from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lobal import Pool
from lobal.active.spaces import Space
from lobal.molecules.density import configuration_density, error_weights
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import symmetrised_squared_distances
from lobal.molecules.space import MolecularCandidates, MoleculePool
from tests.active.contracts import SpaceContract
from tests.molecules.setting import water

POOL = water(60)
SPACES = {
    "pool": MoleculePool(POOL),
    "uniform": MoleculePool(POOL, test_density="uniform", width=0.05),
    "some": MoleculePool(POOL, available=torch.arange(60) % 3 > 0),
}
VALIDATION = water(30, seed=2)


class TestMoleculePools(SpaceContract):
    @pytest.fixture(params=SPACES.values(), ids=SPACES)
    def space(self, request: pytest.FixtureRequest) -> Space:
        return request.param

    @pytest.fixture
    def labels(self) -> Any:
        return lambda n: (np.ones(n), np.ones((n, 3, 3)))

    def test_points_are_placed_and_located_again(self, candidates: MolecularCandidates) -> None:  # type: ignore[override]
        """They are known by their rows in the pool."""
        super().test_points_are_placed_and_located_again(candidates)
        rows = candidates.batch(np.array([3, 0]), np.empty((2, 0)))
        np.testing.assert_array_equal(candidates.model_inputs(np.array([3, 0]), np.empty((2, 0))), POOL.R[rows])


def candidates(**options: Any) -> MolecularCandidates:
    return MoleculePool(POOL, **options).candidates(0)


@pytest.mark.parametrize(("test_density", "power"), [("pool", 0.5), ("uniform", 0.0)])
def test_the_first_configurations_follow_the_root_of_the_test_density(test_density: str, power: float) -> None:
    some = candidates(test_density=test_density)
    expected = some.pool_density**power
    torch.testing.assert_close(some.initial_density, expected / (expected / some.pool_density).mean())


def test_density_width_and_symmetries_are_found() -> None:
    some, values = candidates(), describe(POOL.R).values
    assert len(some.permutations) == 2
    assert 0.0 < some.width < 1.0
    expected = configuration_density(values, values, some.permutations, width=some.width)
    torch.testing.assert_close(some.pool_density, expected)
    assert candidates(width=0.03).width == 0.03


def test_neighbours_are_those_of_the_symmetrised_distance() -> None:
    some = candidates()
    at, among = ([4, 7], np.empty((2, 0))), (list(range(10, 40)), np.empty((30, 0)))
    values = torch.from_numpy(some.X)
    squared = symmetrised_squared_distances(values[at[0]], values[among[0]], some.permutations)
    np.testing.assert_array_equal(some.neighbours(at, among, 3), squared.argsort(1)[:, :3])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ((np.ones(2), np.ones((2, 3, 2))), r"\(2,\) and forces \(2, 3, 3\) as a tuple, .* got \(2,\) and \(2, 3, 2\)"),
        (np.ones((2, 9)), r"rows \(2, 10\) of both, got \(2, 9\)"),
        (("a", "b"), "must be numbers, NaN where there is none"),
    ],
)
def test_labels_of_other_shapes_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        candidates().labels(labels, 2, name="labels")


def test_labels_are_pairs_of_arrays_or_rows() -> None:
    energies, forces = np.arange(2.0), np.arange(18.0).reshape(2, 3, 3)
    rows = candidates().labels((energies, forces), 2, name="labels")
    np.testing.assert_array_equal(rows, np.column_stack([energies, forces.reshape(2, 9)]))
    np.testing.assert_array_equal(candidates().labels(rows, 2, name="labels"), rows)


def test_rows_that_are_not_available_or_repeated_are_refused() -> None:
    some = candidates(available=torch.arange(60) < 50)
    with pytest.raises(ValueError, match=r"50 of 60 to choose from, got \[55\]"):
        some.locate([55])
    with pytest.raises(ValueError, match="once each"):
        some.locate([3, 3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"available": torch.arange(60) < 4}, "need at least 10 configurations to choose from, got 4"),
        ({"available": torch.ones(3) > 0}, r"available must be one value per configuration, \(60,\), got"),
        ({"test_density": "md"}, "one of pool, uniform, or a power .* got 'md'"),
    ],
)
def test_a_pool_that_leaves_no_choice_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MoleculePool(POOL, **options)


def test_validation_is_a_trajectory_or_arrays() -> None:
    of_trajectory = SPACES["pool"].checked_validation(VALIDATION)
    pair = SPACES["pool"].checked_validation((VALIDATION.R, (VALIDATION.energies, VALIDATION.forces)))
    for one, other in zip(of_trajectory[:2], pair[:2], strict=True):
        np.testing.assert_array_equal(one, other)
    assert of_trajectory.weight is None
    with pytest.raises(TypeError, match="a trajectory or a pair"):
        SPACES["pool"].checked_validation(3)
    with pytest.raises(ValueError, match="must be finite"):
        SPACES["pool"].checked_validation((VALIDATION.R, np.full((30, 10), np.nan)))
    with pytest.raises(ValueError, match=r"has atoms \[16, 1, 1\]"):
        SPACES["pool"].checked_validation(replace(VALIDATION, species=torch.tensor([16, 1, 1])))


def test_under_a_uniform_test_density_rare_configurations_count_as_much_as_frequent_ones() -> None:
    often = VALIDATION.at(torch.tensor([0] * 50 + [*range(1, 30)]))
    pool = replace(POOL, R=torch.cat([POOL.R, VALIDATION.R[:1].expand(50, -1, -1)]), energies=None, forces=None)
    space = MoleculePool(pool, test_density="uniform", width=0.03)
    weight = space.checked_validation(often).weight
    assert weight is not None
    assert weight[:50].sum() < 0.2 * weight.sum()
    at, of = describe(often.R).values, describe(pool.R).values
    density = 1.0 + configuration_density(at, of, space.candidates(0).permutations, width=0.03)
    np.testing.assert_allclose(weight, error_weights("uniform", density).numpy())


def test_another_pool_is_refused_and_labels_are_no_part_of_it() -> None:
    tensors, fields = candidates().to_tensors()
    unlabelled = MoleculePool(replace(POOL, energies=None, forces=None), device="cpu")
    assert MolecularCandidates.from_tensors(tensors, fields, unlabelled).device == "cpu"
    for space in (MoleculePool(water(50)), MoleculePool(water(60, seed=1)), Pool([[1.0]])):
        with pytest.raises(ValueError, match="is not the pool of the campaign, water with 60 configurations"):
            MolecularCandidates.from_tensors(tensors, fields, space)
