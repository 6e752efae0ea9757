"""Points spread evenly in the metric that the model has learned: they follow the superior density without gaps.

Independent draws from a density leave gaps and make clusters. Here the next points are centres of a quantisation:
together with all points drawn so far they lower the mean over the test density q of

    (distance of x to the nearest point / local bandwidth at x)^s,

one by one, each the best of a few trials (greedy k-means++, Arthur and Vassilvitskii 2007, with a power s instead of
two). The distance is in units of Sigma_E, and the local bandwidth is LFC^(-1/delta), or (LFC v)^(-1/delta) where the
noise varies. The centres of a quantisation that counts x by q LFC^a have the density (q LFC^a)^(delta/(delta+s)) (Zador
1982). Above, a = s/delta, right where errors come from gaps between labels. Where they come from the labels' noise, the
superior density is, and a = (delta + s) / (2 delta) gives it if q is constant; a lies between the two by the noise's
share of the squared error. The pool itself stands for the test density, and no estimate of its density enters where q
is the pool's. Where labels differ in cost, x is counted by q LFC^a / cost: the points that lower the error most at a
given cost of all have the density (q LFC^a / cost)^(delta/(delta+s)).

The power says how fast errors grow with the distance to the nearest label. With s = 2 few points go to edges and to
outliers; a large s comes close to filling the largest gap first, best where the function is known well already.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.active.candidates import Metric
from lobal.active.draws import DrawTask, draw_random
from lobal.active.surrogate import FittedSurrogate

TRIALS = 16  # draws of which the best is taken
# s is the first of these over the relative error, within the other two: chosen on the decision sets of peers.py.
POWER_TIMES_ERROR, SMALLEST_POWER, LARGEST_POWER = 0.5, 2.0, 16.0
# Candidates that stand for all of them: so many a point of the batch, but a few thousand in any case.
SAMPLE_PER_POINT, SMALLEST_SAMPLE = 8, 4096
BLOCK = 2**8  # points drawn so far that distances are computed to at a time


def spread(task: DrawTask) -> Int[Tensor, " b"]:
    """b candidates that, with all points drawn so far, follow the superior density evenly.

    The first `check` of them are drawn from the test density instead. Before there is a model, complexity is constant
    and distances are those of the space; in a box with constant test density the points are then a Sobol sequence.
    """
    task.check_possible()
    drawn = len(task.drawn[0])
    is_even = task.candidates.is_uniform_box and task.candidates.cost is None
    if task.fitted is None and is_even and drawn + task.b <= len(task.candidates):
        return torch.arange(drawn, drawn + task.b)  # the candidates are a scrambled Sobol sequence
    return spread_in_shape(task, shape_of(task.fitted, task.labelled.y, task.dimension))


def spread_in_shape(task: DrawTask, shape: "Shape") -> Int[Tensor, " b"]:
    """The same, with a given power and emphasis."""
    candidates, drawn = task.candidates, torch.as_tensor(task.drawn[0], dtype=torch.long)
    checks = task.at_random(candidates.test_density, task.check)
    rows, mass = _sample(task, shape)
    metric = candidates.metric if task.fitted is None else task.fitted.metric(candidates)
    Z = metric.coordinates(candidates.inputs_at(rows))
    squared = Z.new_full((len(Z),), torch.inf)
    for points in (candidates.model_inputs(drawn.numpy(), task.drawn[1]), candidates.inputs_at(checks)):
        for start in range(0, len(points), BLOCK):
            near = metric.squared_distances(Z, metric.coordinates(points[start : start + BLOCK])).amin(1)
            squared = torch.minimum(squared, near)
    taken = torch.isin(rows, torch.cat([checks, drawn]))
    squared[taken.to(Z.device)] = 0.0  # rounding may leave a point at some distance from itself
    chosen = rows[
        centres(Z, mass, squared, metric, power=shape.power, b=task.b - len(checks), generator=task.generator)
    ]
    batch = torch.cat([checks, chosen])
    # Where only copies of points drawn already are left, some of these are drawn at random.
    return torch.cat([batch, task.at_random(task.superior, task.b - len(batch), without=batch)])


def spread_over_inputs(task: DrawTask, b: int) -> Int[Tensor, " b"]:
    """b candidates spread over the test density by the distances of the space, whatever the model has learned."""
    if b < 1:
        return torch.empty(0, dtype=torch.long)
    even = replace(task, b=b, check=0, fitted=None, superior=task.candidates.test_density.sqrt())
    return spread_in_shape(even, Shape(SMALLEST_POWER, SMALLEST_POWER / task.dimension))


class Shape(NamedTuple):
    """What the quantisation lowers: the mean of q LFC^emphasis * distance^power."""

    power: float  # s
    emphasis: float  # a


def shape_of(fitted: FittedSurrogate | None, labels: ndarray, dimension: float) -> Shape:
    """The larger a power the better the function is known, and the emphasis that goes with the labels' noise."""
    error = None if fitted is None else fitted.relative_error(labels)
    if fitted is None or error is None:
        return Shape(SMALLEST_POWER, SMALLEST_POWER / dimension)
    s = min(max(POWER_TIMES_ERROR / max(error, 1e-6), SMALLEST_POWER), LARGEST_POWER)
    share = noise_share(fitted.noise, fitted.validation_error)
    return Shape(s, ((1.0 - share) * s + share * 0.5 * (dimension + s)) / dimension)


