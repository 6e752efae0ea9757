"""What a learner did, step by step."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, final


@final
@dataclass(frozen=True, kw_only=True)
class Step:
    """One pass through the loop of Algorithm 1; None stands for what was not known yet.

    Attributes:
        number: k, counted from zero.
        size: n_k, labels and pending points before this step's batch.
        batch: n_{k+1} - n_k, points asked for.
        indices: numbers of the candidates asked for.
        gamma_1: of Algorithm 1, how much larger than the density aimed for the density so far is, where it is most.
        gamma_2: of Algorithm 1, the share of the density so far in the next.
        validation_error: of the model fitted at this step.
        noise: variance of the labels' noise, as the model found it.
        attainable: relative sample size that the superior density could reach.
    """

    number: int
    size: int
    batch: int
    indices: tuple[int, ...]
    gamma_1: float | None
    gamma_2: float | None
    validation_error: float | None
    noise: float | None
    attainable: float | None

    def __post_init__(self) -> None:
        for name in ("number", "size", "batch"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} of a step must be at least zero, got {getattr(self, name)}")

    def to_fields(self) -> dict[str, Any]:
        """The step as JSON knows it."""
        return asdict(self) | {"indices": list(self.indices)}

    @staticmethod
    def from_fields(entries: Mapping[str, Any]) -> "Step":
        """The step that `to_fields` took apart; other entries, such as an event's name, are passed over."""
        missing = [field.name for field in fields(Step) if field.name not in entries]
        if missing:
            raise ValueError(f"a step needs the fields {missing}, got only {sorted(entries)}")
        known = {field.name: entries[field.name] for field in fields(Step)}
        return Step(**known | {"indices": tuple(known["indices"])})


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

    def as_table(self) -> dict[str, list[Any]]:
        """One column for each field of a step, as `pandas.DataFrame` takes them."""
        return {field.name: [getattr(step, field.name) for step in self.steps] for field in fields(Step)}
