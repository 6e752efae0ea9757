"""A learner's campaign as files: the candidates it chooses from, and what every step leaves to the next."""

import copy
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from lobal.active.campaign.folder import Campaign
from lobal.active.campaign.ledger import Event
from lobal.active.designs import Candidates, candidates_from, candidates_tensors
from lobal.active.settings import Validation
from lobal.active.spaces import Pool
from lobal.core.files import load_record
from lobal.mixture.estimator import MixtureRegressor, NoiseFunction

logger = logging.getLogger(__name__)

CANDIDATES_FILE = "candidates.lobal"
# Of a larger pool, the densities of the last two steps are kept and not of all: a step takes 16 bytes a candidate.
LARGEST_KEPT_POOL = 2**20


@final
@dataclass(frozen=True, kw_only=True)
class StepState:
    """What a step leaves to the next, and the model that it came from; none before there is one."""

    number: int
    density: Float[Tensor, " N"]  # p_{k+1}
    complexity: Float[Tensor, " N"] | None  # LFC
    model: MixtureRegressor | None

    def keep(self, campaign: Campaign) -> None:
        """Write it down, in place of what a crash may have left of the same step."""
        campaign.save_step(self.number, self.tensors(), {})
        self.keep_model(campaign)
        if len(self.density) > LARGEST_KEPT_POOL:
            # Not the step before: until this one is in the journal, the campaign goes on from that.
            campaign.remove_step(self.number - 2)

    def keep_model(self, campaign: Campaign) -> None:
        """Write the model by itself."""
        if self.model is None:
            return
        model = copy.copy(self.model)
        if callable(model.noise):
            model.noise = None  # a function is no data; whoever loads the campaign is asked for it
        model.save(_model_path(campaign, self.number))

    def tensors(self) -> dict[str, Tensor]:
        """The densities by name."""
        return {"density": self.density} | ({} if self.complexity is None else {"complexity": self.complexity})


class Stored(NamedTuple):
    """What a campaign was begun with."""

    settings: dict[str, Any]
    candidates: Candidates
    validation: Validation | None


def create_campaign(
    path: str | os.PathLike[str], begun: Stored, events: Sequence[Event], last: StepState | None
) -> Campaign:
    """A folder with all that has happened so far; whole, or no campaign at all."""
    tensors, memory_mapped = candidates_tensors(begun.candidates)
    if begun.validation is not None:
        X, y = (torch.tensor(part, dtype=torch.float64) for part in begun.validation)
        tensors |= {"validation.X": X, "validation.y": y}
    records = {CANDIDATES_FILE: tensors}
    if last is not None:
        records[f"steps/{last.number:04d}.lobal"] = last.tensors()
    header = {"settings": begun.settings, "memory_mapped": memory_mapped}
    campaign = Campaign.create(path, header, records=records, events=events)
    try:
        if last is not None:
            last.keep_model(campaign)
    except BaseException:
        campaign.close()
        raise
    return campaign


def begun_with(campaign: Campaign, pool: Pool | None) -> Stored:
    """What `create_campaign` was given; with the inputs of the pool, where one is given because its file was moved."""
    tensors, _ = load_record(campaign.path / CANDIDATES_FILE)
    validation = (
        (tensors["validation.X"].numpy(), tensors["validation.y"].numpy()) if "validation.X" in tensors else None
    )
    return Stored(
        # Campaigns of earlier versions do not have all of them.
        settings={"functions": [], "shrink_inducing": False, **campaign.header["settings"]},
        candidates=candidates_from(tensors, campaign.header["memory_mapped"], pool),
        validation=validation,
    )


def restored_model(
    settings: dict[str, Any], noise: NoiseFunction | None, *, is_needed: bool = True
) -> MixtureRegressor:
    """The model whose options every fit takes, with the function that could not be kept.

    Raises:
        ValueError: the function is needed and not given, or given where the noise was none.
    """
    model = MixtureRegressor(**settings["model"])
    was_function = "noise" in settings["functions"]
    if noise is not None and not was_function:
        raise ValueError(
            f"the campaign goes on with the noise it was begun with, {model.noise!r} (None is learned); leave noise out"
        )
    if noise is None and was_function:
        if is_needed:
            raise ValueError(
                "the campaign's model was given a function as its noise, which cannot be kept; give it again: "
                "ActiveLearner.load(path, noise=function)"
            )
        logger.warning("the campaign's noise was a function, which is not given: a constant noise is learned instead")
    return model if noise is None else model.set_params(noise=noise)


def model_of_last_step(campaign: Campaign, options: MixtureRegressor) -> MixtureRegressor | None:
    """The model that the last step came from, if it is still that of all labels: none has come since.

    None also if its file cannot be read, as after a change of versions: the model can be fitted again.
    """
    kinds = [event["event"] for event in campaign.events]
    since = kinds[::-1].index("asked") if "asked" in kinds else len(kinds)
    path = _model_path(campaign, kinds.count("asked") - 1)
    if "told" in kinds[len(kinds) - since :] or not path.exists():
        return None
    try:
        model = MixtureRegressor.load(path, device=options.device)
    except (ValueError, KeyError, TypeError) as error:
        logger.warning("%s cannot be read and is fitted again: %r", path, error)
        return None
    model.noise = options.noise
    return model


def _model_path(campaign: Campaign, number: int) -> Path:
    return campaign.path / "steps" / f"{number:04d}.model"


def left_by(campaign: Campaign, number: int) -> StepState:
    """What a step left to the next; its model stays in its file."""
    tensors, _ = campaign.load_step(number)
    return StepState(number=number, density=tensors["density"], complexity=tensors.get("complexity"), model=None)