def noise_share(noise: float | None, error: float | None) -> float:
    """The share of the squared validation error that the labels' noise explains."""
    return 0.0 if not noise or not error else min(noise / error**2, 1.0)


def spread_density(
    superior: Float[Tensor, " N"],
    test_density: Float[Tensor, " N"],
    shape: Shape,
    *,
    dimension: float,
    cost: Float[Tensor, " N"] | None = None,
) -> Float[Tensor, " N"]:
    """The density of the points, (q (p_sup^2 / q)^a)^(delta / (delta + s)): p_sup itself for s = delta and a = 1.

    With the cost of a label, q / cost takes the place of q, and the complexity alone is raised to the power a.
    """
    exponent = dimension / (dimension + shape.power)
    counted = test_density if cost is None else test_density / cost
    complexity = superior.square().div_(counted).nan_to_num_(nan=0.0, posinf=0.0)  # zero where q is
    return complexity.log_().mul_(shape.emphasis).add_(counted.log()).mul_(exponent).exp_()


def centres(
    Z: Float[Tensor, "M k"],
    mass: Float[Tensor, " M"],
    squared: Float[Tensor, " M"],
    metric: Metric,
    *,
    power: float,
    b: int,
    generator: torch.Generator,
) -> Int[Tensor, " c"]:
    """Up to b rows that lower the sum of mass * distance^power one by one; fewer if nothing is left to lower.

    `squared` are squared distances to the points drawn so far, infinite if there are none. Distances are computed on
    the device of Z.
    """
    chosen: list[int] = []
    mass = mass.to(Z.device)
    for _ in range(b):
        # Without any point, the first is drawn in proportion to the mass. Otherwise only ratios of distances matter.
        largest = squared.max()
        scale = largest if 0.0 < largest < torch.inf else torch.ones_like(largest)
        sums = mass * (squared / scale).clamp_max(1.0).pow(0.5 * power)
        if not sums.sum() > 0.0:
            break
        # Drawn on the CPU, where the generator is.
        trials = torch.multinomial(sums.cpu(), TRIALS, replacement=True, generator=generator).to(Z.device)
        reduced = torch.minimum(metric.squared_distances(Z[trials], Z), squared)
        best = int(((reduced / reduced.max()).pow(0.5 * power) @ mass).argmin())
        squared = reduced[best]
        squared[trials[best]] = 0.0
        chosen.append(int(trials[best]))
    return torch.tensor(chosen, dtype=torch.long)


def _sample(task: DrawTask, shape: Shape) -> tuple[Int[Tensor, " M"], Float[Tensor, " M"]]:
    """Candidates that stand for all of them, and how much each counts in the sum."""
    q, p_X, p_sup = task.candidates.test_density, task.candidates.pool_density, task.superior
    M = max(SAMPLE_PER_POINT * task.b, SMALLEST_SAMPLE)
    share = torch.ones_like(q)
    rows = torch.arange(len(q))
    if len(q) > M:
        weights = (q + p_sup) / p_X  # half of them where labels are wanted, half where predictions are
        rows = draw_random(weights, task.candidates.X, M, generator=task.generator)
        share = (M * weights / weights.sum()).clamp_max(1.0)
    if task.candidates.cost is not None:
        q = q / task.candidates.cost  # what a label is worth is counted for each unit of its cost
    q, p_X, p_sup, share = (each[rows] for each in (q, p_X, p_sup, share))
    complexity = torch.where(q > 0.0, p_sup.square() / q, 0.0)
    return rows, (complexity / complexity.max()).pow(shape.emphasis) * q / (p_X * share)
