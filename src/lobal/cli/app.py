"""The command line: one function per command, heavy imports inside, so that `--help` is fast."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from lobal import __version__
from lobal.cli.campaign_app import campaign, run
from lobal.cli.checks import (
    TABLES,
    make_places,
    own_files,
    plain_errors,
    refuse_existing,
    refuse_other_than_report,
    refuse_to_overwrite,
)
from lobal.cli.forcefield_app import forcefield
from lobal.cli.table_options import (
    Censored,
    Decimal,
    Encoding,
    Failed,
    Force,
    Separator,
    SeveralFiles,
    Sheet,
    SkipIncomplete,
    texts_of,
)

SMALLEST_DEMO = 128  # an eighth of it starts a campaign; checked before the heavy imports

app = typer.Typer(
    name="lobal",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},  # of all commands
)
app.add_typer(campaign)
app.add_typer(forcefield)
app.command()(run)


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
    """Active learning for regression: which points to label next, and why.

    lobal fits a mixture of Gaussian processes with different bandwidths and learns which bandwidth is best at every
    input. The smaller this local bandwidth, the more complex the function there, and the more labels it needs.

    Start with **lobal demo**, then use **lobal campaign** for your own data, or **lobal suggest** for a single step.
    """


@app.command()
def demo(
    n: Annotated[int, typer.Option(min=SMALLEST_DEMO, help="Labels at the end of each campaign.")] = 512,
    seeds: Annotated[int, typer.Option(min=1, help="Number of repetitions.")] = 5,
    output: Annotated[Path, typer.Option(help="Folder for figures and report.")] = Path("out/demo"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bars.")] = False,
) -> None:
    """Compare active learning, evenly spread and random labels on the Doppler function, which is fastest near x = 0.

    Campaigns double their labels three times; the active one chooses the inputs by local complexity. The table compares
    their errors; rho is the share of the random labels that reach the same error. **overview.png** shows the fitted
    model and **report.html** the campaign. The demo takes a few minutes on two cores.

    Example: **lobal demo --n 1024 --seeds 1 --output out/demo**
    """
    from lobal.cli.demo import demonstrate

    with plain_errors():
        demonstrate(n, seeds, output, quiet=quiet)


@app.command(cls=SeveralFiles)
def suggest(
    pool: Annotated[
        Path, typer.Argument(metavar="POOL", help="All candidates, one per row, labelled or not: CSV, Excel, parquet.")
    ],
    labels: Annotated[list[Path], typer.Argument(metavar="LABELS", help="Labels so far, in one or more files.")],
    target: Annotated[str, typer.Option(help="Column of LABELS with the labels.")],
    number: Annotated[int, typer.Option(min=1, help="How many points to suggest.")] = 64,
    output: Annotated[Path, typer.Option(help="File for the suggested points: .csv, .xlsx, .parquet.")] = Path(
        "next.csv"
    ),
    identifier: Annotated[
        str | None,
        typer.Option("--id", help="Column that identifies rows in all files; by default rows match by their inputs."),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            help="Input columns of POOL, separated by commas.",
            show_default="all numeric columns except target and identifier",
            metavar="A,B,C",
        ),
    ] = None,
    pending: Annotated[
        list[Path] | None,
        typer.Option(
            help="Rows that are being labelled, such as an earlier next.csv; one or more files.", metavar="FILE..."
        ),
    ] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    skip_incomplete: SkipIncomplete = False,
    failed: Failed = None,
    censored: Censored = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    report: Annotated[
        Path | None, typer.Option(help="File for the report.", show_default="the output with suffix .html")
    ] = None,
    force: Force = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Suggest which candidates to label next.

    POOL contains all inputs at which predictions are needed. Its input columns are those given by **--inputs**, by
    default all numeric columns except the target and the identifier.

    LABELS contains the labels so far; its rows are matched with POOL by **--id** or by their inputs. A row without a
    label failed and is not suggested again; so did rows whose label is one of the texts given by **--failed**. With
    fewer than ten labels the suggestions are random.

    Decimal commas, semicolons, tabs and encodings are recognised; the points are written as POOL is.

    The suggested rows have two further columns: **local_complexity**, how quickly the target varies there, and
    **superior_density**, how densely such a region should be labelled. The report shows both over all candidates, and
    the expected savings.

    Example: **lobal suggest pool.csv labels.csv --target y --id sample --number 64 --output next.csv**

    Label those rows, add them to labels.csv, and run the command again with another **--output**, or with **--force**
    to overwrite the last one. Nothing is stored in between: for further suggestions while the first rows are being
    labelled, pass those as **--pending**, one or more files.

    Example: **lobal suggest pool.csv labels.csv --target y --id sample --pending next.csv --output more.csv**
    """
    from rich.console import Console

    from lobal.cli.suggestion import Request, outlook, write_suggestion
    from lobal.cli.suggestion import suggest as suggestion_for
    from lobal.core.dialects import TableOptions
    from lobal.core.tables import table_format

    page = output.with_suffix(".html") if report is None else report
    with plain_errors():
        request = Request(
            pool=pool,
            labels=tuple(labels),
            target=target,
            number=number,
            inputs=None if inputs is None else tuple(name.strip() for name in inputs.split(",")),
            identifier=identifier,
            pending=tuple(pending or ()),
            options=TableOptions(separator=separator, decimal=decimal, encoding=encoding, sheet=sheet),
            skip_incomplete=skip_incomplete,
            failed=texts_of(failed),
            censored=censored,
            seed=seed,
        )
    with plain_errors(), nullcontext() if quiet else Console(stderr=True).status("fitting the model to the labels"):
        table_format(output)  # fails before the work, not after it
        refuse_to_overwrite(outputs := {"--output": output, "--report": page}, [pool, *labels, *request.pending])
        refuse_existing(outputs, force=force)
        make_places(outputs)
        suggestion = suggestion_for(request)
        write_suggestion(suggestion, output, page)
    if not quiet:
        for line in [*suggestion.notes, outlook(suggestion.learner), f"{number} points in {output}, report in {page}"]:
            typer.echo(line)


@app.command()
def report(
    campaign: Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="Folder of a campaign.")],
    output: Annotated[
        Path | None, typer.Option(help="File for the report.", show_default="the folder with suffix .html")
    ] = None,
    force: Force = False,
) -> None:
    """Write the report of a campaign that was begun in Python: expected savings, where the labels are, the history.

    The campaign is only read and may be running. An earlier report is replaced, another file only with **--force**.
    Campaigns of the command line have **lobal campaign report**, which knows their names.

    Example: **lobal report campaign --output campaign.html**
    """
    from rich.console import Console

    from lobal.active.learner import ActiveLearner
    from lobal.report.html import campaign_report

    page = campaign.with_name(f"{campaign.resolve().name}.html") if output is None else output
    with plain_errors(), Console(stderr=True).status("fitting the model to the labels"):
        refuse_to_overwrite({"--output": page}, own_files(campaign))
        refuse_other_than_report("--output", page, force=force)
        make_places({"--output": page})
        campaign_report(ActiveLearner.read(campaign), page, title=f"Campaign {campaign.resolve().name}")
    hint = f"; `lobal campaign report {campaign}` names the labels" if (campaign / TABLES).is_file() else ""
    typer.echo(f"report in {page}{hint}")
