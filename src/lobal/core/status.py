"""A line on the terminal that follows a campaign."""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias


class Standing(NamedTuple):
    """Where a campaign stands, and what it is doing."""

    doing: str
    step: int
    labels: int
    error: float | None  # on the labels that steer the fit, once there is one


Show: TypeAlias = Callable[[Standing], None]


@contextlib.contextmanager
def campaign_line(is_wanted: bool, labels: int) -> Iterator[Show]:
    """A line on the terminal, or nothing: labels told of so many, step, validation error, and what is going on."""
    if not is_wanted:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("labels"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"))
    # On the error stream: what a script prints stays as it is.
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as display:
        task = display.add_task("", total=labels)
        yield lambda standing: display.update(task, completed=standing.labels, description=described(standing))


def described(standing: Standing) -> str:
    """Step, error and what is going on, in a few words."""
    error = "" if standing.error is None else f", validation RMSE {standing.error:.4g}"
    return f"step {standing.step}{error}: {standing.doing}"
