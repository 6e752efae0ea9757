"""What follows from the labels of a campaign: the fitted model, its scores, weights of the labels."""

from functools import cached_property
from typing import Any, final

import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.campaign.state import SMALLEST_TRAINING_SET, CampaignState
from lobal.active.next_density import NextDensity, next_density, with_exploration
from lobal.active.scoring import Scores, evaluated, positive, scores_from
from lobal.active.surrogate import FitTask, FittedSurrogate
from lobal.core.density import importance_weights


@final
class Knowledge:
    """What follows from the labels so far, each computed once, when it is first asked for.

    New labels make all of it out of date; points that are only drawn or expected change the density alone.
    """

    def __init__(self, state: CampaignState, fitted: FittedSurrogate | None = None) -> None:
        self._state = state
        self._fitted = fitted
        self._evaluated: tuple[Tensor, Tensor] | None = None

    def under_new_density(self) -> "Knowledge":
        """The same model, and what it says at the candidates, under another training density."""
        changed = Knowledge(self._state, self._fitted)
        changed._evaluated = self._evaluated
        return changed

    @property
    def fitted(self) -> FittedSurrogate | None:
        """f_MoE trained on (X_nk, Y_nk); none while labels are too few."""
        if self._fitted is None and self._state.ledger.n_labels >= SMALLEST_TRAINING_SET:
            self._fitted = self._state.setup.surrogate.fit(self._task())
        return self._fitted

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
        )

    def next_density(self, n: int) -> NextDensity:
        """p_k+1 for n more points, and the density to draw them from; before there is a model, X_n0 ~ p_0."""
        state, candidates = self._state, self._state.candidates
        if self.fitted is None:
            return NextDensity(None, None, state.density, state.density)
        target = with_exploration(self.scores.superior, candidates.test_density, state.setup.settings.exploration)
        return next_density(state.density, target, candidates.pool_density, n=state.ledger.n_drawn, b=n)

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
            inducing_weight=None if squared is None else squared.sqrt().numpy(),
            validation=state.setup.validation,
            seed=settings.seed,
            step=len(state.history),
            smoothness=settings.smoothness,
            dimension=settings.dimension,
            candidates=state.candidates,
            numbers=state.history.inducing_numbers,
            kept=state.last.kept,
        )

    def findings(self) -> dict[str, Any]:
        """What the model says about itself and the candidates, for the `Step` of a campaign."""
        fitted = self.fitted
        if fitted is None:
            return {"validation_error": None, "noise": None, "attainable": None}
        own = {"validation_error": fitted.validation_error, "noise": fitted.noise}
        return {**own, "attainable": self.scores.attainable, **fitted.record()}

    def status(self, activity: str) -> tuple[int, str]:
        """The labels so far, and step, error of the last fit and activity in a few words; no new fit is made."""
        history = self._state.history
        last = history[-1].validation_error if len(history) else None
        error = last if self._fitted is None else self._fitted.validation_error
        known = "" if error is None else f", validation RMSE {error:.4g}"
        return self._state.ledger.n_labels, f"step {len(history)}{known}: {activity}"
