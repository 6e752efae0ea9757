"""Leave-one-out predictions of labels from their nearest neighbours alone, for many bandwidths.

An expert that is conditioned on all labels errs around a region of rapid change too: a bandwidth that is too large for
the region overshoots next to it, as far as the bandwidth reaches. From its nearest neighbours alone a label is
predicted without that, so that such predictions tell which bandwidth suits the function where the label lies.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Bandwidths
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import Kernel, rows_at_once, scale_inputs, squared_distances
from lobal.core.linalg import safe_cholesky
from lobal.experts.interface import Hyperparameters
from lobal.experts.leave_one_out import LARGEST_LEVERAGE, LeaveOneOut


def leave_one_out_from_nearest(
    points: LabelledSet,
    rows: Int[Tensor, " m"],
    hyperparameters: Hyperparameters,
    *,
    k: int,
    bandwidths: Bandwidths,
    shared_bandwidth: Float[Tensor, "..."],
    kernel: Kernel,
) -> LeaveOneOut:
    """Predictions of the labels in some rows, each from the k other points that are nearest in units of Sigma_E.

    With the point itself as the last of its group, the last entry of the Cholesky factor R of the group's covariance is
    the standard deviation of the prediction, and the last entry of R^-1 (y - mu) the error in units of it. Costs
    O(m n + L m k^3).
    """
    scaled, k = scale_inputs(points.X, shared_bandwidth), min(k, len(points) - 1)
    noise = hyperparameters.noise.expand(len(points))
    residual = points.y - hyperparameters.mean
    parts = []
    for part in rows.split(rows_at_once(max(len(points), (k + 1) ** 2), scaled.device)):
        group = _nearest_and_itself(scaled, part, k)
        squared = torch.cdist(scaled[group], scaled[group], compute_mode="donot_use_mm_for_euclid_dist").square()
        errors, variances = [], []
        for bandwidth in bandwidths:
            C = hyperparameters.scale * kernel(squared / bandwidth.square())
            C.diagonal(dim1=-2, dim2=-1).add_(noise[group])
            factor = safe_cholesky(C, in_place=True).lower
            whitened: Tensor = torch.linalg.solve_triangular(factor, residual[group][:, :, None], upper=False)
            deviation = factor[:, -1, -1]
            errors.append(whitened[:, -1, 0] * deviation)
            variances.append(deviation.square())
        parts.append((torch.stack(errors), torch.stack(variances)))
    error, variance = (torch.cat(columns, dim=1) for columns in zip(*parts, strict=True))
    leverage = (1.0 - noise[rows] / variance).clamp(0.0, LARGEST_LEVERAGE)
    return LeaveOneOut(points.y[rows] - error, variance, leverage)


def _nearest_and_itself(scaled: Float[Tensor, "n d"], rows: Int[Tensor, " b"], k: int) -> Int[Tensor, "b _"]:
    """The k points nearest to each of some points, the furthest first, and the point itself at the end."""
    squared = squared_distances(scaled[rows], scaled)
    squared[torch.arange(len(rows), device=rows.device), rows] = -1.0  # among equal points, itself is the nearest
    return squared.topk(k + 1, largest=False).indices.flip(1)
