"""Options of a `MixtureRegressor` that were read from a file, checked as a fit would check them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lobal.core.presets import check_preset
from lobal.core.schema import flag, list_of, optional, positive, real, table, text, whole
from lobal.mixture.checks import one_of
from lobal.mixture.complete_fit import NOISES
from lobal.mixture.fit import TUNINGS
from lobal.mixture.options import engine_options, mixture_settings
from lobal.mixture.presets import PRESETS
from lobal.mixture.tuned_params import width

LABELS = 64  # of the fit that is imagined; no option depends on their number


def _noise(value: object, name: str) -> None:
    """A variance, one for each label, or a word."""
    if isinstance(value, str):
        text(*NOISES)(value, name)
    elif isinstance(value, list):
        list_of(positive())(value, name)
    else:
        positive(words=(None,))(value, name)


def _smoothness(value: object, name: str) -> None:
    if value != "estimate":
        positive(words=(float("inf"),))(value, name)


OPTIONS = table(
    {
        **dict.fromkeys(("anisotropic", "refit", "exchange", "verbose"), flag),
        "intrinsic_dimension": real(1e-6, 1e6, words=(None,)),
        "bandwidths": optional(list_of(positive())),
        "column_groups": optional(list_of(whole())),
        **dict.fromkeys(("shared_bandwidth", "gate_bandwidth"), optional(width)),
        "noise": _noise,
        "scale": positive(words=(None,)),
        "smoothness": _smoothness,
        "device": optional(text()),
        "random_state": optional(whole(0, 2**32 - 1)),
    }
)


def check_options(options: Mapping[str, Any], *, d: int) -> None:
    """Refuse options, all of them, that a fit in d columns would refuse; functions and devices are passed over.

    Raises:
        ValueError, TypeError: an option is out of range, of the wrong kind, or has no effect.
    """
    OPTIONS(options, "options")
    check_preset(options["preset"], PRESETS)
    dimension = options["intrinsic_dimension"] or float(d)
    with np.errstate(all="ignore"):  # what comes out is checked
        mixture_settings({**options, "device": None}, n=LABELS, d=d, dimension=dimension, label_scale=1.0)
    engine_options(options["engine"]).split(LABELS)
    one_of("tuning", options["tuning"], TUNINGS)
