"""Networks of Gaussian units with widths of their own (Moody and Darken 1989), one of the models of `other_models`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import solve
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans

NEIGHBOURS = 2  # centres that a unit's width looks at: in one dimension, one on either side


@final
@dataclass(frozen=True, kw_only=True)
class RbfNetwork:
    """One hidden layer of Gaussian units, and a linear output."""

    centres: Float[ndarray, "m d"]
    widths: Float[ndarray, " m"]
    output: Float[ndarray, " m"]
    intercept: float

    def predict(self, X: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The network's output at every input."""
        return np.asarray(self.intercept + gaussian_units(X, self.centres, self.widths) @ self.output)


def fitted_networks(
    X: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    weight: Float[ndarray, " n"],
    *,
    n_units: int,
    overlaps: Sequence[float],
    ridges: Sequence[float],
    seed: int,
) -> Iterator[RbfNetwork]:
    """One network of every overlap and ridge, the centres found once and the normal equations once per overlap.

    The centres are the k-means of the inputs and a unit is `overlap` times as wide as its nearest centres are far, so
    units are many and narrow where inputs are dense: the network adapts to the density it is trained on. The weights
    of the labels enter the output only.
    """
    centres = kmeans_centres(X, n_units, seed)
    spacing = centre_distances(centres)
    intercept = float(np.average(y, weights=weight))
    for overlap in overlaps:
        features = gaussian_units(X, centres, overlap * spacing)
        weighted = features * weight[:, None]
        normal, moment = weighted.T @ features, weighted.T @ (y - intercept)
        for ridge in ridges:
            # Minimises sum_i w_i (y_i - intercept - phi_i b)^2 + ridge |b|^2.
            output = solve(normal + ridge * np.eye(len(normal)), moment, assume_a="pos")
            yield RbfNetwork(centres=centres, widths=overlap * spacing, output=output, intercept=intercept)


def kmeans_centres(X: Float[ndarray, "n d"], number: int, seed: int) -> Float[ndarray, "m d"]:
    """Centres of the inputs, as many as asked for or as there are distinct inputs."""
    number = min(number, len(np.unique(X, axis=0)))
    if number < 2:
        raise ValueError(f"the distance between centres needs at least two units and distinct inputs, got {number}")
    return np.asarray(KMeans(number, n_init=1, random_state=seed).fit(X).cluster_centers_)


def centre_distances(centres: Float[ndarray, "m d"]) -> Float[ndarray, " m"]:
    """Root mean squared distance of every centre to its nearest others."""
    k = min(NEIGHBOURS, len(centres) - 1)
    distances, _ = cKDTree(centres).query(centres, k=k + 1)  # the first is the centre itself
    return np.asarray(np.sqrt(np.square(distances[:, 1:]).mean(axis=1)))


def gaussian_units(
    X: Float[ndarray, "n d"], centres: Float[ndarray, "m d"], widths: Float[ndarray, " m"]
) -> Float[ndarray, "n m"]:
    """exp(-|x - c|^2 / (2 s^2)) for every input and unit."""
    return np.asarray(np.exp(-0.5 * cdist(X, centres, "sqeuclidean") / np.square(widths)))
