"""lobal: local bandwidths for active learning.

Which points of a regression problem to label next, and why. The public names are imported when they are first used, so
that `import lobal` is fast. Rooms, each importing only those to its right (`|` separates siblings):

    cli > report > molecules | baselines > active > mixture > experts | inducing > core

- `core`: arrays, kernels, densities, files, and the paper's formulas on one page
- `experts`: Gaussian processes that differ in their bandwidth
- `inducing`: where inducing points go
- `mixture`: the model, `MixtureRegressor`, and its two engines
- `active`: the loop, `ActiveLearner`, and how a campaign is stored
- `molecules`: force fields, as a space and a surrogate of the same learner
- `report`: figures and web pages
- `cli`: the command line
"""

import importlib
from typing import TYPE_CHECKING, Any

from lobal.core.versions import __version__

if TYPE_CHECKING:
    from lobal import inducing as inducing
    from lobal.active import stopping as stopping
    from lobal.active.learner import ActiveLearner as ActiveLearner
    from lobal.active.outputs import Curve as Curve
    from lobal.active.outputs import Output as Output
    from lobal.active.search_space import SearchSpace as SearchSpace
    from lobal.active.space_model import SpaceModel as SpaceModel
    from lobal.active.spaces import Box as Box
    from lobal.active.spaces import Pool as Pool
    from lobal.core.variables import Categorical as Categorical
    from lobal.core.variables import Integer as Integer
    from lobal.core.variables import Real as Real
    from lobal.mixture.adam.engine import Adam as Adam
    from lobal.mixture.analytic.engine import Analytic as Analytic
    from lobal.mixture.estimator import MixtureRegressor as MixtureRegressor
    from lobal.mixture.outliers import OutlierWarning as OutlierWarning
    from lobal.molecules.field.forcefield import ForceField as ForceField

# The module of every public name; a name that is a module itself is its last part.
_HOMES = {
    "ActiveLearner": "lobal.active.learner",
    "Adam": "lobal.mixture.adam.engine",
    "Analytic": "lobal.mixture.analytic.engine",
    "Box": "lobal.active.spaces",
    "Curve": "lobal.active.outputs",
    "ForceField": "lobal.molecules.field.forcefield",
    "MixtureRegressor": "lobal.mixture.estimator",
    "Output": "lobal.active.outputs",
    "OutlierWarning": "lobal.mixture.outliers",
    "Pool": "lobal.active.spaces",
    "Categorical": "lobal.core.variables",
    "Integer": "lobal.core.variables",
    "Real": "lobal.core.variables",
    "SearchSpace": "lobal.active.search_space",
    "SpaceModel": "lobal.active.space_model",
    "inducing": "lobal.inducing",
    "stopping": "lobal.active.stopping",
}
__all__ = [
    "ActiveLearner",
    "Adam",
    "Analytic",
    "Box",
    "Categorical",
    "Curve",
    "ForceField",
    "Integer",
    "MixtureRegressor",
    "OutlierWarning",
    "Output",
    "Pool",
    "Real",
    "SearchSpace",
    "SpaceModel",
    "__version__",
    "inducing",
    "stopping",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module attribute may be anything
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lobal' has no attribute {name!r}")
    module = importlib.import_module(_HOMES[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    """All public names, whether or not they have been used yet."""
    return sorted({*globals(), *__all__})
