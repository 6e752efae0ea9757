"""Active learning of a force field: which configurations of a pool to label next (Sec. 4.2 and 5.2).

A campaign asks for rows of the pool and is told their energies and forces. Labels are on disk, where there is a folder,
before anything else happens, and everything random at step k is seeded by the campaign's seed and k: killed at any
instant and gone on with, it asks for the same rows.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from lobal.active.approach import NextDensity, next_density, with_exploration
from lobal.active.campaign.folder import Campaign
from lobal.active.campaign.history import History, Step
from lobal.active.campaign.ledger import Event
from lobal.active.designs import draw_random
from lobal.core import complexity as formulas
from lobal.core.density import normalised
from lobal.core.files import load_record
from lobal.molecules.campaign_record import (
    KIND,
    LEAST_LABELS,
    MODEL,
    POOL,
    CampaignSettings,
    Candidates,
    Fitted,
    Ledger,
    Left,
    Say,
    about_pool,
    candidates_of,
    check_header,
    check_vacant,
    descriptors,
    restored,
)
from lobal.molecules.density import configuration_density, density_of_tests, error_weights, initial_weights
from lobal.molecules.field.evaluation import errors_on
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.geometry.trajectory import Trajectory

logger = logging.getLogger(__name__)
Fit: TypeAlias = Callable[..., ForceField]  # called as `fit_force_field` is

LAST = 1e-12  # weight of configurations that come when no others are left, relative to the largest
DRAW, FIT = 0, 1  # what a seed is for


@final
class ForceFieldCampaign:
    """Decides which configurations of a pool to label next; made by `create` or `open`.

    Densities and complexities are at the configurations that may be asked for, whose rows are `candidates`.
    """

    def __init__(self, pool: Trajectory, candidates: Candidates, settings: CampaignSettings) -> None:
        self.pool, self.settings = pool, settings
        self.candidates, self.pool_density, self._permutations = candidates
        q = density_of_tests(settings.test_density, self.pool_density)
        p_0 = self.pool_density * initial_weights(self.pool_density, q)  # q^(1/2)
        self.test_density = normalised(q, self.pool_density)
        self.validation: Trajectory | None = None
        self.say: Say = logger.info
        self._fit: Fit = fit_force_field
        self._campaign: Campaign | None = None
        self._ledger = Ledger()
        self._left = Left(normalised(p_0, self.pool_density))
        self._place = {row: place for place, row in enumerate(self.candidates.tolist())}
        # What has been found out about the labels so far.
        self._model: ForceField | None = None
        self._bandwidth: Float[Tensor, " M"] | None = None
        self._density: Float[Tensor, " M"] | None = None
        self._weighed: tuple[Trajectory, Float[ndarray, " n"]] | None = None  # validation configurations

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str] | None,
        pool: Trajectory,
        settings: CampaignSettings = CampaignSettings(),  # noqa: B008 - frozen
        *,
        available: Bool[Tensor, " N"] | None = None,
        density: Float[Tensor, " N"] | None = None,
        validation: Trajectory | None = None,
        fit: Fit = fit_force_field,
        say: Say = logger.info,
    ) -> "ForceFieldCampaign":
        """A new campaign, kept in a folder or, without one, in memory.

        Args:
            folder: a new one, or one that is empty.
            pool: all configurations; labels that it may have are not looked at.
            settings: how configurations are chosen and learned from, and on which device.
            available: which configurations may be asked for; by default all.
            density: p_X, if it is known already; estimating it takes minutes for 100,000 configurations.
            validation: labelled configurations that errors are reported at, and that are used for nothing else. They
                follow p_X; where q is another density they are weighed.
            fit: how a force field comes of labels.
            say: hears what is going on.
        """
        if folder is not None:
            check_vacant(Path(folder))
        candidates = candidates_of(pool, available, density, settings.field.device, say)
        made = cls(pool, candidates, settings)
        made._fit, made.validation, made.say = fit, validation, say
        if folder is not None:
            header = {"kind": KIND, "pool": about_pool(pool), "settings": asdict(settings)}
            made._campaign = Campaign.create(folder, header, records={POOL: candidates._asdict()})
        return made

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        pool: Trajectory,
        *,
        device: str | None = None,
        validation: Trajectory | None = None,
        fit: Fit = fit_force_field,
        say: Say = logger.info,
    ) -> "ForceFieldCampaign":
        """The campaign of a folder as it was after its last event, on the device it began on or on another.

        Raises:
            ValueError: the folder holds something else, or the campaign has another pool.
            BlockingIOError: it is in use already.
        """
        campaign = Campaign.open(folder)
        try:
            check_header(campaign, pool)
            candidates = Candidates(**load_record(campaign.path / POOL)[0])
            settings = restored(CampaignSettings(), campaign.header["settings"])
            field = settings.field if device is None else replace(settings.field, device=device)
            opened = cls(pool, candidates, replace(settings, field=field))
            opened._fit, opened.validation, opened.say = fit, validation, say
            opened._go_on_with(campaign)
        except BaseException:
            campaign.close()
            raise
        return opened

    # Asking and telling.

    def ask(self, b: int) -> Int[ndarray, " b"]:
        """The rows of the next b configurations to label: one pass through the loop of Algorithm 1.

        They are pending until they are told; whoever asks again before that gets others, chosen as if the pending ones
        were labelled.
        """
        left = len(self.candidates) - len(self._ledger.labels)
        if not 1 <= b <= left:
            raise ValueError(f"{b} configurations are asked for, and {left} of {len(self.candidates)} are left")
        following = self._following(b) if len(self._ledger.labelled) >= LEAST_LABELS else None
        weights = self._weights(self.density if following is None else following.proposal, b)
        rows = self.candidates[draw_random(weights, self.candidates.numpy()[:, None], b, generator=self._seeded(DRAW))]
        errors = self.fits[-1].errors if following is not None else None
        step = Step(
            number=len(self.history),
            size=self.size,
            batch=b,
            indices=tuple(rows.tolist()),
            gamma_1=None if following is None else following.gamma_1,
            gamma_2=None if following is None else following.gamma_2,
            validation_error=None if errors is None else errors.force_rmse,
            noise=None,
            attainable=None,
        )
        after = Left(self.density, self._left.shared)
        if following is not None:
            after = Left(following.density, self._kept_bandwidth())
        if self._campaign is not None:
            self._campaign.save_step(step.number, {k: v for k, v in after._asdict().items() if v is not None}, {})
        self._note({"event": "asked", "step": step.to_fields()})
        self._left, self._density = after, None
        return rows.numpy()

    def tell(self, rows: Any, energies: Any, forces: Any) -> None:  # noqa: ANN401 - array-likes of any kind are welcome
        """Take energies (m,) in eV and forces (m, N, 3) in eV / Angstrom of m rows, in any order and number.

        What is not finite failed: it is neither learned from nor asked for again. Rows that nobody asked for are
        welcome. A row that is told again has the new label from then on, unless that failed.
        """
        numbers = self._checked_rows(rows)
        E, F = (np.asarray(part, dtype=np.float64) for part in (energies, forces))
        shape = (len(numbers), *self.pool.R.shape[1:])
        if E.shape != shape[:1] or F.shape != shape:
            raise ValueError(f"energies must have shape {shape[:1]} and forces {shape}, got {E.shape} and {F.shape}")
        finite = (np.isfinite(E) & np.isfinite(F).all((1, 2))).tolist()
        labels = dict(zip(numbers, zip(E.tolist(), F.tolist(), strict=True), strict=True))
        known = self._ledger.labels
        new = [row for row, is_good in zip(numbers, finite, strict=True) if is_good and known.get(row) != labels[row]]
        failed = [row for row, is_good in zip(numbers, finite, strict=True) if not is_good and known.get(row) is None]
        failed = [row for row in failed if row not in self._ledger.failed]
        if new or failed:
            columns = {"energies": [labels[row][0] for row in new], "forces": [labels[row][1] for row in new]}
            self._note({"event": "told", "rows": new, **columns, "failed": failed})
            self._density = None
        if new:
            self._model = self._bandwidth = None

    def fit(self) -> ForceField:
        """The force field of all labels so far; in a folder, it is in `model.lobal` too."""
        if self._model is not None:
            return self._model
        learned = self.labelled
        if len(learned) < LEAST_LABELS:
            raise ValueError(f"a force field needs {LEAST_LABELS} labels, there are {len(learned)}; tell more")
        shared, generator = self._left.shared, self._seeded(FIT)
        model = self._fit(
            learned,
            self.settings.field,
            shared_bandwidth=shared,
            permutations=self._permutations,
            generator=generator,
            on_status=self.say,
        )
        errors = None if self.validation is None else errors_on(model, self.validation, self._validation_weight)
        if self._campaign is not None:
            model.save(self._campaign.path / MODEL)
        self._note({"event": "fitted", "labels": len(learned), "told": self._ledger.told, "errors": errors})
        self._model = model
        return model

    # What is known.

    @property
    def history(self) -> History:
        """The steps so far, candidates by their rows in the pool; the validation error is the forces' RMSE."""
        return self._ledger.history

    @property
    def fits(self) -> tuple[Fitted, ...]:
        """The fits so far, whether a step came of them or not."""
        return self._ledger.fits

    @property
    def size(self) -> int:
        """Configurations that have a label or will have one."""
        return len(self._ledger.labels) - len(self._ledger.failed)

    @property
    def pending(self) -> Int[ndarray, " n"]:
        """Rows asked for whose labels are still to come."""
        return np.array(self._ledger.pending, dtype=np.int64)

    @property
    def failed(self) -> Int[ndarray, " n"]:
        """Rows that have no label and will have none."""
        return np.array(sorted(self._ledger.failed), dtype=np.int64)

    @property
    def labelled(self) -> Trajectory:
        """All configurations with a label, in the order they were asked for."""
        rows = torch.tensor(self._ledger.labelled, dtype=torch.long)
        labels = [label for label in self._ledger.labels.values() if label is not None]
        energies, forces = (torch.tensor([each[i] for each in labels], dtype=torch.float64) for i in (0, 1))
        chosen = replace(self.pool, energies=None, forces=None).at(rows)
        return replace(chosen, energies=energies, forces=forces.reshape(chosen.R.shape), row=rows)

    @property
    def density(self) -> Float[Tensor, " M"]:
        """p_k: what the configurations follow that were asked for or told, at equal norm with p_X."""
        if self._density is None:
            b, total = len(self._ledger.added), len(self._ledger.labels)
            p = self._left.density
            self._density = p if b == 0 else ((total - b) * p + b * self._density_of(self._ledger.added)) / total
        return self._density

    @property
    def complexity(self) -> Float[Tensor, " M"]:
        """LFC up to a constant factor, Eq. (eq:approxLFC), by the force field of all labels so far."""
        if self._bandwidth is None:
            field = self.fit()
            self.say(f"local bandwidths of {len(self.candidates)} configurations")
            self._bandwidth = torch.from_numpy(field.local_bandwidth(self.pool.R[self.candidates]))
        density = self.density.clamp_min(torch.finfo(self.density.dtype).tiny)
        return formulas.local_complexity(self._bandwidth, density, **self._orders)

    def superior_density(self) -> Float[Tensor, " M"]:
        """The superior training density for labels without noise, Eq. (eq:approxPOpt), at equal norm with p_X."""
        noise = torch.ones_like(self.test_density)
        p_sup = formulas.superior_density(self.complexity, self.test_density, noise, **self._orders)
        return normalised(p_sup, self.pool_density)

    def close(self) -> None:
        """Let go of the folder, so that another process may open it."""
        if self._campaign is not None:
            self._campaign.close()

    def __enter__(self) -> "ForceFieldCampaign":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # One step.

    @property
    def _orders(self) -> dict[str, float]:
        return {"smoothness": self.settings.smoothness, "dimension": self.settings.dimension}

    def _seeded(self, purpose: int) -> torch.Generator:
        sequence = np.random.SeedSequence([self.settings.seed, len(self.history), purpose])
        return torch.Generator().manual_seed(int(sequence.generate_state(1)[0]))

    def _kept_bandwidth(self) -> Float[Tensor, " D"] | None:
        """Sigma_E, once it was trained with as many configurations as it is meant to be; until then it is anew."""
        is_trained = len(self._ledger.labelled) >= 2 * self.settings.field.anisotropy_size
        return self.fit().kernel.shared_bandwidth.detach().cpu().clone() if is_trained else None

    @property
    def _validation_weight(self) -> Float[ndarray, " n"] | None:
        """q / p_X, by which errors are those under q; none where validation configurations follow q as they are."""
        if self.validation is None or self.settings.test_density == "pool":
            return None
        if self._weighed is not None and self._weighed[0] is self.validation:
            return self._weighed[1]
        at, of = (descriptors(R, self.settings.field.device) for R in (self.validation.R, self.pool.R[self.candidates]))
        self.say(f"density of {len(at)} configurations that errors are reported at")
        # Each counts itself, as configurations of the pool do.
        density = 1.0 + configuration_density(at, of, self._permutations.to(of.device), on_status=self.say)
        self._weighed = self.validation, error_weights(self.settings.test_density, density.cpu()).numpy()
        return self._weighed[1]

    def _following(self, b: int) -> NextDensity:
        """p_k+1 for b more configurations, and the density to draw them from."""
        target = with_exploration(self.superior_density(), self.test_density, self.settings.exploration)
        return next_density(self.density, target, self.pool_density, n=len(self._ledger.labels), b=b)

    def _weights(self, proposal: Float[Tensor, " M"], b: int) -> Float[Tensor, " M"]:
        """Importance weights, none of rows that have been drawn; those not proposed come when no others are left."""
        used = torch.tensor([self._place[row] for row in self._ledger.labels], dtype=torch.long)
        weights = (proposal / self.pool_density).index_fill(0, used, 0.0)
        if int((weights > 0).sum()) < b:
            weights = weights.clamp_min(LAST * max(1.0, weights.max().item())).index_fill(0, used, 0.0)
        return weights

    def _density_of(self, rows: list[int]) -> Float[Tensor, " M"]:
        """The density of configurations nobody asked for: estimated, or taken to be the test density if few."""
        if len(rows) < LEAST_LABELS:
            return self.test_density
        at, of = (
            descriptors(self.pool.R[part], self.settings.field.device) for part in (self.candidates, torch.tensor(rows))
        )
        estimate = configuration_density(at, of, self._permutations.to(of.device), on_status=self.say)
        return normalised(estimate.cpu(), self.pool_density)

    def _checked_rows(self, rows: Any) -> list[int]:  # noqa: ANN401 - array-likes of any kind
        numbers: list[Any] = np.asarray(rows).tolist() if np.ndim(rows) == 1 else [None]
        if any(row not in self._place for row in numbers):
            raise ValueError(
                f"rows are numbers of those {len(self.candidates)} of the pool's {len(self.pool)} configurations that "
                f"may be asked for, got {rows!r}"
            )
        if len({*numbers}) < len(numbers):
            raise ValueError(f"a row can be told once at a time, got {rows!r}")
        return [int(row) for row in numbers]

    # Events.

    def _note(self, event: Event) -> None:
        """An event: on disk first, then in force."""
        if self._campaign is not None:
            self._campaign.append(event)
        self._ledger.apply(event)

    def _go_on_with(self, campaign: Campaign) -> None:
        for event in campaign.events:
            self._ledger.apply(event)
        self._campaign = campaign
        if len(self.history) > 0:
            self._left = Left(**campaign.load_step(len(self.history) - 1)[0])
        if self.fits and self.fits[-1].told == self._ledger.told:
            try:
                self._model = ForceField.load(campaign.path / MODEL, self.settings.field.device)
            except (ValueError, OSError) as error:
                logger.warning("%s cannot be read and is fitted again: %s", campaign.path / MODEL, error)
