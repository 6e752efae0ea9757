from itertools import pairwise

import pytest
import torch

from lobal.experts.neighbourhoods import neighbourhoods

MOST = 7


@pytest.fixture
def inputs(generator: torch.Generator) -> torch.Tensor:
    return torch.rand(50, 2, dtype=torch.float64, generator=generator) * torch.tensor([100.0, 1.0])


def test_every_row_is_in_one_group_and_none_is_too_large(inputs: torch.Tensor) -> None:
    groups = neighbourhoods(inputs, MOST)
    assert torch.equal(torch.cat(groups).sort().values, torch.arange(50))
    assert max(len(rows) for rows in groups) <= MOST


def test_groups_are_alike_in_size(inputs: torch.Tensor) -> None:
    sizes = [len(rows) for rows in neighbourhoods(inputs, MOST)]
    assert max(sizes) - min(sizes) <= 1


def test_the_widest_column_is_divided(inputs: torch.Tensor) -> None:
    groups = [inputs[rows, 0] for rows in neighbourhoods(inputs, MOST)]
    assert all(left.max() <= right.min() for left, right in pairwise(groups))


def test_few_points_stay_together(inputs: torch.Tensor) -> None:
    (rows,) = neighbourhoods(inputs, 50)
    assert torch.equal(rows, torch.arange(50))


def test_equal_points_can_be_divided_too() -> None:
    assert len(neighbourhoods(torch.zeros(8, 2).double(), 2)) == 4
