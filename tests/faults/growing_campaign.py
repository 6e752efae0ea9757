"""A growing campaign as a process of its own, which can be killed; the same command goes on with it.

    python -c "from tests.faults.growing_campaign import main; main()" FOLDER LOG SEED WORKERS

WORKERS is "processes", "dask" for a cluster of its own, or the address of a cluster's scheduler. Once workers can take
calls, their process numbers are printed, where they are known.
"""

import fcntl
import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import torch

from lobal.molecules.dynamics.campaign import Beginning, opened_campaign
from lobal.molecules.dynamics.growth import Growth, GrowthSettings
from lobal.molecules.dynamics.start import StartSettings
from lobal.molecules.dynamics.walkers import SimulationOptions
from lobal.molecules.dynamics.workers import ExecutorFactory, Workers, processes
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.trajectory import Trajectory
from tests.molecules.setting import morse_potential, water

NUMBER = 2  # of workers
FIRST, BUDGET = 12, 60
QUICK = ForceFieldSettings(anisotropy=None, bandwidths=(0.25, 0.5, 1.0), gate_inducing=10)
POOL = SimulationOptions(temperature=300.0, configurations=100, walkers=10, time_step=1.0)


def potential(R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    energies, forces = morse_potential(torch.from_numpy(R))
    return energies.numpy(), forces.numpy()


@final
@dataclass(frozen=True)
class Logged:
    """The potential, in calls that take some time; each that has an answer is in a file.

    Args:
        log: file with one line for every call.
        seconds: that a call takes.
    """

    log: Path
    seconds: float = 0.04

    def __call__(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        time.sleep(self.seconds)
        labels = potential(R)
        with self.log.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(f"{name_of(R)}\n")
            file.flush()
            os.fsync(file.fileno())
        return labels

    def made(self) -> list[str]:
        """The configurations of all calls."""
        return self.log.read_text().split() if self.log.exists() else []


def name_of(R: np.ndarray) -> str:
    """A configuration in short."""
    return hashlib.sha256(R.tobytes()).hexdigest()[:16]


def at_rest() -> Trajectory:
    """A configuration whose forces are small."""
    R = water(1).R
    for _ in range(200):
        R = R + 0.01 * morse_potential(R)[1]
    return Trajectory(source="water", units="eV and Ang", species=torch.tensor([8, 1, 1]), R=R)


def grow(folder: Path, workers: Workers, seed: int) -> None:
    """Begin a campaign or go on with it, to its end."""
    torch.set_num_threads(1)
    start = StartSettings(first=FIRST, validation=10, settle=8, every=2, temperature=300.0, seed=seed)
    growth = GrowthSettings(first=FIRST, budget=BUDGET, simulation=POOL, seed=seed)
    beginning = Beginning(start=start, field=QUICK, seed=seed)
    reference = at_rest()
    with opened_campaign(folder, reference, workers, beginning, about={"oracle": "morse"}).learner as learner:
        Growth(learner, workers, reference.R[0], growth).run()


@contextmanager
def executors(workers: str) -> Iterator[tuple[ExecutorFactory, list[int]]]:
    """What makes executors, and the process numbers of workers where they are known and can take calls at once."""
    if workers == "processes":
        with processes() as first:
            first.submit(os.getpid).result()  # the next ones begin quickly
            yield processes, []
        return
    import distributed

    make_cluster: Any = distributed.LocalCluster  # without types, like the client
    make_client: Any = distributed.Client
    options = {"n_workers": NUMBER, "threads_per_worker": 1, "dashboard_address": ":0"}
    cluster = make_cluster(**options) if workers == "dask" else nullcontext(workers)
    with cluster as address, make_client(address) as client:
        yield partial(client.get_executor, pure=False), list(client.run(process_number).values())


def process_number() -> int:
    """Of a worker that has imported all that calls need."""
    return os.getpid()


def main() -> None:
    """Run a campaign as the arguments say."""
    folder, log, seed, workers = sys.argv[1:]
    with executors(workers) as (make, pids), Workers(Logged(Path(log)), make, NUMBER) as own:
        print("ready", *pids, flush=True)
        grow(Path(folder), own, int(seed))
        os._exit(0)  # without waiting for workers to end, as they do with this process
