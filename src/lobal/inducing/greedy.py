"""Inducing points chosen one by one, each the most informative given those before, for a known kernel."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.arrays import Inputs

Covariance: TypeAlias = Callable[[Float[Tensor, "n d"], Float[Tensor, "k d"]], Float[Tensor, "n k"]]

# Prior variances are read from the diagonals of blocks of this many rows.
DIAGONAL_ROWS = 64
# In units of the prior variance; smaller values are rounding errors.
SMALLEST_VARIANCE = 1e-10


def variance_points(
    X: Inputs, m: int, *, weight: Float[Tensor, " n"] | None = None, kernel: Covariance
) -> Float[Tensor, "m d"]:
    """m rows of X, each the one with the largest weight times conditional variance given those before.

    The weight is the square of the quality function of Moss, Ober and Picheny (2023). Without weights it is the greedy
    variance reduction of Burt, Rasmussen and van der Wilk (2020), a pivoted Cholesky factorisation of the kernel
    matrix. Holds m x n numbers.
    """
    with torch.no_grad():
        quality = torch.ones_like(X[:, 0]) if weight is None else weight
        variance = prior_variance(X, kernel)
        floor = SMALLEST_VARIANCE * variance
        V = X.new_empty(m, len(X))
        rows: list[int] = []
        while len(rows) < m:
            score = quality * torch.maximum(variance, floor)
            score[rows] = -1.0
            new = int(score.argmax())
            V[len(rows)] = _next_column(X, new, V[: len(rows)], kernel) / variance[new].clamp_min(floor[new]).sqrt()
            variance = variance - V[len(rows)].square()
            rows.append(new)
    return X[rows]


def fast_forward_points(
    X: Inputs, m: int, *, y: Float[Tensor, " n"], kernel: Covariance, noise: float, threshold: float = 0.0
) -> Float[Tensor, "k d"]:
    """At most m rows of X by greedy fast forward selection (Seeger, Williams and Lawrence 2003).

    Each is the one with the largest `information` J(x_i); selection ends when none exceeds the threshold epsilon_J
    (Sec. 5.1). The labels y are those of a Gaussian process with mean zero. Holds 2 m x n numbers.
    """
    return X[fast_forward(X, m, y=y, kernel=kernel, noise=noise, threshold=threshold).rows]


class Selection(NamedTuple):
    """Rows in the order in which they were selected, and the information of each."""

    rows: list[int]
    information: list[float]


def fast_forward(
    X: Inputs, m: int, *, y: Float[Tensor, " n"], kernel: Covariance, noise: float, threshold: float = 0.0
) -> Selection:
    """The rows of `fast_forward_points`: those of a larger threshold come first, before any of less information."""
    if not noise > 0.0:
        raise ValueError(f"noise must be a variance above zero, got {noise}")
    selected = Selection([], [])
    with torch.no_grad():
        prior = prior_variance(X, kernel)
        variance, mean, explained = prior.clone(), torch.zeros_like(y), torch.zeros_like(y)
        V, E = X.new_empty(m, len(X)), X.new_empty(m, len(X))
        while len(selected.rows) < m:
            J = information(y - mean, variance.clamp_min(0.0), explained, noise)
            J = torch.where(variance > SMALLEST_VARIANCE * prior, J, -1.0)  # known already
            new = int(J.argmax())
            if not J[new] > threshold:
                break
            k = len(selected.rows)
            V[k] = _next_column(X, new, V[:k], kernel) / variance[new].sqrt()
            E[k] = _next_basis(V[k], E[:k], noise)
            variance = variance - V[k].square()
            explained = explained + E[k].square()
            mean = mean + E[k] * (E[k] @ y)
            selected.rows.append(new)
            selected.information.append(float(J[new]))
    return selected


def information(
    residual: Float[Tensor, " n"], variance: Float[Tensor, " n"], explained: Float[Tensor, " n"], noise: float
) -> Float[Tensor, " n"]:
    """J(x_i), the Kullback-Leibler divergence of the posterior when x_i becomes an inducing point.

    Before, label i depends on the conditional mean g of f_i given the inducing values; after, on f_i. `residual` is y_i
    minus the posterior mean of g, `explained` the posterior variance of g divided by that of the noise, and `variance`
    that of f_i given g.
    """
    total = noise + variance * (1.0 - explained)
    surprise = variance * (noise + explained * variance) * residual.square() / (noise * total.square())
    return 0.5 * (torch.log(total / noise) + variance * (2.0 * explained - 1.0) / total + surprise)


def prior_variance(X: Inputs, kernel: Covariance) -> Float[Tensor, " n"]:
    """k(x, x) at every input."""
    return torch.cat([kernel(part, part).diagonal() for part in X.split(DIAGONAL_ROWS)])


def _next_column(X: Inputs, row: int, V: Float[Tensor, "k n"], kernel: Covariance) -> Float[Tensor, " n"]:
    """Covariances with one row given those before, V^T V being what they explain."""
    return kernel(X, X[row : row + 1])[:, 0] - V[:, row] @ V


def _next_basis(v: Float[Tensor, " n"], E: Float[Tensor, "k n"], noise: float) -> Float[Tensor, " n"]:
    """The next row of E = Q^-1 V with Q Q^T = noise I + V V^T; E^T E y is the posterior mean."""
    w = E @ v
    return (v - w @ E) / (noise + v @ v - w @ w).sqrt()
