"""The body of `lobal forcefield active`: a campaign from files to files, run again until its last size.

Labels come from the pool's own file or, where that has none, from files of frames that the user has computed.
"""

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.spatial import KDTree
from torch import Tensor

from lobal.cli.forcefield import status_line
from lobal.core.arrays import resolve_device
from lobal.molecules.campaign import ForceFieldCampaign
from lobal.molecules.campaign_record import LEAST_LABELS, MODEL, CampaignSettings, Fitted
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.trajectory import (
    Trajectory,
    check_species,
    read_trajectory,
    set_apart,
    write_configurations,
)

NEXT = "next"  # file of the frames to compute, before its suffix
VALIDATION = 1000  # frames, by default
MOST_VALIDATION = 0.2  # of all frames
SAME_PLACE = 1e-4  # Angstrom: what files round positions to is less, and no two frames of a trajectory are so alike
FIELD = ForceFieldSettings()  # how force fields are fitted


@final
@dataclass(frozen=True, kw_only=True)
class ActiveRequest:
    """What a user asks of `lobal forcefield active`; None is what the campaign began with, or a default."""

    pool: Path
    campaign: Path
    sizes: Sequence[int]
    labels: Sequence[Path] = field(default=())
    test_density: str | None = None
    validation: int | None = None
    seed: int | None = None
    energy_unit: str | None = None
    length_unit: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        sizes = list(self.sizes)
        if not sizes or sizes[0] < LEAST_LABELS or any(after <= before for before, after in pairwise(sizes)):
            raise ValueError(f"sizes must be numbers of labels in ascending order, from {LEAST_LABELS} on, got {sizes}")
        if any(path.resolve() == self.campaign.resolve() / f"{NEXT}{path.suffix}" for path in self.labels):
            raise ValueError(f"{NEXT}.* in {self.campaign} will be overwritten; save what you computed elsewhere")

    def settings(self) -> CampaignSettings:
        """Those of a new campaign."""
        return CampaignSettings(
            test_density=self.test_density or CampaignSettings.test_density,
            seed=self.seed or CampaignSettings.seed,
            field=replace(FIELD, device=self.device),
        )

    def command(self, labels: str) -> str:
        """The command that goes on, with labels of that name."""
        words = [str(self.pool), str(self.campaign), "--sizes", ",".join(map(str, self.sizes)), "--labels", labels]
        options = {"energy-unit": self.energy_unit, "length-unit": self.length_unit, "device": self.device}
        words += [
            word for name, value in options.items() if value not in (None, "cpu") for word in (f"--{name}", value)
        ]
        return shlex.join(["lobal", "forcefield", "active", *words])


def active(request: ActiveRequest, *, quiet: bool) -> None:
    """Go on with a campaign as far as there are labels; what is wrong with names and options is found out first."""
    resolve_device(request.device)
    settings = request.settings()
    with status_line(quiet) as say:
        say(f"reading {request.pool}")
        pool = _read_pool(request)
        campaign = _campaign(request, settings, pool, say)
    with campaign:
        try:
            _run(request, campaign, _Printer(quiet))
        except KeyboardInterrupt:
            n = len(campaign.labelled)
            print(f"stopped: {n} labels are safe in {request.campaign}; the same command goes on", file=sys.stderr)
            raise
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise
            raise ValueError(
                f"{len(campaign.labelled)} labels are more than the memory of device {request.device or 'cpu'} allows; "
                f"they are safe in {request.campaign}: go on where there is more"
            ) from error


@dataclass
class _Printer:
    """Prints, unless it is to be quiet: the table of errors line by line."""

    quiet: bool
    lines: int = 0

    def __call__(self, *lines: str) -> None:
        for line in lines if not self.quiet else ():
            print(line, flush=True)

    def fits(self, campaign: ForceFieldCampaign) -> None:
        """Those fits that have not been printed yet; under errors, where there are any, their units."""
        if self.lines == 0 and campaign.validation is not None and campaign.fits:
            self(f"errors at {len(campaign.validation)} configurations kept apart, in meV and meV/Angstrom")
            self(f"{'labels':>8} {'energy RMSE':>12} {'energy MAE':>12} {'force RMSE':>12} {'force MAE':>12}")
        self(*(_line(fit) for fit in campaign.fits[self.lines :]))
        self.lines = len(campaign.fits)


def _line(fit: Fitted) -> str:
    if fit.errors is None:
        return f"force field fitted to {fit.labels} labels"
    errors = ("-" if value is None else f"{1e3 * value:.3f}" for value in fit.errors)
    return " ".join([f"{fit.labels:8}", *(f"{error:>12}" for error in errors)])


