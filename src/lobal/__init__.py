"""lobal: local bandwidths for active learning.

Which points of a regression problem are worth labelling, and why.
"""

from typing import TYPE_CHECKING, Any

from lobal.core.versions import __version__

if TYPE_CHECKING:
    from lobal.active.learner import ActiveLearner as ActiveLearner
    from lobal.active.spaces import Box as Box
    from lobal.active.spaces import Pool as Pool
    from lobal.mixture.estimator import MixtureRegressor as MixtureRegressor

_HOMES = {
    "ActiveLearner": "lobal.active.learner",
    "Box": "lobal.active.spaces",
    "MixtureRegressor": "lobal.mixture.estimator",
    "Pool": "lobal.active.spaces",
}
__all__ = ["ActiveLearner", "Box", "MixtureRegressor", "Pool", "__version__"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module attribute may be anything
    """Import the public names when they are first used, so that the command line starts at once."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lobal' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names too, whether or not they have been used yet."""
    return sorted({*globals(), *__all__})
