"""What Algorithm 2 found, as options of a `MixtureRegressor`: Theta_H and Sigma_E."""

from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from lobal.core.schema import Check, list_of, positive, real, table, whole
from lobal.core.units import Units
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.model import Mixture
from lobal.mixture.settings import MixtureSettings

_NOT_NEGATIVE = real(0.0)
# Settings of the training that Algorithm 2 chooses, by the names of the engine's options.
TRAINING: dict[str, Check] = {
    "sparsity": whole(1),
    "penalty": _NOT_NEGATIVE,
    "gate_scale": positive(),
    "learning_rate": positive(),
    "hyperparameter_rate": _NOT_NEGATIVE,
    "gate_rate": _NOT_NEGATIVE,
    "gate_noise": _NOT_NEGATIVE,
    "batch_size": whole(1),
}
ENGINE = "engine__"  # what scikit-learn puts before the options of the engine


def width(value: object, name: str) -> None:
    """A number, one for each column, or a matrix."""
    if isinstance(value, list):
        for place, entry in enumerate(value):
            width(entry, f"{name}[{place}]")
    else:
        real()(value, name)


_PARAMS: dict[str, Check] = {"bandwidths": list_of(positive()), "shared_bandwidth": width, "gate_bandwidth": width}
_PARAMS |= {ENGINE + name: check for name, check in TRAINING.items()}


def check_tuned_params(value: object, name: str) -> None:
    """Refuse what `tuned_params` cannot have returned."""
    table(_PARAMS if value else {})(value, name)
    if isinstance(value, dict) and (unknown := sorted(set(value) - set(_PARAMS))):
        raise ValueError(f"{name} must have the entries {sorted(_PARAMS)}, got {unknown} too")


def tuned_params(mixture: Mixture, settings: MixtureSettings, units: Units) -> dict[str, Any]:
    """The options that a fit by Adam ended up with, widths in units of the inputs.

    A model with these options and `tuning="off"` trains as this one did after it was tuned. Numbers of inducing points
    are not among them: they are bounds that the user gives.
    """
    training = settings.training
    assert isinstance(training, AdamSettings)
    return {
        "bandwidths": mixture.bandwidths.tolist(),
        "shared_bandwidth": _in_input_units(mixture.shared_bandwidth, units),
        "gate_bandwidth": _in_input_units(mixture.gate.features.shared_bandwidth, units),
        **{ENGINE + name: getattr(training, name) for name in TRAINING},
    }


def _in_input_units(bandwidth: Float[Tensor, "..."], units: Units) -> Any:  # noqa: ANN401 - a number or nested lists
    """A bandwidth as the option takes it: a number, one width per column, or a matrix."""
    values = bandwidth.cpu().numpy()
    unit = np.where(units.unit > 0.0, units.unit, 1.0)  # the width of a column that is not used does not matter
    if values.ndim == 0 and (unit == 1.0).all():
        return values.item()
    return (values * (unit[:, None] if values.ndim == 2 else unit)).tolist()
