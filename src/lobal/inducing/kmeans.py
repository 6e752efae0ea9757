"""Inducing points by k-means clustering."""

import torch
from jaxtyping import Float
from sklearn.cluster import KMeans
from torch import Tensor


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
