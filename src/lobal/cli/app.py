"""The command line: one thin function per command, heavy imports inside, so that help comes at once."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from lobal import __version__

SMALLEST_DEMO = 128  # an eighth of it starts a campaign, said before anything heavy is imported

app = typer.Typer(name="lobal", no_args_is_help=True, add_completion=False, rich_markup_mode="markdown")
forcefield = typer.Typer(
    name="forcefield", no_args_is_help=True, rich_markup_mode="markdown", help="Force fields of molecules."
)
app.add_typer(forcefield)

EnergyUnit: TypeAlias = Annotated[
    str | None,
    typer.Option(help="eV, meV, kcal/mol, kJ/mol or Hartree, where a file does not say.", show_default=False),
]
LengthUnit: TypeAlias = Annotated[
    str | None, typer.Option(help="Ang, Bohr or nm, where a file does not say.", show_default="Ang")
]


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
    from experiments.demonstration import demonstrate

    with _plain_errors():
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
    with _plain_errors(), nullcontext() if quiet else Console(stderr=True).status("fitting the model to the labels"):
        table_format(output)  # before the work, not after it
        _refuse_to_overwrite(output, [pool, labels, *request.pending])
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
    with _plain_errors(), Console(stderr=True).status("fitting the model to the labels"):
        campaign_report(ActiveLearner.read(campaign), page, title=f"Campaign {campaign.resolve().name}")
    typer.echo(f"report in {page}")


@app.command()
def bench(
    sizes: Annotated[str, typer.Option(help="Numbers of labels, separated by commas.")] = "1024,2048,4096",
    engines: Annotated[
        str,
        typer.Option(
            help="What to time, separated by commas: analytic, adam, gpytorch, gpytorch-plain, svgp.",
            metavar="A,B,C",
        ),
    ] = "analytic,adam,gpytorch,svgp",
    m: Annotated[int, typer.Option(min=1, help="Inducing points of the experts.")] = 512,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Threads on the CPU.")] = 1,
    max_epochs: Annotated[int, typer.Option(min=1, help="Most epochs of the GPyTorch models.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and models.")] = 0,
    output: Annotated[Path, typer.Option(help="Folder for the numbers and the figure.")] = Path("out/bench"),
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not say what is going on.")] = False,
) -> None:
    """Time lobal on the Doppler function: beside stock GPyTorch, and beside what the machine allows.

    **analytic** and **adam** are lobal's engines. **gpytorch** is the same mixture in stock GPyTorch modules, as fast
    as those allow, **gpytorch-plain** the same as its documentation would have it, **svgp** a single sparse
    Gaussian process. Training that **--max-epochs** cuts off is extrapolated, and marked so. Every number is the wall
    time of one run: leave the machine alone meanwhile.

    Example: **lobal bench --sizes 1024,2048,4096 --m 512 --device cpu --threads 1 --output out/bench**

    How time and memory grow: **lobal bench --engines analytic --sizes 4096,8192,16384,32768,65536,131072**
    """
    from benchmarks.command import Plan
    from benchmarks.command import bench as run_bench

    with _plain_errors():
        plan = Plan(
            sizes=_whole_numbers(sizes),
            methods=[name.strip() for name in engines.split(",")],
            m=m,
            device=device,
            threads=threads,
            max_epochs=max_epochs,
            seed=seed,
        )
        run_bench(plan, output, quiet=quiet)


@forcefield.command("train")
def train_force_field(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Energies and forces of one molecule: npz, extended xyz, ASE's .db.")
    ],
    output: Annotated[Path, typer.Option(help="File for the force field.")],
    n: Annotated[int, typer.Option(min=2, help="Configurations to learn from, drawn at random.")] = 500,
    validation: Annotated[
        int, typer.Option(min=2, help="Configurations to choose bandwidth and noise by; at most a fifth of all.")
    ] = 200,
    labels: Annotated[
        str | None,
        typer.Option(help="What to learn from: forces, energies or both.", show_default="forces, if there are any"),
    ] = None,
    anisotropic: Annotated[
        bool, typer.Option("--anisotropic", help="Train a bandwidth for every kind of pair of atoms: better, slower.")
    ] = False,
    mixture: Annotated[
        bool, typer.Option("--mixture", help="Mix experts of several bandwidths: local bandwidths, much slower.")
    ] = False,
    inducing: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Configurations, of those learned from, to predict with: smaller and faster to use, less exact.",
            show_default="all",
        ),
    ] = None,
    energy_unit: EnergyUnit = None,
    length_unit: LengthUnit = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Learn the energies and forces of a molecule.

    DATA holds configurations of one molecule, in one order of atoms: an npz file with arrays **R, E, F, z** (as sgdml
    writes them) or **coords, energies, forces, nuclear_charges** (as rMD17 has them), or whatever ASE reads.

    The molecule's symmetries, the bandwidth and the noise are found from the data. Of several trajectories in DATA
    (array **traj**) a fifth is kept for validation. What is printed at the end are errors at the configurations kept.

    Bandwidths are in units of Sigma_E: eight times the distance at which configurations are from each other or, with
    **--anisotropic**, one trained for every kind of pair of atoms. That lowered the errors of 500 configurations of
    malonaldehyde by a quarter; with 100 it hardly helps. With **--mixture** the force field also says how complex the
    energy is around each configuration; best with **--labels both** and a GPU.

    With **--inducing** so many configurations speak for all. Of malonaldehyde, 100 that speak for 1000 had half the
    error of 100 alone and twice that of all 1000, in an eighth of the file and, for many predictions, a tenth of the
    time; the training takes longer.

    Example: **lobal forcefield train malonaldehyde.npz --output malonaldehyde.lobal --n 500**
    """
    from lobal.cli.forcefield import TrainRequest
    from lobal.cli.forcefield import train as run_train

    with _plain_errors():
        _refuse_to_overwrite(output, [data])
        request = TrainRequest(
            data=data,
            output=output,
            n=n,
            validation=validation,
            labels=labels,
            anisotropic=anisotropic,
            mixture=mixture,
            inducing=inducing,
            energy_unit=energy_unit,
            length_unit=length_unit,
            seed=seed,
            device=device,
        )
        run_train(request, quiet=quiet)


