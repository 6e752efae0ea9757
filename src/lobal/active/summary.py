"""Where a campaign stands, in numbers and in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import final

import numpy as np

from lobal.active.campaign.state import SMALLEST_TRAINING_SET, CampaignState
from lobal.active.expected_savings import ExpectedSavings
from lobal.active.knowledge import Knowledge
from lobal.active.learning_curve import GAIN, SHARE, Trend, has_no_advantage, is_flat, learning_curve, trend

UNKNOWN = "not known yet"


@final
@dataclass(frozen=True, kw_only=True)
class Summary:
    """What is known of a campaign; None stands for what is not known yet."""

    labels: int
    pending: int
    pending_since: datetime | None  # of the point that has been pending for longest
    failed: int
    error: float | None  # validation error, root mean squared
    error_standard_error: float | None
    trend: Trend | None  # power of the number of labels by which the error falls
    noise: float | None  # standard deviation of the labels' noise
    savings: ExpectedSavings | None  # by following the local complexity
    is_flat: bool  # twice as many labels would hardly lower the error
    has_no_advantage: bool  # evenly spread points would do about as well

    def sentences(self, target: str = "the label", unit: str = "") -> list[str]:
        """All of it in words; the error is one of `target`, in its `unit`."""
        found = [self._counts(), self._error(target, unit)]
        if self.error is not None:
            found += [self._trend(), self._noise(target, unit), self._savings()]
        return [*found, *self.advice()]

    def advice(self) -> list[str]:
        """Whether to stop, in words."""
        if self.error is None:
            return [f"Stopping advice: {UNKNOWN}."]
        flat = f"Twice as many labels are expected to lower the error by less than {GAIN:.0%}: consider stopping."
        even = (
            f"Following the local complexity saves less than {SHARE:.0%} of the labels: points spread evenly would do "
            "about as well."
        )
        found = [sentence for sentence, holds in ((flat, self.is_flat), (even, self.has_no_advantage)) if holds]
        return found or ["Nothing speaks for stopping yet."]

    def _counts(self) -> str:
        waiting = f"{self.pending} pending"
        if self.pending_since is not None:
            waiting += f" since {self.pending_since:%Y-%m-%d %H:%M} UTC"
        return f"{self.labels} label{'' if self.labels == 1 else 's'}, {waiting}, {self.failed} failed."

    def _error(self, target: str, unit: str) -> str:
        if self.error is None:
            missing = max(0, SMALLEST_TRAINING_SET - self.labels)
            more = f"; {missing} more labels are needed" if missing else ""
            return f"The error of predictions of {target} is {UNKNOWN}{more}."
        sure = "" if self.error_standard_error is None else f" ± {self.error_standard_error:.1g}"
        return f"Predictions of {target} are off by {self.error:.3g}{sure}{_unit(unit)} (root mean square)."

    def _trend(self) -> str:
        if self.trend is None:
            return f"How the error changes with more labels is {UNKNOWN}."
        slope, sure = self.trend
        if abs(slope) < sure:
            return f"The error has not changed measurably with the number of labels n (as n^{slope:.1f} ± {sure:.1f})."
        return f"The error is {'falling' if slope < 0 else 'growing'} as n^{slope:.1f} ± {sure:.1f} with n labels."

    def _noise(self, target: str, unit: str) -> str:
        if self.noise is None:
            return f"The noise of {target} is {UNKNOWN}."
        return f"The noise of {target} has a standard deviation of {self.noise:.3g}{_unit(unit)}."

    def _savings(self) -> str:
        if self.savings is None:
            return f"What following the local complexity saves is {UNKNOWN}."
        sure = self.savings.standard_error
        known = "" if sure is None else f" ± {sure:.0%}"
        return f"Following the local complexity is expected to save {self.savings.share:.0%}{known} of the labels."


def summary_of(state: CampaignState, known: Knowledge, since: Sequence[datetime | None]) -> Summary:
    """The summary of a campaign; `since` says when each pending point became that."""
    fitted, n = known.fitted, state.ledger.n_labels
    error = None if fitted is None else fitted.validation_error
    noise = None if fitted is None else fitted.noise
    curve = learning_curve([*((step.labels, step.validation_error) for step in state.history), (n, error)])
    savings = known.savings
    return Summary(
        labels=n,
        pending=len(state.ledger.pending),
        pending_since=min((time for time in since if time is not None), default=None),
        failed=len(state.ledger.failed),
        error=error,
        error_standard_error=None if error is None else _standard_error(error, state, known),
        trend=trend(curve),
        noise=None if noise is None else math.sqrt(noise),
        savings=savings,
        is_flat=is_flat(curve),
        has_no_advantage=has_no_advantage(savings),
    )


def _standard_error(error: float, state: CampaignState, known: Knowledge) -> float:
    """Of a root mean square, by the delta method from the squared errors of the labels.

    Where those are not known, and on validation data, errors are taken to be normal.
    """
    X, y, _ = state.observations()
    validation = state.setup.validation
    squared = None if known.fitted is None or validation is not None else known.fitted.squared_errors(X, y)
    if squared is None:
        return error / math.sqrt(2.0 * (len(y) if validation is None else len(validation.y)))
    assert known.fitted is not None  # it has squared errors
    whole = known.importance_weights * (squared + known.fitted.noise_variance(X))
    return float(np.std(whole, ddof=1) / math.sqrt(len(whole)) / (2.0 * error)) if error > 0.0 else 0.0


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""
