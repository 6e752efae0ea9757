"""Inducing points by k-means clustering, plain and following the sample's density."""

import torch
from jaxtyping import Float
from sklearn.cluster import KMeans
from torch import Tensor

from lobal.core.density import capped
from lobal.inducing.spacing import euclidean, local_spacing


def kmeans_points(
    X: Float[Tensor, "n d"],
    m: int,
    *,
    generator: torch.Generator,
    weight: Float[Tensor, " n"] | None = None,
) -> Float[Tensor, "m d"]:
    """m cluster centres of the weighted sample: spread out, and denser where the sample is denser.

    Centres of a sample from p follow p^(d / (2 + d)) (Graf and Luschgy), flatter than p itself.
    """
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    sample_weight = None if weight is None else weight.cpu().numpy()
    # Three Lloyd steps from k-means++ leave the centres well spread; convergence would cost ten times as much.
    clustering = KMeans(m, n_init=1, max_iter=3, tol=0.0, random_state=seed)
    clustering.fit(X.cpu().numpy(), sample_weight=sample_weight)
    return torch.as_tensor(clustering.cluster_centers_, dtype=X.dtype, device=X.device)


def matched_kmeans_points(
    X: Float[Tensor, "n d"],
    m: int,
    *,
    generator: torch.Generator,
    weight: Float[Tensor, " n"] | None = None,
) -> Float[Tensor, "m d"]:
    """m cluster centres that follow the density t of the weighted sample itself.

    With the further weight t^(2/d) the sample has density t^((2 + d) / d), whose centres follow t. The factor comes
    from the distances to neighbours, so that d is the intrinsic dimension.
    """
    weight = torch.ones_like(X[:, 0]) if weight is None else weight
    spacing = local_spacing(X, euclidean, generator=generator)
    matched = (weight / weight.mean()).pow(1.0 + 2.0 / spacing.dimension) / spacing.radius.square()
    positive = int((matched > 0).sum())
    # A few points that almost coincide have next to no spacing and would draw all centres.
    return kmeans_points(X, m, generator=generator, weight=capped(matched / matched.mean(), float(min(m, positive))))
