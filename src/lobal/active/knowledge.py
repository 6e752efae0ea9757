"""What follows from the labels of a campaign: the fitted model, its scores, weights of the labels."""

from functools import cached_property
from typing import Any, final

import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor

from lobal.active.campaign.state import SMALLEST_TRAINING_SET, CampaignState
from lobal.active.draws import SPREAD
from lobal.active.next_density import NextDensity, next_density, with_exploration
from lobal.active.scoring import Scores, evaluated, positive, scores_from
from lobal.active.spread import power, spread_density
from lobal.active.surrogate import FitTask, FittedSurrogate
from lobal.core.comparison import best_of
from lobal.core.density import importance_weights, normalised
from lobal.core.superior_density import learning_rate

# What is compared, the most cautious first: a later one has to be better by a standard error.
TRUSTS = (0.0, 0.5, 1.0)


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

    @property
    def superior(self) -> Float[Tensor, " N"]:
        """The superior density; before there is a model, that of constant complexity and noise."""
        candidates = self._state.candidates
        if self.fitted is None:
            return normalised(candidates.test_density.sqrt(), candidates.pool_density)
        return self._superior(self.trust)

    def _superior(self, trust: float) -> Float[Tensor, " N"]:
        """The superior density with LFC^trust in place of LFC."""
        density = self.scores.even.pow(1.0 - trust) * self.scores.superior.pow(trust)
        return normalised(density, self._state.candidates.pool_density)

    @cached_property
    def trust(self) -> float:
        """How far the local complexity is followed, between 0, constant complexity, and 1.

        Spread points follow as much of it as lowers the error under the test density, as far as the labels tell:
        errors of labels predicted from all others, weighted by q / p_k, times what another density would make of them.
        By the asymptotics of Theorem 1, squared errors are proportional to p^(-2 tau).
        """
        settings = self._state.setup.settings
        if settings.complexity == "constant":
            return 0.0
        X, y, candidate = self._state.observations()
        errors = None if self.fitted is None or settings.draw != SPREAD else self.fitted.squared_errors(X, y)
        if errors is None:
            return 1.0
        weighted, rows = torch.from_numpy(self.importance_weights * errors), torch.as_tensor(candidate)
        rate = 2.0 * learning_rate(smoothness=settings.smoothness, dimension=settings.dimension)
        losses = [
            weighted * (self._labelled_density / positive(self._superior(trust)[rows])).pow(rate) for trust in TRUSTS
        ]
        return TRUSTS[best_of(losses)]

    @property
    def _aim(self) -> Float[Tensor, " N"]:
        """The density that the design gives to points that should follow the superior one."""
        candidates, settings = self._state.candidates, self._state.setup.settings
        if settings.draw != SPREAD:
            return self.superior if self.fitted is not None else self._state.density
        error = None if self.fitted is None else self.fitted.relative_error(self._state.observations().y)
        density = spread_density(
            self.superior, candidates.test_density, power=power(error), dimension=settings.dimension
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
        """How many of the next n points are drawn from the test density: the share of exploration, over all steps."""
        if self.fitted is None or self._state.setup.settings.draw != SPREAD:
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
        return {**own, "attainable": self.scores.attainable, "trust": self.trust, **fitted.record()}

    def status(self, activity: str) -> tuple[int, str]:
        """The labels so far, and step, error of the last fit and activity in a few words; no new fit is made."""
        history = self._state.history
        last = history[-1].validation_error if len(history) else None
        error = last if self._fitted is None else self._fitted.validation_error
        known = "" if error is None else f", validation RMSE {error:.4g}"
        return self._state.ledger.n_labels, f"step {len(history)}{known}: {activity}"
