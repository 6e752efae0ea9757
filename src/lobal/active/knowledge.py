"""What follows from the labels of a campaign: the fitted model, its scores, weights of the labels."""

from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.campaign.state import SMALLEST_TRAINING_SET, CampaignState
from lobal.active.draws import EVEN, FOLLOWING
from lobal.active.expected_savings import ExpectedSavings, savings_from
from lobal.active.extreme_labels import sentence_of_extreme_labels
from lobal.active.next_density import NextDensity, next_density, with_exploration
from lobal.active.scoring import Scores, evaluated, per_cost, positive, scores_from
from lobal.active.spread import shape_of, spread_density
from lobal.active.surrogate import FitTask, FittedSurrogate
from lobal.core.comparison import best_of
from lobal.core.density import importance_weights, norm, normalised
from lobal.core.superior_density import learning_rate
from lobal.core.units import ordinary

TRUSTS = (0.0, 0.5, 1.0)  # what is compared; a campaign begins with the first


@final
class Knowledge:
    """What follows from the labels so far, each computed once, when it is first asked for.

    New labels make all of it out of date; points that are only drawn or expected change the density alone.
    """

    def __init__(self, state: CampaignState, fitted: FittedSurrogate | None = None) -> None:
        self._state = state
        self._revision = state.revision
        self._fitted = fitted
        self._evaluated: tuple[Tensor, Tensor] | None = None
        self._squared: Float[ndarray, " n"] | None = None  # errors of the labels

    def now(self) -> "Knowledge":
        """This, or what is left of it after what has happened since."""
        now = self._state.revision
        if now == self._revision:
            return self
        if now.told != self._revision.told:
            return Knowledge(self._state)
        return self._under_new_density() if now.grown == self._revision.grown else Knowledge(self._state, self._fitted)

    def _under_new_density(self) -> "Knowledge":
        """The same model, and what it says at the candidates, under another training density."""
        changed = Knowledge(self._state, self._fitted)
        changed._evaluated, changed._squared = self._evaluated, self._squared
        return changed

    @property
    def fitted(self) -> FittedSurrogate | None:
        """f_MoE trained on (X_nk, Y_nk); none while labels are too few."""
        if self._fitted is None and self._has_enough_labels:
            try:
                self._fitted = self._state.setup.surrogate.fit(self._task())
            except ValueError as error:
                reason = sentence_of_extreme_labels(self._state)
                if reason is None:
                    raise
                raise ValueError(reason) from error
        return self._fitted

    @property
    def _has_enough_labels(self) -> bool:
        ledger = self._state.ledger
        return ledger.n_labels >= SMALLEST_TRAINING_SET and self._state.setup.surrogate.is_enough(ledger.labelled()[1])

    @cached_property
    def scores(self) -> Scores:
        """What the model says about the candidates."""
        if self.fitted is None:
            raise ValueError(
                f"need {SMALLEST_TRAINING_SET} labels to know the complexity, have {self._state.ledger.n_labels}; "
                "call ask() and tell()"
            )
        if self._evaluated is None:
            self._evaluated = evaluated(self.fitted, self._state.candidates)
        settings = self._state.setup.settings
        return scores_from(
            *self._evaluated,
            self._state.density,
            self._state.candidates,
            smoothness=settings.smoothness,
            dimension=settings.dimension,
            is_noise_in_bandwidth=self.fitted.is_noise_in_bandwidth,
        )

    @property
    def superior(self) -> Float[Tensor, " N"]:
        """The superior density; before there is a model, that of constant complexity and noise."""
        candidates = self._state.candidates
        if self.fitted is None:
            return normalised(per_cost(candidates.test_density, candidates).sqrt(), candidates.pool_density)
        return self._superior(self.trust)

    def _superior(self, trust: float) -> Float[Tensor, " N"]:
        """The superior density with LFC^trust in place of LFC."""
        density = self.scores.even.pow(1.0 - trust).mul_(self.scores.superior.pow(trust))
        return normalised(density, self._state.candidates.pool_density)

    @cached_property
    def trust(self) -> float:
        """How far the local complexity is followed, between 0, constant complexity, and 1.

        Spread points follow as much of it as lowers the error under the test density, as far as the labels tell:
        errors of labels predicted from all others, weighted by q / p_k, times what another density would make of them.
        By the asymptotics of Theorem 1, squared errors are proportional to p^(-2 tau). What the step before followed
        is kept unless something else is better by a standard error.
        """
        settings = self._state.setup.settings
        if settings.complexity == "constant":
            return 0.0
        if settings.draw not in EVEN or self._errors is None:
            return 1.0
        before = next((step.trust for step in reversed(self._state.history.steps) if step.trust is not None), TRUSTS[0])
        trusts = sorted(TRUSTS, key=lambda trust: abs(trust - before))
        return trusts[best_of([self._losses(self._superior(trust)) for trust in trusts])]

    @cached_property
    def _errors(self) -> Float[Tensor, " n"] | None:
        """Squared errors of the labels, each predicted from all others, weighted by q / p_k; none if unknown."""
        if self._squared is None and self.fitted is not None:
            found = self.fitted.squared_errors(*self._state.observations()[:2])
            self._squared = None if found is None else ordinary(found)  # only their ratios matter
        return None if self._squared is None else torch.from_numpy(self.importance_weights * self._squared)

    @property
    def _rate(self) -> float:
        """2 tau, by which squared errors fall."""
        settings = self._state.setup.settings
        return 2.0 * learning_rate(smoothness=settings.smoothness, dimension=settings.dimension)

    def _losses(self, density: Float[Tensor, " N"]) -> Float[Tensor, " n"]:
        """The same errors if the labels followed another density, at the same cost."""
        assert self._errors is not None  # callers know
        candidates = self._state.candidates
        if candidates.cost is not None:
            density = density / norm(candidates.cost * density, candidates.pool_density)
        rows = torch.as_tensor(self._state.observations().candidate)
        # Labels that do not count, where q is zero, may have no density at all.
        changed = self._errors * (self._labelled_density / positive(density[rows])).pow(self._rate)
        return torch.where(self._errors == 0.0, 0.0, changed)

    @property
    def savings(self) -> ExpectedSavings | None:
        """The share of labels that following the local complexity saves; none if not known yet."""
        settings = self._state.setup.settings
        if self.fitted is None:
            return None
        if self._errors is None:
            return ExpectedSavings(max(0.0, 1.0 - self.scores.attainable), None)
        # Where it is not followed nothing is saved, but labels may be too few to tell whether it would be.
        followed, even = (self._losses(self._aimed_at(self._superior(trust))) for trust in (self.trust or 1.0, 0.0))
        found = savings_from(followed, even, rate=self._rate)
        is_left_out = self.trust == 0.0 and settings.complexity == "local"
        return found if found is None or not is_left_out else found._replace(share=0.0)

    @property
    def _aim(self) -> Float[Tensor, " N"]:
        """The density that the design gives to points that should follow the superior one."""
        if self.fitted is None and self._state.setup.settings.draw not in EVEN:
            return self._state.density
        return self._aimed_at(self.superior)

    def _aimed_at(self, superior: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        candidates, settings = self._state.candidates, self._state.setup.settings
        if settings.draw not in EVEN:
            return superior
        shape = shape_of(self.fitted, self._state.observations().y, settings.dimension)
        density = spread_density(
            superior, candidates.test_density, shape, dimension=settings.dimension, cost=candidates.cost
        )
        return normalised(density, candidates.pool_density)

    def next_density(self, n: int) -> NextDensity:
        """p_k+1 for n more points, and the density to draw them from; before there is a model, X_n0 ~ p_0."""
        state, candidates = self._state, self._state.candidates
        if self.fitted is None:
            return NextDensity(None, None, self._aim, self._aim)
        target = with_exploration(self._aim, candidates.test_density, state.setup.settings.exploration)
        return next_density(state.density, target, candidates.pool_density, n=state.ledger.n_drawn, b=n)

    def check_points(self, n: int) -> int:
        """How many of the next n points follow the test density alone: the share of exploration, over all steps."""
        if self.fitted is None or self._state.setup.settings.draw not in EVEN:
            return 0
        share, before = self._state.setup.settings.exploration, self._state.ledger.n_drawn
        return int(share * (before + n)) - int(share * before)

    @cached_property
    def _labelled_density(self) -> Float[Tensor, " n"]:
        return self._state.labelled_density()

    @cached_property
    def importance_weights(self) -> Float[ndarray, " n"]:
        """q / p_k at the labelled points."""
        rows = torch.as_tensor(self._state.observations().candidate)
        return importance_weights(self._state.candidates.test_density[rows], self._labelled_density).numpy()

    def _task(self) -> FitTask:
        state, settings, complexity = self._state, self._state.setup.settings, self._state.last.complexity
        X, y, candidate = state.observations()
        # Points that follow p_k and are weighted by sqrt(LFC / p_k) follow sqrt(p_k LFC).
        squared = None if complexity is None else complexity[candidate] / positive(self._labelled_density)
        return FitTask(
            X=X,
            y=y,
            weight=self.importance_weights,
            density=self._labelled_density.numpy(),
            inducing_weight=None if squared is None else squared.sqrt().numpy(),
            validation=state.setup.validation,
            seed=settings.seed,
            step=len(state.history),
            smoothness=settings.smoothness,
            dimension=settings.dimension,
            candidates=state.candidates,
            numbers=state.history.inducing_numbers,
            known_outliers=frozenset(np.flatnonzero(np.isin(candidate, list(state.history.outliers))).tolist()),
            kept=state.last.kept,
        )

    def findings(self) -> dict[str, Any]:
        """What the model says about itself and the candidates, for the `Step` of a campaign."""
        fitted = self.fitted
        if fitted is None:
            return {"validation_error": None, "noise": None, "attainable": None}
        own = {
            "validation_error": fitted.validation_error,
            "standard_error": fitted.standard_error,
            "noise": fitted.noise,
            "labels": self._state.ledger.n_labels,
            "outliers": tuple(self._state.observations().candidate[list(fitted.outliers)].tolist()),
        }
        trust = self.trust if self._state.setup.settings.draw in FOLLOWING else None
        return {**own, "attainable": self.scores.attainable, "trust": trust, **fitted.record()}

    def status(self, activity: str) -> tuple[int, str]:
        """The labels so far, and step, error of the last fit and activity in a few words; no new fit is made."""
        history = self._state.history
        last = history[-1].validation_error if len(history) else None
        error = last if self._fitted is None else self._fitted.validation_error
        known = "" if error is None else f", validation RMSE {error:.4g}"
        return self._state.ledger.n_labels, f"step {len(history)}{known}: {activity}"
