"""Greatest uncertainty: of one Gaussian process, or of the mixture by the paper's criterion, Eq. (eq:MoGPU)."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.active.draws import DrawTask
from lobal.baselines.shortlist import Shortlist, chosen
from lobal.core.arrays import Bandwidths, Inputs, Scalar
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import Kernel, gaussian, gram_matrices, scale_inputs, squared_distances
from lobal.core.linalg import SMALLEST_JITTER, safe_cholesky
from lobal.experts.global_expert import GlobalExpert, fit_global_expert
from lobal.mixture.estimator import MixtureRegressor

# Candidates that a design looks at; one Gaussian process takes a second for so many, a mixture one for each expert.
LARGEST, LARGEST_MIXTURE = 2**13, 2**12


@final
@dataclass(frozen=True, kw_only=True)
class Covariances:
    """Prior covariances lambda k_l of L full Gaussian processes."""

    bandwidths: Bandwidths  # sigma_l
    shared_bandwidth: Float[Tensor, "..."]  # Sigma_E
    scale: Scalar  # lambda
    kernel: Kernel

    def between(self, A: Inputs, B: Float[Tensor, "m d"]) -> Float[Tensor, "L n m"]:
        """The covariances of two sets of inputs under every process."""
        squared = squared_distances(*(scale_inputs(points, self.shared_bandwidth) for points in (A, B)))
        return self.scale * gram_matrices(squared, self.bandwidths, self.kernel)


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
    those of all points so far, O(L n^3) time for n of them.

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


@torch.no_grad()
def greedy_rows(
    X: Float[Tensor, "N d"],
    known: Float[Tensor, "n d"],
    processes: Covariances,
    gate: Float[Tensor, "N L"],
    noise: Float[Tensor, " N+n"],
    b: int,
) -> Int[Tensor, " b"]:
    """b candidates, each of greatest gate-weighted variance of a label given the known points and those before it.

    By pivoted Cholesky factorisation: row j of the features W_l is what the j-th point says about every candidate, so
    that the posterior covariance is C_l - W_l^T W_l. O(L N (n + b) b) time after the O(L n^2 (n + N)) of known points.
    """
    (N, L), n = gate.shape, len(known)
    W = X.new_empty(L, n + b, N)
    C = processes.between(known, known)
    C.diagonal(dim1=-2, dim2=-1).add_(noise[N:])
    W[:, :n] = torch.linalg.solve_triangular(safe_cholesky(C).lower, processes.between(known, X), upper=False)
    variance = processes.scale - W[:, :n].square().sum(1)
    rows = torch.empty(b, dtype=torch.long)
    for i in range(b):
        score = torch.einsum("nl,ln->n", gate, variance.clamp_min(0.0)) + noise[:N]
        score[rows[:i]] = -math.inf
        rows[i] = row = score.argmax()
        before = W[:, : n + i]
        column = processes.between(X[row][None], X)[:, 0] - torch.einsum("lj,ljn->ln", before[:, :, row], before)
        label = (variance[:, row] + noise[row]).clamp_min(SMALLEST_JITTER * processes.scale)
        W[:, n + i] = column / label.sqrt()[:, None]
        variance -= W[:, n + i].square()
    return rows
