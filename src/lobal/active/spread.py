"""Points spread evenly in the metric that the model has learned: they follow the superior density without gaps.

Independent draws from a density leave gaps and make clusters. Here the next points are centres of a quantisation:
together with all points drawn so far they lower the mean over the test density q of

    (distance of x to the nearest point / local bandwidth at x)^s,

one by one, each the best of a few trials (greedy k-means++, Arthur and Vassilvitskii 2007, with a power s instead of
two). The distance is in units of Sigma_E, and the local bandwidth is LFC^(-1/delta), or (LFC v)^(-1/delta) where the
noise varies. The centres of such a quantisation have the density (q LFC^(s/delta))^(delta/(delta+s)) (Zador 1982): the
superior density sqrt(q LFC) for s = delta. The pool itself stands for the test density, and no estimate of its density
enters where q is the pool's.

The power says how fast errors grow with the distance to the nearest label. With s = 2 few points go to edges and to
outliers; a large s comes close to filling the largest gap first, best where the function is known well already.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.active.candidates import Metric
from lobal.active.draws import DrawTask, draw_random

TRIALS = 16  # draws of which the best is taken
# s is the first of these over the relative error, within the other two: chosen on the decision sets of peers.py.
POWER_TIMES_ERROR, SMALLEST_POWER, LARGEST_POWER = 0.5, 2.0, 16.0
# Candidates that stand for all of them: so many a point of the batch, but a few thousand in any case.
SAMPLE_PER_POINT, SMALLEST_SAMPLE = 8, 4096
BLOCK = 2**10  # points drawn so far that distances are computed to at a time


def spread(task: DrawTask) -> Int[Tensor, " b"]:
    """b candidates that, with all points drawn so far, follow the superior density evenly.

    The first `check` of them are drawn from the test density instead. Before there is a model, complexity is constant
    and distances are those of the space; in a box with constant test density the points are then a Sobol sequence.
    """
    task.check_possible()
    candidates, drawn = task.candidates, torch.as_tensor(task.drawn[0], dtype=torch.long)
    if task.fitted is None and candidates.is_uniform_box and len(drawn) + task.b <= len(candidates):
        return torch.arange(len(drawn), len(drawn) + task.b)  # the candidates are a scrambled Sobol sequence
    checks = task.at_random(candidates.test_density, task.check)
    s = power(None if task.fitted is None else task.fitted.relative_error(task.labelled.y))
    rows, mass = _sample(task, s)
    metric = candidates.metric if task.fitted is None else task.fitted.metric(candidates)
    Z = metric.coordinates(candidates.inputs_at(rows))
    squared = Z.new_full((len(Z),), torch.inf)
    for points in (candidates.model_inputs(drawn.numpy(), task.drawn[1]), candidates.inputs_at(checks)):
        for start in range(0, len(points), BLOCK):
            near = metric.squared_distances(Z, metric.coordinates(points[start : start + BLOCK])).amin(1)
            squared = torch.minimum(squared, near)
    taken = torch.isin(rows, torch.cat([checks, drawn]))
    squared[taken] = 0.0  # rounding may leave a point at some distance from itself
    chosen = rows[centres(Z, mass, squared, metric, power=s, b=task.b - len(checks), generator=task.generator)]
    batch = torch.cat([checks, chosen])
    # Where only copies of points drawn already are left, some of these are drawn at random.
    return torch.cat([batch, task.at_random(task.superior, task.b - len(batch), without=batch)])


def power(relative_error: float | None) -> float:
    """s, the larger the better the function is known."""
    if relative_error is None:
        return SMALLEST_POWER
    return min(max(POWER_TIMES_ERROR / max(relative_error, 1e-6), SMALLEST_POWER), LARGEST_POWER)


def spread_density(
    superior: Float[Tensor, " N"], test_density: Float[Tensor, " N"], *, power: float, dimension: float
) -> Float[Tensor, " N"]:
    """The density of the points, (q (p_sup^2 / q)^(s / delta))^(delta / (delta + s)): p_sup itself for s = delta."""
    complexity = torch.where(test_density > 0.0, superior.square() / test_density, 0.0)
    return torch.exp((dimension * test_density.log() + power * complexity.log()) / (dimension + power))


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

    `squared` are squared distances to the points drawn so far, infinite if there are none.
    """
    chosen: list[int] = []
    for _ in range(b):
        # Without any point, the first is drawn in proportion to the mass. Otherwise only ratios of distances matter.
        largest = squared.max()
        scale = largest if 0.0 < largest < torch.inf else torch.ones_like(largest)
        sums = mass * (squared / scale).clamp_max(1.0).pow(0.5 * power)
        if not sums.sum() > 0.0:
            break
        trials = torch.multinomial(sums, TRIALS, replacement=True, generator=generator)
        reduced = torch.minimum(metric.squared_distances(Z[trials], Z), squared)
        best = int(((reduced / reduced.max()).pow(0.5 * power) @ mass).argmin())
        squared = reduced[best]
        squared[trials[best]] = 0.0
        chosen.append(int(trials[best]))
    return torch.tensor(chosen, dtype=torch.long)


def _sample(task: DrawTask, power: float) -> tuple[Int[Tensor, " M"], Float[Tensor, " M"]]:
    """Candidates that stand for all of them, and how much each counts in the sum."""
    q, p_X, p_sup = task.candidates.test_density, task.candidates.pool_density, task.superior
    M = max(SAMPLE_PER_POINT * task.b, SMALLEST_SAMPLE)
    share = torch.ones_like(q)
    rows = torch.arange(len(q))
    if len(q) > M:
        weights = (q + p_sup) / p_X  # half of them where labels are wanted, half where predictions are
        rows = draw_random(weights, task.candidates.X, M, generator=task.generator)
        share = (M * weights / weights.sum()).clamp_max(1.0)
    q, p_X, p_sup, share = (each[rows] for each in (q, p_X, p_sup, share))
    exponent = power / task.dimension
    emphasis = torch.where(q > 0.0, p_sup.square() / q, 0.0)
    return rows, (emphasis / emphasis.max()).pow(exponent) * q / (p_X * share)
