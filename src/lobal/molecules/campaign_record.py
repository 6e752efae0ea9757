"""What a campaign over a pool of configurations is made of: settings, candidates, events, and the folder's checks."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lobal.active.campaign.folder import Campaign
from lobal.active.campaign.history import History, Step
from lobal.active.campaign.ledger import Event
from lobal.core import complexity as formulas
from lobal.core.arrays import resolve_device
from lobal.molecules.density import TEST_DENSITIES, configuration_density
from lobal.molecules.field.evaluation import Errors
from lobal.molecules.field.forcefield import INTRINSIC_DIMENSION
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.descriptor import Descriptors, Positions, describe
from lobal.molecules.geometry.permutations import Permutations
from lobal.molecules.geometry.symmetry import permutation_group
from lobal.molecules.geometry.trajectory import CHECKED_TOGETHER, Trajectory

Settings = TypeVar("Settings", "CampaignSettings", ForceFieldSettings)
Say: TypeAlias = Callable[[str], None]

KIND = "force field campaign"  # how a folder says what it holds
POOL, MODEL = "pool.lobal", "model.lobal"
LEFT_BY_CREATION = {"lock", "journal.jsonl", POOL}  # where it was cut short
LEAST_LABELS = 10  # fewer say nothing about bandwidths; until then draws are from p_0


@final
@dataclass(frozen=True, kw_only=True)
class CampaignSettings:
    """How configurations are chosen and learned from."""

    test_density: str = "pool"  # q: "pool" is p_X, the distribution of the trajectory; "uniform" a constant
    smoothness: float = math.inf  # alpha
    dimension: float = INTRINSIC_DIMENSION  # delta
    exploration: float = 0.1  # share of q in what is aimed for, so that no region starves on few labels
    seed: int = 0
    field: ForceFieldSettings = field(default_factory=ForceFieldSettings)

    def __post_init__(self) -> None:
        if self.test_density not in TEST_DENSITIES:
            raise ValueError(f"the test density must be one of {', '.join(TEST_DENSITIES)}, got {self.test_density!r}")
        if not 0.0 <= self.exploration <= 1.0 or self.seed < 0:
            raise ValueError(
                f"exploration must lie in [0, 1] and the seed be at least 0, got {self.exploration} and {self.seed}"
            )
        if not self.field.mixture:
            raise ValueError(
                "a campaign goes by local bandwidths, which a mixture alone has; leave field.mixture at True"
            )
        formulas.learning_rate(smoothness=self.smoothness, dimension=self.dimension)  # for its checks


class Fitted(NamedTuple):
    """A fit: to how many labels, how many had ever been told by then, and how good it is."""

    labels: int
    told: int
    errors: Errors | None  # at the validation configurations


class Left(NamedTuple):
    """What a step leaves to the next."""

    density: Float[Tensor, " M"]  # p_k
    shared: Float[Tensor, " D"] | None = None  # Sigma_E


class Candidates(NamedTuple):
    """The configurations that may be asked for."""

    rows: Int[Tensor, " M"]  # of the pool
    density: Float[Tensor, " M"]  # p_X
    permutations: Permutations


@final
class Ledger:
    """Who was asked for, who has answered, who failed: a fold over the events. Rows are in the order they came in."""

    def __init__(self) -> None:
        self.labels: dict[int, tuple[float, list[list[float]]] | None] = {}
        self.failed: set[int] = set()
        self.added: list[int] = []  # since the last step, without having been asked for
        self.told = 0  # labels, those included that replaced others
        self.history = History()
        self.fits: tuple[Fitted, ...] = ()

    def apply(self, event: Event) -> None:
        """Take note of rows "asked" for, labels "told", or a force field "fitted"."""
        match event["event"]:
            case "asked":
                self.history = History((*self.history.steps, Step.from_fields(event["step"])))
                self.labels |= dict.fromkeys(self.history[-1].indices)
                self.added = []
            case "told":
                self.added += [row for row in (*event["rows"], *event["failed"]) if row not in self.labels]
                self.labels |= dict.fromkeys(event["failed"])
                labels = zip(event["energies"], event["forces"], strict=True)
                self.labels |= dict(zip(event["rows"], labels, strict=True))
                self.failed = (self.failed | {*event["failed"]}) - {*event["rows"]}
                self.told += len(event["rows"])
            case "fitted":
                errors = None if event["errors"] is None else Errors(*event["errors"])
                self.fits = (*self.fits, Fitted(event["labels"], event["told"], errors))

    @property
    def labelled(self) -> list[int]:
        return [row for row, label in self.labels.items() if label is not None]

    @property
    def pending(self) -> list[int]:
        return [row for row, label in self.labels.items() if label is None and row not in self.failed]


def candidates_of(
    pool: Trajectory,
    available: Bool[Tensor, " N"] | None,
    density: Float[Tensor, " N"] | None,
    device: str | None,
    say: Say,
) -> Candidates:
    """The configurations that may be asked for, with their density and the symmetries that they show."""
    for name, part in (("available", available), ("density", density)):
        if part is not None and part.shape != (len(pool),):
            raise ValueError(f"{name} must be one value per configuration, ({len(pool)},), got {tuple(part.shape)}")
    rows = torch.arange(len(pool)) if available is None else available.nonzero()[:, 0]
    if len(rows) < LEAST_LABELS:
        raise ValueError(f"at least {LEAST_LABELS} configurations are needed to choose from, got {len(rows)}")
    say(f"looking for symmetries of {len(rows)} configurations")
    permutations = permutation_group(pool.R[rows], pool.species)
    if density is not None:
        return Candidates(rows, density[rows].cpu().clone(), permutations)
    values = descriptors(pool.R[rows], device)
    p_X = configuration_density(values, values, permutations.to(values.device), on_status=say)
    return Candidates(rows, p_X.cpu(), permutations)


def descriptors(R: Positions, device: str | None) -> Descriptors:
    """Phi of many configurations, on a device."""
    parts = R.to(resolve_device(device)).split(CHECKED_TOGETHER)
    return torch.cat([describe(part).values for part in parts])


# Folders.


def about_pool(pool: Trajectory) -> dict[str, Any]:
    """What a pool is known by."""
    content = (pool.species.numpy().tobytes(), pool.R.contiguous().numpy().tobytes())
    fingerprint = hashlib.sha256(b"".join(content)).hexdigest()
    return {"sha256": fingerprint, "n": len(pool), "species": pool.species.tolist(), "source": pool.source}


def check_vacant(folder: Path) -> None:
    """Refuse a folder in use before the work, and one whose files are somebody else's."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    strange = sorted(name for name in names - LEFT_BY_CREATION if not name.startswith("."))
    if "header.json" in names or (folder.exists() and not folder.is_dir()):
        raise FileExistsError(f"{folder} is a file or holds a campaign already; open that or choose another folder")
    if strange:
        raise FileExistsError(f"{folder} holds {strange[0]} and is no campaign; choose a folder that is new or empty")


def check_header(campaign: Campaign, pool: Trajectory) -> None:
    """Refuse another kind of campaign, and another pool."""
    header = campaign.header
    if header.get("kind") != KIND:
        raise ValueError(f"{campaign.path} holds a campaign, but not one of a force field; choose another folder")
    ours, begun = about_pool(pool), header["pool"]
    if ours["sha256"] != begun["sha256"]:
        raise ValueError(
            f"{pool.source} is not the pool that campaign {campaign.path} was begun with: that was {begun['source']}, "
            f"{begun['n']} configurations of atoms {begun['species']}, this has {ours['n']} of {ours['species']}"
            f"{', at other positions' if ours['n'] == begun['n'] else ''}; choose another folder for another pool"
        )


def restored(defaults: Settings, entries: dict[str, Any]) -> Settings:
    """Settings that were written as JSON: lists are tuples again, and settings within settings what they were."""
    values: dict[str, Any] = {each.name: entries[each.name] for each in fields(defaults) if each.name in entries}
    for name, value in values.items():
        if is_dataclass(getattr(defaults, name)):
            values[name] = ForceFieldSettings.from_fields(value)
        elif isinstance(value, list):
            values[name] = tuple(value)
    return replace(defaults, **values)
