"""Where a campaign stands, in numbers and in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import final

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
    # Error and its standard error by output, where there are several.
    outputs: dict[str, tuple[float, float | None]] = field(default_factory=dict)

    def sentences(self, target: str = "the label", unit: str = "") -> list[str]:
        """All of it in words; the error is one of `target`, in its `unit`."""
        found = [self._counts()]
        if self.outputs:
            found += [_off_by(name, error, sure, "") for name, (error, sure) in self.outputs.items()]
            found += [self._trend(), self._savings()]
        else:
            found.append(self._error(target, unit))
            found += [] if self.error is None else [self._trend(), self._noise(target, unit), self._savings()]
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
        return _off_by(target, self.error, self.error_standard_error, unit)

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
        outputs={} if fitted is None else fitted.output_errors,
        error_standard_error=None if fitted is None else fitted.standard_error,
        trend=trend(curve),
        noise=None if noise is None else math.sqrt(noise),
        savings=savings,
        is_flat=is_flat(curve),
        has_no_advantage=has_no_advantage(savings),
    )


def _off_by(target: str, error: float, standard_error: float | None, unit: str) -> str:
    sure = "" if standard_error is None else f" ± {standard_error:.1g}"
    return f"Predictions of {target} are off by {error:.3g}{sure}{_unit(unit)} (root mean square, leave-one-out)."


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""
