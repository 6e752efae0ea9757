"""The choice of inducing points: all methods behind one function, for arrays and for tensors."""

import inspect
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.core.arrays import Inputs, as_column, as_matrix
from lobal.core.density import importance_weights, pool_density
from lobal.core.superior_density import inducing_target
from lobal.inducing.cells import cell_points
from lobal.inducing.distributional import distributional_points
from lobal.inducing.greedy import fast_forward_points, variance_points
from lobal.inducing.kmeans import kmeans_points
from lobal.inducing.quantiles import quantile_points
from lobal.inducing.random_points import random_points
from lobal.inducing.svgd import svgd_points

METHODS: Mapping[str, Callable[..., Tensor]] = MappingProxyType(
    {
        "quantiles": quantile_points,
        "cells": cell_points,
        "kmeans": kmeans_points,
        "svgd": svgd_points,
        "distributional": distributional_points,
        "random": random_points,
        "variance": variance_points,
        "fast_forward": fast_forward_points,
    }
)
# Arguments that `select_inducing` passes to the methods that have them; all others are options of a method.
SHARED_ARGUMENTS = ("X", "m", "generator", "weight")


def select(
    X: Any,  # noqa: ANN401 - any array or tensor
    m: int,
    *,
    weight: Any = None,  # noqa: ANN401
    target: Any = None,  # noqa: ANN401
    complexity: Any = None,  # noqa: ANN401
    density: Any = None,  # noqa: ANN401
    method: str = "auto",
    seed: int | torch.Generator = 0,
    **options: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """At most m inducing points for the inputs X, evenly spread and with a density of your choice.

    Give one of `weight`, `target` and `complexity`, or none of them. Distances are Euclidean in the columns of X as
    they are: where the length scales of your kernel differ, divide the columns by them first.

    Args:
        X: Inputs, (n, d): an array, or a tensor on any device.
        m: Number of points.
        weight: Density of the inducing points divided by that of X, (n,), up to a constant factor.
        target: Density of the inducing points at X, (n,), up to a constant factor.
        complexity: Local function complexity (LFC) at X, (n,), up to a constant factor, for example from
            `MixtureRegressor.local_complexity`. The target is then sqrt(p LFC), Eq. (eq:optimizedIPdistribution).
        density: Density p of X, (n,), up to a constant factor. Used with `target` and `complexity`; estimated from X by
            default.
        method: One of `METHODS`, or "auto": "quantiles" in one column; in several columns "cells", or "kmeans" if no
            density is asked for.
        seed: Seed, or a `torch.Generator`, of the methods that are random.
        options: Options of the method: `distance` of "distributional", `bounds` of "svgd", `kernel` of "variance", and
            `kernel`, `y`, `noise` and `threshold` of "fast_forward".

    Returns:
        Inducing points, (k, d) with k <= m, of the type, dtype and device of X (integers become float64). There are
        fewer than m where X has fewer distinct rows, where a repeated value is several quantiles, and where
        "fast_forward" reaches its threshold.

    Raises:
        ValueError: X or a density has a wrong shape, is not finite or is negative; m is below one; the method or one of
            its options is unknown, or a required option is missing.

    Example:
        >>> import numpy as np
        >>> from lobal.inducing import select
        >>> X = np.random.default_rng(0).random((1000, 2))
        >>> points = select(X, 50, weight=np.exp(-5.0 * X[:, 0]))
        >>> points.shape, bool(points[:, 0].mean() < 0.25)
        ((50, 2), True)
    """
    inputs = _inputs(X)
    generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
    weight = _weights(inputs, {"weight": weight, "target": target, "complexity": complexity}, density, generator)
    for name, value in options.items():
        if isinstance(value, ndarray | Tensor):
            options[name] = torch.as_tensor(value).to(inputs)
    points = select_inducing(inputs, operator.index(m), method=method, weight=weight, generator=generator, **options)
    return points if isinstance(X, Tensor) else points.cpu().numpy()


def select_inducing(
    X: Inputs,
    m: int,
    *,
    method: str = "auto",
    weight: Float[Tensor, " n"] | None = None,
    generator: torch.Generator,
    **options: Any,  # noqa: ANN401 - as for `select`
) -> Float[Tensor, "k d"]:
    """At most m inducing points whose density is that of X times the weight: `select` for tensors.

    Returns all distinct rows of positive weight if there are no more than m of them.
    """
    if m < 1:
        raise ValueError(f"the number of inducing points must be at least 1, got {m}")
    # Without weights, k-means in d columns follows p^(d / (d + 2)): closer than p itself to sqrt(p), the target at
    # constant complexity.
    default = "quantiles" if X.shape[1] == 1 else "kmeans" if weight is None else "cells"
    name = default if method == "auto" else method
    parameters = checked_parameters(name, X.shape[1], options)
    if weight is not None and "weight" not in parameters:
        raise ValueError(f"method {name!r} does not follow a density; give no weight, target or complexity")
    counted = X if weight is None else X[weight > 0.0]
    distinct: Tensor = torch.unique(counted, dim=0)
    if len(distinct) <= m:
        return distinct
    shared = {"generator": generator, "weight": weight}
    return METHODS[name](X, m, **{key: value for key, value in shared.items() if key in parameters}, **options)


def checked_parameters(name: str, n_columns: int, options: Mapping[str, Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a method that exists, suits the number of columns and has these options."""
    if name not in METHODS:
        raise ValueError(f"method must be 'auto' or one of {sorted(METHODS)}, got {name!r}")
    if name == "quantiles" and n_columns > 1:
        raise ValueError(f"method 'quantiles' needs one input column, got {n_columns}; use 'auto' or 'cells'")
    parameters = inspect.signature(METHODS[name]).parameters
    known = {key: each for key, each in parameters.items() if key not in SHARED_ARGUMENTS}
    if unknown := sorted(set(options) - set(known)):
        raise ValueError(f"options of method {name!r} are {sorted(known)}, got {unknown}")
    required = {key for key, each in known.items() if each.default is inspect.Parameter.empty}
    if missing := sorted(required - set(options)):
        raise ValueError(f"method {name!r} needs the options {sorted(required)}, {missing} missing")
    return parameters


def _weights(
    X: Inputs, given: Mapping[str, object], density: object, generator: torch.Generator
) -> Float[Tensor, " n"] | None:
    """The target density divided by that of X, from the one of weight, target and complexity that is given."""
    columns = {name: _column(values, name, X) for name, values in given.items() if values is not None}
    if len(columns) > 1:
        raise ValueError(f"give only one of weight, target and complexity, got {sorted(columns)}")
    if density is not None and not set(columns) & {"target", "complexity"}:
        raise ValueError("density is used with target or complexity only, got neither")
    if not columns:
        return None
    ((name, values),) = columns.items()
    if not values.any():
        raise ValueError(f"{name} must be positive at one row at least, got zero at all {len(X)}")
    if name == "weight":
        return values
    if density is None:
        p = pool_density(X.cpu().double().numpy(), generator=generator).to(X)
    else:
        p = _column(density, "density", X, positive=True)
    return importance_weights(values if name == "target" else inducing_target(p, values), p)


def _inputs(X: object) -> Inputs:
    """X as a tensor of finite floating-point numbers."""
    matrix = as_matrix(_on_host(X), name="X")
    tensor = X.detach() if isinstance(X, Tensor) else torch.as_tensor(np.ascontiguousarray(matrix))
    return tensor if tensor.is_floating_point() else tensor.double()


def _column(values: object, name: str, X: Inputs, *, positive: bool = False) -> Float[Tensor, " n"]:
    return torch.as_tensor(as_column(_on_host(values), name=name, length=len(X), positive=positive)).to(X)


def _on_host(values: object) -> object:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values
