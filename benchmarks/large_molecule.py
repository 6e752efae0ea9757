"""Force fields of aspirin, 21 atoms, learned from up to 1000 configurations, beside the sgdml package; one thread.

Configurations are frames of trajectories at 500 K under the forces of GFN2-xTB, at least 10 fs apart: 1000 to learn
from, 100 to choose bandwidth and noise by, and 300 of other trajectories for errors. They are kept in a file, and so is
every measurement: what a file has is not computed again. Every measurement is a process of its own.

The sgdml package is needed, without its own pins: pip install --no-deps --target FOLDER sgdml psutil, with FOLDER on
PYTHONPATH.

python -m benchmarks.large_molecule examples/molecules/aspirin.xyz \
    --output docs/results/forcefield_grow/aspirin_solver.json
"""

import json
import logging
import math
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch
import typer
from torch import Tensor

from benchmarks.measuring import measured
from experiments.repetitions import typed_command
from lobal.cli.checks import whole_numbers
from lobal.core.files import write_atomically
from lobal.core.versions import versions
from lobal.experts.interface import Hyperparameters
from lobal.molecules.dynamics.start import StartSettings, first_frames
from lobal.molecules.dynamics.workers import Workers
from lobal.molecules.field import solver, training
from lobal.molecules.field.expert import ForceExperts, dense_experts
from lobal.molecules.field.forcefield import errors_on
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.problem import Problem
from lobal.molecules.field.radial import matern52
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.permutations import Permutations
from lobal.molecules.geometry.symmetry import permutation_group
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory
from lobal.molecules.oracles import oracle_named

setattr(np, "in1d", np.isin)  # noqa: B010 - the package is older than NumPy 2.4, where the name is gone
GIBIBYTE = 2**30
ORACLE = "gfn2"
# 11 walkers to learn from and to choose by, 3 for errors: 16,661 calls.
START = StartSettings(first=1100, validation=300, walkers=14, every=10)
CHOOSE = 100  # configurations that bandwidth and noise are chosen by
NOISE = 1e-10  # the package's default lambda
TOLERANCE = 1e-4  # the residual by the labels at which the package's conjugate gradients end
CPU = torch.device("cpu")

Result: TypeAlias = dict[str, Any]
Value = TypeVar("Value")


class Frames(NamedTuple):
    """Configurations and what each is for."""

    learned: Trajectory
    choose: Trajectory
    new: Trajectory  # of other trajectories, for errors

    @classmethod
    def of(cls, molecule: Path, settings: StartSettings, choose: int, path: Path) -> "Frames":
        """Those of a start that is kept in a file, and goes on where it was interrupted; the former two at random."""
        reference = read_trajectory(molecule, labelled=False).at(slice(1))
        workers = Workers(oracle_named(ORACLE, reference.species.tolist()))
        about = {"oracle": ORACLE}
        start = first_frames(reference.R[0], reference.species, workers, settings, path=path, about=about)
        order = torch.randperm(len(start.first), generator=torch.Generator().manual_seed(settings.seed))
        return cls(start.first.at(order[choose:]), start.first.at(order[:choose]), start.validation)


class Options(NamedTuple):
    """Settings of the comparison with equal ones, and limits."""

    sigma: float  # in 1 / Angstrom, without any Sigma
    memory: int  # GiB that the package is told to use
    minutes: int  # of a measurement


class Messages(logging.Handler):
    """The messages of a logger, with the CPU seconds at which they came."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__(logging.INFO)
        self.kept: list[tuple[float, logging.LogRecord]] = []
        self._logger, self._level = logger, logger.level

    def __enter__(self) -> "Messages":
        self._logger.addHandler(self)
        self._logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self.kept.append((time.process_time(), record))

    def of(self, logger: logging.Logger, words: str = "") -> list[tuple[float, Any]]:
        """When a logger's messages with these words came, and their numbers."""
        return [(when, each.args) for when, each in self.kept if each.name == logger.name and words in each.msg]


def timed(work: Callable[[], Value]) -> tuple[Value, Result]:
    """What the work returns, with its CPU and wall seconds and the largest memory of this process meanwhile."""
    begun = time.process_time()
    value, usage = measured(work, CPU)
    return value, {
        "cpu_seconds": time.process_time() - begun,
        "seconds": usage.seconds,
        "peak_gib": usage.peak_mib / 1024,
    }


