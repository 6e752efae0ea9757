"""Force fields of malonaldehyde: configurations drawn at random, from the superior density, and spread (Sec. 5.2).

The arms are those of `experiments.malonaldehyde`, with the same rows and the same Sigma_E for equal seeds: "random"
from q, "draws" independently from the superior density as in the paper, "even" and "spread" by `draw="spread"` with
constant and with local complexity. Largest errors of force components are kept too.

python -m experiments malonaldehyde_spread $LOBAL_DATA/malonaldehyde_gfn2_500K.npz --device cuda \
    --output docs/results/malonaldehyde/spread.json
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from experiments.malonaldehyde import DIMENSION, SIZES, WIDTH, Setting, active_arm, field_settings, loaded
from experiments.repetitions import FirstSeed, Output, Repetitions, Result, Seeds, print_summary
from lobal.molecules.field.forcefield import ForceField, errors_on
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.space import MoleculePool

RANDOM = "random"
ARMS: dict[str, dict[str, Any]] = {
    "draws": {"draw": "random"},
    "even": {"draw": "spread", "complexity": "constant"},
    "spread": {"draw": "spread"},
}


def campaigns(setting: Setting, sizes: list[int], seed: int) -> Iterator[tuple[str, int, ForceField]]:
    """The force fields of every arm at every size."""
    rows, shared = setting.rows(sizes[-1], seed), None
    for n in sizes:
        generator = torch.Generator().manual_seed(seed)
        learned = setting.pool.at(rows[:n])
        field = fit_force_field(learned, field_settings(setting), shared_bandwidth=shared, generator=generator)
        shared = field.kernel.shared_bandwidth
        yield RANDOM, n, field
    assert shared is not None  # there is at least one size
    for arm, options in ARMS.items():
        for result, stage in active_arm(setting, sizes, seed, shared, **options):
            yield arm, result["n"], stage.field


def run(n: int, seed: int, *, setting: Setting, sizes: list[int]) -> Result:
    """Errors of all arms up to n configurations, in columns such as "spread_force_rmse_1024"."""
    result: Result = {"n": n, "seed": seed}
    for arm, size, field in campaigns(setting, sizes, seed):
        errors = errors_on(field, setting.test, setting.weight)._asdict()
        largest = float(np.abs(field.predict(setting.test.R)[1] - np.asarray(setting.test.forces)).max())
        result |= {f"{arm}_{name}_{size}": value for name, value in {**errors, "force_max": largest}.items()}
    return result


def main(
    data: Annotated[Path, typer.Argument(help="Trajectories with energies and forces, for example GFN2's.")],
    output: Output,
    sizes: Annotated[str, typer.Option(help="Numbers of configurations, separated by commas.")] = SIZES,
    seeds: Seeds = 5,
    first_seed: FirstSeed = 0,
    test_density: Annotated[str, typer.Option(help="pool (the MD trajectory) or uniform.")] = "pool",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
) -> None:
    """Errors of random, drawn, evenly spread and spread configurations."""
    pool, test = loaded(data)
    space = MoleculePool(pool, test_density=test_density, width=WIDTH, device=device)
    numbers = [int(part) for part in sizes.split(",")]
    repetitions = Repetitions(
        experiment=f"force fields of malonaldehyde, spread configurations, test density {test_density}",
        settings={"data": data.name, "sizes": numbers, "test_density": test_density, "device": device, "arms": ARMS},
        run=partial(run, setting=Setting(space=space, test=test, dimension=DIMENSION), sizes=numbers),
    )
    done = repetitions.complete([(numbers[-1], seed) for seed in range(first_seed, first_seed + seeds)], output, jobs=1)
    print_summary(done, numbers[-1], *(f"{arm}_force_rmse" for arm in (RANDOM, *ARMS)))
