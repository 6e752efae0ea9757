import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from lobal.cli.app import app
from lobal.molecules.dynamics import motion, trajectories
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.field.training import fit_force_field
from lobal.molecules.geometry.trajectory import Trajectory, read_trajectory, write_configurations
from tests.molecules.setting import water

REST = torch.tensor([[[0.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.8, 0.6, 0.0]]], dtype=torch.float64)
SMALL: dict[str, Any] = {"anisotropy": None, "bandwidths": (0.25, 0.5, 1.0), "gate_inducing": 8, "noise": 1e-8}


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["forcefield", "md", *(str(argument) for argument in arguments)])


def said(result: Result) -> str:
    return " ".join(result.output.replace("│", " ").split())


def saved(path: str, **options: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    fit_force_field(water(60), ForceFieldSettings(**(SMALL | options)), generator=generator).save(path)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    saved("water.lobal")
    species = torch.tensor([8, 1, 1])
    write_configurations(Path("rest.xyz"), Trajectory(source="", units="eV and Ang", species=species, R=REST))
    return tmp_path


def test_frames_have_the_energies_and_forces_of_the_force_field(files: Path) -> None:
    result = invoke("water.lobal", "rest.xyz", "--steps", 100, "--temperature", 300, "--walkers", 2)
    assert result.exit_code == 0, result.output
    assert "100 steps (0.05 ps) by each of 2 walkers" in said(result)
    assert "ns/day" in said(result)
    assert "12 frames in trajectory.xyz" in said(result)
    found, field = read_trajectory("trajectory.xyz"), ForceField.load("water.lobal")
    assert found.energies is not None
    assert found.forces is not None
    expected = field.predict(found.R)
    np.testing.assert_allclose(found.energies.numpy(), expected.energies, atol=1e-6)
    np.testing.assert_allclose(found.forces.numpy(), expected.forces, atol=1e-5)
    assert not torch.equal(found.R[0], found.R[2])


def test_nothing_is_printed_on_request_and_the_same_seed_repeats(files: Path) -> None:
    for name, seed in (("a.xyz", 1), ("b.xyz", 1), ("c.xyz", 2)):
        options = ("--steps", 20, "--temperature", 300, "--seed", seed, "--output", name, "--quiet")
        assert invoke("water.lobal", "rest.xyz", *options).output == ""
    a, b, c = (Path(name).read_text() for name in ("a.xyz", "b.xyz", "c.xyz"))
    assert a == b != c


def test_a_trajectory_that_leaves_what_is_known_ends_with_status_3_and_keeps_its_last_frame(files: Path) -> None:
    result = invoke("water.lobal", "rest.xyz", "--steps", 4000, "--temperature", 9000)
    assert result.exit_code == 3, result.output
    assert "walker 0 ended at" in said(result)
    assert "outside of what the force field knows" in said(result) or "bond" in said(result)
    assert "Traceback" not in result.output
    frames = Path("trajectory.xyz").read_text().count("Properties")
    assert f"{frames} frames in trajectory.xyz" in said(result)
    assert frames >= 2


def test_steps_are_those_of_the_walker_that_ends_last(files: Path) -> None:
    result = invoke("water.lobal", "rest.xyz", "--steps", 4000, "--temperature", 9000, "--walkers", 3)
    steps = [round(float(time) / 0.5) for time in re.findall(r"ended at ([\d.]+) fs", said(result))]
    assert len({*steps}) > 1
    assert f"{max(steps)} steps ({5e-4 * max(steps):g} ps) by the longest of 3 walkers" in said(result)


def test_ctrl_c_keeps_the_frames_so_far(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) > 45:
            raise KeyboardInterrupt
        return step(*arguments, **options)

    calls: list[int] = []
    step = motion.step
    monkeypatch.setattr(trajectories, "step", interrupted)
    result = invoke("water.lobal", "rest.xyz", "--steps", 1000, "--temperature", 300)
    assert result.exit_code != 0
    assert "stopped after 40 of 1000 steps: 3 frames in trajectory.xyz" in said(result)
    assert len(read_trajectory("trajectory.xyz")) == 3


@pytest.mark.parametrize(("inducing", "words"), [(20, "around 20 of the 60 configurations"), (1, "only bonds and")])
def test_what_few_configurations_know_is_said(inducing: int, words: str, files: Path) -> None:
    saved("sparse.lobal", inducing=inducing, mixture=False)
    result = invoke("sparse.lobal", "rest.xyz", "--steps", 1, "--temperature", 300)
    assert result.exit_code == 0, result.output
    assert words in said(result)


def test_an_earlier_trajectory_is_overwritten_by_force_only(files: Path) -> None:
    Path("trajectory.xyz").write_text("a day of work")
    result = invoke("water.lobal", "rest.xyz", "--steps", 1)
    assert result.exit_code == 2
    assert "trajectory.xyz exists; choose another --output, or overwrite it with --force" in said(result)
    assert Path("trajectory.xyz").read_text() == "a day of work"
    assert invoke("water.lobal", "rest.xyz", "--steps", 1, "--force").exit_code == 0
    assert "Properties" in Path("trajectory.xyz").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("absent.lobal", "rest.xyz"), "there is no file absent.lobal"),
        (("water.lobal", "absent.xyz"), "there is no file absent.xyz"),
        (("rest.xyz", "rest.xyz"), "is not a file that lobal saved"),
        (("water.lobal", "turned.xyz"), "the atoms have to be the same, in the same order"),
        (("water.lobal", "far.xyz"), "cannot start there: it is outside of what the force field knows"),
        (("water.lobal", "rest.xyz", "--output", "rest.xyz"), "is an input file and would be overwritten"),
        (("water.lobal", "rest.xyz", "--output", "out.npz"), "must be a file that ends in .xyz"),
        (("water.lobal", "rest.xyz", "--temperature", 0), "temperature must be"),
        (("water.lobal", "rest.xyz", "--time-step", -1), "time_step must be"),
        (("water.lobal", "rest.xyz", "--device", "abacus"), "device must be"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(arguments: tuple[Any, ...], message: str, files: Path) -> None:
    others = {"turned": (REST[:, [1, 0, 2]], [1, 8, 1]), "far": (2.0 * REST, [8, 1, 1])}
    for name, (R, species) in others.items():
        parts: dict[str, Any] = {"R": R, "species": torch.tensor(species)}
        write_configurations(Path(f"{name}.xyz"), Trajectory(source="", units="eV and Ang", **parts))
    result = invoke(*arguments, "--steps", 10)
    assert result.exit_code == 2
    assert message in said(result)
    assert "Traceback" not in result.output
    assert not Path("trajectory.xyz").exists()
