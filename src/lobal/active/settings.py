"""What a learner is told once, checked before anything is computed."""

import math
import numbers
import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Real
from numpy import ndarray

from lobal.active.designs import Draw, draw_low_dispersion, draw_random
from lobal.active.oracles import as_labels
from lobal.active.spaces import Box, Pool
from lobal.core.arrays import as_matrix
from lobal.mixture.estimator import MixtureRegressor
from lobal.mixture.options import plain_options

DRAWS: dict[str, Draw] = {"random": draw_random, "low_dispersion": draw_low_dispersion}

SMOOTHNESS = (
    "math.inf for a smooth target; lobal.MixtureRegressor(smoothness='estimate').fit(X, y).smoothness_ is a number too"
)
DIGITS = 1e-6  # of a box's width: how far outside a point may be that was written with few digits

Validation: TypeAlias = tuple[Real[ndarray, "n d"], Float[ndarray, " n"]]


def learner_settings(
    *,
    seed: object,
    smoothness: object,
    intrinsic_dimension: object,
    exploration: object,
    draw: object,
    shrink_inducing: object,
    model: MixtureRegressor,
) -> dict[str, Any]:
    """The options of a learner as JSON can hold them.

    Options of the model that are functions cannot be kept; `functions` names them, so that whoever loads the campaign
    is asked for them.
    """
    options = model.get_params()
    functions = [name for name, value in options.items() if callable(value)]
    # The learner's seed takes the place of the model's.
    kept = {name: value for name, value in options.items() if name not in [*functions, "random_state"]}
    if isinstance(model.smoothness, str):
        raise ValueError(f"a learner takes smoothness itself, got {model.smoothness!r} as its model's; {SMOOTHNESS}")
    if not isinstance(draw, str) or draw not in DRAWS:
        raise ValueError(f"draw must be one of {sorted(DRAWS)}, got {draw!r}")
    if not isinstance(shrink_inducing, bool):
        raise TypeError(f"shrink_inducing must be True or False, got {_shown(shrink_inducing)}")
    return {
        "seed": whole_number("seed", seed, least=0),
        "smoothness": _number("smoothness", smoothness, above=0.0, hint=SMOOTHNESS),
        "intrinsic_dimension": _number(
            "intrinsic_dimension", intrinsic_dimension, above=0.0, most=1e6, hint="leave it out to have it estimated"
        ),
        "exploration": _number("exploration", exploration, least=0.0, most=1.0, hint="0.1 by default"),
        "draw": draw,
        "shrink_inducing": shrink_inducing,
        "model": plain_options(MixtureRegressor(**kept).get_params()),
        "functions": functions,
    }


def checked_space(space: object) -> Pool | Box:
    """The space, which has to be one."""
    if not isinstance(space, Pool | Box):
        raise TypeError(
            f"space must be a lobal.Pool of candidates or a lobal.Box, got {_shown(space)}; write lobal.Pool(X) for "
            "candidates in an array X, one a row"
        )
    return space


def checked_model(model: object) -> MixtureRegressor:
    """The model whose options every fit takes; by default one without options."""
    if model is None:
        return MixtureRegressor()
    if not isinstance(model, MixtureRegressor):
        raise TypeError(
            f"model must be a lobal.MixtureRegressor, such as lobal.MixtureRegressor(noise=0.1), got {_shown(model)}"
        )
    return model


def checked_path(path: object) -> Path:
    """The folder of a campaign."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the name of a folder, such as 'campaign', got {_shown(path)}")
    return Path(path)


def checked_validation(validation: object, d: int) -> Validation | None:
    """Inputs and labels that steer the fits, if there are any."""
    if validation is None:
        return None
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise TypeError(f"validation must be a pair (X, y) of inputs and labels, got {_shown(validation)}")
    X, y = as_matrix(validation[0], name="the X of validation"), as_labels(validation[1], name="the y of validation")
    if X.shape[1] != d:
        raise ValueError(f"the X of validation must have {d} columns, as the candidates have, got shape {X.shape}")
    if y.shape != (len(X),) or not np.isfinite(y).all():
        raise ValueError(
            f"the y of validation must be {len(X)} finite labels, one for each row of its X, got shape {y.shape}"
            + ("" if np.isfinite(y).all() else " with NaN or infinite entries")
        )
    return X, y


def as_batch(batch: Any, bounds: Float[ndarray, "2 d"] | None) -> ndarray:  # noqa: ANN401 - array-likes of any kind
    """Points as an array, whatever they may turn out to be: row numbers of a pool, or inputs within a box's bounds."""
    is_box = bounds is not None
    try:
        points = np.asarray(batch, dtype=np.float64 if is_box else None)
    except (TypeError, ValueError) as error:
        wanted = "inputs in the box, one a row" if is_box else "row numbers of the pool"
        raise ValueError(f"points must be {wanted}, got {_shown(batch)}: {error}") from error
    if bounds is not None and points.shape[-1:] == bounds.shape[1:]:
        slack = DIGITS * (bounds[1] - bounds[0])
        outside = (points < bounds[0] - slack) | (points > bounds[1] + slack)
        if outside.any():
            first = points[outside.any(axis=-1)].reshape(-1, bounds.shape[1])[0]
            raise ValueError(
                f"points must lie in the box from {bounds[0].tolist()} to {bounds[1].tolist()}, got {first.tolist()}; "
                "leave such points out, or begin with a larger box"
            )
    return points


def checked_sizes(sizes: object, most: int | None) -> list[int]:
    """The numbers of labels n_0 < n_1 < ..., of which there are at most so many to be had."""
    if not isinstance(sizes, Iterable):
        raise TypeError(f"sizes must be a list of numbers of labels, such as [64, 128], got {_shown(sizes)}")
    targets = [whole_number("every one of the sizes", size, least=1) for size in sizes]
    if not targets or any(after <= before for before, after in pairwise(targets)):
        raise ValueError(f"sizes must be numbers of labels in ascending order, at least one, got {targets}")
    if most is not None and targets[-1] > most:
        raise ValueError(f"{targets[-1]} labels are wanted, but the pool has {most} points; lower the sizes")
    return targets


def whole_number(name: str, value: object, *, least: int) -> int:
    """The value, which has to be a whole number and large enough."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}, got {_shown(value)}")
    return int(value)


def _number(
    name: str, value: object, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf, hint: str
) -> float:
    """The value, which has to be a number within bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {_shown(value)}; {hint}")
    number = float(value)
    if not (number > above and least <= number <= most):
        bounds = f"above {above:g}" if math.isfinite(above) else f"between {least:g} and {most:g}"
        raise ValueError(f"{name} must be {bounds}, got {number}; {hint}")
    return number


def _shown(value: object) -> str:
    """A value and its type, cut short for a message."""
    text = " ".join(repr(value).split())
    return f"{text if len(text) <= 80 else text[:77] + '...'} of type {type(value).__name__}"
