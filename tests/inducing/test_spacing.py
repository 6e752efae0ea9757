import pytest
import torch
from torch import Tensor

from lobal.inducing.spacing import BLOCK_ENTRIES, NEIGHBOURS, distance_blocks, euclidean, local_spacing
from tests.inducing.setting import uniform


@pytest.mark.parametrize(("d", "lowest", "highest"), [(1, 0.9, 1.1), (2, 1.7, 2.2), (5, 3.8, 5.5)])
def test_the_dimension_is_that_of_the_sample(d: int, lowest: float, highest: float, generator: torch.Generator) -> None:
    flat = torch.cat([uniform(generator, 1500, d), torch.zeros(1500, 3, dtype=torch.float64)], dim=1)
    assert lowest < local_spacing(flat, euclidean, generator=generator).dimension < highest


def test_the_spacing_of_an_even_grid_is_even(generator: torch.Generator) -> None:
    X = torch.arange(1000, dtype=torch.float64)[:, None]
    radius = local_spacing(X, euclidean, generator=generator).radius
    assert (radius[20:-20] == NEIGHBOURS / 2).all()
    assert radius[0] == NEIGHBOURS


def test_four_times_the_density_has_half_the_spacing_in_two_dimensions(generator: torch.Generator) -> None:
    dense, thin = uniform(generator, 1600, 2), uniform(generator, 400, 2) + 2.0
    radius = local_spacing(torch.cat([dense, thin]), euclidean, generator=generator).radius
    assert 1.8 < radius[1600:].median() / radius[:1600].median() < 2.2


@pytest.mark.parametrize("X", [torch.zeros(5, 2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)])
def test_points_without_distance_have_spacing_one(X: Tensor, generator: torch.Generator) -> None:
    assert (local_spacing(X, euclidean, generator=generator).radius == 1.0).all()


def test_blocks_cover_all_rows_and_stay_small(generator: torch.Generator) -> None:
    X, Z = uniform(generator, 3000, 2), uniform(generator, 200, 2)
    blocks = [block for _, block in distance_blocks(X, Z, euclidean)]
    assert max(block.numel() for block in blocks) <= BLOCK_ENTRIES
    torch.testing.assert_close(torch.cat(blocks), torch.cdist(X, Z))
