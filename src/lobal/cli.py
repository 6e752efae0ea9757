"""The command line: one thin function per command, heavy imports inside, so that help comes at once."""

from pathlib import Path
from typing import Annotated

import typer

from lobal import __version__

SMALLEST_N = 10  # what the estimator asks for, said before it is imported

app = typer.Typer(name="lobal", no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")


def _show_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"lobal {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def lobal(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Which points of a regression problem are worth labelling, and why.

    lobal fits a mixture of Gaussian processes with different bandwidths and learns which of them the data need
    where. The smaller this local bandwidth, the more complex the function there, and the more labels it deserves.

    Start with **lobal demo**.
    """


@app.command()
def demo(
    n: Annotated[int, typer.Option(min=SMALLEST_N, help="Number of noisy labels to learn from.")] = 2048,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and model.")] = 0,
    output: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("out/demo"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress line.")] = False,
) -> None:
    """Fit the Doppler function, whose oscillations quicken towards x = 0.

    The mixture of seven bandwidths is compared with the best single Gaussian process, in a table of errors and in
    figures. Look at **overview.png** first: the prediction, the expert that answers where, the local bandwidth, and
    the density from which the next labels should be drawn. With 2048 labels it takes about a minute.

    Example: **lobal demo --n 1024 --output out/demo**
    """
    from lobal.experiments.doppler import demonstrate

    demonstrate(n, seed, output, quiet=quiet)
