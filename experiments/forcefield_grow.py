"""A force field from one configuration and a program: what its labels are worth beside others of the same number.

Every repetition grows a force field (`lobal forcefield grow`) and fits others to as many labels that were chosen
otherwise, with the same settings and the same symmetries:

- `random`: the first frames of the campaign, and at every round random configurations of the pool it simulated;
- `frames`: evenly spaced frames of one trajectory under the program's forces, which makes as many calls of the program
  as the campaign has made, those of its first trajectories included;
- `apart`: frames of such a trajectory that are 20 fs apart, whatever it costs.

Errors are those of forces and energies at frames of further trajectories under the program's forces, which no other
part of the repetition has seen. With `--picoseconds`, the force field that was grown also runs at constant energy, for
10 ps, and in a heat bath for so long as that. With `--folder`, campaigns and their pages are kept, and go on there.

python -m experiments forcefield_grow examples/molecules/malonaldehyde.xyz --seeds 3 \
    --output docs/results/forcefield_grow/malonaldehyde.json
"""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, final

import numpy as np
import torch
import typer
from torch import Tensor

from experiments.repetitions import Device, FirstSeed, Jobs, Output, Repetitions, Result, Seeds
from experiments.simulator import geometric_mean
from lobal.active.learner import ActiveLearner
from lobal.molecules.dynamics.campaign import FIELD, Beginning, opened_campaign
from lobal.molecules.dynamics.conservation import conserved_energy, drift
from lobal.molecules.dynamics.growth import Growth, GrowthSettings, Round
from lobal.molecules.dynamics.motion import Bath, ForceFunction, begun, step, thermal_velocities
from lobal.molecules.dynamics.start import FEWEST, StartSettings, first_frames
from lobal.molecules.dynamics.walkers import SimulationOptions
from lobal.molecules.dynamics.workers import Workers, processes
from lobal.molecules.field.forcefield import ForceField, errors_on
from lobal.molecules.field.prepared import PreparedForceField
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.geometry.bonds import Bonds
from lobal.molecules.geometry.elements import masses_of
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory
from lobal.molecules.oracles import oracle_named
from lobal.molecules.surrogate import MODEL
from lobal.report.html import campaign_report

TEST, FRAMES, APART, PICK, MOTION = range(1, 6)  # what seeds are for
TEST_WALKERS = 10
SPACING = 20  # steps between the frames of a test, and those of the arm `apart`
GATES = SOFTMAX, ORDINAL = "softmax", "ordinal"
ARMS = GROWN, RANDOM, NAIVE, LONG = "grown", "random", "frames", "apart"
WORDS = {
    GROWN: "grown",
    RANDOM: "random configurations of the same pools",
    NAIVE: "frames of a trajectory of as many calls",
    LONG: f"frames of a trajectory, {SPACING} fs apart",
}
CONSTANT_ENERGY = 10.0  # ps
WALKERS = 4  # of the runs with the final force field


@final
@dataclass(frozen=True, kw_only=True)
class Trial:
    """One molecule, its program, and how campaigns begin."""

    molecule: Path
    oracle: str
    first: int
    test_frames: int
    settle: int  # steps of every walker before its first frame of the test
    configurations: int
    arms: Sequence[str]
    picoseconds: float
    workers: int
    folder: Path | None
    device: str
    anisotropy_loss: str = FIELD.anisotropy_loss
    gate: str = SOFTMAX

    @property
    def field(self) -> ForceFieldSettings:
        """How all force fields are learned."""
        return replace(
            FIELD,
            device=self.device,
            anisotropy_loss=self.anisotropy_loss,
            softmax_gate=FIELD.softmax_gate if self.gate == SOFTMAX else None,
        )

    @property
    def reference(self) -> Trajectory:
        """The configuration that everything begins with."""
        return read_trajectory(self.molecule, labelled=False).at(slice(1))

    def run(self, n: int, seed: int) -> Result:
        """One repetition: errors of all arms by name, and what the campaign was like."""
        oracle = oracle_named(self.oracle, self.reference.species.tolist())
        with ExitStack() as stack:
            workers = stack.enter_context(Workers(oracle, processes, self.workers))
            scratch = Path(stack.enter_context(TemporaryDirectory()))
            folder = scratch if self.folder is None else self.folder / f"{self.molecule.stem}-{seed}"
            return _Repetition(self, workers, folder, n, seed).result()


