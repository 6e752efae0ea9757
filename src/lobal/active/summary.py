"""Where a campaign stands, in numbers and in words."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import final

import numpy as np

from lobal.active.campaign.state import SMALLEST_TRAINING_SET, CampaignState
from lobal.active.expected_savings import ExpectedSavings
from lobal.active.knowledge import Knowledge
from lobal.active.learning_curve import GAIN, SHARE, Trend, has_no_advantage, is_flat, learning_curve, trend
from lobal.active.outputs import Curve
from lobal.active.surrogate import FittedSurrogate

UNKNOWN = "not known yet"
# How errors were found.
LEAVE_ONE_OUT, VALIDATION, HELD_OUT = "leave-one-out", "of the validation labels", "of labels held out"
MOST_DIGITS = 5  # after the point; smaller numbers are written with powers of ten


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
    # Error and its standard error by output, and the units of these, where there are several.
    outputs: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    labels_of: dict[str, int] = field(default_factory=dict)  # how many labels have each output
    method: str = LEAVE_ONE_OUT  # how the errors were found

    def sentences(self, target: str = "the label", unit: str = "") -> list[str]:
        """All of it in words; the error is one of `target`, in its `unit`."""
        return [self.counts(), *(sentence for found in self.topics(target, unit).values() for sentence in found)]

    def topics(self, target: str = "the label", unit: str = "") -> dict[str, list[str]]:
        """The sentences, without the counts, by what they are about; what cannot be known yet is left out."""
        topics = {"Error": [*self._errors(target, unit)]}
        if self.error is not None:
            topics["Trend"] = [self._trend(self.error, unit)]
            topics["Noise"] = [] if self.outputs else [self._noise(target, unit)]
            topics["Expected savings"] = [self._savings()]
        return topics | {"Go on or stop?": self.advice()}

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

    def counts(self) -> str:
        """How many labels there are, to come, and failed."""
        waiting = f"{self.pending} pending"
        if self.pending_since is not None:
            waiting += f" since {self.pending_since:%Y-%m-%d %H:%M} UTC"
        gaps = {*self.labels_of.values()} - {self.labels}
        each = f" ({', '.join(f'{n} of {name}' for name, n in self.labels_of.items())})" if gaps else ""
        return f"{self.labels} label{'' if self.labels == 1 else 's'}{each}, {waiting}, {self.failed} failed."

    def _errors(self, target: str, unit: str) -> Iterable[str]:
        if self.error is None:
            missing = max(0, SMALLEST_TRAINING_SET - self.labels)
            more = f"; {missing} more label{' is' if missing == 1 else 's are'} needed" if missing else ""
            return [f"The error of predictions of {target} is {UNKNOWN}{more}."]
        errors = self.outputs or {target: (self.error, self.error_standard_error)}
        units = self.units if self.outputs else {target: unit}
        return (self._off_by(name, *known, units.get(name, "")) for name, known in errors.items())

    def _off_by(self, target: str, error: float, standard_error: float | None, unit: str) -> str:
        known = with_standard_error(error, standard_error)
        return f"Predictions of {target} are off by {known}{_unit(unit)} (root mean square, {self.method})."

    def _trend(self, error: float, unit: str) -> str:
        if self.trend is None:
            return f"How the error changes with more labels is {UNKNOWN}."
        slope, sure = self.trend
        if abs(slope) < sure:
            return f"The error has not changed measurably with the number of labels n (as n^{slope:.1f} ± {sure:.1f})."
        if slope > 0:
            return f"The error is growing as n^{slope:.1f} ± {sure:.1f} with n labels."
        power = f"as n^{slope:.1f} ± {sure:.1f} with n labels"
        return f"The error is falling: {self._later(error, unit)} is expected with {2 * self.labels} labels ({power})."

    def _later(self, error: float, unit: str) -> str:
        """The error with twice as many labels: what exceeds the noise falls as the error does."""
        assert self.trend is not None
        left = 2.0**self.trend.slope
        if self.outputs:
            return f"{1.0 - left:.0%} less, of all outputs together,"
        noise = min(self.noise or 0.0, error)
        later = math.sqrt(noise**2 + left**2 * (error**2 - noise**2))
        by_trend = (later**2 - noise**2) / later * math.log(2.0) * self.trend.standard_error
        sure = math.hypot(by_trend, later * (self.error_standard_error or 0.0) / error)
        return f"{with_standard_error(later, sure)}{_unit(unit)}"

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
        error_standard_error=None if fitted is None else fitted.standard_error,
        trend=trend(curve),
        noise=None if noise is None else math.sqrt(noise),
        savings=savings,
        is_flat=is_flat(curve),
        has_no_advantage=has_no_advantage(savings),
        outputs={} if fitted is None else fitted.output_errors,
        units=state.candidates.output_units,
        labels_of=_labels_of(state),
        method=VALIDATION if state.setup.validation is not None else _method(fitted),
    )


def _labels_of(state: CampaignState) -> dict[str, int]:
    """How many labels have each output, where there are several."""
    outputs = state.candidates.outputs
    if outputs is None or isinstance(outputs, Curve):
        return {}
    there = np.isfinite(state.observations().y.reshape(-1, len(outputs))).sum(axis=0).tolist()
    return {output.name: n for output, n in zip(outputs, there, strict=True)}


def _method(fitted: FittedSurrogate | None) -> str:
    """How a model without validation labels finds its error: only by leaving out each label it knows how sure it is."""
    is_held_out = fitted is not None and fitted.standard_error is None and not fitted.output_errors
    return HELD_OUT if is_held_out else LEAVE_ONE_OUT


def with_standard_error(value: float, error: float | None) -> str:
    """A value with as many digits as its standard error allows, which has two."""
    if error is None or not 0.0 < error < math.inf:
        return f"{value:.3g}"
    digits = 1 - math.floor(math.log10(error))
    if digits > MOST_DIGITS or error >= 10.0**MOST_DIGITS:
        return f"{value:.3g} ± {error:.2g}"
    return " ± ".join(f"{round(each, digits):.{max(digits, 0)}f}" for each in (value, error))


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""
