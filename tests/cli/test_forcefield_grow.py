"""`lobal forcefield grow`, with GFN2-xTB where it is installed."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lobal.cli import app
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.geometry.trajectory import read_trajectory

pytest.importorskip("ase")

EXAMPLE = Path(__file__).parents[2] / "examples" / "molecules" / "malonaldehyde.xyz"
SMALL = ("--first", "20", "--validation", "20", "--pool", "200", "--workers", "1")


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["forcefield", "grow", *map(str, words)])


def squeezed(text: str) -> str:
    """Without spaces and frames: long paths are broken anywhere."""
    return re.sub(r"[\s│]+", "", text)


def refused(*words: str | Path) -> str:
    result = run(*words)
    assert result.exit_code == 2, result.output
    return squeezed(result.output)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    pytest.importorskip("tblite")
    folder = tmp_path_factory.mktemp("grow") / "campaign"
    return folder, run(EXAMPLE, "--output", folder, "--budget", "30", *SMALL)


@pytest.mark.slow
def test_thirty_labels_of_gfn2_make_a_force_field(grown: tuple[Path, Result]) -> None:
    folder, result = grown
    assert result.exit_code == 0, result.output
    assert "30 labels" in result.stdout
    labels, validation = (read_trajectory(folder / f"{name}.xyz") for name in ("labels", "validation"))
    assert (len(labels), len(validation)) == (30, 20)
    energies, forces = ForceField.load(folder / "model.lobal").predict(labels.R)
    assert labels.energies is not None
    assert labels.forces is not None
    np.testing.assert_allclose(energies, labels.energies, atol=0.1)  # of a spread of 0.3 eV
    np.testing.assert_allclose(forces, labels.forces, atol=0.3)  # of forces of 1 eV / Angstrom and more
    assert "<svg" in (folder / "report.html").read_text() or "<img" in (folder / "report.html").read_text()


@pytest.mark.slow
def test_pbe_labels_frames_of_trajectories_that_follow_gfn2(tmp_path: Path) -> None:
    pytest.importorskip("tblite")
    pytest.importorskip("pyscf")
    molecule, few = tmp_path / "water.xyz", ("--first", "10", "--validation", "10", "--budget", "14")
    molecule.write_text("3\n\nO 0.0 0.0 0.119\nH 0.0 0.763 -0.477\nH 0.0 -0.763 -0.477\n")
    result = run(molecule, "--output", tmp_path / "pbe", "--oracle", "pbe", *few, "--pool", "40", "--workers", "1")
    assert result.exit_code == 0, result.output
    labels = read_trajectory(tmp_path / "pbe" / "labels.xyz")
    assert labels.energies is not None
    assert len(labels) == 14
    assert (labels.energies < -2050.0).all()  # eV, with all electrons; of GFN2 it is -138


@pytest.mark.slow
def test_the_rounds_are_shown_line_by_line_where_there_is_no_terminal(grown: tuple[Path, Result]) -> None:
    lines = [line.split() for line in grown[1].output.splitlines() if re.match(r" +\d", line)]
    assert [(line[0], line[1]) for line in lines] == [("1", "20"), ("2", "30")]
    assert lines[0][4] == "200"  # configurations of the pool


@pytest.mark.slow
def test_all_rounds_say_the_expected_savings_also_when_they_are_continued(grown: tuple[Path, Result]) -> None:
    folder, result = grown
    again = run(EXAMPLE, "--output", folder, "--budget", "30", *SMALL)
    for each in (result, again):
        lines = [line.split() for line in each.output.splitlines() if re.match(r" +\d", line)]
        assert [line[7][-1] for line in lines] == ["%", "%"]


@pytest.mark.slow
def test_the_same_command_changes_no_label(grown: tuple[Path, Result]) -> None:
    folder, _ = grown
    before = {name: (folder / name).read_bytes() for name in ("start.jsonl", "journal.jsonl", "labels.xyz")}
    assert run(EXAMPLE, "--output", folder, "--budget", "30", *SMALL, "--quiet").output == ""
    assert {name: (folder / name).read_bytes() for name in before} == before


@pytest.mark.slow
def test_a_campaign_of_another_temperature_or_molecule_is_refused(grown: tuple[Path, Result], tmp_path: Path) -> None:
    folder, _ = grown
    small = ("--budget", "30", *SMALL)
    message = refused(EXAMPLE, "--output", folder, *small, "--temperature", "300")
    assert squeezed("it began with temperature 500.0, got 300.0; use the same, or another folder") in message
    other = EXAMPLE.with_name("ethanol.xyz")
    assert squeezed("it began with another configuration, of atomic numbers [6,") in refused(
        other, "--output", folder, *small
    )
    inside = folder / "labels.xyz"
    assert squeezed("is an input file and would be overwritten") in refused(inside, "--output", folder, *small)


@pytest.mark.slow
def test_a_start_that_was_damaged_is_refused(grown: tuple[Path, Result], tmp_path: Path) -> None:
    copy = shutil.copytree(grown[0], tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
    lines = (copy / "start.jsonl").read_text().splitlines()
    lines[5] = lines[5].replace("[", "[1", 1)
    (copy / "start.jsonl").write_text("\n".join(lines) + "\n")
    assert squeezed("start.jsonl") in refused(EXAMPLE, "--output", copy, "--budget", "30", *SMALL)


def test_the_journal_of_the_start_has_every_answer(grown: tuple[Path, Result]) -> None:
    events = [json.loads(line) for line in (grown[0] / "start.jsonl").read_text().splitlines()]
    calls = [event for event in events if event["event"] == "call"]
    steps = [event for event in events if event["event"] == "step"]
    assert len(calls) == 4 * (len(steps) - 1) + 1  # four walkers begin at one configuration


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--oracle", "b3lyp"), "the oracle must be one of gfn1, gfn2, pbe, or 'module:function', got 'b3lyp'"),
        (("--budget", "50"), "the first 50 labels are part of --budget: give more than 50, got 50"),
        (("--temperature", "-1"), "temperature must be above 0, got -1.0; it is in K"),
        (("--target", "0"), "target must be above 0, got 0.0; it is in meV/Angstrom"),
        (("--pool", "0"), "Invalid value for '--pool'"),
        (("--ratio", "1"), "ratio must be"),
        (("--charge", "1"), "cannot have multiplicity 1; correct the charge or the multiplicity"),
        (("--device", "tpu"), "tpu"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_done(
    options: tuple[str, str], expected: str, tmp_path: Path
) -> None:
    assert squeezed(expected) in refused(EXAMPLE, "--output", tmp_path / "new", *options)
    assert not (tmp_path / "new").exists()


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    assert squeezed("holds thesis.tex and is no such campaign") in refused(EXAMPLE, "--output", tmp_path)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.lobal"
    file.write_text("")
    assert squeezed("is a file; name a folder that is new or empty as --output") in refused(EXAMPLE, "--output", file)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("nowhere:calculator", "there is no module 'nowhere'"),
        ("tests.cli.programs:missing", "has no function 'missing'"),
        ("tests.cli.programs:broken", "RuntimeError: the licence has expired"),
    ],
)
def test_a_program_that_does_not_work_is_refused_in_plain_words(program: str, expected: str, tmp_path: Path) -> None:
    output = refused(EXAMPLE, "--output", tmp_path / "new", "--oracle", program)
    assert squeezed(expected) in output
    assert "Traceback" not in output
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("answers", [1, 50])  # to see that it works; some of the first trajectories
def test_a_program_that_stops_working_ends_the_command_in_plain_words(
    answers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    springs = (
        f"tests.cli.programs import Springs\nlimited = lambda: Springs(Path({str(tmp_path / 'counted')!r}), {answers})"
    )
    (tmp_path / f"program_{answers}.py").write_text(f"from pathlib import Path\nfrom {springs}\n")
    monkeypatch.syspath_prepend(tmp_path)
    options = ("--oracle", f"program_{answers}:limited", "--budget", "30", *SMALL)
    output = refused(EXAMPLE, "--output", tmp_path / "new", *options)
    assert squeezed("run again") in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_the_first_of_several_configurations_is_taken_and_that_is_said(
    grown: tuple[Path, Result], tmp_path: Path
) -> None:
    copy = shutil.copytree(grown[0], tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
    two = tmp_path / "two.xyz"
    two.write_text(EXAMPLE.read_text() * 2)
    result = run(two, "--output", copy, "--budget", "30", *SMALL)
    assert squeezed(f"beginning with the first of 2 configurations in {two}") in squeezed(result.stdout)


def test_a_file_that_is_no_molecule_is_refused(tmp_path: Path) -> None:
    assert squeezed("there is no file") in refused(tmp_path / "none.xyz", "--output", tmp_path / "new")
    table = tmp_path / "table.xyz"
    table.write_text("a,b\n1,2\n")
    assert squeezed("table.xyz") in refused(table, "--output", tmp_path / "new")
