"""The bodies of `lobal forcefield`: from files to files, with a line on the terminal meanwhile."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from rich.console import Console

from lobal.molecules.field.evaluation import Errors, errors_on, unseen
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import Trained
from lobal.molecules.field.training import train as trained
from lobal.molecules.geometry.trajectory import read_trajectory

NAMED_SHARE = 0.005  # of the configurations that an expert is in charge of, to be named
# Mean absolute by root mean squared error, which is 0.8 for normal errors and one if all are the same.
OFFSET = 0.98
FEWEST_COMPARED = 10  # configurations, to say so


@final
@dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """What a user asks of `lobal forcefield train`."""

    data: Path
    output: Path
    n: int = 500
    validation: int = 200
    labels: str | None = None
    anisotropy: str | None = None
    mixture: bool = False
    inducing: int | None = None
    energy_unit: str | None = None
    length_unit: str | None = None
    seed: int = 0
    device: str | None = None

    def settings(self) -> ForceFieldSettings:
        """The settings of the force field, checked."""
        return ForceFieldSettings(
            labels=self.labels,
            anisotropy=self.anisotropy,
            mixture=self.mixture,
            inducing=self.inducing,
            device=self.device,
        )


def train(request: TrainRequest, *, quiet: bool) -> None:
    """Train, save and say how good it is; what is wrong with names and options is found out before the work."""
    settings = request.settings()
    if not request.output.resolve().parent.is_dir():
        raise ValueError(f"there is no folder {request.output.parent} for the force field; make it first")
    with status_line(quiet) as say:
        say(f"reading {request.data}")
        trajectory = read_trajectory(request.data, energy_unit=request.energy_unit, length_unit=request.length_unit)
        result = trained(
            trajectory, settings, n=request.n, validation=request.validation, seed=request.seed, on_status=say
        )
        result.force_field.save(request.output)
    if not quiet:
        _print(f"{request.data}: {len(trajectory)} configurations, in {trajectory.units}", *_summary(result))
        _print(*_fewer_than(request, result.force_field.about), f"force field in {request.output}")


def evaluate(
    model: Path, data: Path, *, as_json: bool, energy_unit: str | None, length_unit: str | None, device: str | None
) -> None:
    """Print the errors of a saved force field, as a table or as JSON and nothing else."""
    with status_line(quiet=False) as say:
        force_field = ForceField.load(model, device)
        say(f"reading {data}")
        trajectory = read_trajectory(data, energy_unit=energy_unit, length_unit=length_unit)
        new = unseen(force_field, trajectory)
        say(f"predicting {len(new)} configurations")
        errors = errors_on(force_field, new)
    left_out = len(trajectory) - len(new)
    if as_json:
        print(json.dumps({**errors._asdict(), "configurations": len(new), "left_out": left_out}))
        return
    _print(f"{len(new)} configurations, {left_out} that were learned from left out", *_lines(errors))
    if len(new) >= FEWEST_COMPARED and is_offset(errors):
        _print(
            "  nearly all of the energies' error is the same everywhere: these energies have another zero, or come "
            "from another method, than the force field's"
        )


def is_offset(errors: Errors) -> bool:
    """Whether energies are off by a constant, above all, as they are if the mean and the root mean square are alike."""
    if errors.energy_rmse is None or errors.energy_mae is None:
        return False
    return errors.energy_mae > OFFSET * errors.energy_rmse


def _fewer_than(request: TrainRequest, about: dict[str, Any]) -> list[str]:
    """What there was less of than asked for."""
    lines, n = [], about["configurations"]
    if n < request.n:
        lines.append(f"{request.n} configurations to learn from were asked for, and there are {n} beside those kept")
    if request.inducing is not None and about["inducing"] < request.inducing:
        lines.append(f"{request.inducing} inducing configurations were asked for, and {about['inducing']} differ")
    return lines


def _summary(result: Trained) -> list[str]:
    about = result.force_field.about
    through = f" through {about['inducing']} of them" if "inducing" in about else ""
    return [
        f"learned from {about['configurations']} configurations{through}, {about['symmetries']} symmetries "
        f"(with the identity), {_bandwidths(result.force_field)}",
        f"errors at {about['validation']} configurations that were kept to choose by:",
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
    """Errors in thousandths of eV, of what there was to compare with."""
    units = {"energy": "meV", "force": "meV/Angstrom"}
    rows = [(*name.split("_"), value) for name, value in errors._asdict().items() if value is not None]
    return [f"  {what:6} {measure.upper():4} {1e3 * value:10.3f} {units[what]}" for what, measure, value in rows]


def _print(*lines: str) -> None:
    for line in lines:
        print(line)


@contextmanager
def status_line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """What is going on, on the error stream, so that what is printed can be read by other programs."""
    if quiet:
        yield lambda _: None
        return
    with Console(stderr=True).status("") as status:
        yield status.update
