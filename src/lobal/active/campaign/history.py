"""What a learner did, step by step."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, final

from lobal.core.schema import FINITE, list_of, optional, real, table, text, whole

INDUCING_NUMBERS = ("n_inducing", "n_gate_inducing")
# Fields of a step that are tuples, and lists in JSON.
SEQUENCES = ("indices", "decisions", "outliers", "errors", "standard_errors")


_NUMBER, _VALUE, _NUMBERS = optional(whole()), real(-FINITE, FINITE, words=(None,)), list_of(whole())
# A step as the journal has it; those of earlier versions lack the later entries.
STEP = table(
    {
        **dict.fromkeys(("number", "size", "batch"), whole()),
        "indices": _NUMBERS,
        **dict.fromkeys(("gamma_1", "gamma_2", "validation_error", "noise", "attainable"), _VALUE),
    },
    **dict.fromkeys(("n_inducing", "n_gate_inducing", "labels", "check", "target"), _NUMBER),
    **dict.fromkeys(("trust", "standard_error"), _VALUE),
    decisions=list_of(table({})),
    outliers=_NUMBERS,
    errors=list_of(_VALUE),
    draw=optional(text()),
    standard_errors=list_of(_VALUE),
)


@final
@dataclass(frozen=True, kw_only=True)
class Step:
    """One pass through the loop of Algorithm 1; None stands for what was not known yet."""

    number: int  # k, counted from zero
    size: int  # n_k, labels and pending points before this step's batch
    batch: int  # n_{k+1} - n_k, points asked for
    indices: tuple[int, ...]  # numbers of the candidates asked for
    gamma_1: float | None  # largest ratio of the density so far to the density aimed for
    gamma_2: float | None  # share of the density so far in the next
    validation_error: float | None  # of the model fitted at this step
    noise: float | None  # variance of the labels' noise, as the model found it
    attainable: float | None  # relative sample size that the superior density could reach
    # Journals of earlier versions do not have these.
    n_inducing: int | None = None  # m_E as Algorithm 1 found it, at this step or before
    n_gate_inducing: int | None = None  # m_G likewise
    labels: int | None = None  # that the model was fitted to
    # Of the points asked for, the first so many were drawn from the test density or, by variance, spread over it.
    check: int = 0
    trust: float | None = None  # how far the local complexity was followed: 0 not at all, 1 as the model found it
    standard_error: float | None = None  # of the validation error
    draw: str | None = None  # the design that chose the points
    target: int | None = None  # number of labels that a run aimed at with this batch; none if nobody ran
    # How the settings of the model were found, with all that was tried: `MixtureRegressor.tuning_` as JSON holds it.
    decisions: tuple[dict[str, Any], ...] = ()
    errors: tuple[float | None, ...] = ()  # of several outputs: the validation error of each, in units of its labels
    standard_errors: tuple[float | None, ...] = ()  # of these errors
    outliers: tuple[int, ...] = ()  # numbers of the candidates whose labels contradict the others, as the model found

    def to_fields(self) -> dict[str, Any]:
        """The step as JSON knows it."""
        return asdict(self) | {name: list(getattr(self, name)) for name in SEQUENCES}

    @staticmethod
    def from_fields(entries: Mapping[str, Any]) -> "Step":
        """The step that `to_fields` took apart; other entries, such as an event's name, are passed over.

        Entries that were read from a file have to be a `STEP`.
        """
        known = {field.name: entries[field.name] for field in fields(Step) if field.name in entries}
        missing = [field.name for field in fields(Step) if field.default is MISSING and field.name not in known]
        if missing:
            raise ValueError(f"a step needs the fields {missing}, got only {sorted(entries)}")
        return Step(**known | {name: tuple(known[name]) for name in SEQUENCES if name in known})


@final
@dataclass(frozen=True)
class History:
    """The steps of a campaign, in order."""

    steps: tuple[Step, ...] = ()

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, position: int) -> Step:
        return self.steps[position]

    @property
    def sizes(self) -> tuple[int, ...]:
        """n_k of every step: labels and pending points before its batch."""
        return tuple(step.size for step in self.steps)

    @property
    def outliers(self) -> frozenset[int]:
        """Numbers of all candidates whose labels some step found to contradict the others."""
        return frozenset(number for step in self.steps for number in step.outliers)

    @property
    def inducing_numbers(self) -> dict[str, int]:
        """m_E and m_G as Algorithm 1 found them, by the names of the options; nothing before it did."""
        found = {name: getattr(self.steps[-1], name) for name in INDUCING_NUMBERS} if self.steps else {}
        return {name: number for name, number in found.items() if number is not None}

    def as_table(self) -> dict[str, list[Any]]:
        """One column for each field of a step, as `pandas.DataFrame` takes them."""
        return {field.name: [getattr(step, field.name) for step in self.steps] for field in fields(Step)}
