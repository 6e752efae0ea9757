from pathlib import Path

import pytest

import experiments
from experiments.__main__ import EXPERIMENTS, main
from tests.experiments.setting import invoke


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


def test_without_a_name_the_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    listed = capsys.readouterr().out
    assert all(name in listed for name in EXPERIMENTS)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="'nothing'"):
        main(["nothing"])
    assert "doppler_active" in capsys.readouterr().out
