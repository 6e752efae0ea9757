"""Widths that columns share."""

import numpy as np
import torch

from lobal.core.dataset import LabelledSet
from lobal.core.density import column_spread
from lobal.core.kernels import gaussian
from lobal.experts.column_groups import ColumnGroups
from lobal.experts.global_expert import Search, Units, fit_global_expert, searched_again


def categories(n: int = 120, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """One number and a category of four levels, in one-hot columns; levels are not equally frequent."""
    rng = np.random.default_rng(seed)
    x, level = rng.random(n), rng.choice(4, n, p=[0.6, 0.2, 0.15, 0.05])
    y = np.sin(6 * x) + np.array([0.0, 1.0, -1.0, 2.0])[level] + 0.01 * rng.standard_normal(n)
    return torch.tensor(np.column_stack([x, np.eye(4)[level]])), torch.tensor(y)


def labelled(X: torch.Tensor, y: torch.Tensor) -> LabelledSet:
    return LabelledSet(X=X, y=y, weight=torch.ones_like(y))


def test_columns_of_a_group_have_one_width() -> None:
    X, y = categories()
    found = fit_global_expert(
        labelled(X, y),
        unit=column_spread(X),
        kernel=gaussian,
        anisotropic=True,
        generator=torch.Generator().manual_seed(0),
        groups=[0, 1, 1, 1, 1],
    )
    assert len(found.bandwidth.unique()) == 2
    assert len(found.bandwidth[1:].unique()) == 1


def test_the_gradient_of_tied_widths_is_the_slope_of_the_loss() -> None:
    X, y = categories(40)
    tied = ColumnGroups.of([0, 1, 1, 1, 1], X[0])
    search = Search([labelled(X, y)], Units.of(y, tied.common(column_spread(X)), tied), gaussian)
    theta = np.array([0.1, 0.2, -2.0, -0.5, 0.3])
    step = 1e-5 * np.eye(5)
    slopes = [(search.loss(theta + each) - search.loss(theta - each)) / 2e-5 for each in step]
    np.testing.assert_allclose(search.loss_and_slope(theta)[1], slopes, atol=1e-6)


def test_a_group_for_every_column_changes_nothing() -> None:
    X, y = categories(60)
    options = {"unit": column_spread(X), "kernel": gaussian, "anisotropic": True}
    found = [
        fit_global_expert(labelled(X, y), generator=torch.Generator().manual_seed(0), groups=groups, **options)
        for groups in (None, range(5))
    ]
    torch.testing.assert_close(found[0].bandwidth, found[1].bandwidth)


def test_a_second_search_keeps_widths_tied() -> None:
    X, y = categories()
    options = {"unit": column_spread(X), "anisotropic": True, "groups": [3, 7, 7, 7, 7]}
    generator = torch.Generator().manual_seed(0)
    first = fit_global_expert(labelled(X, y), kernel=gaussian, generator=generator, **options)
    again = searched_again(labelled(X, y), first, **options)
    assert len(again.bandwidth[1:].unique()) == 1
