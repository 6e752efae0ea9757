"""Greatest uncertainty: of one Gaussian process, or of the mixture by the paper's criterion, Eq. (eq:MoGPU)."""

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray
from torch import Tensor

from lobal.active.draws import DrawTask
from lobal.baselines.greedy_variance import Covariances, greedy_rows
from lobal.baselines.shortlist import Shortlist, chosen
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import gaussian
from lobal.experts.global_expert import GlobalExpert, fit_global_expert
from lobal.mixture.estimator import MixtureRegressor

# Candidates that a design looks at; one Gaussian process takes a second for so many, a mixture one for each expert.
LARGEST, LARGEST_MIXTURE = 2**13, 2**12


def gp_variance(task: DrawTask) -> Int[Tensor, " b"]:
    """Each point where the variance of one anisotropic Gaussian process, given all before it, is greatest."""

    def choice(shortlist: Shortlist) -> Int[ndarray, " b"]:
        scaled = shortlist.standardised()
        X, known = torch.from_numpy(scaled.X), torch.from_numpy(scaled.known)
        one = torch.ones(1, dtype=torch.float64)
        hyperparameters, bandwidth, *_ = fitted_process(scaled)
        processes = Covariances(
            bandwidths=one, shared_bandwidth=bandwidth, scale=hyperparameters.scale, kernel=gaussian
        )
        noise = hyperparameters.noise.expand(len(X) + len(known))
        return greedy_rows(X, known, processes, one.expand(len(X), 1), noise, shortlist.b).numpy()

    return chosen(task, choice, most=LARGEST)


def fitted_process(scaled: Shortlist) -> GlobalExpert:
    """One anisotropic Gaussian process of greatest marginal likelihood, in standardised units."""
    inputs = torch.from_numpy(scaled.labelled)
    one = torch.ones(1, dtype=torch.float64)
    return fit_global_expert(
        LabelledSet(X=inputs, y=torch.from_numpy(scaled.y), weight=one.expand(len(inputs))),
        unit=one.expand(inputs.shape[1]),
        kernel=gaussian,
        anisotropic=True,
        generator=torch.Generator().manual_seed(scaled.seed),
    )


def mogpu(task: DrawTask) -> Int[Tensor, " b"]:
    """Each point where MoGPU, Eq. (eq:MoGPU), given all before it, is greatest.

    As in the paper's comparison, the gate stays fixed and the experts are full Gaussian processes: their variances are
    those of all points so far.

    Raises:
        ValueError: the learner's model is not a `MixtureRegressor`.
    """
    model = None if task.fitted is None else task.fitted.model
    if model is not None and not isinstance(model, MixtureRegressor):
        raise ValueError(f"draw='mogpu' needs a lobal.MixtureRegressor as the model, got {type(model).__name__}")

    def choice(shortlist: Shortlist) -> Int[ndarray, " b"]:
        assert model is not None  # else nothing is chosen
        X, known = (torch.from_numpy(model.input_units_(each)) for each in (shortlist.X, shortlist.known))
        mixture = model.mixture_
        processes = Covariances(
            bandwidths=mixture.bandwidths.cpu(),
            shared_bandwidth=mixture.shared_bandwidth.cpu(),
            scale=mixture.experts.hyperparameters.scale.cpu(),
            kernel=mixture.kernel,
        )
        every = np.concatenate([shortlist.X, shortlist.known])
        noise = torch.from_numpy(model.noise_variance(every) / model.label_scale_**2)
        gate = torch.from_numpy(model.gate(shortlist.X))
        return greedy_rows(X, known, processes, gate, noise, shortlist.b).numpy()

    return chosen(task, choice, most=LARGEST_MIXTURE)
