"""The training history, and its display on the terminal."""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias


class Epoch(NamedTuple):
    """One entry of the training history: an epoch of Adam, or a round of the analytic engine."""

    number: int
    kappa: int
    rate: float  # eta / eta_0
    objective: float
    validation_error: float  # root mean squared, importance-weighted; leave-one-out under the analytic engine


Progress: TypeAlias = Callable[[Epoch], None]


@contextlib.contextmanager
def progress_display(verbose: bool, status: Callable[[Epoch], str]) -> Iterator[Progress]:
    """A callback that shows the status of every epoch on the terminal, or does nothing."""
    if not verbose:
        yield lambda _: None
        return
    from rich.progress import Progress as Display
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    with Display(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as display:
        task = display.add_task("fitting the global expert and the features", total=None)
        yield lambda epoch: display.update(task, description=status(epoch))
