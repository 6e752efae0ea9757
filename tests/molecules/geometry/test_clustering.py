import pytest
import torch
from torch import Tensor

from lobal.molecules.geometry.clustering import far_apart, inducing_rows, number_distinct, symmetrised_distance
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import identity
from tests.molecules.setting import GROUP, random_molecules

CLOSE = 1e-6  # far below the distance of two configurations that were drawn by chance


def permuted(R: Tensor, generator: torch.Generator) -> Tensor:
    """Every configuration with the atoms in the order of one of the group's elements, by chance."""
    drawn = torch.randint(len(GROUP), (len(R),), generator=generator)
    return R.gather(1, GROUP[drawn][:, :, None].expand(-1, -1, 3))


def gaps(values: Tensor, rows: Tensor) -> Tensor:
    """Distance of every configuration to the closest of the chosen ones."""
    return symmetrised_distance(GROUP)(values, values[rows]).amin(1)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_rows_do_not_depend_on_the_order_of_like_atoms(generator: torch.Generator) -> None:
    R = random_molecules(generator, 200)
    rows = inducing_rows(describe(R).values, 12, GROUP, generator=seeded())
    again = inducing_rows(describe(permuted(R, generator)).values, 12, GROUP, generator=seeded())
    assert rows.unique().numel() == 12
    assert torch.equal(rows, again)


def test_rows_lie_closer_to_all_configurations_than_random_ones(generator: torch.Generator) -> None:
    values = describe(permuted(random_molecules(generator, 400), generator)).values
    ours = gaps(values, inducing_rows(values, 20, GROUP, generator=generator))
    random = torch.stack([gaps(values, torch.randperm(400, generator=generator)[:20]) for _ in range(20)])
    assert ours.square().mean() < random.square().mean(1).min()
    assert ours.max() < random.amax(1).median()


def test_no_two_rows_are_images_of_the_same_configuration(generator: torch.Generator) -> None:
    """All six images of each are in the sample, and without the group several of some would be taken."""
    R = random_molecules(generator, 30)
    values = describe(R[:, GROUP].flatten(0, 1)).values
    rows = inducing_rows(values, 25, GROUP, generator=seeded())
    assert (rows // 6).unique().numel() == 25
    without = inducing_rows(values, 25, identity(4), generator=seeded())
    assert (without // 6).unique().numel() < 25


def test_configurations_of_weight_zero_are_not_taken(generator: torch.Generator) -> None:
    values = describe(random_molecules(generator, 100)).values
    weight = torch.cat([torch.zeros(60), torch.rand(40, generator=generator)]).double()
    rows = inducing_rows(values, 15, GROUP, generator=generator, weight=weight)
    assert rows.min() >= 60


def test_images_are_at_distance_zero_and_others_are_not(generator: torch.Generator) -> None:
    R = random_molecules(generator, 40)
    distance = symmetrised_distance(GROUP, resolution=CLOSE)
    D = distance(describe(R).values, describe(permuted(R, generator)).values)
    assert torch.equal(D == 0.0, torch.eye(40, dtype=torch.bool))


def test_what_cannot_be_clustered_is_refused(generator: torch.Generator) -> None:
    R = random_molecules(generator, 3)
    values = describe(R[:, GROUP].flatten(0, 1)).values
    with pytest.raises(ValueError, match="4 points at a distance from each other, got 3"):
        inducing_rows(values, 4, GROUP, generator=generator)


def test_as_many_rows_as_are_distinct_can_be_had(generator: torch.Generator) -> None:
    """Also where configurations come back rotated, permuted and rounded, as files have them."""
    R = random_molecules(generator, 20)
    turns = torch.linalg.qr(torch.randn(20, 3, 3, dtype=torch.float64, generator=generator)).Q
    values = describe(torch.cat([R, permuted(R @ turns, generator), R @ turns.mT]).mul(1e8).round() / 1e8).values
    assert number_distinct(values, GROUP, most=7) == 7
    number = number_distinct(values, GROUP, most=60)
    assert 20 <= number <= 60
    assert inducing_rows(values, number, GROUP, generator=seeded()).unique().numel() == number
    assert number_distinct(values[:1].expand(5, -1), GROUP, most=5) == 1


def test_each_is_as_far_as_can_be_from_those_before(generator: torch.Generator) -> None:
    values = describe(random_molecules(generator, 30)).values
    rows = far_apart(values, 5, GROUP)
    distances = symmetrised_distance(GROUP)(values, values[rows])
    for number in range(1, 5):
        assert distances[:, :number].amin(1).argmax() == rows[number]


def test_copies_of_one_configuration_come_once_each(generator: torch.Generator) -> None:
    one = describe(random_molecules(generator, 1)).values
    assert far_apart(one.expand(4, -1), 4, GROUP).sort().values.tolist() == [0, 1, 2, 3]
