import math

import pytest
import torch
from torch import Tensor

from lobal.molecules.dynamics import region as region_module
from lobal.molecules.dynamics.region import LARGEST_THRESHOLD, KnownRegion
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import identity
from tests.molecules.setting import EXACT, GROUP, random_molecules, rotation

TRIVIAL = identity(2)


def diatomics(values: Tensor) -> Tensor:
    """Configurations of two atoms with these descriptors, that is at these inverse distances."""
    R = torch.zeros(len(values), 2, 3, dtype=torch.float64)
    R[:, 1, 0] = 1.0 / values
    return R


def evenly(n: int) -> Tensor:
    """Descriptors 1.0, 1.1, 1.2, ..."""
    return 1.0 + 0.1 * torch.arange(n, dtype=torch.float64)


def squared_to(label: Tensor, others: Tensor) -> Tensor:
    """Squared distances of all images of other configurations from one, in another way: by moving the atoms."""
    images = torch.stack([describe(others[:, permutation]).values for permutation in GROUP])
    return (images - describe(label[None]).values).square().sum(-1)


def test_density_and_distances_do_not_depend_on_place_and_order_of_like_atoms(generator: torch.Generator) -> None:
    known = KnownRegion.of(random_molecules(generator, 30), GROUP)
    R = random_molecules(generator, 8)
    for permutation in GROUP:
        image = R[:, permutation] @ rotation(generator) + 7.0
        torch.testing.assert_close(known.density(image), known.density(R), rtol=1e-9, atol=0.0)
        torch.testing.assert_close(known.distances(image), known.distances(R), rtol=0.0, atol=1e-7)


def test_images_of_labels_make_the_same_region(generator: torch.Generator) -> None:
    R = random_molecules(generator, 30)
    images = torch.stack([row[GROUP[i % len(GROUP)]] @ rotation(generator) - 3.0 for i, row in enumerate(R)])
    known, other = KnownRegion.of(R, GROUP), KnownRegion.of(images, GROUP)
    assert other.width == pytest.approx(known.width, rel=1e-6)
    assert other.threshold == pytest.approx(known.threshold, rel=1e-6)
    assert other.spacing == pytest.approx(known.spacing, rel=1e-6)


def test_epsilon_is_what_nine_labels_in_ten_exceed_with_distances_stretched(generator: torch.Generator) -> None:
    R = random_molecules(generator, 31)
    known = KnownRegion.of(R, GROUP)
    densities, nearest = [], []
    for i in range(len(R)):
        squared = squared_to(R[i], R[torch.arange(len(R)) != i])
        densities.append(torch.exp(-(1.5**2) * squared / (2.0 * known.width**2)).sum())
        nearest.append(squared.min().sqrt())
    # Of 31 values the quantile 0.1 is the fourth.
    assert known.threshold == pytest.approx(torch.stack(densities).sort().values[3].item(), rel=1e-6)
    assert known.spacing == pytest.approx(torch.stack(nearest).sort().values[27].item(), rel=1e-6)
    assert known.threshold < LARGEST_THRESHOLD


def test_the_density_is_a_sum_of_gaussians_over_images_and_distances_are_to_the_nearest(
    generator: torch.Generator,
) -> None:
    R, new = random_molecules(generator, 20), random_molecules(generator, 3)
    known = KnownRegion.of(R, GROUP)
    for row, density, distance in zip(new, known.density(new), known.distances(new), strict=True):
        squared = squared_to(row, R)
        expected = torch.exp(-squared / (2.0 * known.width**2)).sum()
        torch.testing.assert_close(density, expected, rtol=1e-9, atol=0.0)
        torch.testing.assert_close(distance, squared.min().sqrt(), rtol=0.0, atol=1e-7)


def test_two_labels_reach_as_far_as_documented() -> None:
    known = KnownRegion.of(diatomics(evenly(2)), TRIVIAL)  # 0.1 apart, which is the width of greatest likelihood
    assert known.width == pytest.approx(0.1)
    assert known.threshold == pytest.approx(math.exp(-(1.5**2) / 2.0))
    inside = known.contains(diatomics(torch.tensor([0.84, 0.85, 1.05, 1.25, 1.26], dtype=torch.float64)))
    assert inside.tolist() == [False, True, True, True, False]  # the other label adds 0.04 to 0.32


