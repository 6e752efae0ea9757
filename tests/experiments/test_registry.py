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
