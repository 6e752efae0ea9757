"""A campaign driven by an external program."""

import shlex
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from lobal.active.external_program import CALLS, ExternalProgram
from lobal.active.learner import ActiveLearner
from lobal.active.oracles import Oracle, OracleFailedError
from lobal.cli.campaign.desk import opened
from lobal.cli.campaign.doubtful import outlier_notes
from lobal.core.table_shape import counted


@final
class StoppedError(Exception):
    """A run was ended by Ctrl-C; says how the campaign stands."""


@final
@dataclass(frozen=True, kw_only=True)
class Drive:
    """The options of `lobal run`."""

    command: str
    labels: int
    budget: float | None
    batch: int
    workers: int
    timeout: float | None
    retries: int


def drive(folder: Path, settings: Drive, *, progress: bool) -> list[str]:
    """Run the campaign until it has so many labels; returns how it stands then."""
    with opened(folder) as campaign:
        learner, targets = campaign.learner, campaign.desk.targets
        program = ExternalProgram(
            settings.command, folder, outputs=targets, timeout=settings.timeout, retries=settings.retries
        )
        _check_program(settings.command)
        # Of a single target, the program may write other values as well.
        oracle: Oracle = program if len(targets) > 1 else lambda points: np.asarray(program(points)[:, 0])
        try:
            _run(learner, oracle, program, settings, progress=progress)
        except OracleFailedError as error:
            raise ValueError(
                f"the program gave no label for any of {len(learner.ledger.pending)} points, which stay pending; see "
                f"the files in {folder / CALLS}, mend the program and run the same command again, or take the points "
                f"back with `lobal campaign undo {folder}`"
            ) from error
        except KeyboardInterrupt:
            ledger = learner.ledger
            raise StoppedError(
                f"Stopped with {counted(ledger.n_labels, 'label')}, {len(ledger.pending)} pending and "
                f"{len(ledger.failed)} failed; the same command goes on, and buys no result twice."
            ) from None
        return [*learner.summary().sentences(target=", ".join(targets)), *outlier_notes(campaign)]


def _check_program(command: str) -> None:
    """Refuse a command whose program is not there, before points are asked for."""
    name = shlex.split(command)[0]
    if shutil.which(name) is None:
        raise ValueError(f"there is no program {name!r} that can be run; check --command, got {command!r}")


def _run(learner: ActiveLearner, oracle: Oracle, program: ExternalProgram, settings: Drive, *, progress: bool) -> None:
    sizes = [*range(settings.batch, settings.labels, settings.batch), settings.labels]
    with ThreadPoolExecutor(settings.workers) as executor:
        try:
            learner.run(oracle, sizes=sizes, budget=settings.budget, executor=executor, progress=progress)
        except KeyboardInterrupt:
            program.stop()  # after a second Ctrl-C calls may still be running, and threads would wait for them
            raise
