import pytest
import torch

from lobal.core.dataset import LabelledSet

COLUMNS = ("X", "y", "weight", "noise", "spread")


def labelled(n: int, **optional: float) -> LabelledSet:
    column = torch.arange(n, dtype=torch.float64)
    more = {name: value + column for name, value in optional.items()}
    return LabelledSet(X=column[:, None], y=2.0 * column, weight=1.0 + column, **more)


@pytest.mark.parametrize("rows", [torch.tensor([3, 1]), torch.tensor([True, False, False, True]), slice(1, 3)])
def test_rows_are_taken_from_every_column(rows: torch.Tensor | slice) -> None:
    whole = labelled(4, noise=3.0, spread=5.0)
    part = whole[rows]
    assert len(part) == 2
    for name in COLUMNS:
        assert torch.equal(getattr(part, name), getattr(whole, name)[rows])
    assert labelled(4)[rows].noise is None


def test_a_device_is_that_of_every_column() -> None:
    moved = labelled(3, spread=5.0).to("meta")
    assert [getattr(moved, name).device.type for name in COLUMNS if name != "noise"] == ["meta"] * 4
    assert moved.noise is None


def test_a_split_set_joined_again_is_the_whole() -> None:
    whole = labelled(6, noise=3.0, spread=5.0)
    joined = LabelledSet.joined(whole[:4], whole[4:])
    for name in COLUMNS:
        assert torch.equal(getattr(joined, name), getattr(whole, name))


def test_joined_sets_know_their_noise_only_if_both_do() -> None:
    for second in (labelled(3), labelled(3, spread=5.0)):
        joined = LabelledSet.joined(labelled(2, noise=3.0), second)
        assert joined.noise is None
        assert joined.spread is None
