"""What a fit reports while it trains, and its display on the terminal."""

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
def progress_display(wanted: bool, max_epochs: int, *, is_adam: bool) -> Iterator[Callable[[Epoch], None]]:
    """A line on the terminal that follows the training, or nothing."""
    if not wanted:
        yield lambda _: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as display:
        task = display.add_task("fitting the global expert and the features", total=max_epochs)

        def show(epoch: Epoch) -> None:
            display.update(task, completed=epoch.number + 1, description=described(epoch, is_adam=is_adam))

        yield show


def described(epoch: Epoch, *, is_adam: bool) -> str:
    """An epoch of Adam, or a round of the analytic engine, in a few words."""
    if not is_adam:
        return f"round {epoch.number + 1}, leave-one-out RMSE {epoch.validation_error:.4f}"
    return (
        f"epoch {epoch.number + 1}, kappa {epoch.kappa}, learning rate x {epoch.rate:.2g}, "
        f"validation RMSE {epoch.validation_error:.4f}"
    )
