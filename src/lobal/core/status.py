"""The progress line of a campaign on the terminal."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

Show: TypeAlias = Callable[[int, str], None]  # of the number of labels so far, and a description


@contextlib.contextmanager
def status_line(is_wanted: bool, labels: int) -> Iterator[Show]:
    """A callback that shows the progress towards so many labels on the terminal, or does nothing."""
    if not is_wanted:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("labels"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"))
    # On the error stream, apart from what a script prints.
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as display:
        task = display.add_task("", total=labels)
        yield lambda done, description: display.update(task, completed=done, description=description)
