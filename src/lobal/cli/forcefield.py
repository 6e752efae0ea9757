"""The bodies of `lobal forcefield train` and `evaluate`, with status messages on the terminal."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.status import Status

from lobal.molecules.field.forcefield import ForceField, errors_on, unseen
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import train as trained
from lobal.molecules.geometry.trajectory import read_trajectory

NAMED_SHARE = 0.005  # smallest share of an expert that is printed


def train(
    data: Path,
    output: Path,
    settings: ForceFieldSettings,
    *,
    n: int,
    validation: int,
    seed: int,
    energy_unit: str | None,
    quiet: bool,
) -> None:
    """Train, save and print errors."""
    if not output.resolve().parent.is_dir():
        raise ValueError(f"there is no folder {output.parent} for the force field; make it first")
    with status_messages(quiet):
        trajectory = read_trajectory(data, energy_unit=energy_unit)
        field, errors = trained(trajectory, settings, n=n, validation=validation, seed=seed)
        field.save(output)
    if quiet:
        return
    about = field.about
    inducing = f" through {about['inducing']} of them" if "inducing" in about else ""
    print_lines(
        f"{data}: {len(trajectory)} configurations, in {trajectory.units}",
        f"learned from {about['configurations']} configurations{inducing}, {about['symmetries']} symmetries "
        f"(with the identity), {_bandwidths(field)}",
        f"errors at {about['validation']} validation configurations:",
        *error_lines(errors._asdict()),
        f"force field in {output}",
    )


def evaluate(model: Path, data: Path, *, as_json: bool, energy_unit: str | None, device: str | None) -> None:
    """Print the errors of a saved force field, as a table or as JSON and nothing else."""
    with status_messages(quiet=False):
        force_field = ForceField.load(model, device)
        trajectory = read_trajectory(data, energy_unit=energy_unit)
        new = unseen(force_field, trajectory)
        errors = errors_on(force_field, new)._asdict()
    left_out = len(trajectory) - len(new)
    if as_json:
        print(json.dumps({**errors, "configurations": len(new), "left_out": left_out}))
    else:
        print_lines(f"{len(new)} configurations, {left_out} that were learned from left out", *error_lines(errors))


def _bandwidths(force_field: ForceField) -> str:
    about = force_field.about
    if force_field.gate is None:
        return f"bandwidth {about['bandwidth']:.3g} Sigma_E, noise {about['noise']:.0e}"
    shares = zip(about["bandwidths"], about["shares"], strict=True)
    used = ", ".join(f"{bandwidth:.3g} ({share:.0%})" for bandwidth, share in shares if share >= NAMED_SHARE)
    return f"bandwidths (and shares) {used} Sigma_E, noise {about['noise']:.0e}"


def error_lines(errors: Mapping[str, float | None]) -> list[str]:
    """Errors in thousandths of eV, where labels are known."""
    units = {"energy": "meV", "force": "meV/Angstrom"}
    lines = []
    for name, value in errors.items():
        what, measure = name.split("_")
        if value is not None:
            lines.append(f"  {what:6} {measure.upper():4} {1e3 * value:10.3f} {units[what]}")
    return lines


def print_lines(*lines: str) -> None:
    """Print line by line."""
    for line in lines:
        print(line, flush=True)


class _StatusHandler(logging.Handler):
    """Shows the last message on the terminal; warnings stay there."""

    def __init__(self, status: Status) -> None:
        super().__init__(logging.INFO)
        self._status = status

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.levelno < logging.WARNING:
            self._status.update(message)
        else:
            self._status.console.print(message)


@contextmanager
def status_messages(quiet: bool) -> Iterator[None]:
    """Show what lobal logs on the error stream, so that other programs can read what is printed."""
    if quiet:
        yield
        return
    log = logging.getLogger("lobal")
    with Console(stderr=True).status("") as status:
        handler, level = _StatusHandler(status), log.level
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        try:
            yield
        finally:
            log.setLevel(level)
            log.removeHandler(handler)
