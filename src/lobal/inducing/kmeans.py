"""Inducing points by k-means clustering."""

import torch
from jaxtyping import Float
from sklearn.cluster import KMeans
from torch import Tensor

from lobal.core.arrays import Inputs


def kmeans_points(
    X: Inputs, m: int, *, generator: torch.Generator, weight: Float[Tensor, " n"] | None = None
) -> Float[Tensor, "m d"]:
    """m cluster centres of the weighted sample.

    The centres of a sample from p follow p^(d / (d + 2)) (Graf and Luschgy), which is flatter than p.
    """
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    sample_weight = None if weight is None else weight.cpu().numpy()
    # After three Lloyd steps from k-means++ the centres are well spread; convergence would take ten times as long.
    clustering = KMeans(m, n_init=1, max_iter=3, tol=0.0, random_state=seed)
    clustering.fit(X.cpu().numpy(), sample_weight=sample_weight)
    return torch.as_tensor(clustering.cluster_centers_, dtype=X.dtype, device=X.device)
