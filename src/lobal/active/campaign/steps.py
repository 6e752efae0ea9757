"""What a campaign was begun with, and what every step leaves to the next, as files in its folder."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lobal.active.campaign.folder import CURRENT_FORMAT, HEADER, JOURNAL, Campaign, pool_name, step_name
from lobal.active.campaign.ledger import Event
from lobal.active.candidates import Candidates
from lobal.active.settings import LearnerSettings
from lobal.active.surrogate import FittedSurrogate, NoiseFunction, Surrogate, Validation
from lobal.core.files import load_record
from lobal.core.schema import FINITE, anything, read_from, table, text, whole
from lobal.core.stored_tensors import StoredTensors

logger = logging.getLogger(__name__)

# What every header of the present format has; kinds check the rest.
KIND = table({"kind": text()})
ENTRIES = table({"settings": table({}, seed=whole(0, 2**64 - 1)), "candidates": KIND, "surrogate": KIND})
FIRST_FORMAT = table({"settings": table({"model": table({})}), "memory_mapped": anything})
WHAT = "the header of a campaign"
NAMED_KINDS = 2  # the first format whose header names the kinds of candidates and surrogate
CANDIDATES_FILE = "candidates.lobal"
MODEL = "model"  # suffix of the files of models
# Of what steps leave, so many are kept, and no more than so many densities at candidates, 8 bytes each and as many of
# the complexity; but two in any case.
MOST_KEPT, KEPT_NUMBERS = 32, 2**20
# The kinds that a header may name; nothing else that a file names is ever imported. Molecules and baselines stand in
# higher rooms: they are imported when a campaign of theirs is opened.
CANDIDATES = {
    "array": "lobal.active.candidates:ArrayCandidates",
    "search_space": "lobal.active.search_candidates:SearchCandidates",
    "molecules": "lobal.molecules.space:MolecularCandidates",
}
SURROGATES = {
    "outputs": "lobal.active.output_surrogate:OutputSurrogate",
    "mixture": "lobal.active.mixture_surrogate:MixtureSurrogate",
    "force_field": "lobal.molecules.surrogate:ForceFieldSurrogate",
    "local_polynomials": "lobal.baselines.local_polynomial:LocalPolynomials",
}
# Campaigns of format 1 that name their kind: a function of header, events and folder that returns both as format 2.
EARLIER = {"force field campaign": "lobal.molecules.earlier_campaigns:upgraded"}


@final
@dataclass(frozen=True, kw_only=True)
class StepState:
    """What a step leaves to the next, and the model that it came from; none before there is one."""

    number: int
    density: Float[Tensor, " N"]  # p_{k+1}
    complexity: Float[Tensor, " N"] | None  # LFC
    kept: Mapping[str, Tensor] = field(default_factory=dict)  # of the surrogate, for later fits
    fitted: FittedSurrogate | None = None

    def save(self, campaign: Campaign, *, keep_models: bool) -> None:
        """Write it, in place of what a crash may have left of the same step; of the models, the last two are kept."""
        campaign.save_step(self.number, self.tensors(), keep=n_kept(len(self.density)))
        self.save_model(campaign)
        if not keep_models:
            campaign.step_path(self.number - 2, MODEL).unlink(missing_ok=True)

    def save_model(self, campaign: Campaign) -> None:
        """Write the model by itself."""
        path = campaign.step_path(self.number, MODEL)
        if self.fitted is not None:
            self.fitted.save(path)
        elif path.exists():  # of a step of this number that was undone
            path.unlink()

    def tensors(self) -> dict[str, Tensor]:
        """Densities and kept tensors by name."""
        return {"density": self.density, **self.kept} | (
            {} if self.complexity is None else {"complexity": self.complexity}
        )

    @staticmethod
    def load(campaign: Campaign, number: int, n_candidates: int) -> "StepState":
        """What a step left to the next; its model stays in its file."""
        tensors = campaign.load_step(number)
        stored = StoredTensors(tensors, N=n_candidates)
        if not (stored.real("density", "N", least=0.0, most=FINITE) > 0).any():
            raise ValueError("density must be above zero somewhere, got zeros only")
        if "complexity" in stored:
            stored.real("complexity", "N", least=0.0, most=FINITE)
        return StepState(
            number=number, density=tensors.pop("density"), complexity=tensors.pop("complexity", None), kept=tensors
        )


def n_kept(n_candidates: int) -> int:
    """How many of the last steps are kept, to be undone."""
    return min(MOST_KEPT, max(2, KEPT_NUMBERS // n_candidates))


class Setup(NamedTuple):
    """What a campaign is begun with."""

    settings: LearnerSettings
    surrogate: Surrogate
    candidates: Candidates
    validation: Validation | None


def create_campaign(
    path: str | os.PathLike[str],
    setup: Setup,
    events: Sequence[Event],
    left: Sequence[StepState],
    grown: tuple[int, Candidates] | None = None,  # candidates after the last growth, and its number
) -> Campaign:
    """A folder with all that has happened so far and what the last steps left; whole, or no campaign at all."""
    tensors, fields = setup.candidates.to_tensors()
    if setup.validation is not None:
        parts = {name: part for name, part in setup.validation._asdict().items() if part is not None}
        tensors |= {f"validation.{name}": torch.tensor(part, dtype=torch.float64) for name, part in parts.items()}
    records = {CANDIDATES_FILE: tensors, **{step_name(step.number): step.tensors() for step in left}}
    records |= {} if grown is None else {pool_name(grown[0]): grown[1].to_tensors()[0]}
    header = {
        "settings": setup.settings.to_fields(),
        "candidates": {"kind": setup.candidates.kind, **fields},
        "surrogate": {"kind": setup.surrogate.kind, **setup.surrogate.to_settings()},
    }
    campaign = Campaign.create(path, header, records=records, events=events)
    setup.surrogate.use_folder(campaign.path, read_only=False)
    try:
        if left:
            left[-1].save_model(campaign)
    except BaseException:
        campaign.close()
        raise
    return campaign


def opened_setup(
    campaign: Campaign,
    space: Any,  # noqa: ANN401 - a Space
    noise: NoiseFunction | None,
    device: str | None = None,
) -> tuple[Setup, list[Event]]:
    """What the campaign was begun with, and its events, both in the present format.

    The space has the inputs of candidates that were not saved with the campaign. `noise` is the function that the
    surrogate was given as its noise, if it was; a campaign that is only looked at does without it. On another device
    than before, if one is named.
    """
    header, events = checked_header(campaign)
    file = campaign.path / header.get("candidates_file", CANDIDATES_FILE)
    tensors, kind = _candidates_record(file), resolved(CANDIDATES, header["candidates"]["kind"])
    with read_from(file, "the candidates of the campaign"):
        kind.check_tensors(StoredTensors(tensors), header["candidates"])
    candidates: Candidates = kind.from_tensors(tensors, header["candidates"], space)
    surrogate = _surrogate(campaign, header["surrogate"], noise, candidates.n_inputs)
    if device is not None:
        surrogate.use_device(str(device) if isinstance(device, torch.device) else device)
    surrogate.use_folder(campaign.path, read_only=not campaign.is_writable)
    parts = {
        name: tensors[f"validation.{name}"].numpy() for name in Validation._fields if f"validation.{name}" in tensors
    }
    validation = Validation(**parts) if parts else None
    return Setup(LearnerSettings.from_fields(header["settings"]), surrogate, candidates, validation), events


def checked_header(campaign: Campaign) -> tuple[dict[str, Any], list[Event]]:
    """Header and events in the present format; every entry of the header is what it must be, but for the surrogate's.

    Raises:
        ValueError: names the file and the entry, what was expected and what was got.
    """
    header, events = upgraded(campaign.header, campaign.events, campaign.path)
    with read_from(campaign.path / HEADER, WHAT):
        ENTRIES(header, "header")
        resolved(CANDIDATES, header["candidates"]["kind"]).check_fields(header["candidates"])
        LearnerSettings.from_fields(header["settings"])
    return header, events


def _surrogate(
    campaign: Campaign, settings: Mapping[str, Any], noise: NoiseFunction | None, n_inputs: int
) -> Surrogate:
    with read_from(campaign.path / HEADER, WHAT):
        kind = resolved(SURROGATES, settings["kind"])
        kind.check_settings(settings, n_inputs)
    if settings.get("functions") and noise is None and not campaign.is_writable:
        logger.warning("the campaign's noise was a function, which is not given: a constant noise is learned")
        settings = {**settings, "functions": []}
    surrogate: Surrogate = kind.from_settings(settings, noise=noise)
    return surrogate


def _candidates_record(path: Path) -> dict[str, Tensor]:
    """The tensors of the candidates, which nothing else has."""
    try:
        return load_record(path)[0]
    except (FileNotFoundError, ValueError) as error:
        raise ValueError(
            f"{path}, the candidates of the campaign, cannot be read: {error}; restore it from a copy (the labels are "
            f"in {JOURNAL}, by number)"
        ) from error


def has_label_since(events: Sequence[Event]) -> bool:
    """Whether labels have come since the last step; before the first, whether there are any."""
    since = takewhile(lambda event: event["event"] != "asked", reversed(events))
    return any(event["event"] == "told" for event in since)


def model_of_last_step(
    campaign: Campaign, events: Sequence[Event], surrogate: Surrogate, candidates: Candidates
) -> FittedSurrogate | None:
    """The model that the last step came from, if no label has come since.

    None also if its file cannot be read, as after a change of versions, or is one of other inputs: the model can be
    fitted again.
    """
    path = campaign.step_path(sum(event["event"] == "asked" for event in events) - 1, MODEL)
    if has_label_since(events) or not path.exists():
        return None
    try:
        fitted, some = surrogate.load(path), candidates.inputs_at(torch.zeros(1, dtype=torch.long))
        # Outputs with too few labels are not predicted.
        if not (np.isfinite(fitted.predict(some)).any() and np.isfinite(fitted.local_bandwidth(some)).all()):
            raise ValueError("it predicts NaN")
        return fitted
    except (ValueError, KeyError, TypeError) as error:
        logger.warning("%s cannot be read and is fitted again: %r", path, error)
        return None


def resolved(table: Mapping[str, str], kind: object) -> Any:  # noqa: ANN401 - a class or a function
    """What the table names under this kind, imported."""
    if not isinstance(kind, str) or kind not in table:
        raise ValueError(f"kind must be one of {sorted(table)}, got {kind!r}")
    module, _, name = table[kind].partition(":")
    return getattr(import_module(module), name)


def upgraded(
    header: Mapping[str, Any], events: list[dict[str, Any]], folder: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and events of any format as those of the current one."""
    if header["format"] >= NAMED_KINDS:
        # Nothing but an upgrade says which file has the candidates.
        return {name: value for name, value in header.items() if name != "candidates_file"}, events
    with read_from(folder / HEADER, WHAT):
        if "kind" not in header:
            FIRST_FORMAT(header, "header")
            return _from_first_format(header), events
        upgrade = resolved(EARLIER, header["kind"])
    earlier: tuple[dict[str, Any], list[dict[str, Any]]] = upgrade(header, events, folder)
    return earlier


def _from_first_format(header: Mapping[str, Any]) -> dict[str, Any]:
    settings = {"functions": [], "shrink_inducing": False, **header["settings"]}
    rest = {name: settings.pop(name) for name in ("functions", "shrink_inducing")}
    return {
        "format": CURRENT_FORMAT,
        "candidates": {"kind": "array", "memory_mapped": header["memory_mapped"]},
        "surrogate": {"kind": "mixture", "options": settings.pop("model"), **rest},
        "settings": settings,
    }
