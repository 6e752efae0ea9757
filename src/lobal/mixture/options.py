"""Options as a user writes them: names looked up, numbers checked, defaults filled in."""

import math
import warnings
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from lobal.mixture.adam.objective import Objective, elbo, squared_error
from lobal.mixture.adam.responses import CovarianceModel, diagonal_covariance, full_covariance, zero_covariance

OBJECTIVES: dict[str, Objective] = {"elbo": elbo, "mse": squared_error}
COVARIANCES: dict[str, CovarianceModel] = {
    "zero": zero_covariance,
    "diagonal": diagonal_covariance,
    "full": full_covariance,
}
Value = TypeVar("Value")
N_INDUCING = 512  # m_E, where experts are sparse and nobody says otherwise
# So many labels have exact experts by default: a few seconds of work. In one column inducing points lie close enough.
LARGEST_EXACT = 2048
ESTIMATE = "estimate"


def default_bandwidths(dimension: float) -> Float[ndarray, "7"]:
    """sigma_l = 2^((l - 4) / delta) for l = 1 ... 7, Algorithm 2."""
    return np.exp2(np.arange(-3, 4) / dimension)


def default_penalty(n: int, objective: str) -> float:
    """theta at n labels: 0.5 (ELBO, nats; the paper's) or 1e-4 (MSE, label variances) up to 1024, then as n^-1/2.

    A constant theta tolerates a bias that never goes away (docs/paper_map.md), so it has to fall with n.
    """
    return (1e-4 if objective == "mse" else 0.5) * min(1.0, math.sqrt(1024 / n))


def ascending(bandwidths: Any) -> Float[ndarray, " L"]:  # noqa: ANN401 - any array-like
    """The bandwidths sigma_l as an array, checked."""
    values = np.asarray(bandwidths, dtype=np.float64)
    if (
        values.ndim != 1
        or not len(values)
        or not (np.isfinite(values) & (values > 0)).all()
        or not (np.diff(values) > 0).all()
    ):
        raise ValueError(f"bandwidths must be a list of positive numbers in ascending order, got {values.tolist()}")
    return values


def are_exact(experts: str, n: int, d: int, *, may_be: bool) -> bool:
    """Whether experts of n labels in d columns are exact; with "auto" those of few in several are, if they `may_be`."""
    return choice("experts", experts, {"sparse": False, "exact": True, "auto": may_be and d > 1 and n <= LARGEST_EXACT})


def positive(name: str, value: float | int) -> float:
    """The value, checked to be positive and finite."""
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def unless_estimated(name: str, value: Value | str, *, otherwise: str) -> Value | None:
    """The value, or none where it is to be estimated, which is the only word that it may be."""
    if not isinstance(value, str):
        return value
    if value != ESTIMATE:
        raise ValueError(f"{name} must be {otherwise} or {ESTIMATE!r}, got {value!r}")
    return None


def whole(name: str, value: Any) -> int:  # noqa: ANN401 - whatever a user passed
    """The value, checked to be a whole number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number above zero, got {value!r}")
    return int(value)


def bandwidth_matrix(name: str, width: Any, d: int) -> Float[ndarray, "..."] | None:  # noqa: ANN401 - any array-like
    """A bandwidth matrix as given, checked: none, a number, one width per column, or a positive definite matrix."""
    if width is None:
        return None
    values = np.asarray(width, dtype=np.float64)
    if values.shape not in [(), (d,), (d, d)]:
        raise ValueError(f"{name} must be a number or have shape ({d},) or ({d}, {d}), got shape {values.shape}")
    is_symmetric = values.ndim < 2 or np.allclose(values, values.T)
    smallest = np.linalg.eigvalsh(values).min() if values.ndim == 2 else values.min()
    if not (np.isfinite(values).all() and is_symmetric and smallest > 0):
        raise ValueError(f"{name} must be positive (definite) and finite, got {values.tolist()}")
    return values


def share_of(fraction: float, n: int, name: str) -> int:
    """How many of n the fraction is, checked."""
    if not 0.0 <= fraction < 0.5:
        raise ValueError(f"{name} must lie in [0, 0.5), got {fraction}")
    return round(fraction * n)


def choice(option: str, value: str, table: dict[str, Value]) -> Value:
    """The table's entry of that name, or an error that lists the names."""
    if value not in table:
        raise ValueError(f"{option} must be one of {sorted(table)}, got {value!r}")
    return table[value]


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON can hold them: arrays become lists; what is no data is left out, said aloud."""
    plain = {}
    for name, value in options.items():
        if callable(value) or isinstance(value, np.random.RandomState):
            warnings.warn(f"{name}={value!r} is not data and is not saved with the model", stacklevel=3)
            continue
        plain[name] = value.tolist() if isinstance(value, ndarray | np.generic) else value
    return plain
