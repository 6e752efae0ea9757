import numpy as np
import pytest
import torch
from torch import Tensor

from lobal.molecules.geometry.descriptor import distance_matrices
from lobal.molecules.geometry.permutations import LARGEST_GROUP, check_group, closure, identity
from lobal.molecules.geometry.symmetry import best_permutations, is_symmetry, permutation_group
from tests.molecules.setting import random_molecules, rmd17_malonaldehyde, rotation

HYDROGEN_SWAP = [0, 1, 2, 3, 4, 5, 7, 6, 8]  # of malonaldehyde's CH2 group
END_SWAP = [2, 1, 0, 4, 3, 8, 6, 7, 5]  # of its two aldehyde groups


def ase_molecule(name: str) -> tuple[np.ndarray, Tensor]:
    build = pytest.importorskip("ase.build", reason="ase builds the molecules of this test")
    atoms = build.molecule(name)
    return atoms.positions, torch.from_numpy(atoms.numbers).long()


def toluene() -> tuple[np.ndarray, Tensor]:
    """Benzene with a methyl group, its three hydrogens last, in the place of hydrogen 6 (along y)."""
    ring, _ = ase_molecule("C6H6")
    carbon = ring[0] + [0.0, 1.51, 0.0]
    angles = 2.0 * np.pi * np.arange(3) / 3.0
    methyl = carbon + np.stack([1.03 * np.cos(angles), np.full(3, 0.38), 1.03 * np.sin(angles)], axis=1)
    positions = np.concatenate([ring[:6], carbon[None], ring[7:], methyl])
    return positions, torch.tensor([6] * 7 + [1] * 8)


def turned(R: np.ndarray, atoms: list[int], axis: tuple[int, int], angle: float) -> np.ndarray:
    """Some atoms turned about the axis through two others."""
    along = (R[axis[1]] - R[axis[0]]) / np.linalg.norm(R[axis[1]] - R[axis[0]])
    v = R[atoms] - R[axis[0]]
    across = v - np.outer(v @ along, along)
    moved = R.copy()
    moved[atoms] += (np.cos(angle) - 1.0) * across + np.sin(angle) * np.cross(along, across)
    return moved


def vibrating(frames: list[np.ndarray], rng: np.random.Generator, noise: float) -> Tensor:
    return torch.from_numpy(np.array([R + noise * rng.standard_normal(R.shape) for R in frames]))


@pytest.mark.parametrize("seed", range(5))
def test_malonaldehyde_has_four_permutations(seed: int) -> None:
    data = rmd17_malonaldehyde()
    rows = np.random.default_rng(seed).choice(len(data["R"]), 50, replace=False)
    group = permutation_group(torch.from_numpy(data["R"][rows]), torch.from_numpy(data["z"]).long())
    expected = closure(torch.tensor([HYDROGEN_SWAP, END_SWAP]))
    assert len(group) == 4
    assert torch.equal(group, expected)


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_benzene_has_twelve_permutations(rng: np.random.Generator, noise: float) -> None:
    R, species = ase_molecule("C6H6")
    group = permutation_group(vibrating([R] * 40, rng, noise), species)
    check_group(group)
    assert len(group) == 12
    assert torch.equal(group[:, 6:], group[:, :6] + 6)  # hydrogens go with their carbons


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_ethanol_whose_methyl_group_turns_has_six_permutations(rng: np.random.Generator, noise: float) -> None:
    """Three turns, each with or without the mirror, which exchanges the hydrogens of CH2 (4, 5) as well."""
    R, species = ase_molecule("CH3CH2OH")
    frames = [turned(R, [6, 7, 8], (1, 0), angle) for angle in 2.0 * np.pi * rng.random(50)]
    group = permutation_group(vibrating(frames, rng, noise), species)
    assert torch.equal(group, closure(torch.tensor([[0, 1, 2, 3, 4, 5, 7, 8, 6], [0, 1, 2, 3, 5, 4, 6, 8, 7]])))
    assert len(group) == 6


