"""The bodies of `lobal forcefield train` and `evaluate`, with status messages on the terminal."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from lobal.molecules.field.evaluation import Errors, errors_on, unseen
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import Trained
from lobal.molecules.field.training import train as trained
from lobal.molecules.geometry.trajectory import read_trajectory

NAMED_SHARE = 0.005  # smallest share of an expert that is printed
# Mean absolute by root mean squared error from which on errors are nearly constant: 0.8 for normal errors.
OFFSET = 0.98
FEWEST_COMPARED = 10  # configurations to conclude that from


def train(
    data: Path,
    output: Path,
    settings: ForceFieldSettings,
    *,
    n: int,
    validation: int,
    seed: int,
    energy_unit: str | None,
    length_unit: str | None,
    quiet: bool,
) -> None:
    """Train, save and print errors."""
    if not output.resolve().parent.is_dir():
        raise ValueError(f"there is no folder {output.parent} for the force field; make it first")
    with status_messages(quiet) as on_status:
        on_status(f"reading {data}")
        trajectory = read_trajectory(data, energy_unit=energy_unit, length_unit=length_unit)
        result = trained(trajectory, settings, n=n, validation=validation, seed=seed, on_status=on_status)
        result.force_field.save(output)
    if not quiet:
        about = result.force_field.about
        print_lines(f"{data}: {len(trajectory)} configurations, in {trajectory.units}", *_summary(result))
        if about["configurations"] < n:
            learned = about["configurations"]
            print(f"{n} configurations to learn from were requested, {learned} are left beside the validation ones")
        if settings.inducing is not None and about["inducing"] < settings.inducing:
            print(f"{settings.inducing} inducing configurations were requested, {about['inducing']} are distinct")
        print(f"force field in {output}")


def evaluate(
    model: Path, data: Path, *, as_json: bool, energy_unit: str | None, length_unit: str | None, device: str | None
) -> None:
    """Print the errors of a saved force field, as a table or as JSON and nothing else."""
    with status_messages(quiet=False) as on_status:
        force_field = ForceField.load(model, device)
        on_status(f"reading {data}")
        trajectory = read_trajectory(data, energy_unit=energy_unit, length_unit=length_unit)
        new = unseen(force_field, trajectory)
        on_status(f"predicting {len(new)} configurations")
        errors = errors_on(force_field, new)
    left_out = len(trajectory) - len(new)
    if as_json:
        print(json.dumps({**errors._asdict(), "configurations": len(new), "left_out": left_out}))
        return
    print_lines(f"{len(new)} configurations, {left_out} that were learned from left out", *_lines(errors))
    if len(new) >= FEWEST_COMPARED and is_offset(errors):
        print_lines(
            "  the errors of energies are nearly constant: these energies have another zero, or come from another "
            "method, than those of the force field"
        )


def is_offset(errors: Errors) -> bool:
    """Whether errors of energies are nearly constant, so that their mean and root mean square are nearly equal."""
    if errors.energy_rmse is None or errors.energy_mae is None:
        return False
    return errors.energy_mae > OFFSET * errors.energy_rmse


def _summary(result: Trained) -> list[str]:
    about = result.force_field.about
    inducing = f" through {about['inducing']} of them" if "inducing" in about else ""
    return [
        f"learned from {about['configurations']} configurations{inducing}, {about['symmetries']} symmetries "
        f"(with the identity), {_bandwidths(result.force_field)}",
        f"errors at {about['validation']} validation configurations:",
        *_lines(result.validation),
    ]


def _bandwidths(force_field: ForceField) -> str:
    about = force_field.about
    if force_field.gate is None:
        return f"bandwidth {about['bandwidth']:.3g} Sigma_E, noise {about['noise']:.0e}"
    shares = zip(about["bandwidths"], about["shares"], strict=True)
    used = ", ".join(f"{bandwidth:.3g} ({share:.0%})" for bandwidth, share in shares if share >= NAMED_SHARE)
    return f"bandwidths (and shares) {used} Sigma_E, noise {about['noise']:.0e}"


def _lines(errors: Errors) -> list[str]:
    """Errors in thousandths of eV, where labels are known."""
    units = {"energy": "meV", "force": "meV/Angstrom"}
    rows = [(*name.split("_"), value) for name, value in errors._asdict().items() if value is not None]
    return [f"  {what:6} {measure.upper():4} {1e3 * value:10.3f} {units[what]}" for what, measure, value in rows]


def print_lines(*lines: str) -> None:
    """Print line by line."""
    for line in lines:
        print(line, flush=True)


@contextmanager
def status_messages(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A callback that shows messages on the error stream, so that other programs can read what is printed."""
    if quiet:
        yield lambda _: None
        return
    with Console(stderr=True).status("") as status:
        yield status.update
