import torch
from torch import Tensor

from lobal.inducing.kmeans import kmeans_points


def uniform(generator: torch.Generator, n: int, d: int = 2) -> Tensor:
    return torch.rand(n, d, dtype=torch.float64, generator=generator)


def test_separate_clusters_get_a_centre_each(generator: torch.Generator) -> None:
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 10.0], dtype=torch.float64)] * 2)
    X = corners.repeat_interleave(50, dim=0) + 0.1 * uniform(generator, 200)
    centres = kmeans_points(X, 4, generator=generator)
    nearest = torch.cdist(corners, centres).min(1)
    assert nearest.values.max() < 0.2
    assert nearest.indices.unique().numel() == 4


def test_one_cluster_is_the_weighted_mean(generator: torch.Generator) -> None:
    X = uniform(generator, 100)
    weight = X[:, 0].exp()
    expected = (weight[:, None] * X).sum(0) / weight.sum()
    torch.testing.assert_close(kmeans_points(X, 1, generator=generator, weight=weight)[0], expected)


def test_denser_regions_get_more_centres_but_less_than_their_share(generator: torch.Generator) -> None:
    """Centres follow p^(d / (2 + d)): with p nine to one in two dimensions, three to one."""
    dense, thin = uniform(generator, 3600), uniform(generator, 400)
    dense[:, 0] -= 1.0
    centres = kmeans_points(torch.cat([dense, thin]), 100, generator=generator)
    share = (centres[:, 0] < 0.0).double().mean()
    assert 0.65 < share < 0.85


def test_another_seed_gives_other_centres(generator: torch.Generator) -> None:
    X = uniform(generator, 200)
    first, second = (kmeans_points(X, 20, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert not torch.equal(first, second)
