import numpy as np
import pytest

from experiments.rbf_network import RbfNetwork, centre_distances, fitted_networks, gaussian_units, kmeans_centres


def fitted(X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None, *, ridge: float = 1e-6) -> RbfNetwork:
    weight = np.ones(len(y)) if weight is None else weight
    (network,) = fitted_networks(X, y, weight, n_units=12, overlaps=(1.5,), ridges=(ridge,), seed=0)
    return network


def test_a_smooth_function_is_learned(rng: np.random.Generator) -> None:
    X = rng.random((200, 1))
    x = np.linspace(0.05, 0.95, 50)
    assert fitted(X, np.sin(6.0 * X[:, 0])).predict(x[:, None]) == pytest.approx(np.sin(6.0 * x), abs=0.01)


def test_centres_are_close_where_inputs_are_dense(rng: np.random.Generator) -> None:
    x = np.concatenate([rng.uniform(0.0, 0.5, 2700), rng.uniform(0.5, 1.0, 100)])
    centres = kmeans_centres(x[:, None], 60, 0)
    left, spacing = centres[:, 0] < 0.5, centre_distances(centres)
    # On a line, k-means spaces its centres as the density to the power -1/3.
    assert np.median(spacing[left]) == pytest.approx(np.median(spacing[~left]) / 3.0, rel=0.4)


def test_the_output_minimises_the_weighted_ridge_objective(rng: np.random.Generator) -> None:
    X, y, weight = rng.random((60, 1)), rng.random(60), rng.random(60)
    network = fitted(X, y, weight, ridge=0.1)
    features = gaussian_units(X, network.centres, network.widths)
    gradient = features.T @ (weight * (network.predict(X) - y)) + 0.1 * network.output
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)


def test_distances_are_those_to_both_neighbours() -> None:
    distances = centre_distances(np.array([[0.0], [1.0], [3.0]]))
    np.testing.assert_allclose(distances, np.sqrt([(1 + 9) / 2, (1 + 4) / 2, (4 + 9) / 2]))


def test_repeated_inputs_get_no_more_units_than_places() -> None:
    centres = kmeans_centres(np.repeat([[0.0], [1.0], [5.0]], 4, axis=0), 10, 0)
    np.testing.assert_allclose(np.sort(centres[:, 0]), [0.0, 1.0, 5.0])
    with pytest.raises(ValueError, match="got 1"):
        kmeans_centres(np.zeros((4, 1)), 10, 0)
