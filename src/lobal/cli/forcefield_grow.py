"""The body of `lobal forcefield grow`: from one configuration to a force field, and to a page about it.

Everything is in one folder: `start.jsonl`, the first trajectories; the campaign, with the force field `model.lobal`;
and, in the end, `labels.xyz`, `validation.xyz` and `report.html`.
"""

import os
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import torch

from lobal.active.learner import ActiveLearner
from lobal.active.oracles import NoWorkersError, OracleFailedError
from lobal.cli.checks import refuse_to_overwrite
from lobal.cli.forcefield import error_lines, print_lines, status_messages
from lobal.cli.growth_table import GrowthTable
from lobal.core.arrays import resolve_device
from lobal.core.checks import real_number
from lobal.molecules.dynamics.campaign import FIELD, START, Beginning, Opened, opened_campaign
from lobal.molecules.dynamics.growth import Growth, GrowthSettings, Round, species_of
from lobal.molecules.dynamics.start import StartSettings
from lobal.molecules.dynamics.walkers import SimulationOptions
from lobal.molecules.dynamics.workers import Workers, processes
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory, write_configurations
from lobal.molecules.oracles import CalculationFailedError, MolecularOracle, oracle_named
from lobal.molecules.surrogate import MODEL
from lobal.report.grown_campaign import expected_savings_at

LABELS, VALIDATION, REPORT = "labels", "validation", "report.html"
# What stands in for programs whose calls are too expensive for the forces that the first walkers follow.
STAND_INS = {"pbe": "gfn2"}


@final
@dataclass(frozen=True, kw_only=True)
class GrowRequest:
    """The arguments of `lobal forcefield grow`."""

    molecule: Path
    output: Path
    oracle: str
    sampler: str | None
    temperature: float
    budget: int
    charge: int
    multiplicity: int
    first: int
    validation: int
    ratio: float
    pool: int
    walkers: int
    interval: float
    time_step: float
    dimension: float | None
    workers: int | None
    timeout: float
    target: float | None  # meV / Angstrom
    seed: int
    device: str | None

    def __post_init__(self) -> None:
        real_number("temperature", self.temperature, above=0.0, hint="it is in K")
        if self.target is not None:
            real_number("target", self.target, above=0.0, hint="it is in meV/Angstrom")
        if self.budget <= self.first:
            raise ValueError(
                f"the first {self.first} labels are part of --budget: give more than {self.first}, got {self.budget}, "
                "or fewer first labels by --first"
            )

    @property
    def beginning(self) -> Beginning:
        """How the campaign begins."""
        start = StartSettings(
            first=self.first,
            validation=self.validation,
            temperature=self.temperature,
            time_step=self.time_step,
            seed=self.seed,
        )
        field = replace(FIELD, device=self.device)
        return Beginning(start=start, dimension=self.dimension, field=field, seed=self.seed)

    @property
    def growth(self) -> GrowthSettings:
        """How the campaign grows."""
        simulation = SimulationOptions(
            temperature=self.temperature,
            configurations=self.pool,
            walkers=self.walkers,
            interval=self.interval,
            time_step=self.time_step,
        )
        return GrowthSettings(
            budget=self.budget, first=self.first, ratio=self.ratio, simulation=simulation, seed=self.seed
        )

    @property
    def sampler_name(self) -> str:
        """The program whose forces the first walkers follow."""
        return self.sampler or STAND_INS.get(self.oracle, self.oracle)

    def program(self, name: str, molecule: Trajectory) -> MolecularOracle:
        """A program for the molecule."""
        options = {"charge": self.charge, "multiplicity": self.multiplicity}
        return oracle_named(name, molecule.species.tolist(), **options)

    def workers_for(self, oracle: MolecularOracle) -> Workers:
        """Processes with that program."""
        return Workers(oracle, processes, self.workers or os.cpu_count() or 1, timeout=self.timeout)


