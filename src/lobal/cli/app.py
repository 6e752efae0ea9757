"""The command line: one thin function per command, heavy imports inside, so that help comes at once."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from lobal import __version__
from lobal.cli.checks import plain_errors, refuse_to_overwrite
from lobal.cli.forcefield_app import forcefield

SMALLEST_DEMO = 128  # an eighth of it starts a campaign, said before anything heavy is imported

app = typer.Typer(name="lobal", no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")
app.add_typer(forcefield)


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

    Start with **lobal demo**, then ask **lobal suggest** about data of your own.
    """


@app.command()
def demo(
    n: Annotated[int, typer.Option(min=SMALLEST_DEMO, help="Labels at the end of each campaign.")] = 4096,
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions of both arms.")] = 2,
    output: Annotated[Path, typer.Option(help="Folder for figures and report.")] = Path("out/demo"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bars.")] = False,
) -> None:
    """Learn the Doppler function, whose oscillations quicken towards x = 0, actively and from random labels.

    Both campaigns start from the same kind of random labels and double them three times; the active one chooses
    where. The table compares their errors; rho is the share of random labels that active learning needs for the same
    error. Look at **overview.png** for what the model finds and at **report.html** for the campaign. With 4096 labels
    it takes about a minute on two cores.

    Example: **lobal demo --n 1024 --seeds 1 --output out/demo**
    """
    from lobal.cli.demo import demonstrate

    with plain_errors():
        demonstrate(n, seeds, output, quiet=quiet)


@app.command()
def suggest(
    pool: Annotated[
        Path, typer.Argument(metavar="POOL", help="All candidates, one a row, labelled or not: CSV, parquet or npz.")
    ],
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="Those labelled so far: CSV, parquet or npz.")],
    target: Annotated[str, typer.Option(help="Column of LABELS that holds the result.")],
    number: Annotated[int, typer.Option(min=1, help="How many points to suggest.")] = 64,
    output: Annotated[Path, typer.Option(help="File for the suggested points: CSV, parquet or npz.")] = Path(
        "next.csv"
    ),
    identifier: Annotated[
        str | None,
        typer.Option("--id", help="Column that names the rows of all files. Without it, equal inputs are equal rows."),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            help="Columns of POOL that the target depends on, separated by commas.",
            show_default="all of numbers, but target and identifier",
            metavar="A,B,C",
        ),
    ] = None,
    pending: Annotated[
        list[Path] | None,
        typer.Option(
            help="Rows that are out for labelling already, such as an earlier next.csv; may be given several times.",
            metavar="FILE",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    report: Annotated[
        Path | None, typer.Option(help="File for the page that says why.", show_default="the output's name with .html")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Suggest which candidates to label next.

    POOL holds every input that predictions will be wanted for. Its inputs are the columns that **--inputs** names or,
    without it, all columns of numbers other than the target and the identifier.

    LABELS holds the results so far; its rows are found in POOL by **--id** or by the same input columns. A row without
    a result failed, and is not suggested again. With fewer than ten labels the suggestions are random.

    The suggested rows come with **local_complexity**, how quickly the target changes there, and **superior_density**,
    how many labels such a place deserves. The report shows both over all candidates, and what there is to gain.

    Example: **lobal suggest pool.csv labels.csv --target y --id sample --number 64 --output next.csv**

    Label those rows, add them to labels.csv, and run it again. Nothing is remembered in between: to have more points
    suggested while the first are still being labelled, hand those in as **--pending**.

    Example: **lobal suggest pool.csv labels.csv --target y --id sample --pending next.csv --output more.csv**
    """
    from rich.console import Console

    from lobal.cli.suggestion import Request, outlook, write_suggestion
    from lobal.cli.suggestion import suggest as suggestion_for
    from lobal.core.tables import table_format

    page = output.with_suffix(".html") if report is None else report
    request = Request(
        pool=pool,
        labels=labels,
        target=target,
        number=number,
        inputs=None if inputs is None else tuple(name.strip() for name in inputs.split(",")),
        identifier=identifier,
        pending=tuple(pending or ()),
        seed=seed,
    )
    with plain_errors(), nullcontext() if quiet else Console(stderr=True).status("fitting the model to the labels"):
        table_format(output)  # before the work, not after it
        refuse_to_overwrite(output, [pool, labels, *request.pending])
        suggestion = suggestion_for(request)
        write_suggestion(suggestion, output, page)
    if not quiet:
        for line in [*suggestion.notes, outlook(suggestion.learner), f"{number} points in {output}, reasons in {page}"]:
            typer.echo(line)


@app.command()
def report(
    campaign: Annotated[
        Path, typer.Argument(metavar="CAMPAIGN", help="Folder in which an ActiveLearner keeps its campaign.")
    ],
    output: Annotated[
        Path | None, typer.Option(help="File for the page.", show_default="the folder's name with .html")
    ] = None,
) -> None:
    """Show a campaign as one web page: what there is to gain, where the labels went, and its history.

    The campaign is only read, and may go on meanwhile.

    Example: **lobal report campaign --output campaign.html**
    """
    from rich.console import Console

    from lobal.active.learner import ActiveLearner
    from lobal.report.html import campaign_report

    page = campaign.with_name(f"{campaign.resolve().name}.html") if output is None else output
    with plain_errors(), Console(stderr=True).status("fitting the model to the labels"):
        campaign_report(ActiveLearner.read(campaign), page, title=f"Campaign {campaign.resolve().name}")
    typer.echo(f"report in {page}")
