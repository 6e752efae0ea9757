"""Force fields of malonaldehyde (Sec. 5.2): isotropic and anisotropic sGDML, their mixture, and active learning.

Of many trajectories, some are kept for testing. The random arm draws configurations from the test distribution q; at
every size it has an isotropic expert, an anisotropic one, and the mixture of anisotropic experts, the single ones with
the bandwidth of least leave-one-out error. The active arm is a campaign with the mixture. Sigma_E is trained once a
repetition, on the first configurations of the random arm, and the same in both arms: as in the paper it is a matter of
preparation, and what arms differ in is configurations alone. Errors are those of energies and forces under q: along the
trajectories as they are, or each weighted by the inverse of the pool's density there. Intrinsic dimension and width of
the density are the paper's; other ones can be tried.

python -m experiments.malonaldehyde $LOBAL_DATA/malonaldehyde_gfn2_500K.npz \
    --grid $LOBAL_DATA/malonaldehyde_gfn2_relaxed_grid.npz --device cuda --output docs/results/malonaldehyde
"""

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple, final

import numpy as np
import torch
import typer
from jaxtyping import Float
from numpy import ndarray
from rich.console import Console
from torch import Tensor

from experiments.repetitions import Result
from lobal.active.draws import draw_random
from lobal.active.learner import ActiveLearner
from lobal.core.files import write_atomically
from lobal.core.superior_density import local_complexity, smoothness_of_fall
from lobal.core.versions import versions
from lobal.molecules.density import TEST_DENSITIES, configuration_density, named_test_density
from lobal.molecules.field.forcefield import ForceField, errors_on
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.geometry.descriptor import descriptors
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory, set_apart
from lobal.molecules.space import MoleculePool
from lobal.molecules.surrogate import ForceFieldSurrogate

SIZES = "512,1024,2048"
TEST_SHARE, TEST_CONFIGURATIONS = 0.2, 4000  # of a single trajectory, and of what is kept in all
SPLIT_SEED = 0  # the test set is the same for all repetitions
# The isotropic expert is one of these, which have its best bandwidth between 256 and 4096 configurations inside.
ISOTROPIC = tuple(2.0 ** (0.5 * step) for step in range(-4, 2))
MODELS = ISO, ANISO, MIXTURE, ACTIVE = "isotropic", "anisotropic", "mixture", "active"
DIMENSION, WIDTH = 2.0, 0.03  # the paper's intrinsic dimension, and width of the density in 1 / Angstrom
MOST_COMPARED = 10_000  # configurations of the pool whose local bandwidths are compared


@final
@dataclass(frozen=True, kw_only=True)
class Setting:
    """A pool and what is tested on, for one test distribution."""

    space: MoleculePool
    test: Trajectory
    dimension: float = DIMENSION  # delta

    @property
    def pool(self) -> Trajectory:
        """The configurations to learn from."""
        return self.space.trajectory

    @cached_property
    def weight(self) -> Float[ndarray, " m"] | None:
        """Of the test configurations, proportional to q / p_X, one on average; none where they follow q."""
        return self.space.checked_validation(self.test).weight

    def rows(self, n: int, seed: int) -> Tensor:
        """Rows of the pool drawn from q; the first n of those for more."""
        density = self.space.candidates(0).pool_density
        q = named_test_density(self.space.test_density, density)
        generator = torch.Generator().manual_seed(seed)
        return draw_random(q / density, self.pool.R.flatten(1).numpy(), n, generator=generator)


def loaded(path: Path) -> tuple[Trajectory, Trajectory]:
    """Configurations to learn from and to test on: other trajectories, or other rows if the file has but one."""
    trajectory = read_trajectory(path)
    most = round(TEST_SHARE * len(trajectory))
    apart = set_apart(trajectory, most, generator=torch.Generator().manual_seed(SPLIT_SEED))
    generator = torch.Generator().manual_seed(SPLIT_SEED)
    rows = apart.nonzero()[:, 0]
    test = trajectory.at(rows[torch.randperm(len(rows), generator=generator)[:TEST_CONFIGURATIONS]])
    return trajectory.at((~apart).nonzero()[:, 0]), test


def field_settings(setting: Setting) -> ForceFieldSettings:
    """The mixture, with a Sigma_E that all of the first configurations have a part in."""
    return ForceFieldSettings(device=setting.space.device, anisotropy_folds=4)


def random_arm(setting: Setting, sizes: Sequence[int], seed: int) -> Iterator[tuple[Result, ForceField]]:
    """Configurations from q: single experts, isotropic and anisotropic, and the mixture."""
    rows = setting.rows(sizes[-1], seed)
    isotropic = replace(field_settings(setting), anisotropy=None, mixture=False, bandwidths=ISOTROPIC)
    shared: dict[str, Tensor | None] = {ISO: None, MIXTURE: None}
    for n in sizes:
        learned = setting.pool.at(rows[:n])
        for name, settings in ((ISO, isotropic), (MIXTURE, field_settings(setting))):
            begun = time.perf_counter()
            generator = torch.Generator().manual_seed(seed)
            field = fit_force_field(learned, settings, shared_bandwidth=shared[name], generator=generator)
            shared[name] = field.kernel.shared_bandwidth
            seconds = time.perf_counter() - begun
            yield _result(name, n, seed, field, setting, seconds), field
            if name == MIXTURE:
                single = field.expert(field.about["best_expert"])
                yield _result(ANISO, n, seed, single, setting, seconds), single


