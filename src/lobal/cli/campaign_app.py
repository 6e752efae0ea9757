"""`lobal campaign` and `lobal run`: one function per command, heavy imports inside, so that `--help` is fast."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from lobal.cli.checks import (
    check_campaign,
    check_files,
    make_places,
    own_files,
    plain_errors,
    refuse_existing,
    refuse_other_than_report,
    refuse_to_overwrite,
)
from lobal.cli.table_options import (
    Censored,
    Decimal,
    Encoding,
    Failed,
    Force,
    Separator,
    Sheet,
    SkipIncomplete,
    texts_of,
)

campaign = typer.Typer(
    name="campaign",
    no_args_is_help=True,
    help="A campaign in a folder: ask for points, tell their labels, look at what is known.",
    rich_markup_mode="markdown",
)
INTERRUPTED = 130  # exit code after Ctrl-C, by convention
Folder: TypeAlias = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the campaign.")]


@campaign.command()
def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the campaign, which is made.")],
    target: Annotated[str, typer.Option(help="Column of the labels; several of them separated by commas.")],
    pool: Annotated[
        Path | None, typer.Option(help="Table of all candidates, one per row: CSV, Excel or parquet.")
    ] = None,
    space: Annotated[
        Path | None, typer.Option(help="Search space as JSON: variables and constraints (docs/search_space.md).")
    ] = None,
    identifier: Annotated[str | None, typer.Option("--id", help="Column that identifies the rows of the pool.")] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            help="Input columns of the pool, separated by commas; columns of text are categories.",
            metavar="A,B,C",
            show_default="all numeric columns but for target, cost and identifier",
        ),
    ] = None,
    cost: Annotated[str | None, typer.Option(help="Column of the pool with the cost of a label.")] = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    skip_incomplete: SkipIncomplete = False,
    failed: Failed = None,
    censored: Censored = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
) -> None:
    """Begin a campaign, from a table of candidates or a search space.

    Example: **lobal campaign new hardness --pool alloys.csv --target HV --id sample**

    Then ask for points, measure them, tell the results, and ask again:

    **lobal campaign ask hardness 20 --output next.csv**

    **lobal campaign tell hardness results.csv**
    """
    with plain_errors():
        check_files([path for path in (pool, space) if path is not None])
    from lobal.cli.campaign.begin import Beginning, begin
    from lobal.core.dialects import TableOptions

    with plain_errors():
        request = Beginning(
            folder=folder,
            targets=texts_of([target]),
            pool=pool,
            space=space,
            inputs=None if inputs is None else texts_of([inputs]),
            identifier=identifier,
            cost=cost,
            options=TableOptions(separator=separator, decimal=decimal, encoding=encoding, sheet=sheet),
            skip_incomplete=skip_incomplete,
            failed=texts_of(failed),
            censored=censored,
            seed=seed,
        )
        _print(begin(request))


@campaign.command()
def ask(
    folder: Folder,
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="How many points to ask for.")],
    output: Annotated[Path, typer.Option(help="Table for the points: CSV, Excel or parquet.")] = Path("next.csv"),
    force: Force = False,
) -> None:
    """Ask for the points to label next, and why each of them.

    They are pending until their labels are told. The table has an empty column for the labels, to be filled in.

    Example: **lobal campaign ask hardness 20 --output next.csv**
    """
    _check(folder, output=output, force=force)
    from lobal.cli.campaign.rounds import ask as asked_for

    with plain_errors(), _working("fitting the model to the labels, choosing points"):
        sentences = asked_for(folder, number, output)
    _print(sentences)


@campaign.command()
def tell(
    folder: Folder,
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS", help="Tables with labels: CSV, Excel or parquet.")
    ],
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    failed: Failed = None,
    censored: Censored = None,
    again: Annotated[
        bool, typer.Option("--again", help="Record labels that are known already as repeated measurements.")
    ] = False,
) -> None:
    """Record labels, of points that were asked for or of any others, in any order.

    Rows are found by the identifier or by their inputs, rounded or not. Labels that are recorded already are left out,
    so a table may grow from round to round. An empty cell is a label to come; **failed** says that there will be none,
    as do the texts of **--failed**, given here or to **lobal campaign new**.

    Example: **lobal campaign tell hardness results.csv --failed cracked**
    """
    _check(folder, results)
    from lobal.cli.campaign.rounds import Results
    from lobal.cli.campaign.rounds import tell as record
    from lobal.core.dialects import TableOptions

    with plain_errors():
        options = TableOptions(separator=separator, decimal=decimal, encoding=encoding, sheet=sheet)
        given = Results(files=tuple(results), options=options, failed=texts_of(failed), censored=censored, again=again)
        _print(record(folder, given))


@campaign.command()
def status(folder: Folder) -> None:
    """Say how many labels there are, how good predictions are, and whether to go on.

    The campaign is only read and may be running.
    """
    _check(folder)
    from lobal.cli.campaign.views import status as sentences

    with plain_errors(), _working("fitting the model to the labels"):
        found = sentences(folder)
    _print(found)


@campaign.command()
def predict(
    folder: Folder,
    points: Annotated[
        Path | None,
        typer.Argument(
            metavar="POINTS", help="Table of points: their inputs, or their identifiers.", show_default="all candidates"
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Table for the predictions.")] = Path("predictions.csv"),
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    force: Force = False,
) -> None:
    """Predict labels: mean, standard deviation, 95% interval and local complexity of every point.

    Example: **lobal campaign predict hardness wanted.csv --output predictions.csv**
    """
    _check(folder, [] if points is None else [points], output=output, force=force)
    from lobal.cli.campaign.views import predict as write
    from lobal.core.dialects import TableOptions

    with plain_errors(), _working("fitting the model to the labels"):
        options = TableOptions(separator=separator, decimal=decimal, encoding=encoding, sheet=sheet)
        n = write(folder, points, output, options)
    typer.echo(f"{n} predictions in {output}.")


@campaign.command()
def report(
    folder: Folder,
    output: Annotated[
        Path | None, typer.Option(help="File for the page.", show_default="report.html in the folder")
    ] = None,
    maps: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="A,B", help="Two inputs to map beside the most telling ones; may be given several times."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Write the page of the campaign: what there is, the batch and why, errors, maps, failures, history.

    The campaign is only read and may be running. An earlier report is replaced, another file only with **--force**.
    """
    page = folder / "report.html" if output is None else output
    with plain_errors():
        check_campaign(folder)
        refuse_to_overwrite({"--output": page}, own_files(folder))
        refuse_other_than_report("--output", page, force=force or output is None)
        make_places({"--output": page})
    from lobal.cli.campaign.views import report as write

    with plain_errors(), _working("fitting the model to the labels"):
        write(folder, page, [_pair(each) for each in maps or ()])
    typer.echo(f"Report in {page}.")


