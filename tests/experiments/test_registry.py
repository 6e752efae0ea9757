import re
from pathlib import Path

import pytest

import experiments
from experiments import __main__ as command_line
from experiments.__main__ import main, named
from experiments.registry import EXPERIMENTS, SCALES, commands
from tests.experiments.setting import invoke

PAPER_MAP = Path(experiments.__file__).parents[1] / "docs" / "paper_map.md"
DRAWINGS = {"fig:summary_figure_new", "fig:ALframework"}  # that explain the method


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_command_with_help(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0, result.output
    assert "Options" in result.output


BAD = [
    "doppler_statistics --sizes 64;128",
    *(f"inducing_points --sizes={sizes}" for sizes in ("many", "", "0,8")),
    "other_models --n 130",
    *(f"pools {words}" for words in ("nowhere.npz", "stationary --sizes 16;32", "stationary --sizes 16,20000")),
]


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_said_before_the_work(words: str, tmp_path: Path) -> None:
    result = invoke(*words.split(), "--output", tmp_path / "record.json")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not (tmp_path / "record.json").exists()


def test_every_module_with_a_command_is_registered() -> None:
    folder = Path(experiments.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "typer.Option" in path.read_text()}
    registered = {experiment.function.split(":")[0].removeprefix("experiments.") for experiment in EXPERIMENTS.values()}
    assert modules - {"__main__", "repetitions"} <= registered


@pytest.mark.parametrize("words", [[], ["--list"], ["--help"]])
def test_without_a_name_the_experiments_are_listed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(words)
    listed = capsys.readouterr().out
    assert all(name in listed for name in EXPERIMENTS)
    assert all(figure in listed for each in EXPERIMENTS.values() for figure in each.figures)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="'nothing'"):
        main(["nothing", "--scale", "smoke"])
    assert "doppler_active" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["all"], ["all", "--scale", "large"], ["equidistant", "--scale", "large"]])
def test_an_unknown_scale_is_an_error_that_names_the_known_ones(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="smoke, quick, paper"):
        main(words)


def test_every_figure_of_the_paper_has_an_experiment() -> None:
    section = PAPER_MAP.read_text().split("## Experiments and figures")[1].split("\n## ")[0]
    known = {figure for each in EXPERIMENTS.values() for figure in each.figures}
    missing = {*re.findall(r"fig:\w+", section)} - known - DRAWINGS
    assert not missing
    assert not known - {*re.findall(r"fig:\w+", section)}


def test_an_experiment_is_found_by_name_and_by_the_label_of_its_figure() -> None:
    assert named("equidistant", "smoke") == named("fig:dopplerExperiment_GPR_UnifVsEqui", "smoke") == ["equidistant"]


def test_commands_have_the_options_of_the_scale_and_further_ones_after_them() -> None:
    (words,) = commands("equidistant", "quick", "here", "--seeds 1")
    assert words[:7] == ["equidistant", "--n-inducing", "256", "--seeds", "4", "--seeds", "1"]
    assert words[7:] == ["--output", "here/equidistant.json", "--figure", "here/figures/equidistant.png"]


@pytest.mark.parametrize("name", [name for name, each in EXPERIMENTS.items() if each.scales])
@pytest.mark.parametrize("scale", SCALES)
def test_the_commands_of_every_scale_are_of_known_experiments(
    name: str, scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOBAL_DATA", "data")
    if scale in EXPERIMENTS[name].scales:
        lines = commands(name, scale, "here")
        assert {first for first, *_ in lines} <= {*EXPERIMENTS}
        assert not any("{" in word for words in lines for word in words)


def test_what_needs_data_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("LOBAL_DATA", raising=False)
    with pytest.raises(ValueError, match="set LOBAL_DATA"):
        commands("noise", "smoke", "here")


def test_records_of_a_scale_go_to_its_folder_unless_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[str] = []
    monkeypatch.setattr(command_line, "run_scale", lambda *words: folders.append(words[2]))
    main(["equidistant", "--scale", "quick"])
    main(["equidistant", "--scale", "quick", "--into", "elsewhere", "--seeds", "1"])
    main(["equidistant", "--scale", "smoke"])
    assert folders[:2] == ["out/quick", "elsewhere"]
    assert not Path(folders[2]).exists()