def defaults(frames: Frames, n: int, _: Options) -> Result:
    """An isotropic expert of forces, bandwidth and noise chosen by validation, symmetries found."""
    settings = ForceFieldSettings(labels="forces", mixture=False, anisotropy=None)
    learned, generator = frames.learned.at(slice(n)), torch.Generator().manual_seed(0)
    with Messages(logging.getLogger("lobal")) as messages:
        field, result = timed(
            partial(training.fit_force_field, learned, settings, validation=frames.choose, generator=generator)
        )
    iterated, begun = messages.of(solver.logger), messages.of(training.logger, "learning from")[-1][0]
    fits = [(when, *numbers[1:]) for when, numbers in iterated]
    about = {name: field.about[name] for name in ("symmetries", "bandwidth", "noise")}
    result |= about | {"trial_iterations": [iterations for when, _, iterations in fits if when < begun]}
    if fits and fits[-1][0] > begun:
        ended, residual, iterations = fits[-1]
        result |= {"last_fit_cpu_seconds": ended - begun, "residual": residual, "iterations": iterations}
    errors = errors_on(field, frames.new)
    return result | {"force_rmse": errors.force_rmse, "force_mae": errors.force_mae}


def equal(frames: Frames, n: int, options: Options) -> Result:
    """An expert with the package's kernel and settings."""
    learned = frames.learned.at(slice(n))
    permutations = permutation_group(learned.R, learned.species)
    with Messages(logging.getLogger("lobal")) as messages:
        expert, result = timed(partial(_equal_expert, learned, permutations, options.sigma))
    iterated = messages.of(solver.logger)
    if iterated:
        result |= {"residual": iterated[-1][1][1], "iterations": iterated[-1][1][2]}
    return result | {"symmetries": len(permutations)} | _errors(expert.predict(frames.new.R).forces[0], frames.new)


def _equal_expert(learned: Trajectory, permutations: Permutations, sigma: float) -> ForceExperts:
    pairs = learned.R.shape[1] * (learned.R.shape[1] - 1) // 2
    isotropic = torch.ones(pairs, dtype=torch.float64)
    problem = Problem(
        data=learned.labelled("cpu"),
        labels=Labels.FORCES,
        kernel=MolecularKernel(radial=matern52, shared_bandwidth=isotropic, permutations=permutations),
        bandwidths=torch.tensor([sigma], dtype=torch.float64),
        hyperparameters=Hyperparameters(*(torch.tensor(value, dtype=torch.float64) for value in (0.0, 1.0, NOISE))),
    )
    return dense_experts(problem, tolerance=TOLERANCE)


def sgdml(frames: Frames, n: int, options: Options) -> Result:
    """The package's model with our permutations; it takes the solver that fits into the memory."""
    from sgdml import predict as their_prediction
    from sgdml import train as their_training

    learned = frames.learned.at(slice(n))
    permutations = permutation_group(learned.R, learned.species)
    arrays = {"R": learned.R, "E": learned.energies, "F": learned.forces, "z": learned.species}
    data = {name: np.asarray(part) for name, part in arrays.items()}
    data |= {"type": np.array("d"), "name": np.array("molecule"), "theory": np.array(ORACLE)}
    trainer = their_training.GDMLTrain(max_memory=options.memory, max_processes=1)
    task = trainer.create_task(data, n - 1, data, 1, sig=options.sigma, lam=NOISE, use_sym=False)
    task |= {f"{name}_train": data[name] for name in "REF"} | {
        "perms": permutations.numpy(),
        "idxs_train": np.arange(n),
    }
    model, result = timed(partial(trainer.train, task))
    result |= {"symmetries": len(permutations), "solver": str(model["solver_name"]), "told_gib": options.memory}
    if "solver_iters" in model:
        residual = float(model["solver_resid"] / model["norm_y_train"])
        inducing = len(model["inducing_pts_idxs"])
        result |= {"residual": residual, "iterations": int(model["solver_iters"]), "inducing_columns": inducing}
    flat = frames.new.R.flatten(1).numpy()
    forces = their_prediction.GDMLPredict(model, max_processes=1).predict(flat)[1]
    return result | _errors(torch.from_numpy(forces).view_as(frames.new.R), frames.new)


def their_progress(labels: int) -> Result:
    """How far the package's conjugate gradients have come in this process; it scales labels to a variance of one."""
    from sgdml.solvers import iterative

    residual = float(getattr(iterative, "resid", math.nan)) / math.sqrt(labels)
    return {"iterations": getattr(iterative, "num_iters", 0), "residual": None if math.isnan(residual) else residual}


def _errors(forces: Tensor, new: Trajectory) -> Result:
    assert new.forces is not None
    off = forces - new.forces
    return {"force_rmse": off.square().mean().sqrt().item(), "force_mae": off.abs().mean().item()}


METHODS: dict[str, Callable[[Frames, int, Options], Result]] = {"defaults": defaults, "equal": equal, "sgdml": sgdml}


