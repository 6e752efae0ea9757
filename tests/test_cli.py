import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import lobal
from lobal.cli import app


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_help_names_the_commands() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert "demo" in result.output


def test_the_demos_help_explains_its_options() -> None:
    output = invoke("demo", "--help").output
    assert all(option in output for option in ("--n", "--seed", "--output", "--quiet", "overview.png"))


def test_version() -> None:
    assert invoke("--version").output.strip() == f"lobal {lobal.__version__}"


@pytest.mark.parametrize("arguments", [("--n", 3), ("--n", "many"), ("--seed", -1), ("--unknown",)])
def test_bad_input_exits_with_two_and_no_traceback(arguments: tuple[Any, ...], tmp_path: Path) -> None:
    result = invoke("demo", *arguments, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke("demo", "--n", 16, "--quiet", "--output", tmp_path / "file")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_tiny_demo_prints_both_models_and_draws(tmp_path: Path) -> None:
    result = invoke("demo", "--n", 16, "--quiet", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    assert "mixture" in result.output
    assert "single-scale GP" in result.output
    assert (tmp_path / "overview.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_line_starts_without_torch() -> None:
    code = "import sys, lobal.cli; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