def grow(request: GrowRequest, *, quiet: bool) -> None:
    """Begin or continue; names and options are checked first, and the programs tried."""
    resolve_device(request.device)
    _, growth = request.beginning, request.growth  # both are checked before anything is done
    found = read_trajectory(request.molecule, labelled=False)
    reference = found.at(slice(1))
    _check_folder(request)
    if len(found) > 1 and not quiet:
        print_lines(f"beginning with the first of {len(found)} configurations in {request.molecule}")
    names = dict.fromkeys([request.oracle, request.sampler_name])
    programs = {name: request.program(name, reference) for name in names}
    with status_messages(quiet):
        for program in programs.values():
            _check_program(program, reference)
    oracle, sampler = programs[request.oracle], programs[request.sampler_name]
    with request.workers_for(oracle) as workers, request.workers_for(sampler) as walkers:
        try:
            with GrowthTable(quiet) as rounds:
                opened = _opened(request, reference, workers, None if sampler is oracle else walkers, rounds)
                report = partial(_report, rounds, opened.learner)
                options: dict[str, Any] = {"show": rounds.show, "report": report}
                options["target"] = None if request.target is None else 1e-3 * request.target
                Growth(opened.learner, workers, reference.R[0], growth, **options).run()
            with opened.learner:
                _finish(request, opened, quiet=quiet)
        except (NoWorkersError, OracleFailedError) as error:
            raise ValueError(str(error)) from error  # which says that labels are kept, and what to do
        except KeyboardInterrupt:
            print(f"stopped: all labels are saved in {request.output}; the same command continues", file=sys.stderr)
            raise


def _check_program(program: MolecularOracle, molecule: Trajectory) -> None:
    """Raise a ValueError, without the lines of lobal where it happened, if the program is missing or does not work."""
    try:
        program.check(molecule.R[0].numpy())
    except (ImportError, CalculationFailedError) as error:
        raise ValueError(str(error)) from error


def _check_folder(request: GrowRequest) -> None:
    """Raise an error if the folder is of something else, or holds the molecule's file under a name that is written.

    The campaign's own files are checked where they are read.
    """
    folder = request.output
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder that is new or empty as --output")
    written = {f"{name}{suffix}" for name in (LABELS, VALIDATION) for suffix in (".xyz", ".npz")} | {REPORT}
    for name in sorted(written):
        refuse_to_overwrite({"--output": folder / name}, [request.molecule])
    strange = sorted(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else []
    if strange and not (folder / START).exists():
        raise FileExistsError(
            f"{folder} holds {strange[0]} and is no such campaign; choose a folder that is new or empty"
        )


def _opened(
    request: GrowRequest, reference: Trajectory, workers: Workers, sampler: Workers | None, table: GrowthTable
) -> Opened:
    """The campaign in the folder, or a new one from the first frames."""
    about = {"oracle": request.oracle, "charge": request.charge, "multiplicity": request.multiplicity}
    about |= {"sampler": request.sampler_name if sampler is not None else None}
    table.show("first trajectories")
    try:
        return opened_campaign(
            request.output,
            reference,
            workers,
            request.beginning,
            about=about,
            sampler=sampler,
            report=lambda done, total: table.show(f"first trajectories: step {done} of {total}"),
        )
    except RuntimeError as error:  # of the oracle; what to do is in its words
        raise ValueError(str(error)) from error


def _report(table: GrowthTable, learner: ActiveLearner, finished: Round) -> None:
    """Add a round to the table, with the savings that it expects: journals do not have them."""
    known = finished.savings
    table.add(finished._replace(savings=expected_savings_at(learner, finished.labels) if known is None else known))


def _finish(request: GrowRequest, opened: Opened, *, quiet: bool) -> None:
    """Write all labels and the page, and say what there is."""
    from lobal.report.html import campaign_report  # draws

    folder, learner, apart = request.output, opened.learner, opened.start.validation
    with status_messages(quiet):
        labels = write_configurations(folder / LABELS, labelled_trajectory(learner), labelled=True)
        validation = write_configurations(folder / VALIDATION, apart, labelled=True)
        campaign_report(learner, folder / REPORT, title=f"Force field of {request.molecule.stem}", target="energy")
    if quiet:
        return
    about, n_failed = learner.model.about, len(learner.failed)
    print_lines(
        f"{len(learner.labelled.y)} labels{f', {n_failed} failed' if n_failed else ''}, "
        f"{about['symmetries']} symmetries (with the identity); errors at {about['validation']} validation frames:",
        *error_lines(about["errors"]),
        f"force field in {folder / MODEL}, labels in {labels} and {validation}, report in {folder / REPORT}",
    )


def labelled_trajectory(learner: ActiveLearner) -> Trajectory:
    """All labels of a campaign, in the order in which they were asked for."""
    R, rows = torch.from_numpy(learner.labelled.X), torch.from_numpy(learner.labelled.y)
    labels = {"energies": rows[:, 0], "forces": rows[:, 1:].view_as(R)}
    species = species_of(learner)
    return Trajectory(source="labels of the campaign", units="eV and Ang", species=species, R=R, **labels)
