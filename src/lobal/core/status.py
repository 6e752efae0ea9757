"""The progress line of a campaign on the terminal."""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias


class CampaignStatus(NamedTuple):
    """The progress of a campaign and its current activity."""

    activity: str
    step: int
    labels: int
    error: float | None  # on the validation labels, once there is a fit


Show: TypeAlias = Callable[[CampaignStatus], None]


@contextlib.contextmanager
def status_line(is_wanted: bool, labels: int) -> Iterator[Show]:
    """A callback that shows labels, step, validation error and activity on the terminal, or does nothing."""
    if not is_wanted:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("labels"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"))
    # On the error stream, apart from what a script prints.
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as display:
        task = display.add_task("", total=labels)
        yield lambda status: display.update(task, completed=status.labels, description=described(status))


def described(status: CampaignStatus) -> str:
    """Step, error and activity in a few words."""
    error = "" if status.error is None else f", validation RMSE {status.error:.4g}"
    return f"step {status.step}{error}: {status.activity}"