def test_a_label_apart_from_all_others_does_not_open_the_region(generator: torch.Generator) -> None:
    R = random_molecules(generator, 50)
    usual, other = KnownRegion.of(R, GROUP), KnownRegion.of(torch.cat([R[:-1], 1.5 * R[-1:]]), GROUP)
    assert other.spacing == pytest.approx(usual.spacing, rel=0.1)
    beyond = random_molecules(generator, 500)
    beyond += 0.25 * torch.randn(beyond.shape, dtype=torch.float64, generator=generator)
    shares = [float(known.contains(beyond).double().mean()) for known in (usual, other)]
    assert 0.4 < shares[0] < 0.9
    assert shares[1] == pytest.approx(shares[0], abs=0.1)


def test_all_labels_are_in_the_region_however_dense_they_are(generator: torch.Generator) -> None:
    for n in (2, 10, 100):
        R = random_molecules(generator, n)
        assert KnownRegion.of(R, GROUP).contains(R).all()
    dense = diatomics(1.0 + torch.rand(300, dtype=torch.float64, generator=generator))
    known = KnownRegion.of(dense, TRIVIAL)
    assert known.threshold == LARGEST_THRESHOLD
    assert known.contains(dense).all()


def test_the_coverage_of_the_labels_own_distribution_is_nine_tenths(generator: torch.Generator) -> None:
    known = KnownRegion.of(random_molecules(generator, 400), GROUP)
    assert known.coverage(random_molecules(generator, 2000)) == pytest.approx(0.9, abs=0.04)


def test_coverage_falls_where_configurations_go_elsewhere(generator: torch.Generator) -> None:
    known = KnownRegion.of(random_molecules(generator, 100), GROUP)
    new = random_molecules(generator, 500)
    wider = new + 0.15 * torch.randn(new.shape, dtype=torch.float64, generator=generator)
    assert known.coverage(new) > 0.8
    assert known.coverage(wider) < 0.7
    assert known.coverage(1.5 * new) == 0.0


def test_new_configurations_like_the_labels_are_in_the_region_and_others_are_not(generator: torch.Generator) -> None:
    known = KnownRegion.of(random_molecules(generator, 100), GROUP)
    new = random_molecules(generator, 500)
    assert known.contains(new).double().mean() > 0.95
    assert not known.contains(1.5 * new).any()


def test_the_region_closes_in_with_more_labels(generator: torch.Generator) -> None:
    R = random_molecules(generator, 1000)
    beyond = R[:300] + 0.3 * torch.randn(300, 4, 3, dtype=torch.float64, generator=generator)
    known = [KnownRegion.of(R[-n:], GROUP) for n in (20, 100, 700)]
    shares = [float(each.contains(beyond).double().mean()) for each in known]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] - shares[-1] > 0.1
    assert known[0].spacing > known[1].spacing > known[2].spacing


def test_blocks_make_no_difference(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    R, new = random_molecules(generator, 20), random_molecules(generator, 7)
    whole = KnownRegion.of(R, GROUP)
    distances = whole.distances(new)
    monkeypatch.setattr(region_module, "BLOCK", 50)
    parts = KnownRegion.of(R, GROUP)
    assert (parts.threshold, parts.spacing) == pytest.approx((whole.threshold, whole.spacing), rel=1e-9)
    torch.testing.assert_close(parts.distances(new), distances, **EXACT)


@pytest.mark.parametrize("n", [1, 3])
def test_images_of_a_single_configuration_are_refused(n: int, generator: torch.Generator) -> None:
    R = random_molecules(generator, 1).repeat(n, 1, 1)
    images = torch.stack([row[GROUP[i]] @ rotation(generator) for i, row in enumerate(R)])
    with pytest.raises(ValueError, match=f"at least 2 different configurations with labels, got {n}; label more"):
        KnownRegion.of(images, GROUP)
