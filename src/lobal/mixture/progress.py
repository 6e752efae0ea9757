"""A line on the terminal that follows the training."""

import contextlib
from collections.abc import Callable, Iterator

from lobal.mixture.adam.training import Epoch


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
