"""Columns that share a bandwidth."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy import ndarray
from sklearn.base import clone

import lobal


def categories(n: int = 60) -> tuple[ndarray, ndarray]:
    """A number, and three levels in indicator columns."""
    rng = np.random.default_rng(0)
    x, level = rng.random(n), rng.choice(3, n, p=[0.7, 0.2, 0.1])
    return np.column_stack([x, np.eye(3)[level]]), np.sin(6 * x) + np.array([0.0, 1.0, -1.0])[level]


@pytest.mark.parametrize("anisotropic", [True, False])
def test_levels_of_a_category_are_equally_far_apart(anisotropic: bool) -> None:
    X, y = categories()
    model = lobal.MixtureRegressor(column_groups=[0, 1, 1, 1], anisotropic=anisotropic, random_state=0).fit(X, y)
    assert len(torch.unique(model.mixture_.shared_bandwidth[1:])) == 1


def test_groups_are_cloned_and_saved_with_the_model(tmp_path: Path) -> None:
    X, y = categories()
    model = clone(lobal.MixtureRegressor(column_groups=(0, 1, 1, 1), random_state=0)).fit(X, y)
    model.save(tmp_path / "model.lobal")
    loaded = lobal.MixtureRegressor.load(tmp_path / "model.lobal")
    assert list(loaded.column_groups) == [0, 1, 1, 1]
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("groups", [[0, 1], "0111", [0, 1, 1, -1], [0, 1, 1, 0.5]])
def test_groups_that_do_not_fit_the_columns_are_refused(groups: object) -> None:
    X, y = categories(20)
    with pytest.raises(ValueError, match="column_groups must"):
        lobal.MixtureRegressor(column_groups=groups).fit(X, y)