@final
class _Repetition:
    def __init__(self, trial: Trial, workers: Workers, folder: Path, n: int, seed: int) -> None:
        self._trial, self._workers, self._folder, self._n, self._seed = trial, workers, folder, n, seed
        self._reference = trial.reference

    def result(self) -> Result:
        test = self._test()
        learner, result = self._campaign()
        with learner:
            if self._trial.folder is not None:
                title = f"Force field of {self._trial.molecule.stem}"
                campaign_report(learner, self._folder / "report.html", title=title, target="energy")
            labelled, known = self._labelled(learner), learner.model.kernel.permutations
            result |= _errors(GROWN, learner.model, test)
            result |= self._motion(labelled)
        for arm in self._trial.arms:
            begun = time.perf_counter()
            frames = self._arm(arm, labelled, result["calls"])
            field = fit_force_field(frames, self._trial.field, permutations=known, generator=self._generator(PICK))
            result |= _errors(arm, field, test) | {f"{arm}_seconds": time.perf_counter() - begun}
            _say(f"{arm}: {1e3 * result[f'{arm}_force_rmse']:.1f} meV/Angstrom with {len(frames)} labels")
        return {"n": self._n, "seed": self._seed, **result}

    def _generator(self, purpose: int) -> torch.Generator:
        return torch.Generator().manual_seed(100 * self._seed + purpose)

    def _campaign(self) -> tuple[ActiveLearner, Result]:
        """The campaign to its end, and what it was like."""
        begun, first = time.perf_counter(), StartSettings(first=self._trial.first, seed=self._seed)
        learner, _ = opened_campaign(
            self._folder / GROWN,
            self._reference,
            self._workers,
            Beginning(start=first, field=self._trial.field, seed=self._seed),
            about={"oracle": self._trial.oracle},
        )
        rounds: list[Round] = []

        def report(finished: Round) -> None:
            rounds.append(finished)
            _say(str(finished))
            if finished.pool is not None:
                n = settings.sizes[finished.number] - settings.sizes[finished.number - 1]
                self._keep_random(learner, n, self._folder / f"random-{finished.number}.npy")

        simulation = SimulationOptions(time_step=1.0, configurations=self._trial.configurations)
        settings = GrowthSettings(budget=self._n, first=first.first, simulation=simulation, seed=self._seed)
        try:
            Growth(learner, self._workers, self._reference.R[0], settings, report=report).run()
        except BaseException:
            learner.close()
            raise
        return learner, {
            "rounds": [each._asdict() for each in rounds],
            "seconds": time.perf_counter() - begun,
            "calls": first.walkers * first.steps + 1 + self._n - first.first,
            "permutations": len(learner.model.kernel.permutations),
            "failed": len(learner.failed),
        }

    def _keep_random(self, learner: ActiveLearner, n: int, file: Path) -> None:
        """Write random configurations of the pool that has just been simulated; those of earlier ones are there."""
        if not file.exists():
            pool: Tensor = learner.candidates.R[learner.ledger.n_drawn :]  # type: ignore[attr-defined]  # of molecules
            rows = torch.randperm(len(pool), generator=self._generator(PICK))[:n]
            np.save(file, pool[rows].numpy())

    def _labelled(self, learner: ActiveLearner) -> Trajectory:
        """All labels of the campaign, in their order."""
        R, rows = torch.from_numpy(learner.labelled.X), torch.from_numpy(learner.labelled.y)
        return self._trajectory(R, rows)

    def _trajectory(self, R: Tensor, rows: Tensor) -> Trajectory:
        known = ~torch.isnan(rows).any(1)
        kept: dict[str, Any] = {"R": R[known], "energies": rows[known, 0], "forces": rows[known, 1:].view_as(R[known])}
        return Trajectory(source="labels", units="eV and Ang", species=self._reference.species, **kept)

    def _arm(self, arm: str, labelled: Trajectory, calls: int) -> Trajectory:
        if arm == RANDOM:
            R = torch.cat([torch.from_numpy(np.load(file)) for file in sorted(self._folder.glob("random-*.npy"))])
            others = self._trajectory(R, self._workers.label(R))
            return _joined(labelled.at(slice(self._trial.first)), others)
        settle = StartSettings().settle
        every = SPACING if arm == LONG else max(1, (calls - settle) // self._n)
        purpose = APART if arm == LONG else FRAMES
        return self._frames(self._n, FEWEST, walkers=2, settle=settle, every=every, purpose=purpose)[0]

    def _test(self) -> Trajectory:
        half, settle = self._trial.test_frames // 2, self._trial.settle
        return _joined(*self._frames(half, half, walkers=TEST_WALKERS, settle=settle, every=SPACING, purpose=TEST))

    def _frames(self, first: int, validation: int, *, purpose: int, **options: int) -> tuple[Trajectory, Trajectory]:
        settings = StartSettings(first=first, validation=validation, seed=100 * self._seed + purpose, **options)
        path = self._folder / f"{purpose}.jsonl"
        start = first_frames(
            self._reference.R[0], self._reference.species, self._workers, settings, path=path, about={}
        )
        return start.first, start.validation

    def _motion(self, labelled: Trajectory) -> Result:
        """How well the force field conserves energy, and when the first bond breaks, if one does.

        On the CPU: for a few walkers a GPU is no faster.
        """
        if self._trial.picoseconds == 0.0:
            return {}
        forces = PreparedForceField.of(ForceField.load(self._folder / GROWN / MODEL, "cpu"))
        R = labelled.R[torch.randperm(len(labelled), generator=self._generator(MOTION))[:WALKERS]]
        masses = masses_of(self._reference.species)
        V = thermal_velocities(masses, 500.0, len(R), generator=self._generator(MOTION), R=R)
        times, energies = conserved_energy(forces, R, V, masses, picoseconds=CONSTANT_ENERGY)
        drifts = drift(times, energies, len(masses))
        broken = self._broken_after(forces, R, V)
        _say(f"drifts {drifts.tolist()} meV/atom; broken after {broken} ps")
        return {"drifts": drifts.tolist(), "broken_after": broken}

    def _broken_after(self, forces: ForceFunction, R: Tensor, V: Tensor) -> float | None:
        """Picoseconds in a heat bath until a bond breaks; none if none does."""
        bath, bonds = Bath(temperature=500.0), Bonds.of(self._reference.R[0], self._reference.species)
        masses, generator = masses_of(self._reference.species), self._generator(MOTION)
        motion = begun(R, V, forces)
        for number in range(1, math.ceil(1e3 * self._trial.picoseconds / bath.time_step) + 1):
            motion = step(motion, forces, masses, bath, generator=generator)
            if not bool(bonds.are_whole(motion.R).all()):
                return 1e-3 * number * bath.time_step
        return None


def _joined(first: Trajectory, second: Trajectory) -> Trajectory:
    parts = {name: torch.cat([getattr(each, name) for each in (first, second)]) for name in ("R", "energies", "forces")}
    return Trajectory(source=first.source, units=first.units, species=first.species, **parts)


def _errors(arm: str, field: ForceField, test: Trajectory) -> Result:
    return {f"{arm}_{name}": value for name, value in errors_on(field, test)._asdict().items()}


def _say(message: str) -> None:
    print(message, flush=True)


def conclude(results: Sequence[Result]) -> dict[str, Any]:
    """Geometric means of the force errors of all arms, and of the ratios of what was grown to the others."""
    errors = {
        arm: geometric_mean([1e3 * each[f"{arm}_force_rmse"] for each in results])
        for arm in ARMS
        if results and f"{arm}_force_rmse" in results[0]
    }
    ratios = {
        f"{GROWN}_by_{arm}": geometric_mean(
            [each[f"{GROWN}_force_rmse"] / each[f"{arm}_force_rmse"] for each in results]
        )
        for arm in errors
        if arm != GROWN
    }
    return {"force_rmse_mev_per_angstrom": errors, "ratios": ratios}


def main(
    molecule: Annotated[Path, typer.Argument(help="The configuration to begin with.")],
    output: Output,
    n: Annotated[int, typer.Option(help="Labels to learn from.")] = 400,
    seeds: Seeds = 3,
    first_seed: FirstSeed = 0,
    oracle: Annotated[str, typer.Option(help="The program.")] = "gfn2",
    first: Annotated[int, typer.Option(help="Labels of the first frames.")] = 50,
    test_frames: Annotated[int, typer.Option(min=20, help="Frames that errors are measured at.")] = 500,
    settle: Annotated[int, typer.Option(min=1, help="Steps before the first of them.")] = 500,
    configurations: Annotated[int, typer.Option(help="Configurations of every pool.")] = 20_000,
    arms: Annotated[str, typer.Option(help="What to compare with, separated by commas.")] = ",".join(ARMS[1:]),
    picoseconds: Annotated[float, typer.Option(help="Length of a run in a heat bath with the result.")] = 0.0,
    folder: Annotated[Path | None, typer.Option(help="Keep campaigns and their pages there.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes for the program.")] = 2,
    jobs: Jobs = 1,
    device: Device = "cpu",
    anisotropy_loss: Annotated[
        str, typer.Option(help="By which Sigma_E is trained: rmse or mse.")
    ] = FIELD.anisotropy_loss,
    gate: Annotated[str, typer.Option(help="softmax or ordinal.")] = SOFTMAX,
) -> None:
    """Grow force fields, and compare them with others of as many labels."""
    if gate not in GATES:
        raise typer.BadParameter(f"expected one of {', '.join(GATES)}, got {gate!r}", param_hint="--gate")
    trial = Trial(
        molecule=molecule,
        oracle=oracle,
        first=first,
        test_frames=test_frames,
        settle=settle,
        configurations=configurations,
        arms=[arm for arm in arms.split(",") if arm],
        picoseconds=picoseconds,
        workers=workers,
        folder=folder,
        device=device,
        anisotropy_loss=anisotropy_loss,
        gate=gate,
    )
    repetitions = Repetitions(
        experiment="force fields grown from one configuration, beside others of as many labels",
        settings={
            "molecule": molecule.stem,
            "oracle": oracle,
            "first": first,
            "configurations": configurations,
            "arms": trial.arms,
            "picoseconds": picoseconds,
            "test_frames": test_frames,
            "settle": settle,
            "device": device,
            "anisotropy_loss": anisotropy_loss,
            "gate": gate,
        },
        run=trial.run,
        conclude=conclude,
    )
    pairs = [(n, seed) for seed in range(first_seed, first_seed + seeds)]
    record = repetitions.complete(pairs, output, jobs=jobs)
    errors, ratios = record["force_rmse_mev_per_angstrom"], record["ratios"]
    _say(f"force RMSE with {n} labels, geometric mean over {len(record['results'])} repetitions:")
    for arm, error in errors.items():
        ratio = ratios.get(f"{GROWN}_by_{arm}")
        beside = "" if ratio is None else f"; grown by this: {_shown(ratio, '.2f')}"
        _say(f"  {WORDS[arm]}: {_shown(error, '.1f')} meV/Angstrom{beside}")


def _shown(value: dict[str, Any], form: str) -> str:
    error = value["standard_error"]
    return f"{value['mean']:{form}}" + ("" if error is None else f" +- {error:{form}}")
