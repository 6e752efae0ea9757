"""Points whose labels lower the variance of a Gaussian process most, on average over the test density.

The process has the kernel, the noise and the local bandwidths of the fitted model (Gibbs 1997). A label at x, whatever
it will be, lowers its variance at z by S(z, x)^2 / (S(x, x) + v(x)), where S is the covariance given all points so far.
The next point is the candidate of the largest reduction, averaged over places z drawn from the test density, and so on
one by one (integrated mean squared error, Sacks et al. 1989; ALC, Cohn 1996). A second process, of half the bandwidths
and a fifth of the noise, counts as much: hyperparameters found with few labels are not certain. Several outputs have
processes of their own, and the sum of the shares of their variances counts, weighted by their errors.

That knows more than distances do: how smooth the function is, that labels with noise say less, that columns add up. It
is worth as much as the process is right. Where the model has missed something, errors of a few labels are much larger
than the process expects, and points are better spread evenly: `suitable_design` decides by the tail of the errors of
labels that were predicted from the others, and by the dimension.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.active.draws import INTEGRATED_VARIANCE, SPREAD, DrawTask, draw_random
from lobal.active.spread import spread, spread_over_inputs
from lobal.active.surrogate import FittedSurrogate, Process
from lobal.core.kernels import Kernel, local_kernel_matrix
from lobal.core.linalg import SMALLEST_JITTER, safe_cholesky

# A kurtosis of 7 with a hundred labels, of 5 with four hundred; six is that of Laplace's distribution. Chosen on the
# decision problems of docs/peers.md and, for more than a hundred labels, on patch3 of docs/calibration.md.
LARGEST_TAIL = 8.0
# In one and two dimensions gaps can be filled, and small regions of rapid change, which a process of few labels knows
# nothing about, matter more: on the same problems spread points are better there.
SMALLEST_DIMENSION = 2.5
# Beyond so many points the covariances of all of them, which take cubic time, are not computed.
LARGEST_KNOWN = 2**12
# Bandwidth and noise, as shares of the model's, of the processes that count alike: few labels leave room for a function
# that is rapid and has little noise. Chosen on the same problems.
DOUBTS = ((1.0, 1.0), (0.5, 0.2))
PLACES = 2**10  # at which variances are averaged: the average has an error of a few per cent
CANDIDATES_PER_POINT, SMALLEST_SAMPLE = 4, 2**11  # that are looked at


def suitable_design(fitted: FittedSurrogate | None, *, n: int, dimension: float) -> str:
    """The name of the design that takes the points to n: by variance where errors have no long tail, else spread."""
    processes = [] if fitted is None else fitted.processes()
    if not processes or n > LARGEST_KNOWN or dimension < SMALLEST_DIMENSION:
        return SPREAD
    return SPREAD if max(process.tail for process in processes) > LARGEST_TAIL else INTEGRATED_VARIANCE


def integrated_variance(task: DrawTask) -> Int[Tensor, " b"]:
    """b candidates that lower the mean variance over the test density most, one by one.

    The first `check` of them are spread over the inputs instead: under a process that takes the function for almost
    linear, the best points are at the edges, and a region in which it is not may never have a label. Before there is a
    model, all points are spread.

    Raises:
        ValueError: the model is no Gaussian process.
    """
    if task.fitted is None:
        return spread(task)
    processes = task.fitted.processes()
    if not processes:
        raise ValueError(
            f"draw='{INTEGRATED_VARIANCE}' needs a model that is a Gaussian process, got "
            f"{type(task.fitted.model).__name__}; use draw='{SPREAD}'"
        )
    task.check_possible()
    checks = spread_over_inputs(task, task.check)
    rows = _candidates(task, checks)
    b = min(task.b - len(checks), len(rows))
    batch = torch.cat([checks, rows[_chosen(task, processes, rows, checks, b)] if b else rows[:0]])
    # Where too few candidates are left that were not drawn before, cells of a box have room for more points.
    return torch.cat([batch, task.at_random(task.superior, task.b - len(batch), without=batch)])


def _candidates(task: DrawTask, checks: Int[Tensor, " c"]) -> Int[Tensor, " m"]:
    """Candidates to choose from, none drawn yet: half where labels are wanted, half where predictions are."""
    candidates = task.candidates
    weights = (candidates.test_density + task.superior).div_(candidates.pool_density)
    weights[candidates.test_density <= 0.0] = 0.0
    weights[torch.cat([torch.as_tensor(task.drawn[0], dtype=torch.long), checks])] = 0.0
    number = min(max(CANDIDATES_PER_POINT * task.b, SMALLEST_SAMPLE), int((weights > 0.0).sum()))
    if number == 0:
        return torch.empty(0, dtype=torch.long)
    return draw_random(weights, candidates.X, number, generator=task.generator)


def _chosen(
    task: DrawTask, processes: Sequence[Process], rows: Int[Tensor, " m"], checks: Int[Tensor, " c"], b: int
) -> Int[Tensor, " b"]:
    """Which of the rows, by position; labels of the checks are expected too."""
    candidates, (numbers, drawn) = task.candidates, task.drawn
    share = candidates.test_density / candidates.pool_density
    places = draw_random(share, candidates.X, min(PLACES, int((share > 0.0).sum())), generator=task.generator)
    known = np.concatenate([candidates.model_inputs(np.asarray(numbers), drawn), candidates.inputs_at(checks)])
    inputs = known, candidates.inputs_at(rows), candidates.inputs_at(places)
    posteriors = [
        Posterior(*(each.scaled(*doubt) for each in sites), kernel=process.kernel, b=b, weight=process.weight)
        for process in processes
        for sites in [sites_of(process, inputs, task.trust)]
        for doubt in DOUBTS
    ]
    return greedy_rows(posteriors, b, cost=None if candidates.cost is None else candidates.cost[rows])


class Sites(NamedTuple):
    """Inputs as a process sees them."""

    Z: Float[Tensor, "n k"]  # in units of Sigma_E
    width: Float[Tensor, " n"]  # local bandwidth, in the same units
    noise: Float[Tensor, " n"]  # variance of a label's noise, in units of lambda

    def scaled(self, width: float, noise: float) -> "Sites":
        """With other bandwidths and noise, as shares of these."""
        return self._replace(width=width * self.width, noise=noise * self.noise)

    def covariance(self, others: "Sites", kernel: Kernel) -> Float[Tensor, "n m"]:
        """Of the function, in units of lambda, before any label."""
        return local_kernel_matrix(self.Z, self.width, others.Z, others.width, kernel)


def sites_of(process: Process, inputs: Sequence[ndarray], trust: float) -> list[Sites]:
    """The inputs, in which local bandwidths are followed as far as the labels support it.

    The rest is one bandwidth for all, the geometric mean over the last of the inputs.
    """
    found = [Sites(process.coordinates(X).cpu(), process.bandwidth(X), process.noise(X)) for X in inputs]
    mean = found[-1].width.log().mean().exp()
    return [sites._replace(width=mean * (sites.width / mean).pow(trust)) for sites in found]


@final
class Posterior:
    """Covariances of candidates and places given points, to which candidates are added one by one.

    Row j of the features F is what the j-th point says about every candidate, so that their covariance given all points
    is that before any label less F^T F. S is the covariance of candidates and places. A point takes O(m (n + b + r))
    time for n known points, m candidates and r places, after the O(n^2 (n + m + r)) of known points.
    """

    @torch.no_grad()
    def __init__(
        self, known: Sites, choice: Sites, places: Sites, *, kernel: Kernel, b: int, weight: float = 1.0
    ) -> None:
        self._choice, self._kernel, self._n, self._weight = choice, kernel, len(known.Z), weight
        K = known.covariance(known, kernel)
        K.diagonal().add_(known.noise)
        at_choice, at_places = (
            torch.linalg.solve_triangular(safe_cholesky(K).lower, known.covariance(sites, kernel), upper=False)
            for sites in (choice, places)
        )
        self._F = torch.cat([at_choice, at_choice.new_empty(b, len(choice.Z))])
        self._S = choice.covariance(places, kernel).addmm_(at_choice.mT, at_places, alpha=-1.0)
        self._variance = 1.0 - at_choice.square().sum(0)
        self._squares = self._S.square().sum(1)
        self._total = (1.0 - at_places.square().sum(0)).sum()  # variance at all places

    @property
    def _label(self) -> Float[Tensor, " m"]:
        """The variance of a label at every candidate."""
        function: Tensor = self._variance.clamp_min(SMALLEST_JITTER)
        return function + self._choice.noise

    def gains(self) -> Float[Tensor, " m"]:
        """The share of the variance at all places that a label at each candidate would take away, times the weight."""
        share: Tensor = self._squares / (self._label * self._total.clamp_min(SMALLEST_JITTER))
        return self._weight * share

    @torch.no_grad()
    def add(self, row: int) -> None:
        """Have a label at this candidate."""
        n, root = self._n, self._label[row].sqrt()
        one = Sites(*(part[row][None] for part in self._choice))
        column = one.covariance(self._choice, self._kernel)[0] - self._F[:n, row] @ self._F[:n]
        self._F[n] = f = column / root
        g = self._S[row] / root
        # The sums of squares of S - f g^T, from those of S.
        self._squares = (self._squares - 2.0 * f * (self._S @ g) + f.square() * g.square().sum()).clamp_min(0.0)
        self._S.addr_(f, g, alpha=-1.0)
        self._variance -= f.square()
        self._total -= g.square().sum()
        self._n += 1


def greedy_rows(posteriors: Sequence[Posterior], b: int, *, cost: Float[Tensor, " m"] | None) -> Int[Tensor, " b"]:
    """b candidates, each of the largest sum of gains under all posteriors, for each unit of its cost."""
    rows: list[int] = []
    for _ in range(b):
        score = torch.stack([posterior.gains() for posterior in posteriors]).sum(0)
        score = score if cost is None else score / cost
        score[rows] = -math.inf
        rows.append(int(score.argmax()))
        for posterior in posteriors:
            posterior.add(rows[-1])
    return torch.tensor(rows, dtype=torch.long)
