"""Force fields of malonaldehyde: configurations drawn at random, from the superior density, and spread (Sec. 5.2).

The arms are those of `experiments.malonaldehyde`, with the same rows and the same Sigma_E for equal seeds: "random"
from q, "draws" independently from the superior density as in the paper, "even" and "spread" by `draw="spread"` with
constant and with local complexity, "estimated" as "spread" but with the intrinsic dimension of the configurations,
some 14, instead of the paper's two. "followed" spreads configurations with that dimension as power, in which case
they have the density of "draws". Largest errors of force components are kept too.

python -m experiments malonaldehyde_spread $LOBAL_DATA/malonaldehyde_gfn2_500K.npz --device cuda \
    --output docs/results/malonaldehyde/spread.json
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from jaxtyping import Int
from torch import Tensor

from experiments.malonaldehyde import DIMENSION, SIZES, WIDTH, Setting, active_arm, field_settings, loaded
from experiments.repetitions import FirstSeed, Output, Repetitions, Result, Seeds, print_summary
from lobal.active.draws import DRAWS, DrawTask
from lobal.active.spread import Shape, spread_in_shape
from lobal.molecules.field.forcefield import ForceField, errors_on
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.space import MoleculePool

RANDOM = "random"
FOLLOWED = "followed"
ARMS: dict[str, dict[str, Any]] = {
    "draws": {"draw": "random"},
    "even": {"draw": "spread", "complexity": "constant"},
    "spread": {"draw": "spread"},
    "estimated": {"draw": "spread", "intrinsic_dimension": None},
    FOLLOWED: {"draw": FOLLOWED},
}
ALL_ARMS = ",".join((RANDOM, *ARMS))


def followed(task: DrawTask) -> Int[Tensor, " b"]:
    """Spread configurations with the density of the superior one: it is that of s = delta and a = 1."""
    return spread_in_shape(task, Shape(power=task.candidates.intrinsic_dimension(0), emphasis=1.0))


DRAWS[FOLLOWED] = f"{__name__}:{followed.__name__}"  # a learner finds designs by name


def campaigns(
    setting: Setting, sizes: Sequence[int], seed: int, arms: Sequence[str]
) -> Iterator[tuple[str, int, ForceField]]:
    """The force fields of some arms at every size; Sigma_E is that of the random arm's first size."""
    rows, shared = setting.rows(sizes[-1], seed), None
    for n in sizes if RANDOM in arms else sizes[:1]:
        generator = torch.Generator().manual_seed(seed)
        learned = setting.pool.at(rows[:n])
        field = fit_force_field(learned, field_settings(setting), shared_bandwidth=shared, generator=generator)
        shared = field.kernel.shared_bandwidth
        if RANDOM in arms:
            yield RANDOM, n, field
    assert shared is not None  # there is at least one size
    for arm in arms:
        for result, stage in active_arm(setting, sizes, seed, shared, **ARMS[arm]) if arm != RANDOM else ():
            yield arm, result["n"], stage.field


def run(n: int, seed: int, *, setting: Setting, sizes: Sequence[int], arms: Sequence[str]) -> Result:
    """Errors of some arms up to n configurations, in columns such as "spread_force_rmse_1024"."""
    result: Result = {"n": n, "seed": seed}
    for arm, size, field in campaigns(setting, sizes, seed, arms):
        result |= {f"{arm}_{name}_{size}": value for name, value in errors(field, setting).items()}
    return result


def errors(field: ForceField, setting: Setting) -> dict[str, float]:
    """Errors at the test configurations, by name, with the largest of a force component."""
    largest = float(np.abs(field.predict(setting.test.R)[1] - np.asarray(setting.test.forces)).max())
    return {**errors_on(field, setting.test, setting.weight)._asdict(), "force_max": largest}


def main(
    data: Annotated[Path, typer.Argument(help="Trajectories with energies and forces, for example GFN2's.")],
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of configurations, separated by commas.")] = SIZES,
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    test_density: Annotated[str, typer.Option(help="pool (the MD trajectory) or uniform.")] = "pool",
    arms: Annotated[str, typer.Option(help="Ways to choose configurations, separated by commas.")] = ALL_ARMS,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
) -> None:
    """Errors of random, drawn, evenly spread and spread configurations."""
    names = arms.split(",")
    if not {*names} <= {RANDOM, *ARMS}:
        raise typer.BadParameter(f"arms must be some of {ALL_ARMS}, got {arms}")
    pool, test = loaded(data)
    space = MoleculePool(pool, test_density=test_density, width=WIDTH, device=device)
    numbers, options = [int(part) for part in sizes.split(",")], {arm: ARMS.get(arm, {}) for arm in names}
    repetitions = Repetitions(
        experiment=f"force fields of malonaldehyde, spread configurations, test density {test_density}",
        settings={"data": data.name, "sizes": numbers, "test_density": test_density, "device": device, "arms": options},
        run=partial(run, setting=Setting(space=space, test=test, dimension=DIMENSION), sizes=numbers, arms=names),
    )
    done = repetitions.complete([(numbers[-1], seed) for seed in range(first_seed, first_seed + seeds)], output, jobs=1)
    print_summary(done, numbers[-1], *(f"{arm}_force_rmse" for arm in names))
