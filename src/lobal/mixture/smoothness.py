"""The smoothness of the target: mixtures with Matern kernels of different order, compared by held-out likelihoods.

Here alpha = nu, not the paper's ceil(nu) - 1 (Sec. 6), which is 0 at nu = 1/2: at alpha = nu the posterior of a Matern
process contracts at the rate of Eq. (eq:RMSEasymptotics). Single Gaussian processes take waves of every length for
roughness once there is noise, mixtures, which have a bandwidth for every place, do not (docs/paper_map.md).
"""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.comparison import is_better
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import kernel_named
from lobal.mixture.data import TrainingData
from lobal.mixture.fit import fit_mixture
from lobal.mixture.leave_one_out import left_out_prediction
from lobal.mixture.model import Mixture
from lobal.mixture.settings import MixtureSettings

# nu by kernel, from the smoothest on.
ORDERS = {"gaussian": math.inf, "matern52": 2.5, "matern32": 1.5, "matern12": 0.5}


def smoothness_by_mixtures(data: TrainingData, settings: MixtureSettings, generator: torch.Generator) -> float:
    """alpha of the smoothest kernel whose mixture predicts labels from the others as well as the best, up to chance.

    `settings` are of the analytic engine; their kernel does not matter.
    """
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    terms = {}
    for name in ORDERS:
        same = torch.Generator().manual_seed(seed)
        fitted = fit_mixture(data, replace(settings, kernel=kernel_named(name)), same)
        terms[name] = left_out_terms(fitted.mixture, data.for_training())
    return ORDERS[smoothest_of_the_best(terms)]


def left_out_terms(mixture: Mixture, points: LabelledSet) -> Float[Tensor, " n"]:
    """log N(y_i; mean, variance) of each label predicted from all others, moments of the mixture."""
    mean, variance = left_out_prediction(mixture, points)
    variance = variance + (mixture.experts.hyperparameters.noise if points.noise is None else points.noise)
    return -0.5 * ((points.y - mean).square() / variance + (2.0 * math.pi * variance).log())


def smoothest_of_the_best(terms: dict[str, Float[Tensor, " n"]]) -> str:
    """The first kernel, from the smoothest on, whose mean log-likelihood is within a standard error of the greatest."""
    best = max(terms.values(), key=lambda values: values.mean().item())
    return next(name for name in ORDERS if name in terms and not is_better(-best, -terms[name]))
