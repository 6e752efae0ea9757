"""Code blocks of the documentation run: ```python blocks of a page one after the other, in an empty folder.

```sh blocks are parsed, and cheap commands run. Blocks with any other info string, such as ```python needs-data, are
not run.
"""

from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from benchmarks.__main__ import app as benchmarks
from experiments.__main__ import command as experiment
from lobal.cli.app import app
from tests.docs.pages import PAGES, TOP, blocks, commands

WITH_PYTHON = [name for name in PAGES if any(block.info == "python" for block in blocks(PAGES[name]))]
LINES = [(name, words) for name, page in PAGES.items() for words in commands(page)]
INFO = {"", "python", "python needs-data", "python needs-botorch", "sh", "text"}


@pytest.mark.parametrize("name", WITH_PYTHON)
def test_python_blocks_run_one_after_the_other(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(PAGES[name]):
        if block.info == "python":
            # Line numbers of a failure are those of the page.
            exec(compile("\n" * (block.line - 1) + block.content, name, "exec"), namespace)
    _run_cheap_commands(name, tmp_path)
    capsys.readouterr()


def _run_cheap_commands(name: str, folder: Path) -> None:
    """`lobal suggest` and `lobal report` of a page, with tables of the names that it uses."""
    x = np.random.default_rng(0).random((80, 2))
    rows = [f"s{k},{a},{b}" for k, (a, b) in enumerate(x)]
    (folder / "pool.csv").write_text("\n".join(["sample,x,z", *rows]))
    labelled = [f"{row},{np.sin(9 * x[k, 0])}" for k, row in enumerate(rows[:12])]
    (folder / "labels.csv").write_text("\n".join(["sample,x,z,y", *labelled]))
    for words in commands(PAGES[name]):
        if words[:2] in (["lobal", "suggest"], ["lobal", "report"]) and (folder / words[2]).exists():
            numbered = ["--number", "5"] if words[1] == "suggest" else []
            result = CliRunner().invoke(app, [*words[1:], *numbered])
            assert result.exit_code == 0, f"{' '.join(words)}: {result.output}"


@pytest.mark.parametrize(
    ("name", "words"), LINES, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_commands_are_understood(name: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TOP)
    match words:
        case ["lobal", *options]:
            _parse(typer.main.get_command(app), options)
        case ["python", "-m", "experiments", known, *options] | [_, "-m", "experiments", known, *options]:
            _parse(typer.main.get_command(experiment(known)), options)
        case ["python", "-m", "benchmarks", *options]:
            _parse(typer.main.get_command(benchmarks), options)
        case ["python", "-m", module, *_] if module.startswith(("benchmarks.", "docs.")):
            assert (TOP / f"{module.replace('.', '/')}.py").exists()
        case ["make", target]:
            assert f"\n{target}:" in (TOP / "Makefile").read_text()
        case [program, *_]:
            assert program in {"pip", ".", "python", "experiments", ".venv/bin/python"}, f"{name}: {' '.join(words)}"


def _parse(parser: click.Command, options: list[str]) -> None:
    """Raises if an option or a command is unknown, or a value is missing or of the wrong type."""
    if isinstance(parser, click.Group) and options and options[0] in parser.commands:
        _parse(parser.commands[options[0]], options[1:])
        return
    parser.make_context("documented", options)


@pytest.mark.parametrize("name", PAGES)
def test_every_block_says_what_it_is(name: str) -> None:
    assert {block.info for block in blocks(PAGES[name])} <= INFO
