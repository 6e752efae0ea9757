import torch

from lobal.inducing.random_points import drawn_rows, random_points


def test_a_draw_of_all_points_is_all_points(generator: torch.Generator) -> None:
    X = torch.rand(30, 2, dtype=torch.float64, generator=generator)
    points = random_points(X, 30, generator=generator, weight=X[:, 0])
    torch.testing.assert_close(torch.unique(points, dim=0), torch.unique(X, dim=0))


def test_repeated_points_are_drawn_once_and_count_together(generator: torch.Generator) -> None:
    X = torch.tensor([[0.0], [0.0], [0.0], [1.0]], dtype=torch.float64)
    first = torch.cat([random_points(X, 1, generator=generator) for _ in range(2000)])
    assert random_points(X, 2, generator=generator).unique().numel() == 2
    assert abs((first == 0.0).double().mean() - 0.75) < 0.04


def test_single_draws_follow_the_weights(generator: torch.Generator) -> None:
    X = torch.arange(4, dtype=torch.float64)[:, None]
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    drawn = torch.cat([random_points(X, 1, generator=generator, weight=weight) for _ in range(3000)])[:, 0].long()
    torch.testing.assert_close(drawn.bincount() / 3000, weight.float() / 10.0, rtol=0.0, atol=0.03)


def test_rows_drawn_with_replacement_follow_the_weights_and_pass_over_zeros(generator: torch.Generator) -> None:
    weight = torch.tensor([0.0, 3.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    counts = drawn_rows(weight, 4000, generator=generator).bincount(minlength=5)
    assert counts[[0, 2, 4]].sum() == 0
    assert abs(counts[1].item() / 4000 - 0.75) < 0.03
