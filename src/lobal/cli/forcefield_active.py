"""The body of `lobal forcefield active`: a campaign from files to files, continued until its last size.

Labels come from the pool's own file or, where that has none, from files of frames that the user has computed.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from lobal.active.campaign.state import SMALLEST_TRAINING_SET
from lobal.active.learner import ActiveLearner
from lobal.cli.checks import refuse_to_overwrite
from lobal.cli.forcefield import error_lines, print_lines, status_messages
from lobal.core.arrays import resolve_device
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.trajectory import (
    Trajectory,
    holds_positions_only,
    matched,
    read_trajectory,
    set_apart,
    write_configurations,
)
from lobal.molecules.space import MolecularCandidates, MoleculePool
from lobal.molecules.surrogate import MODEL, ForceFieldSurrogate

NEXT = "next"  # file of the frames to compute, without its suffix
VALIDATION = 1000  # configurations, by default
MOST_VALIDATION = 0.2  # of all configurations
OWN_FILES = {"lock", "journal.jsonl", "candidates.lobal"}  # left where the creation of a campaign was cut short
SETTINGS = ForceFieldSettings()  # of campaigns


@final
@dataclass(frozen=True, kw_only=True)
class ActiveRequest:
    """The arguments of `lobal forcefield active`; None for those of the campaign so far, or the default."""

    pool: Path
    campaign: Path
    sizes: Sequence[int]
    labels: Sequence[Path] = field(default=())
    test_density: str | None = None
    dimension: float | None = None
    width: float | None = None
    anisotropy: str | None = None
    validation: int | None = None
    seed: int | None = None
    energy_unit: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        sizes, least = list(self.sizes), SMALLEST_TRAINING_SET
        if not sizes or sizes[0] < least or any(after <= before for before, after in pairwise(sizes)):
            raise ValueError(f"sizes must be numbers of labels in ascending order, at least {least}, got {sizes}")
        for file in self.next_files:
            refuse_to_overwrite({"name for it": file}, [self.pool, *self.labels])

    @property
    def next_files(self) -> list[Path]:
        """Where the frames to compute are written, with ASE and without."""
        return [self.campaign / f"{NEXT}{suffix}" for suffix in (".xyz", ".npz")]


def active(request: ActiveRequest, *, quiet: bool) -> None:
    """Continue a campaign as far as there are labels; names and options are checked first."""
    resolve_device(request.device)
    _check_next(request)
    with status_messages(quiet):
        pool = _read_pool(request)
        learner = _learner(request, pool)
    with learner:
        try:
            _run(request, learner, pool, quiet=quiet)
        except KeyboardInterrupt:
            n = len(learner.labelled.y)
            print(f"stopped: {n} labels are saved in {request.campaign}; the same command continues", file=sys.stderr)
            raise


def _run(request: ActiveRequest, learner: ActiveLearner, pool: Trajectory, *, quiet: bool) -> None:
    """Ask, tell, and ask again, until the last size or until labels are missing."""
    printed: Callable[..., None] = (lambda *_: None) if quiet else print_lines
    if request.labels:
        printed(*_take(request, learner, pool))
    while True:
        if pool.forces is not None and len(learner.pending) > 0:
            known = pool.at(torch.from_numpy(learner.pending))
            learner.tell(learner.pending, (known.energies, known.forces))
        n, drawn = len(learner.labelled.y), len(learner.labelled.y) + len(learner.pending) + len(learner.failed)
        size = next((size for size in request.sizes if size > drawn), None)
        if len(learner.pending) > 0 or (size is None and n < SMALLEST_TRAINING_SET):
            break
        with status_messages(quiet):
            model = learner.model  # fitted here, if there are labels enough
        if model is not None:
            printed(*_about_fit(model, n))
        if size is None:
            break
        with status_messages(quiet):
            learner.ask(min(size - n, len(learner.candidates) - drawn))
    _finish(request, learner, pool, printed)


def _about_fit(model: ForceField, n: int) -> list[str]:
    if "errors" not in model.about:
        return [f"force field fitted to {n} labels"]
    head = f"force field fitted to {n} labels, errors at {model.about['validation']} validation configurations:"
    return [head, *error_lines(model.about["errors"])]


def _finish(request: ActiveRequest, learner: ActiveLearner, pool: Trajectory, printed: Callable[..., None]) -> None:
    """Write the configurations to compute, or print that there is nothing left to do."""
    rows, n, n_failed = torch.from_numpy(learner.pending), len(learner.labelled.y), len(learner.failed)
    for file in request.next_files:
        file.unlink(missing_ok=True)
    if len(rows) == 0:
        failed = f", {n_failed} failed" if n_failed > 0 else ""
        if n < SMALLEST_TRAINING_SET:
            raise ValueError(f"only {n} labels{failed}: too few for a force field; raise the sizes")
        printed(f"{n} labels{failed}; force field in {request.campaign / MODEL}")
        return
    file = write_configurations(request.campaign / NEXT, pool.at(rows))
    printed(
        f"{f'{n} labels so far. ' if n > 0 else ''}The next {len(rows)} configurations to compute are in {file}.",
        "Compute energies and forces of each, atoms where they are, and run the same command with --labels FILE.",
        "Labels may come in parts. A frame with NaN for its energy or forces failed and is not asked for again.",
    )


def _check_next(request: ActiveRequest) -> None:
    """Raise a ValueError if the frames to compute have been computed in place, or changed otherwise."""
    for file in request.next_files:
        if file.exists() and not holds_positions_only(file):
            raise ValueError(
                f"{file} is not as lobal wrote it and would be overwritten; if it has the energies and forces, move it "
                "elsewhere and give it as --labels, otherwise remove it"
            )


def _read_pool(request: ActiveRequest) -> Trajectory:
    pool = read_trajectory(request.pool, energy_unit=request.energy_unit, labelled=False)
    if (pool.energies is None) != (pool.forces is None):
        has, lacks = ("forces", "energies") if pool.energies is None else ("energies", "forces")
        raise ValueError(f"{pool.source} has {has}, but no {lacks}; give both, or a file with neither to compute them")
    if pool.forces is not None and request.labels:
        raise ValueError(
            f"{pool.source} has energies and forces of its own, and --labels is for pools without; to compute others, "
            "begin with a file of the positions alone"
        )
    if pool.forces is None and request.validation:
        raise ValueError(f"{pool.source} has no energies and forces to validate with; leave --validation out")
    return pool


def _learner(request: ActiveRequest, pool: Trajectory) -> ActiveLearner:
    """The campaign in the folder, if it began as requested, or a new one."""
    if (request.campaign / "header.json").exists():
        learner = ActiveLearner.load(request.campaign, pool=MoleculePool(pool, device=request.device))
        try:
            _check_options(request, learner, pool)
            _check_sizes(request, len(learner.candidates), len(pool))
        except BaseException:
            learner.close()
            raise
    else:
        learner = _new_learner(request, pool)
    _, surrogate = _parts(learner)
    surrogate.settings = replace(surrogate.settings, device=request.device)
    return learner


def _new_learner(request: ActiveRequest, pool: Trajectory) -> ActiveLearner:
    folder, seed = request.campaign, request.seed or 0
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    strange = sorted(name for name in names - OWN_FILES if not name.startswith("."))
    if strange:
        raise FileExistsError(f"{folder} holds {strange[0]} and is no campaign; choose a folder that is new or empty")
    apart, validation = _validation_rows(request, pool, seed)
    _check_sizes(request, int((~apart).sum()), len(pool))
    settings = replace(SETTINGS, device=request.device, anisotropy=request.anisotropy or SETTINGS.anisotropy)
    space = MoleculePool(
        pool,
        available=~apart,
        test_density=request.test_density or MoleculePool.test_density,
        width=request.width,
        device=request.device,
    )
    return ActiveLearner(
        space,
        seed=seed,
        path=folder,
        model=ForceFieldSurrogate(settings),
        validation=None if len(validation) == 0 else pool.at(validation),
        intrinsic_dimension=request.dimension,
    )


def _validation_rows(
    request: ActiveRequest, pool: Trajectory, seed: int
) -> tuple[Bool[Tensor, " N"], Int[Tensor, " n"]]:
    """Which configurations are not to be asked for, and at which of these errors are computed: those with a label."""
    n = VALIDATION if request.validation is None else request.validation
    if pool.energies is None or pool.forces is None:
        return torch.zeros(len(pool), dtype=torch.bool), torch.arange(0)
    most = min(n, int(MOST_VALIDATION * len(pool)))
    apart = set_apart(pool, most, generator=torch.Generator().manual_seed(seed))
    rows = (apart & torch.isfinite(pool.energies) & torch.isfinite(pool.forces).all((1, 2))).nonzero()[:, 0]
    return apart, rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:n]]


def _check_options(request: ActiveRequest, learner: ActiveLearner, pool: Trajectory) -> None:
    """Raise a ValueError for options that differ from those the campaign began with."""
    (candidates, surrogate), settings = _parts(learner), learner.settings
    requested = {
        "test-density": (request.test_density, candidates.test_name),
        "width": (request.width, candidates.width),
        "dimension": (request.dimension, settings.intrinsic_dimension),
        "anisotropy": (request.anisotropy, surrogate.settings.anisotropy),
        "seed": (request.seed, settings.seed),
    }
    if request.validation is not None:
        apart, _ = _validation_rows(request, pool, settings.seed)
        requested["validation"] = (int(apart.sum()), len(pool) - len(candidates))
    for name, (value, actual) in requested.items():
        if value not in (None, actual):
            raise ValueError(
                f"campaign {request.campaign} began with --{name} {actual}, got {value}; leave --{name} out or choose "
                "another folder"
            )


def _check_sizes(request: ActiveRequest, available: int, total: int) -> None:
    if request.sizes[-1] > available:
        raise ValueError(
            f"{request.sizes[-1]} labels are requested, but {request.pool} has {total} configurations, "
            f"{total - available} of them kept for validation; lower --sizes or give a larger pool"
        )


def _parts(learner: ActiveLearner) -> tuple[MolecularCandidates, ForceFieldSurrogate]:
    candidates, surrogate = learner.candidates, learner.surrogate
    if isinstance(candidates, MolecularCandidates) and isinstance(surrogate, ForceFieldSurrogate):
        return candidates, surrogate
    raise ValueError("the folder holds a campaign, but not one of a force field; choose another folder")


def _take(request: ActiveRequest, learner: ActiveLearner, pool: Trajectory) -> list[str]:
    """Tell the labels of all files, after all files have been checked; returns notes for the user."""
    available = _parts(learner)[0].rows.numpy()
    frames = [read_trajectory(path, energy_unit=request.energy_unit, labelled=False) for path in request.labels]
    read = [matched(each, pool, [learner.pending, available]) for each in frames]
    labelled = available[learner.labelled.candidate]
    n = len({*learner.pending.tolist(), *labelled.tolist(), *(row for _, rows in read for row in rows.tolist())})
    if n > request.sizes[-1]:
        raise ValueError(
            f"with those of {', '.join(map(str, request.labels))} there would be {n} labels, more than the last of "
            f"--sizes, {request.sizes[-1]}; give fewer or raise --sizes"
        )
    notes = []
    for all_frames, (known, rows) in zip(frames, read, strict=True):
        failures = len(learner.failed)
        learner.tell(rows, (known.energies, known.forces))
        failures = len(learner.failed) - failures
        n_unknown = len(all_frames) - len(known)
        notes.append(f"{known.source}: {len(rows)} configurations of the pool")
        notes += [f"{failures} of them have no finite label and count as failed"] if failures > 0 else []
        notes += [f"{n_unknown} others are not in the pool and are not used"] if n_unknown > 0 else []
    return notes
