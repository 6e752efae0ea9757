"""How near configurations of malonaldehyde come to those they were not chosen from, by the way they are chosen.

Without any force field: configurations drawn from q ("random"), drawn from q^(1/2), the superior density where the
complexity is constant ("draws"), and spread with several powers, among them the intrinsic dimension ("dimension").
Kept are the mean logarithm of the pool's density at the chosen configurations, and the root mean squared distance from
a test configuration to the nearest of them.

python -m experiments malonaldehyde_distances $LOBAL_DATA/malonaldehyde_gfn2_500K.npz \
    --output docs/results/malonaldehyde/distances.json
"""

import math
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from jaxtyping import Int
from torch import Tensor

from experiments.malonaldehyde import WIDTH, Setting, loaded
from experiments.repetitions import FirstSeed, Output, Repetitions, Result, Seeds, print_summary
from lobal.active.campaign.ledger import Observations
from lobal.active.draws import DrawTask, draw_random
from lobal.active.spread import Shape, spread_in_shape
from lobal.core.density import normalised
from lobal.molecules.space import MoleculePool

POWERS = (2.0, 8.0)  # of spread configurations, beside the intrinsic dimension
DIMENSION_AS_POWER = "dimension"


def run(n: int, seed: int, *, setting: Setting) -> Result:
    """Densities and distances of n configurations, in columns such as "draws_distance"."""
    candidates = setting.space.candidates(0)
    near = candidates.metric.coordinates(setting.test.R.numpy())
    dimension = candidates.intrinsic_dimension(seed)
    result: Result = {"n": n, "seed": seed, "dimension": dimension}
    for name, rows in chosen(setting, n, seed, dimension).items():
        own = candidates.metric.coordinates(candidates.inputs_at(rows))
        squared = candidates.metric.squared_distances(near, own).amin(1)
        result[f"{name}_log_density"] = candidates.pool_density[rows].log().mean().item()
        result[f"{name}_distance"] = squared.mean().sqrt().item()
    return result


def chosen(setting: Setting, n: int, seed: int, dimension: float) -> dict[str, Int[Tensor, " n"]]:
    """n configurations of the pool, by the way they are chosen."""
    candidates = setting.space.candidates(0)
    q, p_X = candidates.test_density, candidates.pool_density
    even = normalised(q.sqrt(), p_X)
    found = {
        name: draw_random(density / p_X, candidates.X, n, generator=candidates.generator(seed, 0))
        for name, density in (("random", q), ("draws", even))
    }
    nothing = np.empty((0, 0))
    for power in (*POWERS, dimension):
        task = DrawTask(
            candidates=candidates,
            weights=even / p_X,
            superior=even,
            check=0,
            drawn=([], nothing),
            labelled=Observations(nothing, np.empty(0), np.empty(0, dtype=np.int64)),
            fitted=None,
            trust=0.0,
            dimension=dimension,
            b=n,
            generator=candidates.generator(seed, 0),
        )
        name = DIMENSION_AS_POWER if power == dimension else f"{power:g}"
        found[f"power_{name}"] = spread_in_shape(task, Shape(power=power, emphasis=1.0))
    return found


def least_distance(dimension: float, power: float = 2.0) -> float:
    """A bound for the distance to the nearest of many points, by that of independent ones of the same density.

    Of the root mean powers: independent points have Gamma(1 + s/d) where Zador's bound, of balls that fill the space,
    is d / (d + s).
    """
    return math.pow(dimension / (dimension + power) / math.gamma(1.0 + power / dimension), 1.0 / power)


def main(
    data: Annotated[Path, typer.Argument(help="Trajectories, for example GFN2's.")],
    output: Output,
    n: Annotated[int, typer.Option(min=1, help="Number of configurations.")] = 2048,
    seeds: Seeds = 3,
    first_seed: FirstSeed = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
) -> None:
    """Densities and distances of random, drawn and spread configurations."""
    pool, test = loaded(data)
    setting = Setting(space=MoleculePool(pool, width=WIDTH, device=device), test=test)
    repetitions = Repetitions(
        experiment="configurations of malonaldehyde, densities and distances",
        settings={"data": data.name, "device": device},
        run=partial(run, setting=setting),
    )
    print_summary(repetitions.complete([(n, seed) for seed in range(first_seed, first_seed + seeds)], output), n)