class Stage(NamedTuple):
    """What a campaign has come to."""

    field: ForceField
    density: Float[Tensor, " N"]  # p_k


def active_arm(
    setting: Setting,
    sizes: Sequence[int],
    seed: int,
    shared: Float[Tensor, " D"],
    **options: Any,  # noqa: ANN401 - of the learner
) -> Iterator[tuple[Result, Stage]]:
    """A campaign with the mixture and a given Sigma_E, at every size."""
    learner = ActiveLearner(
        setting.space,
        model=ForceFieldSurrogate(field_settings(setting), shared_bandwidth=shared.cpu()),
        seed=seed,
        **{"intrinsic_dimension": setting.dimension} | options,
    )
    energies, forces = np.asarray(setting.pool.energies), np.asarray(setting.pool.forces)
    for before, n in zip((0, *sizes), sizes, strict=False):
        begun = time.perf_counter()
        rows = learner.ask(n - before)
        learner.tell(rows, (energies[rows], forces[rows]))
        field = learner.model
        density = torch.from_numpy(learner.training_density())
        yield _result(ACTIVE, n, seed, field, setting, time.perf_counter() - begun), Stage(field, density)


def _result(model: str, n: int, seed: int, field: ForceField, setting: Setting, seconds: float) -> Result:
    best = field.about["bandwidths"][field.about["best_expert"]]
    return {
        "test_density": setting.space.test_density,
        "model": model,
        "n": n,
        "seed": seed,
        **errors_on(field, setting.test, setting.weight)._asdict(),
        "best_bandwidth": best,
        "seconds": seconds,
    }


class Grid(NamedTuple):
    """Configurations relaxed at fixed rotor angles, in degrees."""

    angles: tuple[Float[ndarray, " k"], Float[ndarray, " k"]]
    R: Float[ndarray, "k k N 3"]
    energies: Float[ndarray, "k k"]

    @classmethod
    def read(cls, path: Path) -> "Grid":
        """The grid of a file with arrays phi1, phi2, R and E, in Angstrom and eV."""
        with np.load(path) as file:
            angles = (file["phi1"].astype(float), file["phi2"].astype(float))
            return cls(angles, file["R"].astype(np.float64), file["E"] - file["E"].min())


def maps(stages: Sequence[Stage], setting: Setting, grid: Grid, seed: int) -> dict[str, Any]:
    """Energy, densities, local bandwidth and complexity over the rotor angles, after a campaign.

    The complexity is given for alpha = infinity, as the paper has it, and for the alpha by which local bandwidths have
    fallen in the course of the campaign: where bandwidths fall as labels become denser, they are small where labels are
    dense, and only what is left of that is complexity.
    """
    field = stages[-1].field
    flat = torch.from_numpy(grid.R).flatten(0, 1)
    at, pool = (descriptors(R, setting.space.device) for R in (flat, setting.pool.R))
    width = setting.space.candidates(0).width
    density = configuration_density(at, pool, field.kernel.permutations, width=width).cpu()
    alpha = fallen_smoothness(stages, setting)
    sigma = torch.from_numpy(field.local_bandwidth(flat))
    q = named_test_density(setting.space.test_density, density)
    p = (q / sigma**setting.dimension).sqrt()  # what the campaign's configurations follow in the end
    paper, own = (
        local_complexity(sigma, p, smoothness=smoothness, dimension=setting.dimension)
        for smoothness in (math.inf, alpha)
    )
    columns = {
        "energy": grid.energies.ravel(),
        "pool_density": (density / density.median()).numpy(),
        "local_bandwidth": sigma.numpy(),
        "complexity_smooth": (paper / paper.median()).numpy(),
        "complexity": (own / own.median()).numpy(),
        "superior_density": (p / p.mean()).numpy(),
    }
    side = grid.energies.shape
    return {name: np.round(values, 4).reshape(side).tolist() for name, values in columns.items()} | {
        "seed": seed,
        "phi1": grid.angles[0].tolist(),
        "phi2": grid.angles[1].tolist(),
        "test_density": setting.space.test_density,
        "configurations": field.about["configurations"],
        "smoothness": alpha,
        "shared": field.kernel.shared_bandwidth.tolist(),
    }