@campaign.command()
def export(
    folder: Folder,
    output: Annotated[Path, typer.Option(help="Table for the points and labels.")] = Path("labels.csv"),
    force: Force = False,
) -> None:
    """Write all points of the campaign with their labels: labelled, pending and failed ones."""
    _check(folder, output=output, force=force)
    from lobal.cli.campaign.views import export as write

    with plain_errors():
        n = write(folder, output)
    typer.echo(f"{n} rows in {output}.")


@campaign.command()
def undo(folder: Folder) -> None:
    """Take the last event back: labels that were told, or points that were asked for. Nothing is deleted."""
    _check(folder)
    from lobal.cli.campaign.rounds import undo as take_back

    with plain_errors():
        typer.echo(take_back(folder))


def run(
    folder: Folder,
    command: Annotated[str, typer.Option(help="Program that labels a point, such as './simulate {input} {output}'.")],
    labels: Annotated[int, typer.Option(min=1, help="Number of labels at which to stop.")],
    batch: Annotated[int, typer.Option(min=1, help="Points per round, after each of which the model is fitted.")] = 10,
    budget: Annotated[
        float | None,
        typer.Option(
            help="The most that all points may cost together, by --cost of the campaign.", show_default="none"
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Calls at a time.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds after which a call is given up.", show_default="any time")
    ] = None,
    retries: Annotated[int, typer.Option(min=0, help="Further attempts at a call that fails.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Drive a campaign with an external program as the source of labels.

    The program gets a JSON file with the inputs by name, and writes a JSON file with the targets by name. If a call
    fails, so has its point; if a target is NaN or null, only that target has. The files of all calls are kept in
    the folder **calls** of the campaign. Ctrl-C waits for the calls that are running, a second one kills them; the same
    command goes on later.

    Example: **lobal run cooling --command './simulate {input} {output}' --labels 100 --workers 4 --timeout 600**
    """
    _check(folder)
    from lobal.cli.campaign.driver import Drive, StoppedError, drive

    with plain_errors():
        settings = Drive(
            command=command,
            labels=labels,
            batch=batch,
            budget=budget,
            workers=workers,
            timeout=timeout,
            retries=retries,
        )
        try:
            _print(drive(folder, settings, progress=not quiet))
        except StoppedError as stopped:
            typer.echo(str(stopped), err=True)
            raise typer.Exit(INTERRUPTED) from None


def _check(folder: Path, read: Sequence[Path] = (), *, output: Path | None = None, force: bool = False) -> None:
    """Refuse a folder, files to read and a table to write that will not do: before the work, and its heavy imports."""
    with plain_errors():
        check_campaign(folder)
        check_files(read)
        if output is not None:
            refuse_to_overwrite({"--output": output}, [*read, *own_files(folder)])
            refuse_existing({"--output": output}, force=force)
            from lobal.core.tables import table_format

            table_format(output)
            make_places({"--output": output})


def _pair(text: str) -> tuple[str, str]:
    names = texts_of([text])
    if len(names) != 2:
        raise ValueError(f"--map takes two inputs separated by a comma, got {text!r}")
    return names[0], names[1]


@contextmanager
def _working(words: str) -> Iterator[None]:
    from rich.console import Console

    with Console(stderr=True).status(words):
        yield


def _print(sentences: list[str]) -> None:
    for sentence in sentences:
        typer.echo(sentence)
