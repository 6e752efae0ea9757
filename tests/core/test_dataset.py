import torch

from lobal.core.dataset import LabelledSet


def labelled(n: int, *, noise: bool) -> LabelledSet:
    column = torch.arange(n, dtype=torch.float64)
    return LabelledSet(X=column[:, None], y=2.0 * column, weight=1.0 + column, noise=3.0 + column if noise else None)


def test_the_length_is_the_number_of_labels() -> None:
    assert len(labelled(5, noise=False)) == 5


def test_rows_are_taken_from_every_column() -> None:
    part = labelled(5, noise=True)[torch.tensor([3, 1])]
    assert part.X[:, 0].tolist() == [3.0, 1.0]
    assert part.y.tolist() == [6.0, 2.0]
    assert part.weight.tolist() == [4.0, 2.0]
    assert part.noise is not None
    assert part.noise.tolist() == [6.0, 4.0]


def test_a_mask_selects_rows_too() -> None:
    part = labelled(4, noise=False)[torch.tensor([True, False, False, True])]
    assert part.y.tolist() == [0.0, 6.0]
    assert part.noise is None


def test_a_split_set_joined_again_is_the_whole() -> None:
    whole = labelled(6, noise=True)
    joined = LabelledSet.joined(whole[torch.arange(4)], whole[torch.arange(4, 6)])
    for name in ("X", "y", "weight", "noise"):
        torch.testing.assert_close(getattr(joined, name), getattr(whole, name))


def test_joined_sets_know_their_noise_only_if_both_do() -> None:
    assert LabelledSet.joined(labelled(2, noise=True), labelled(3, noise=False)).noise is None
    assert LabelledSet.joined(labelled(2, noise=False), labelled(3, noise=False)).noise is None
