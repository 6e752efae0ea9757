"""The options of `lobal forcefield`: declarations only, heavy imports inside, so that help comes at once."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from lobal.cli.checks import plain_errors, refuse_to_overwrite, whole_numbers
from lobal.cli.table_options import Force

forcefield = typer.Typer(
    name="forcefield", no_args_is_help=True, rich_markup_mode="markdown", help="Force fields of molecules."
)

EnergyUnit: TypeAlias = Annotated[
    str | None,
    typer.Option(help="eV, meV, kcal/mol, kJ/mol or Hartree, where a file does not say.", show_default=False),
]
Device: TypeAlias = Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
ENDED = 3  # exit code where a trajectory left what the force field knows


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
    anisotropy: Annotated[
        str | None,
        typer.Option(
            help="Train bandwidths of pairs of atoms: tied, one for pairs that symmetries exchange, or free.",
            show_default="one bandwidth for all",
        ),
    ] = None,
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
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Learn the energies and forces of a molecule.

    DATA holds configurations of one molecule, in one order of atoms: an npz file with arrays **R, E, F, z** (as sgdml
    writes them) or **coords, energies, forces, nuclear_charges** (as rMD17 has them), or whatever ASE reads.

    The molecule's symmetries, the bandwidth and the noise are found from the data. Of several trajectories in DATA
    (array **traj**) a fifth is kept for validation. Errors at the configurations kept are printed at the end.

    Bandwidths are in units of Sigma_E: eight times the typical distance of configurations or, with **--anisotropy
    tied**, one trained for every kind of pair of atoms, which is worth it from some hundred configurations on. With
    **--mixture** the force field also has local bandwidths and complexity; best with **--labels both** and a GPU.

    Example: **lobal forcefield train malonaldehyde.npz --output malonaldehyde.lobal --n 500**
    """
    from lobal.cli.forcefield import train as run_train
    from lobal.molecules.field.settings import ForceFieldSettings

    with plain_errors():
        refuse_to_overwrite({"--output": output}, [data])
        settings = ForceFieldSettings(
            labels=labels, anisotropy=anisotropy, mixture=mixture, inducing=inducing, device=device
        )
        numbers = {"n": n, "validation": validation, "seed": seed}
        run_train(data, output, settings, **numbers, energy_unit=energy_unit, quiet=quiet)


