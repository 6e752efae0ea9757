"""What a learner is told once, checked before anything is computed."""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, final

from lobal.active.draws import ADAPTIVE, names
from lobal.active.mixture_surrogate import SMOOTHNESS
from lobal.active.spaces import Space
from lobal.active.surrogate import Surrogate
from lobal.core.checks import real_number, shown, whole_number
from lobal.core.presets import Presets, check_preset
from lobal.mixture.estimator import MixtureRegressor

COMPLEXITIES = ("local", "constant")
# Algorithm 1: no share of the test density is added to the superior one, and points are drawn independently. All else
# that the paper sets is the default, or an option of the model, which has a preset of the same name.
PRESETS: Presets = {"paper": {"exploration": 0.0, "draw": "random"}}


@final
@dataclass(frozen=True, kw_only=True)
class LearnerSettings:
    """How points are chosen."""

    seed: int = 0
    smoothness: float = math.inf  # alpha
    intrinsic_dimension: float | None = None  # delta; None: estimated before the first step
    exploration: float = 0.1  # share of the test density in what is aimed for
    draw: str = ADAPTIVE  # name of a design
    complexity: str = "local"  # LFC, or "constant" to leave it out
    keep_models: bool = False  # of all steps in the folder, not of the last two only
    preset: str | None = None  # what the settings, and those of the default model, were taken from

    @staticmethod
    def checked(
        *,
        seed: object,
        smoothness: object,
        intrinsic_dimension: object,
        exploration: object,
        draw: object,
        complexity: object,
        keep_models: object = False,
        preset: Any = None,  # noqa: ANN401 - a name, which is checked
    ) -> "LearnerSettings":
        """The settings with numbers as Python's own.

        Raises:
            TypeError, ValueError: a value is of the wrong kind or out of range.
        """
        if not isinstance(draw, str) or draw not in names():
            raise ValueError(f"draw must be one of {names()}, got {draw!r}")
        if not isinstance(complexity, str) or complexity not in COMPLEXITIES:
            raise ValueError(f"complexity must be one of {list(COMPLEXITIES)}, got {complexity!r}")
        if not isinstance(keep_models, bool):
            raise TypeError(f"keep_models must be True or False, got {shown(keep_models)}")
        check_preset(preset, PRESETS)
        hint = "leave it out to have it estimated"
        return LearnerSettings(
            seed=whole_number("seed", seed, least=0),
            smoothness=real_number("smoothness", smoothness, above=0.0, hint=SMOOTHNESS),
            intrinsic_dimension=None
            if intrinsic_dimension is None
            else real_number("intrinsic_dimension", intrinsic_dimension, above=0.0, most=1e6, hint=hint),
            exploration=real_number("exploration", exploration, least=0.0, most=1.0, hint="0.1 by default"),
            draw=draw,
            complexity=complexity,
            keep_models=keep_models,
            preset=preset,
        )

    def to_fields(self) -> dict[str, Any]:
        """The settings as JSON holds them."""
        return asdict(self)

    @staticmethod
    def from_fields(entries: Mapping[str, Any]) -> "LearnerSettings":
        """The settings that `to_fields` returned; further entries are ignored, missing ones have their defaults."""
        names = {each.name for each in fields(LearnerSettings)}
        return LearnerSettings.checked(
            **{
                **asdict(LearnerSettings(draw="random")),
                **{name: value for name, value in entries.items() if name in names},
            }
        )

    @property
    def dimension(self) -> float:
        """delta, once it is known."""
        if self.intrinsic_dimension is None:
            raise ValueError("the intrinsic dimension has not been estimated yet")
        return self.intrinsic_dimension


def checked_space(space: object) -> Space:
    """The space; it must be one."""
    if not isinstance(space, Space):
        raise TypeError(
            f"space must be a lobal.Pool of candidates, a lobal.Box or a lobal.SearchSpace, got {shown(space)}; write "
            "lobal.Pool(X) for candidates in an array X, one a row"
        )
    return space


def checked_surrogate(model: object, shrink_inducing: object, space: Space, *, preset: str | None = None) -> Surrogate:
    """The surrogate that the model stands for; by default that of the space, by the options of the preset."""
    if not isinstance(shrink_inducing, bool):
        raise TypeError(f"shrink_inducing must be True or False, got {shown(shrink_inducing)}")
    if model is None and not shrink_inducing:
        return space.default_surrogate(preset)
    if isinstance(model, Surrogate):
        if shrink_inducing:
            raise ValueError("shrink_inducing must be passed to the surrogate itself, got it beside a surrogate")
        return model
    if model is not None and not isinstance(model, MixtureRegressor):
        raise TypeError(
            f"model must be a lobal.MixtureRegressor, such as lobal.MixtureRegressor(noise=0.1), got {shown(model)}"
        )
    mixture = MixtureRegressor(preset=preset) if model is None else model
    return space.surrogate_of(mixture, shrink_inducing=shrink_inducing)


def checked_path(path: object) -> Path:
    """The folder of a campaign."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the name of a folder, such as 'campaign', got {shown(path)}")
    return Path(path)


def checked_sizes(sizes: object, most: int | None) -> list[int]:
    """The numbers of labels n_0 < n_1 < ..., at most `most`."""
    if not isinstance(sizes, Iterable):
        raise TypeError(f"sizes must be a list of numbers of labels, such as [64, 128], got {shown(sizes)}")
    targets = [whole_number("every one of the sizes", size, least=1) for size in sizes]
    if not targets or any(after <= before for before, after in pairwise(targets)):
        raise ValueError(f"sizes must be numbers of labels in ascending order, at least one, got {targets}")
    if most is not None and targets[-1] > most:
        raise ValueError(f"{targets[-1]} labels are wanted, but the pool has {most} points; lower the sizes")
    return targets