def test_toluene_whose_methyl_group_turns_has_twelve_permutations(rng: np.random.Generator) -> None:
    R, species = toluene()
    frames = [turned(R, [12, 13, 14], (0, 6), angle) for angle in 2.0 * np.pi * rng.random(50)]
    group = permutation_group(vibrating(frames, rng, 0.03), species)
    check_group(group)
    assert len(group) == 12
    assert len({tuple(row) for row in group[:, 12:].tolist()}) == 6  # all orders of the methyl group's hydrogens
    assert len({tuple(row) for row in group[:, :12].tolist()}) == 2  # the ring as it is, and flipped


def test_turns_mirrors_and_order_of_configurations_do_not_matter(rng: np.random.Generator) -> None:
    R, species = ase_molecule("C6H6")
    frames = vibrating([R] * 20, rng, 0.03)
    generator = torch.Generator().manual_seed(1)
    moved = torch.stack([frame @ rotation(generator) + 3.0 for frame in frames.flip(0)])
    assert torch.equal(permutation_group(moved, species), permutation_group(frames, species))


def test_atoms_of_different_species_are_never_exchanged(generator: torch.Generator) -> None:
    square = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]], dtype=torch.float64)
    R = square + 0.02 * torch.randn(30, 4, 3, dtype=torch.float64, generator=generator)
    assert len(permutation_group(R, torch.tensor([1, 1, 1, 1]))) == 8
    assert len(permutation_group(R, torch.tensor([1, 6, 1, 6]))) == 4
    assert len(permutation_group(R, torch.tensor([1, 6, 7, 8]))) == 1


def test_a_molecule_without_symmetry_has_the_identity(generator: torch.Generator) -> None:
    R = random_molecules(generator, 30, N=6)
    assert torch.equal(permutation_group(R, torch.ones(6, dtype=torch.long)), identity(6))


def test_the_best_match_undoes_a_permutation(generator: torch.Generator) -> None:
    R = random_molecules(generator, 8, N=7)
    species = torch.tensor([6, 6, 6, 1, 1, 1, 1])
    shuffled = torch.stack(
        [torch.cat([torch.randperm(3, generator=generator), 3 + torch.randperm(4, generator=generator)]) for _ in R]
    )
    left = distance_matrices(torch.stack([frame[pi] for frame, pi in zip(R, shuffled, strict=True)]))
    found, cost = best_permutations(left, distance_matrices(R), species)
    assert torch.equal(found, shuffled.argsort(1))
    torch.testing.assert_close(cost, torch.zeros(8, dtype=torch.float64), rtol=0.0, atol=1e-12)


def test_the_best_match_is_the_best_of_all(generator: torch.Generator) -> None:
    """Also between configurations that are not at all alike."""
    left, right = (distance_matrices(torch.randn(20, 5, 3, dtype=torch.float64, generator=generator)) for _ in "lr")
    every = closure(torch.tensor([[1, 2, 3, 4, 0], [1, 0, 2, 3, 4]]))
    costs = torch.stack([(left[:, pi][:, :, pi] - right).square().sum((1, 2)).sqrt() for pi in every])
    _, ours = best_permutations(left, right, torch.ones(5, dtype=torch.long))
    torch.testing.assert_close(ours, costs.amin(0))


def test_a_permutation_that_leads_away_from_the_data_is_no_symmetry(generator: torch.Generator) -> None:
    distances = distance_matrices(random_molecules(generator, 30, N=5))
    assert is_symmetry(torch.arange(5), distances, identity(5))
    assert not is_symmetry(torch.tensor([1, 0, 2, 3, 4]), distances, identity(5))


def test_symmetries_that_would_make_the_group_too_large_are_left_out(
    rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    place = 2.0 * rng.standard_normal((8, 3))  # 8! = 40320 permutations of like atoms
    frames = [place[rng.permutation(8)] for _ in range(20)]
    group = permutation_group(vibrating(frames, rng, 0.01), torch.full((8,), 2))
    check_group(group)
    assert 1 < len(group) <= LARGEST_GROUP
    assert "a symmetry of the configurations is left out" in caplog.text


def test_species_must_fit_the_positions(generator: torch.Generator) -> None:
    with pytest.raises(ValueError, match=r"one number per atom, \(4,\), got shape \(3,\)"):
        permutation_group(random_molecules(generator, 2), torch.tensor([1, 1, 8]))
