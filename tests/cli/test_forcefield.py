import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lobal.cli.app import app
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import typical_distance
from tests.molecules.setting import water


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["forcefield", *(str(argument) for argument in arguments)])


def said(result: Result) -> str:
    return " ".join(result.output.replace("│", " ").split())


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save(Path("water.npz"), e_unit="eV", r_unit="Ang")
    return tmp_path


def save(path: Path, **fields: Any) -> None:
    trajectory = water(60)
    assert trajectory.energies is not None
    assert trajectory.forces is not None
    arrays = {"R": trajectory.R, "E": trajectory.energies, "F": trajectory.forces, "z": trajectory.species}
    plain: dict[str, Any] = {name: array.numpy() for name, array in arrays.items()}
    np.savez(path, **plain, **fields)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--anisotropy", "tied"), "Sigma_E, noise"),
        (("--anisotropy", "free"), "Sigma_E, noise"),
        (("--mixture",), "bandwidths (and shares)"),
    ],
)
def test_other_models_are_trained_on_request(options: tuple[str, ...], words: str, files: Path) -> None:
    result = invoke("train", "water.npz", "--output", "water.lobal", "--n", 20, "--validation", 10, *options)
    assert result.exit_code == 0, result.output
    assert words in said(result)
    field = ForceField.load(files / "water.lobal")
    shared = field.kernel.shared_bandwidth
    assert (field.gate is not None) == ("--mixture" in options)
    assert bool(shared[0] != shared[2]) == ("--anisotropy" in options)
    assert bool(shared[0] != shared[1]) == ("free" in options)


def test_a_force_field_is_trained_and_evaluated(files: Path) -> None:
    result = invoke("train", "water.npz", "--output", "water.lobal", "--n", 30, "--validation", 10)
    assert result.exit_code == 0, result.output
    assert "learned from 30 configurations, 2 symmetries" in said(result)
    assert "errors at 10 validation configurations" in said(result)
    assert "60 configurations, in eV and Ang" in said(result)
    assert ForceField.load("water.lobal").about["source"] == "water.npz"
    result = invoke("evaluate", "water.lobal", "water.npz")
    assert "30 configurations, 30 that were learned from left out" in said(result)
    assert "force RMSE" in said(result)


@pytest.mark.parametrize(
    ("options", "words"), [((), r"bandwidth \d"), (("--mixture",), r"bandwidths \(and shares\) \d")]
)
def test_few_configurations_speak_for_all(options: tuple[str, ...], words: str, files: Path) -> None:
    arguments = ("train", "water.npz", "--output", "water.lobal", "--n", 40, "--validation", 10, "--inducing", 12)
    result = invoke(*arguments, *options)
    assert result.exit_code == 0, result.output
    assert re.search(rf"learned from 40 configurations through 12 of them, 2 symmetries .*, {words}", said(result))
    assert len(ForceField.load("water.lobal").positions) == 12
    assert "20 configurations, 40 that were learned from left out" in said(
        invoke("evaluate", "water.lobal", "water.npz")
    )


def test_bandwidths_are_said_in_units_of_sigma_e(files: Path) -> None:
    """Eight times the distance at which configurations are from each other, whichever way one expert was learned."""
    for options in ((), ("--inducing", 30)):
        arguments = ("train", "water.npz", "--output", "water.lobal", "--n", 30, "--validation", 10)
        result, field = said(invoke(*arguments, *options)), ForceField.load("water.lobal")
        distance = typical_distance(describe(field.positions).values, field.kernel.permutations)
        expected = (field.bandwidths[0] * field.kernel.shared_bandwidth[0] / (8.0 * distance)).item()
        assert f"bandwidth {expected:.3g} Sigma_E" in result


def test_errors_come_as_json(files: Path) -> None:
    assert invoke("train", "water.npz", "--output", "water.lobal", "--n", 30, "--quiet").output == ""
    result = invoke("evaluate", "water.lobal", "water.npz", "--json")
    assert result.exit_code == 0, result.output
    errors = json.loads(result.stdout)
    assert errors.keys() == {
        *("energy_rmse", "energy_mae", "force_rmse", "force_mae"),
        *("configurations", "left_out"),
    }
    assert 0.0 < errors["force_mae"] < errors["force_rmse"] < 0.3
    assert errors["left_out"] == 30


@pytest.mark.parametrize("labels", ["forces", "energies", "both"])
def test_labels_are_chosen_by_name(labels: str, files: Path) -> None:
    result = invoke("train", "water.npz", "--output", "water.lobal", "--n", 20, "--labels", labels, "--seed", 3)
    assert result.exit_code == 0, result.output
    field = ForceField.load("water.lobal")
    assert (field.labels.name, field.about["seed"]) == (labels.upper(), 3)


def test_units_are_asked_for_where_the_file_has_none(files: Path) -> None:
    save(files / "plain.npz")
    result = invoke("train", "plain.npz", "--output", "water.lobal")
    assert result.exit_code == 2
    assert "give the energy unit" in said(result)
    result = invoke("train", "plain.npz", "--output", "water.lobal", "--n", 20, "--energy-unit", "kcal/mol")
    assert "kcal/mol and Ang" in said(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "absent.npz", "--output", "out.lobal"), "there is no file absent.npz"),
        (("train", "water.npz", "--output", "water.npz"), "would be overwritten"),
        (("train", "water.npz", "--output", "no/folder/out.lobal"), "there is no folder"),
        (("train", "water.npz", "--output", "out.lobal", "--labels", "dipoles"), "labels must be one of energies"),
        (("train", "water.npz", "--output", "out.lobal", "--n", 1), "Invalid value for '--n'"),
        (("train", "water.npz", "--output", "out.lobal", "--inducing", 0), "Invalid value for '--inducing'"),
        (("train", "water.npz", "--output", "out.lobal", "--device", "abacus"), "device must be"),
        (("evaluate", "water.npz", "water.npz"), "is not a file that lobal saved"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(arguments: tuple[Any, ...], message: str, files: Path) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in said(result)
    assert "Traceback" not in result.output
    assert not (files / "out.lobal").exists()
