"""A line on the terminal that follows a campaign."""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias


class CampaignStatus(NamedTuple):
    """How far a campaign is, and what it is doing."""

    activity: str
    step: int
    labels: int
    error: float | None  # on the labels that steer the fit, once there is one


Show: TypeAlias = Callable[[CampaignStatus], None]


@contextlib.contextmanager
def status_line(is_wanted: bool, labels: int) -> Iterator[Show]:
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
        yield lambda status: display.update(task, completed=status.labels, description=described(status))


def described(status: CampaignStatus) -> str:
    """Step, error and what is going on, in a few words."""
    error = "" if status.error is None else f", validation RMSE {status.error:.4g}"
    return f"step {status.step}{error}: {status.activity}"