# The run.


def _run(request: ActiveRequest, campaign: ForceFieldCampaign, printed: _Printer) -> None:
    """Ask, answer, and ask again, until the last size or until labels are missing."""
    if request.labels:
        printed(*_take(request, campaign))
    printed.fits(campaign)
    own = campaign.pool.forces is not None
    while True:
        if own and len(campaign.pending) > 0:
            _answer(campaign)
        drawn = campaign.size + len(campaign.failed)
        size = next((size for size in request.sizes if size > drawn), None)
        if len(campaign.pending) > 0 or (size is None and len(campaign.labelled) < LEAST_LABELS):
            break
        with status_line(printed.quiet) as campaign.say:
            if size is None:
                campaign.fit()
            else:
                campaign.ask(min(size - campaign.size, len(campaign.candidates) - drawn))
        printed.fits(campaign)
        if size is None:
            break
    _leave(request, campaign, printed)


def _answer(campaign: ForceFieldCampaign) -> None:
    """Tell the labels that the pool has."""
    rows = campaign.pending
    known = campaign.pool.at(torch.from_numpy(rows))
    campaign.tell(rows, known.energies, known.forces)


def _leave(request: ActiveRequest, campaign: ForceFieldCampaign, printed: _Printer) -> None:
    """Write what is to be computed, or say that there is nothing left to do."""
    rows = torch.from_numpy(campaign.pending)
    for file in (request.campaign / f"{NEXT}.xyz", request.campaign / f"{NEXT}.npz"):
        file.unlink(missing_ok=True)
    if len(rows) == 0:
        failed = f", {len(campaign.failed)} failed" if len(campaign.failed) > 0 else ""
        if not campaign.fits:
            raise ValueError(
                f"only {len(campaign.labelled)} labels{failed}: too few for a force field; raise the sizes"
            )
        printed(f"{len(campaign.labelled)} labels{failed}; force field in {request.campaign / MODEL}")
        return
    frames = replace(campaign.pool, energies=None, forces=None).at(rows)
    file = write_configurations(request.campaign / NEXT, replace(frames, row=rows))
    there = f"{len(campaign.labelled)} labels so far. " if len(campaign.labelled) > 0 else ""
    printed(
        f"{there}The next {len(rows)} configurations to compute are in {file}.",
        "Compute energies and forces of each, atoms where they are, and keep the row numbers if you can. Then:",
        f"  {request.command('computed' + file.suffix)}",
        "Some at a time will do. A frame with NaN for its energy or forces failed, and is not asked for again.",
    )


# Files.


def _read_pool(request: ActiveRequest) -> Trajectory:
    pool = read_trajectory(
        request.pool, energy_unit=request.energy_unit, length_unit=request.length_unit, labelled=False
    )
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


def _campaign(
    request: ActiveRequest, settings: CampaignSettings, pool: Trajectory, say: Callable[[str], None]
) -> ForceFieldCampaign:
    """The campaign in the folder, or a new one, if it is large enough and what it began with is what is asked for."""
    n = 0 if pool.forces is None else VALIDATION if request.validation is None else request.validation
    begun = (request.campaign / "header.json").exists()
    if begun:
        campaign = ForceFieldCampaign.open(request.campaign, pool, device=request.device, say=say)
    else:
        most = min(n, int(MOST_VALIDATION * len(pool)))
        available = ~set_apart(pool, most, generator=torch.Generator().manual_seed(settings.seed))
        _check_sizes(request, int(available.sum()), len(pool))
        campaign = ForceFieldCampaign.create(request.campaign, pool, settings, available=available, say=say)
    try:
        _check_sizes(request, len(campaign.candidates), len(pool))
        for name in ("test_density", "seed"):
            asked, is_so = getattr(request, name), getattr(campaign.settings, name)
            if asked not in (None, is_so):
                option = f"--{name.replace('_', '-')}"
                raise ValueError(
                    f"campaign {request.campaign} began with {option} {is_so}, got {asked}; leave {option} out or "
                    "choose another folder"
                )
        campaign.validation = _validation(campaign, n)
    except BaseException:
        campaign.close()
        raise
    return campaign


def _check_sizes(request: ActiveRequest, available: int, total: int) -> None:
    if request.sizes[-1] > available:
        raise ValueError(
            f"{request.sizes[-1]} labels are asked for, but {request.pool} has {total} configurations, "
            f"{total - available} of them kept for validation; lower --sizes or give a larger pool"
        )