@forcefield.command("evaluate")
def evaluate_force_field(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File that lobal forcefield train wrote.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Energies and forces to compare with.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the errors as JSON, in eV and eV/Angstrom.")] = False,
    energy_unit: EnergyUnit = None,
    length_unit: LengthUnit = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
) -> None:
    """Compare a force field with energies and forces computed otherwise.

    Configurations that the force field has learned from are left out. Energies are compared as they are, forces
    component by component.

    Example: **lobal forcefield evaluate malonaldehyde.lobal malonaldehyde.npz --json**
    """
    from lobal.cli.forcefield import evaluate as run_evaluate

    with _plain_errors():
        run_evaluate(model, data, as_json=as_json, energy_unit=energy_unit, length_unit=length_unit, device=device)


@forcefield.command("active")
def learn_force_field_actively(
    pool: Annotated[
        Path, typer.Argument(metavar="POOL", help="Configurations of one molecule: npz, extended xyz, ASE's .db.")
    ],
    campaign: Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="Folder that the campaign is kept in.")],
    sizes: Annotated[
        str, typer.Option(help="Numbers of labels at which a force field is fitted, separated by commas.")
    ] = "512,1024,2048",
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            help="Energies and forces computed for configurations of POOL; may be given several times.", metavar="FILE"
        ),
    ] = None,
    test_density: Annotated[
        str | None,
        typer.Option(
            help="Where errors count: pool, as often as configurations come by in POOL, or uniform, everywhere alike.",
            show_default="pool",
        ),
    ] = None,
    validation: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Configurations to report errors at, kept out of the campaign; at most a fifth of POOL.",
            show_default="1000, if POOL has labels",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of everything random.", show_default="0")] = None,
    energy_unit: EnergyUnit = None,
    length_unit: LengthUnit = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Choose which configurations of a molecule to compute, and learn a force field from them.

    POOL holds configurations of one molecule, such as a long trajectory of a cheap method. The first labels are
    spread over it; from then on they go where the force field so far finds the energy surface complex.

    Where POOL has **no energies and forces**, the next configurations to compute are written to **CAMPAIGN/next.xyz**.
    Compute them with any program, and run the same command with **--labels**: it takes the results, fits, and writes
    the following ones. Results are recognised by the row number in each frame or by the positions.

    Example: **lobal forcefield active pool.xyz campaign --sizes 512,1024 --labels computed.xyz**

    Where POOL **has both**, labels are taken from it as they are asked for, and errors at configurations kept apart
    are printed at every size: from other trajectories where POOL numbers them (array **traj**), else at random.

    The campaign may be stopped at any time; the same command goes on. The force field is **CAMPAIGN/model.lobal**.
    """
    from lobal.cli.forcefield_active import ActiveRequest
    from lobal.cli.forcefield_active import active as run_active

    with _plain_errors():
        request = ActiveRequest(
            pool=pool,
            campaign=campaign,
            sizes=_whole_numbers(sizes),
            labels=labels or [],
            test_density=test_density,
            validation=validation,
            seed=seed,
            energy_unit=energy_unit,
            length_unit=length_unit,
            device=device,
        )
        run_active(request, quiet=quiet)


def _whole_numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"expected whole numbers separated by commas, got {text!r}") from error


def _refuse_to_overwrite(output: Path, read: list[Path]) -> None:
    if output.resolve() in [path.resolve() for path in read]:
        raise ValueError(f"{output} is read, and would be overwritten; choose another --output")


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What is wrong with the user's files or numbers as a message and exit code 2, without a traceback."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