def measurement(name: str, frames: Frames, n: int, options: Options, memory: int) -> Result:
    """One method's numbers, in this process, which may take so many GiB of addresses from now on."""
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (memory * GIBIBYTE, memory * GIBIBYTE))
    signal.signal(signal.SIGALRM, _time_is_up)
    signal.alarm(60 * options.minutes)
    begun = time.process_time()
    try:
        return METHODS[name](frames, n, options)
    except (RuntimeError, MemoryError, OSError) as error:  # torch's, NumPy's and that of the alarm
        so_far = their_progress(3 * len(frames.learned.species) * n) if name == "sgdml" else {}
        return {"failed": f"{type(error).__name__}: {error}", "cpu_seconds": time.process_time() - begun} | so_far
    finally:
        signal.alarm(0)


def _time_is_up(*_: object) -> None:
    raise TimeoutError("stopped at the limit of minutes")


def analytic_gib(n: int, atoms: int) -> Result:
    """GiB that solving in closed form takes: one matrix, and what the package expects to need."""
    matrix = 8 * (3 * atoms * n) ** 2 / GIBIBYTE
    return {"n": n, "matrix": matrix, "package_estimate": 3 * matrix}


def machine() -> str:
    """The processor, and memory."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(": ")[1] for line in lines if line.startswith("model name")] or ["a processor"]
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIBIBYTE
    return f"one thread of {names[0]}, {gib:.0f} GiB"


def main(
    molecule: Annotated[Path, typer.Argument(help="The configuration to begin with.")],
    output: Annotated[Path, typer.Option(help="JSON file; measurements in it are not made again.")],
    sizes: Annotated[str, typer.Option(help="Numbers of configurations, separated by commas.")] = "250,500,1000",
    equal_sizes: Annotated[str, typer.Option(help="Those for equal settings.")] = "250,500,1000",
    sgdml_sizes: Annotated[str, typer.Option(help="Those for the package.")] = "250,1000",
    sigma: Annotated[float, typer.Option(help="Bandwidth of the equal settings.")] = 20.0,
    memory: Annotated[int, typer.Option(help="GiB that a process may take.")] = 24,
    sgdml_memory: Annotated[int, typer.Option(help="GiB that the package is told to use.")] = 8,
    minutes: Annotated[int, typer.Option(help="Limit of every measurement.")] = 20,
    folder: Annotated[Path, typer.Option(help="Folder for the configurations.")] = Path("out/large_molecule"),
) -> None:
    """Measure, print and keep."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # of the processes to come
    folder.mkdir(parents=True, exist_ok=True)
    frames = Frames.of(molecule, START, CHOOSE, folder / f"{molecule.stem}.jsonl")
    wanted = {"defaults": sizes, "equal": equal_sizes, "sgdml": sgdml_sizes if find_spec("sgdml") else ""}
    options, results = Options(sigma, sgdml_memory, minutes), _kept(output)
    for name, numbers in wanted.items():
        for n in whole_numbers(numbers) if numbers else []:
            if any((each["method"], each["n"]) == (name, n) for each in results):
                continue
            results.append({"method": name, "n": n} | in_own_process(name, frames, n, options, memory))
            print(json.dumps(results[-1], indent=1), flush=True)
            _write(output, results, frames, options, memory)


def in_own_process(name: str, frames: Frames, n: int, options: Options, memory: int) -> Result:
    """A measurement, or that its process has ended."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        try:
            return executor.submit(measurement, name, frames, n, options, memory).result()
        except BrokenProcessPool:
            return {"failed": "the process has ended"}


def _kept(output: Path) -> list[Result]:
    if not output.exists():
        return []
    results: list[Result] = json.loads(output.read_text())["results"]
    return results


def _write(output: Path, results: list[Result], frames: Frames, options: Options, memory: int) -> None:
    atoms, n = len(frames.learned.species), max(each["n"] for each in results)
    record = {
        "experiment": "force fields of a large molecule by conjugate gradients, beside the sgdml package, one thread",
        "command": typed_command(),
        "machine": machine(),
        "versions": versions() | ({"sgdml": version("sgdml")} if find_spec("sgdml") else {}),
        "settings": {
            "atoms": atoms,
            "oracle": ORACLE,
            "calls": START.walkers * START.steps + 1,
            "femtoseconds_between_frames": START.every * START.time_step,
            "choose": len(frames.choose),
            "new": len(frames.new),
            "equal": {"kernel": "matern52", "sigma": options.sigma, "noise": NOISE, "tolerance": TOLERANCE},
            "memory_gib": memory,
            "minutes": options.minutes,
        },
        "analytic_gib": analytic_gib(n, atoms),
        "results": results,
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(output, (json.dumps(record, indent=1) + "\n").encode())


if __name__ == "__main__":
    typer.run(main)
