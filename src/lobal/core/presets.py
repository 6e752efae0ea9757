"""Presets: one word that stands for several options of a class."""

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

from lobal.core.checks import shown

Kind = TypeVar("Kind", bound=type)
Presets: TypeAlias = Mapping[str, Mapping[str, Any]]  # options by the name of the preset


def takes_preset(presets: Presets) -> Callable[[Kind], Kind]:
    """A class decorator: `preset=NAME` gives the options of that name, except for those that are given beside it.

    The options are those of the object from then on, as if they had been spelt out. The class checks the name when it
    checks its other options: `check_preset`.
    """

    def decorated(kind: Kind) -> Kind:
        init = kind.__init__  # type: ignore[misc]  # that of this very class

        @functools.wraps(init)
        def constructor(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - of any class
            init(self, *arguments, **{**preset_options(options.get("preset"), presets), **options})

        kind.__init__ = constructor  # type: ignore[misc]
        return kind

    return decorated


def preset_options(name: object, presets: Presets) -> dict[str, Any]:
    """The options of a preset, copied; none if there is none of that name, which `check_preset` refuses."""
    return copy.deepcopy(dict(presets.get(name, {}))) if isinstance(name, str) else {}


def check_preset(name: object, presets: Presets) -> None:
    """Refuse a name that no preset has.

    Raises:
        ValueError: has the names there are.
    """
    if name is not None and not (isinstance(name, str) and name in presets):
        raise ValueError(f"preset must be None or one of {sorted(presets)}, got {shown(name)}")