def fallen_smoothness(stages: Sequence[Stage], setting: Setting) -> float:
    """alpha by which the local bandwidths of the pool have fallen from the first stage to the last."""
    some = slice(0, None, max(1, len(setting.pool) // MOST_COMPARED))
    first, last = (
        (torch.from_numpy(stage.field.local_bandwidth(setting.pool.R[some])).log(), stage.density[some].log())
        for stage in (stages[0], stages[-1])
    )
    more = math.log(stages[-1].field.about["configurations"] / stages[0].field.about["configurations"])
    return smoothness_of_fall(last[0] - first[0], more + last[1] - first[1], dimension=setting.dimension)


@final
class Record:
    """Results in a file that is whole after each of them, so that an interrupted run goes on where it was."""

    def __init__(self, path: Path, command: str) -> None:
        self._path, self._command = path, command
        kept = json.loads(path.read_text()) if path.exists() else {}
        if kept and kept["versions"] != versions():
            raise ValueError(f"{path} holds results of other versions, {kept['versions']}; write to another file")
        self.results: list[Result] = kept.get("results", [])

    def has(self, test_density: str, sizes: Sequence[int], seed: int) -> bool:
        """Whether a repetition is there, to the end."""
        there = {(row["model"], row["test_density"], row["n"], row["seed"]) for row in self.results}
        return all((model, test_density, n, seed) in there for model in MODELS for n in sizes)

    def add(self, result: Result) -> None:
        """One more, in the place of the same from before."""
        key = ("model", "test_density", "n", "seed")
        others = [row for row in self.results if any(row[name] != result[name] for name in key)]
        self.results = [*others, result]
        content = {
            "experiment": "force fields of malonaldehyde",
            "command": self._command,
            "versions": versions(),
            "results": self.results,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, (json.dumps(content, indent=1) + "\n").encode())


def kept_maps(path: Path) -> list[dict[str, Any]]:
    """Maps of every repetition so far."""
    return json.loads(path.read_text()) if path.exists() else []


def main(
    data: Annotated[Path, typer.Argument(help="Trajectories with energies and forces, for example GFN2's.")],
    grid: Annotated[Path | None, typer.Option(help="Configurations relaxed over the rotor angles, for maps.")] = None,
    sizes: Annotated[str, typer.Option(help="Numbers of configurations, separated by commas.")] = SIZES,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 5,
    test_density: Annotated[str, typer.Option(help="pool (the MD trajectory), uniform, or both.")] = "both",
    dimension: Annotated[float, typer.Option(help="Intrinsic dimension.")] = DIMENSION,
    width: Annotated[float, typer.Option(help="Width of the density's kernels, in 1 / Angstrom.")] = WIDTH,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    output: Annotated[Path, typer.Option(help="Folder for results and maps.")] = Path("out/malonaldehyde"),
) -> None:
    """Learning curves of isotropic, anisotropic, mixed and actively learned force fields."""
    numbers, console = [int(part) for part in sizes.split(",")], Console(stderr=True)
    command = (
        f"python -m experiments.malonaldehyde {data.name} --sizes {sizes} --seeds {seeds} "
        f"--test-density {test_density} --dimension {dimension:g} --width {width:g} --device {device}"
    )
    densities = tuple(TEST_DENSITIES) if test_density == "both" else (test_density,)
    if not {*densities} <= {*TEST_DENSITIES} or numbers != sorted({*numbers}):
        raise ValueError(
            f"the test density must be one of {', '.join(TEST_DENSITIES)} and both, and sizes ascend, got "
            f"{test_density!r} and {sizes}"
        )
    records = {name: Record(output / f"{name}.json", command) for name in densities}
    pool, test = loaded(data)
    spaces = {name: MoleculePool(pool, test_density=name, width=width, device=device) for name in densities}
    settings = {name: Setting(space=space, test=test, dimension=dimension) for name, space in spaces.items()}
    for seed, name in product(range(seeds), densities):
        record, path = records[name], output / f"maps_{name}.json"
        is_there = record.has(name, numbers, seed)
        is_drawn = grid is None or any(each["seed"] == seed for each in kept_maps(path))
        if is_there and is_drawn:
            continue
        setting, stages = settings[name], list[Stage]()
        # Where maps alone are to be made, all that they take from the random arm is Sigma_E, of the first size.
        for result, field in random_arm(setting, numbers[:1] if is_there else numbers, seed):
            record.add(result)
            console.print(_line(result))
            shared = field.kernel.shared_bandwidth  # that of the mixture in the end
        for result, stage in active_arm(setting, numbers, seed, shared):
            record.add(result)
            console.print(_line(result))
            stages.append(stage)
        if grid is not None and not is_drawn:
            drawn = [*kept_maps(path), maps(stages, setting, Grid.read(grid), seed)]
            write_atomically(path, (json.dumps(sorted(drawn, key=lambda each: each["seed"])) + "\n").encode())


def _line(result: Result) -> str:
    return (
        f"{result['test_density']:8} {result['model']:12} n {result['n']:5} seed {result['seed']}: force "
        f"{1e3 * result['force_rmse']:.3f} meV/Ang, energy {1e3 * result['energy_rmse']:.4f} meV, "
        f"{result['seconds']:.1f} s"
    )


if __name__ == "__main__":
    typer.run(main)