def _validation(campaign: ForceFieldCampaign, n: int) -> Trajectory | None:
    """At most n, at random, of the configurations set apart that have a label."""
    pool = campaign.pool
    if pool.energies is None or pool.forces is None:
        return None
    apart = (torch.isfinite(pool.energies) & torch.isfinite(pool.forces).all((1, 2))).index_fill(
        0, campaign.candidates, False
    )
    rows = apart.nonzero()[:, 0]
    generator = torch.Generator().manual_seed(campaign.settings.seed)
    chosen = rows[torch.randperm(len(rows), generator=generator)[:n]]
    return pool.at(chosen) if len(chosen) > 0 else None


# Labels.


class _Found(NamedTuple):
    """Frames of a file that are in the pool, and their rows there."""

    frames: Trajectory
    rows: Int[ndarray, " m"]
    outside: int


def _take(request: ActiveRequest, campaign: ForceFieldCampaign) -> list[str]:
    """Tell the labels of all files, once all files are found to be right; what the user should know of them."""
    read = [_read_labels(path, request, campaign) for path in request.labels]
    labelled = campaign.labelled.row
    there = {*campaign.pending.tolist(), *([] if labelled is None else labelled.tolist())}  # failures are made up for
    n = len(there | {row for found in read for row in found.rows.tolist()})
    if n > request.sizes[-1]:
        raise ValueError(
            f"with those of {', '.join(map(str, request.labels))} there would be {n} labels, more than the last of "
            f"--sizes, {request.sizes[-1]}; hand in fewer or raise --sizes"
        )
    notes = []
    for found in read:
        failures = len(campaign.failed)
        campaign.tell(found.rows, found.frames.energies, found.frames.forces)
        failures = len(campaign.failed) - failures
        notes.append(f"{found.frames.source}: {len(found.rows)} configurations of the pool")
        notes += [f"{failures} of them have no finite label and count as failed"] if failures > 0 else []
        notes += [f"{found.outside} others are not in the pool, and are not used"] if found.outside > 0 else []
    return notes


def _read_labels(path: Path, request: ActiveRequest, campaign: ForceFieldCampaign) -> _Found:
    frames = read_trajectory(path, energy_unit=request.energy_unit, labelled=False)
    check_species(campaign.pool.species, frames.species, frames.source)
    for name, part in (("energies", frames.energies), ("forces", frames.forces)):
        if part is None:
            raise ValueError(f"{path} has no {name}; energies and forces are both needed, of every configuration")
    rows = _rows_by_place(frames.R, campaign) if frames.row is None else _rows_by_number(frames, frames.row, campaign)
    known = rows >= 0
    if not known.any():
        raise ValueError(
            f"no configuration of {path} is in {campaign.pool.source}: positions have to be equal to {SAME_PLACE:g} "
            "Angstrom, neither turned nor relaxed"
        )
    if len(np.unique(rows[known])) < known.sum():
        raise ValueError(f"{path} has the same configuration of the pool more than once; leave one of them")
    return _Found(frames.at(torch.from_numpy(np.flatnonzero(known))), rows[known], int((~known).sum()))


def _rows_by_number(frames: Trajectory, rows: Int[Tensor, " m"], campaign: ForceFieldCampaign) -> Int[ndarray, " m"]:
    """The rows that the frames say, whose positions have to be the pool's: forces turn with the molecule."""
    last = len(campaign.pool) - 1
    if rows.min() < 0 or rows.max() > last:
        raise ValueError(f"{frames.source} says rows {int(rows.min())} to {int(rows.max())}, the pool has 0 to {last}")
    off = (campaign.pool.R[rows] - frames.R).abs().amax((1, 2))
    if off.max() > SAME_PLACE:
        worst = int(off.argmax())
        raise ValueError(
            f"{frames.source}: row {int(rows[worst])} has an atom {off[worst]:.3g} Angstrom away from where the pool "
            "has it; compute every configuration as it is, neither turned nor relaxed"
        )
    return rows.numpy()


def _rows_by_place(R: Float[Tensor, "m N 3"], campaign: ForceFieldCampaign) -> Int[ndarray, " m"]:
    """The rows of the pool at these positions, those pending before others; -1 where there is none."""
    rows = np.full(len(R), -1)
    for among in (campaign.pending, campaign.candidates.numpy()):
        missing = np.flatnonzero(rows < 0)
        if len(among) > 0 and len(missing) > 0:
            tree = KDTree(campaign.pool.R[torch.from_numpy(among)].flatten(1).numpy())
            off, nearest = tree.query(R[torch.from_numpy(missing)].flatten(1).numpy(), p=np.inf)
            rows[missing] = np.where(off <= SAME_PLACE, among[nearest], -1)
    return rows