@forcefield.command("evaluate")
def evaluate_force_field(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File that lobal forcefield train wrote.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Energies and forces to compare with.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the errors as JSON, in eV and eV/Angstrom.")] = False,
    energy_unit: EnergyUnit = None,
    device: Device = "cpu",
) -> None:
    """Compare a force field with energies and forces computed otherwise.

    Configurations that the force field has learned from are left out. Energies are compared as they are, forces
    component by component.

    Example: **lobal forcefield evaluate malonaldehyde.lobal malonaldehyde.npz --json**
    """
    from lobal.cli.forcefield import evaluate as run_evaluate

    with plain_errors():
        run_evaluate(model, data, as_json=as_json, energy_unit=energy_unit, device=device)


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
            help="Where errors count: pool, as often as configurations occur in POOL, or uniform, everywhere alike.",
            show_default="pool",
        ),
    ] = None,
    dimension: Annotated[
        float | None,
        typer.Option(
            help="Intrinsic dimension; give the number of large motions, such as rotors, if it is known.",
            show_default="estimated",
        ),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(help="Width of the kernels of densities, in 1/Angstrom.", show_default="found from POOL"),
    ] = None,
    anisotropy: Annotated[
        str | None,
        typer.Option(
            help="Bandwidths of pairs of atoms: tied, one for pairs that symmetries exchange, or free.",
            show_default="tied",
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
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Choose which configurations of a molecule to compute, and learn a force field from them.

    POOL holds configurations of one molecule, such as a long trajectory of a cheap method. The first labels are
    spread over it; later ones go where the energy surface is complex according to the force field so far.

    Where POOL has **no energies and forces**, the next configurations to compute are written to **CAMPAIGN/next.xyz**.
    Compute them with any program, and run the same command with **--labels**: it reads the results, fits, and writes
    the next ones. Results are recognised by their positions.

    Example: **lobal forcefield active pool.xyz campaign --sizes 512,1024 --labels computed.xyz**

    Where POOL **has both**, labels are taken from it as they are asked for, and errors at configurations kept apart
    are printed at every size: from other trajectories where POOL numbers them (array **traj**), else at random.

    The campaign may be stopped at any time; the same command continues. The force field is **CAMPAIGN/model.lobal**,
    and **lobal report CAMPAIGN** writes a report.
    """
    from lobal.cli.forcefield_active import ActiveRequest
    from lobal.cli.forcefield_active import active as run_active

    with plain_errors():
        request = ActiveRequest(
            pool=pool,
            campaign=campaign,
            sizes=whole_numbers(sizes),
            labels=labels or [],
            test_density=test_density,
            dimension=dimension,
            width=width,
            anisotropy=anisotropy,
            validation=validation,
            seed=seed,
            energy_unit=energy_unit,
            device=device,
        )
        run_active(request, quiet=quiet)


@forcefield.command("grow")
def grow_force_field(
    molecule: Annotated[
        Path, typer.Argument(metavar="MOLECULE", help="A file with one configuration, near equilibrium: xyz or npz.")
    ],
    output: Annotated[Path, typer.Option(help="Folder that everything is kept in.")],
    oracle: Annotated[
        str,
        typer.Option(
            help="Program for the labels: gfn2, gfn1, pbe, or module:function, which returns an ASE calculator."
        ),
    ] = "gfn2",
    temperature: Annotated[float, typer.Option(help="Of all trajectories, in K.")] = 500.0,
    budget: Annotated[int, typer.Option(help="Labels to learn from, the first ones included.")] = 800,
    target: Annotated[
        float | None,
        typer.Option(help="Force RMSE at which to stop earlier, in meV/Angstrom.", show_default="none"),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            help="Program whose forces the first trajectories follow, some thousand calls.",
            show_default="gfn2 for pbe, otherwise the oracle",
        ),
    ] = None,
    charge: Annotated[int, typer.Option(help="Of the molecule, in elementary charges.")] = 0,
    multiplicity: Annotated[int, typer.Option(min=1, help="1 for closed shells, 2 for one unpaired electron.")] = 1,
    first: Annotated[int, typer.Option(help="Labels of the first trajectories to learn from.")] = 50,
    validation: Annotated[int, typer.Option(help="Further labels, of other first trajectories, for errors.")] = 50,
    ratio: Annotated[float, typer.Option(help="By which every round raises the number of labels.")] = 1.5,
    pool: Annotated[int, typer.Option(min=1, help="Configurations to simulate in every round.")] = 20_000,
    walkers: Annotated[int, typer.Option(min=1, help="Trajectories beside each other in the simulations.")] = 100,
    interval: Annotated[float, typer.Option(help="Time between configurations of a trajectory, in fs.")] = 10.0,
    time_step: Annotated[float, typer.Option(help="In fs.")] = 1.0,
    dimension: Annotated[
        float | None,
        typer.Option(help="Intrinsic dimension.", show_default="the number of bonds that can rotate"),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes for the programs.", show_default="one for every core")
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds without any answer after which calls are given up as hanging.")
    ] = 3600.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Learn a force field from one configuration of a molecule and a program for its energies and forces.

    No trajectory is needed. Short ones under the program's forces give the first labels, and others for validation.
    Then, round by round, the force field simulates configurations of its own, walkers starting again where they leave
    what it knows, and the program labels those that are worth most.

    The folder has every label as soon as it is there, and in the end **model.lobal**, **labels.xyz**,
    **validation.xyz** and **report.html**. Ctrl-C stops at any time; the same command continues, also with a larger
    **--budget**.

    Programs: **gfn2** and **gfn1** need tblite (pip install 'lobal[molecules]'), **pbe**, PBE/def2-SVP, needs PySCF too
    (pip install 'lobal[molecules,dft]'): the first trajectories follow GFN2, and only their frames are labelled by PBE.

    Example: **lobal forcefield grow malonaldehyde.xyz --budget 400 --output malonaldehyde**
    """
    from lobal.cli.forcefield_grow import GrowRequest
    from lobal.cli.forcefield_grow import grow as run_grow

    with plain_errors():
        request = GrowRequest(
            molecule=molecule,
            output=output,
            oracle=oracle,
            sampler=sampler,
            temperature=temperature,
            budget=budget,
            charge=charge,
            multiplicity=multiplicity,
            first=first,
            validation=validation,
            ratio=ratio,
            pool=pool,
            walkers=walkers,
            interval=interval,
            time_step=time_step,
            dimension=dimension,
            workers=workers,
            timeout=timeout,
            target=target,
            seed=seed,
            device=device,
        )
        run_grow(request, quiet=quiet)


@forcefield.command("md")
def move_with_force_field(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File of a force field.")],
    molecule: Annotated[Path, typer.Argument(metavar="MOLECULE", help="Configuration to start from: xyz or npz.")],
    steps: Annotated[int, typer.Option(min=1, help="Time steps.")],
    output: Annotated[Path, typer.Option(help="File for the frames, extended xyz.")] = Path("trajectory.xyz"),
    temperature: Annotated[float, typer.Option(help="In K.")] = 500.0,
    time_step: Annotated[float, typer.Option(help="In fs.")] = 0.5,
    friction: Annotated[float, typer.Option(help="Of the heat bath, in 1/fs; 0 for constant energy.")] = 0.01,
    every: Annotated[int, typer.Option(min=1, help="Steps from one frame to the next.")] = 20,
    walkers: Annotated[int, typer.Option(min=1, help="Trajectories beside each other.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of velocities and noise.")] = 0,
    device: Device = "cpu",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Run molecular dynamics with a force field, as long as it knows where it is.

    MOLECULE has the atoms of the force field, in the same order; the first configuration of several is taken.
    Velocities are drawn for the temperature. Frames have time (fs), walker, temperature (K), energy (eV) and forces
    (eV/Angstrom).

    A walker ends, and its last frame is written, where it **leaves what the force field knows** (it is much
    farther from the configurations learned from than these are from each other), where a **bond breaks** or forms,
    or where the **temperature** is six times that of the bath. The command says which and when; the others go on.

    Exit status: 0 if all steps were made, 3 if a walker ended before, 2 for options and files that will not do. Ctrl-C
    stops at any time; the frames so far stay in the file.

    Example: **lobal forcefield md malonaldehyde.lobal malonaldehyde.xyz --steps 20000 --temperature 500**
    """
    from lobal.cli.forcefield_md import MotionRequest, move

    with plain_errors():
        request = MotionRequest(
            model=model,
            molecule=molecule,
            output=output,
            steps=steps,
            every=every,
            walkers=walkers,
            temperature=temperature,
            time_step=time_step,
            friction=friction,
            seed=seed,
            device=device,
            force=force,
        )
        is_whole = move(request, quiet=quiet)
    if not is_whole:
        raise typer.Exit(ENDED)
