"""A line on the terminal that follows the training."""

import contextlib
from collections.abc import Callable, Iterator

from lobal.mixture.adam import Epoch


@contextlib.contextmanager
def progress_display(wanted: bool, max_epochs: int) -> Iterator[Callable[[Epoch], None]]:
    """A line on the terminal that follows the training, or nothing."""
    if not wanted:
        yield lambda _: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as display:
        task = display.add_task("fitting the global expert and the features", total=max_epochs)

        def show(epoch: Epoch) -> None:
            description = (
                f"epoch {epoch.number + 1}, kappa {epoch.kappa}, learning rate x {epoch.rate:.2g}, "
                f"validation RMSE {epoch.validation_error:.4f}"
            )
            display.update(task, completed=epoch.number + 1, description=description)

        yield show
