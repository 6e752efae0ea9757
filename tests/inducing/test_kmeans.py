import torch

from lobal.inducing.kmeans import kmeans_points
from tests.inducing.setting import uniform


def test_separate_clusters_get_a_centre_each(generator: torch.Generator) -> None:
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 10.0], dtype=torch.float64)] * 2)
    X = corners.repeat_interleave(50, dim=0) + 0.1 * uniform(generator, 200)
    nearest = torch.cdist(corners, kmeans_points(X, 4, generator=generator)).min(1)
    assert nearest.values.max() < 0.2
    assert nearest.indices.unique().numel() == 4


def test_one_cluster_is_the_weighted_mean(generator: torch.Generator) -> None:
    X = uniform(generator, 100)
    weight = X[:, 0].exp()
    expected = (weight[:, None] * X).sum(0) / weight.sum()
    torch.testing.assert_close(kmeans_points(X, 1, generator=generator, weight=weight)[0], expected)
