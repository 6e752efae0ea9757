"""lobal: local bandwidths for active learning.

Which points of a regression problem are worth labelling, and why.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lobal.estimator import MixtureRegressor as MixtureRegressor
    from lobal.learner import ActiveLearner as ActiveLearner
    from lobal.problems.spaces import Box as Box
    from lobal.problems.spaces import Pool as Pool

__version__ = "0.1.0"

_HOMES = {
    "ActiveLearner": "lobal.learner",
    "Box": "lobal.problems.spaces",
    "MixtureRegressor": "lobal.estimator",
    "Pool": "lobal.problems.spaces",
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
