"""How smooth the target is: Matern kernels of different order compared by the evidence of the labels.

The paper takes alpha = infinity unless it is known, and suggests Matern kernels for finding out (Sec. 6). Its estimate
ceil(nu) - 1 is 0 at nu = 1/2, where neither the complexity nor a rate of learning is defined. Here alpha = nu: samples
of a Matern process have every Hoelder order below nu, and at alpha = nu its posterior learns at the rate
n^(-alpha / (2 alpha + d)) that Eq. (eq:RMSEasymptotics) asks for (van der Vaart and van Zanten 2011).

`estimate_smoothness` compares single Gaussian processes by their marginal likelihood. To one bandwidth, waves of every
length look rough once there is noise: of 300 noisy labels of the Doppler function it said infinity for one sample of
eight. `smoothness_by_mixtures` compares mixtures, which have a bandwidth for every place, and said so in 15 fits of 16
to the same samples; it costs four fits, and tells neighbouring orders apart less well.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.core.kernels import Kernel, kernel_named, safe_cholesky
from lobal.experts.exact import label_covariances
from lobal.experts.global_expert import GlobalExpert, fit_global_expert
from lobal.mixture.fit import MixtureSettings, TrainingData, fit_mixture
from lobal.mixture.model import Mixture
from lobal.mixture.squared_errors import left_out_errors

# nu by kernel, from the smoothest on.
ORDERS = {"gaussian": math.inf, "matern52": 2.5, "matern32": 1.5, "matern12": 0.5}
# Labels the kernels are compared on: an evidence costs their cube, and a climb takes a hundred of them.
MOST_COMPARED = 500


class Smoothness(NamedTuple):
    """The decision and what it rests on, by kernel and from the smoothest on."""

    kernel: str
    alpha: float
    evidence: dict[str, float]  # log-likelihood per label in nats: marginal, or of labels left out
    behind: dict[str, float]  # how much of it a kernel lacks of the best one, per label
    standard_error: dict[str, float]  # of that difference

    def __str__(self) -> str:
        rows = (f"{name} {self.evidence[name]:.4f} (-{self.behind[name]:.4f})" for name in self.evidence)
        return f"alpha = {self.alpha:g} by {self.kernel}; evidence per label: {', '.join(rows)}"


def estimate_smoothness(
    points: LabelledSet,
    *,
    unit: Float[Tensor, " d"],
    generator: torch.Generator,
    anisotropic: bool = False,
    most: int = MOST_COMPARED,
) -> Smoothness:
    """The smoothest kernel that explains (a subset of) the labels as well as the best does, up to chance.

    Each kernel has the mean, scale, noise and bandwidth that suit it best. By the chain rule the evidence is a sum over
    the labels of log p(y_i | y_1 ... y_i-1); the standard error of a difference is that of the mean of such terms.
    `unit` is the natural width of each input column, as for `fit_global_expert`.
    """
    rows = torch.randperm(len(points), generator=generator)[:most].to(points.y.device)
    subset, unit = points[rows].to("cpu"), unit.cpu()
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    terms = {}
    for name in ORDERS:
        kernel, same = kernel_named(name), torch.Generator().manual_seed(seed)
        expert = fit_global_expert(subset, unit=unit, kernel=kernel, anisotropic=anisotropic, generator=same)
        terms[name] = evidence_terms(subset, expert, kernel)
    return smoothest_of_the_best(terms)


def smoothness_by_mixtures(data: TrainingData, settings: MixtureSettings, generator: torch.Generator) -> Smoothness:
    """The smoothest kernel whose mixture predicts labels from the others as well as the best does, up to chance.

    `settings` are of the analytic engine; their kernel does not matter.
    """
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator))
    terms = {}
    for name in ORDERS:
        same = torch.Generator().manual_seed(seed)
        fitted = fit_mixture(data, replace(settings, kernel=kernel_named(name)), same)
        terms[name] = left_out_terms(fitted.mixture, data.known())
    return smoothest_of_the_best(terms)


def left_out_terms(mixture: Mixture, points: LabelledSet) -> Float[Tensor, " n"]:
    """log N(y_i; mean, variance) of each label predicted from all others, moments of the mixture."""
    errors = left_out_errors(mixture, points, pool_repeated=False)
    noise = mixture.experts.hyperparameters.noise if points.noise is None else points.noise
    variance = errors.model_variance + noise
    return -0.5 * (errors.total / variance + (2.0 * math.pi * variance).log())


def evidence_terms(points: LabelledSet, expert: GlobalExpert, kernel: Kernel) -> Float[Tensor, " n"]:
    """log p(y_i | y_1 ... y_i-1), whose sum is the log marginal likelihood.

    With C = R R^T the covariance of the labels, R^-1 (y - mu) are their errors when predicted from those before, in
    standard deviations R_ii.
    """
    shared, one = expert.hyperparameters, torch.ones_like(expert.hyperparameters.scale)[None]
    C = label_covariances(points.X, shared, one, expert.bandwidth, kernel)[0]
    factor = safe_cholesky(C).lower
    error: Tensor = torch.linalg.solve_triangular(factor, (points.y - shared.mean)[:, None], upper=False)[:, 0]
    return -0.5 * (error.square() + math.log(2.0 * math.pi)) - factor.diagonal().log()


def smoothest_of_the_best(terms: dict[str, Float[Tensor, " n"]]) -> Smoothness:
    """The first kernel, from the smoothest on, whose evidence is within a standard error of the greatest."""
    evidence = {name: values.mean().item() for name, values in terms.items()}
    best = max(evidence, key=lambda name: evidence[name])
    lack = {name: terms[best] - values for name, values in terms.items()}
    behind = {name: values.mean().item() for name, values in lack.items()}
    error = {name: values.std().item() / math.sqrt(len(values)) for name, values in lack.items()}
    chosen = next(name for name in ORDERS if name in terms and behind[name] <= error[name])
    return Smoothness(chosen, ORDERS[chosen], evidence, behind, error)
