"""Inducing points for any sparse model, from inputs and what is known about the target function there."""

import inspect
import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.core.arrays import as_column, as_matrix
from lobal.core.density import capped, importance_weights, pool_density
from lobal.inducing.distributional import distributional_points
from lobal.inducing.draws import merged, random_points
from lobal.inducing.greedy import fast_forward_points, variance_points
from lobal.inducing.kmeans import kmeans_points, matched_kmeans_points
from lobal.inducing.quantiles import quantile_points
from lobal.inducing.svgd import svgd_points

Selector: TypeAlias = Callable[..., Tensor]

# What every selector is given; whatever else it takes is an option of the method.
GIVEN = ("X", "m", "generator", "weight")


def select(
    X: Any,  # noqa: ANN401 - arrays and tensors of any kind are welcome
    m: int,
    *,
    complexity: Any = None,  # noqa: ANN401 - as above
    density: Any = None,  # noqa: ANN401 - as above
    method: str | None = None,
    seed: int = 0,
    **options: Any,  # noqa: ANN401 - of the method
) -> Any:  # noqa: ANN401 - what X is
    """m inducing points for the training inputs X, diverse and distributed as sqrt(p LFC).

    Eq. (eq:optimizedIPdistribution), where p is the density that X was drawn from. Distances are Euclidean in the
    columns as they are: divide them by the length scales of the kernel first where these differ.

    Args:
        X: training inputs, (n, d): an array, or a tensor on any device.
        m: the number of points.
        complexity: local function complexity (LFC) at X, up to a constant factor, for example from
            `MixtureRegressor.local_complexity`; without it, the points follow p itself.
        density: p at X, up to a constant factor; it counts together with a complexity only, and is then estimated
            unless given.
        method: one of `METHODS`; by default "quantiles" for one column and "matched_kmeans" for more.
        seed: of everything random.
        options: of the method, such as `distance` of "distributional", `bounds` of "svgd" or `kernel` of the greedy
            ones. "variance" takes the complexity for its quality; "fast_forward" goes by labels and leaves it aside.

    Returns:
        (m, d), of the type, dtype and device of X (integers become float64). "fast_forward" may stop at fewer.

    Raises:
        ValueError: X, complexity or density are not finite numbers of fitting shapes, or negative; there are not m
            distinct inputs of positive complexity; the method is unknown, or lacks an option.
    """
    inputs, m = _inputs(X), operator.index(m)
    name = method or ("quantiles" if inputs.shape[1] == 1 else "matched_kmeans")
    selector = _selector(name, inputs, options)
    generator = torch.Generator().manual_seed(seed)
    lfc = None if complexity is None else _column(complexity, "complexity", inputs)
    p = None if density is None else _column(density, "density", inputs, positive=True)
    _check_number(m, inputs if lfc is None else inputs[lfc > 0.0])
    weight = None
    if lfc is not None:
        weight = lfc / lfc.mean() if name == "variance" else _sample_weight(inputs, lfc, p, generator)
    points = selector(inputs, m, generator=generator, weight=weight)
    return points if isinstance(X, Tensor) else points.cpu().numpy()


def _sample_weight(
    X: Float[Tensor, "n d"],
    complexity: Float[Tensor, " n"],
    density: Float[Tensor, " n"] | None,
    generator: torch.Generator,
) -> Float[Tensor, " n"]:
    """sqrt(LFC / p), with which a sample from p follows sqrt(p LFC); no weight dwarfs all others."""
    if density is None:
        density = pool_density(X.cpu().double().numpy(), generator=generator).to(X)
    return importance_weights((density * complexity).sqrt(), density)


def distinct_quantile_points(
    X: Float[Tensor, "n 1"],
    m: int,
    *,
    generator: torch.Generator | None = None,  # noqa: ARG001 - nothing random in it
    weight: Float[Tensor, " n"] | None = None,
) -> Float[Tensor, "m 1"]:
    """Quantiles that differ even where one value fills much of the sample: no value counts for more than one."""
    values, mass = merged(X, torch.ones_like(X[:, 0]) if weight is None else weight)
    return quantile_points(values, m, weight=capped(mass, float(m)))


METHODS: Mapping[str, Selector] = {
    "quantiles": distinct_quantile_points,
    "matched_kmeans": matched_kmeans_points,
    "kmeans": kmeans_points,
    "svgd": svgd_points,
    "distributional": distributional_points,
    "random": random_points,
    "variance": variance_points,
    "fast_forward": fast_forward_points,
}


def _selector(name: str, X: Float[Tensor, "n d"], options: Mapping[str, Any]) -> Selector:
    """The method with its options, which are checked."""
    if name not in METHODS:
        raise ValueError(f"method must be one of {sorted(METHODS)}, got {name!r}")
    if name == "quantiles" and X.shape[1] > 1:
        raise ValueError(
            f"method 'quantiles' is for one input column, got {X.shape[1]}; leave the method out for a choice"
        )
    parameters = inspect.signature(METHODS[name]).parameters
    known = {key: each for key, each in parameters.items() if key not in GIVEN}
    if unknown := sorted(set(options) - set(known)):
        raise ValueError(f"options of method {name!r} are {sorted(known)}, got {unknown}")
    required = {key for key, each in known.items() if each.default is inspect.Parameter.empty}
    if missing := sorted(required - set(options)):
        raise ValueError(f"method {name!r} needs the options {sorted(required)}, got no {missing}")
    tensors = {key: torch.as_tensor(each).to(X) for key, each in options.items() if isinstance(each, ndarray | Tensor)}
    return partial(METHODS[name], **{**options, **tensors})


def _inputs(X: Any) -> Float[Tensor, "n d"]:  # noqa: ANN401 - as above
    """X as a tensor of finite floating-point numbers."""
    on_host = X.detach().cpu().numpy() if isinstance(X, Tensor) else X
    matrix = as_matrix(on_host, name="X")
    tensor = X.detach() if isinstance(X, Tensor) else torch.as_tensor(np.ascontiguousarray(matrix))
    return tensor if tensor.is_floating_point() else tensor.double()


def _column(
    values: Any,  # noqa: ANN401 - as above
    name: str,
    X: Float[Tensor, "n d"],
    *,
    positive: bool = False,
) -> Float[Tensor, " n"]:
    on_host = values.detach().cpu().numpy() if isinstance(values, Tensor) else values
    return torch.as_tensor(as_column(on_host, name=name, length=len(X), positive=positive)).to(X)


def _check_number(m: int, X: Float[Tensor, "k d"]) -> None:
    if m < 1:
        raise ValueError(f"the number of inducing points must be at least 1, got {m}")
    distinct = len(torch.unique(X, dim=0))
    if m > distinct:
        raise ValueError(f"there must be {m} distinct inputs of positive complexity at least, got {distinct}; lower m")
