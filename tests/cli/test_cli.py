import csv
import errno
import html
import math
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import lobal
from lobal.cli import demo
from lobal.cli.app import app

SUGGEST = ("suggest", "pool.csv", "labels.csv", "--target", "y", "--id", "id")


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((), ["demo", "suggest", "report", "forcefield"]),
        (("demo",), ["--n", "--seeds", "--output", "--quiet", "report.html"]),
        (("suggest",), ["lobal suggest pool.csv labels.csv --target y", "--pending next.csv --output more.csv"]),
        (("suggest",), ["--inputs", "--id", "--pending", "separated by commas"]),
        (("suggest",), ["--sep", "--decimal", "--encoding", "--sheet", "--skip-incomplete", "--failed", "--force"]),
    ],
)
def test_help_explains_commands_and_options(command: tuple[str, ...], words: list[str]) -> None:
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert [word for word in words if word not in said(result)] == []


@pytest.mark.parametrize(
    "command", [(), ("demo",), ("suggest",), ("report",), ("forcefield",), ("forcefield", "train")]
)
def test_h_is_help(command: tuple[str, ...]) -> None:
    assert invoke(*command, "-h").output == invoke(*command, "--help").output
    assert invoke(*command, "-h").exit_code == 0


def test_version() -> None:
    assert invoke("--version").output.strip() == f"lobal {lobal.__version__}"


@pytest.mark.parametrize("arguments", [("--n", 3), ("--n", "many"), ("--seeds", 0), ("--unknown",)])
def test_bad_input_exits_with_two_and_no_traceback(arguments: tuple[Any, ...], tmp_path: Path) -> None:
    result = invoke("demo", *arguments, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke("demo", "--n", 128, "--quiet", "--output", tmp_path / "file")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_tiny_demo_compares_both_arms_and_leaves_figures_and_a_page(tmp_path: Path) -> None:
    result = invoke("demo", "--n", 128, "--seeds", 1, "--quiet", "--output", tmp_path)
    assert result.exit_code == 0, result.output
    assert all(size in result.output for size in ("16", "32", "64", "128"))
    assert "rho" in result.output
    assert (tmp_path / "learning_curves.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "overview.png").exists()
    assert "Active learning of the Doppler function" in (tmp_path / "report.html").read_text()


def test_the_package_runs_as_a_module() -> None:
    call = [sys.executable, "-m", "lobal.cli", "--version"]
    assert (
        subprocess.run(call, check=True, capture_output=True, text=True).stdout.strip() == f"lobal {lobal.__version__}"
    )


def test_the_public_names_are_listed_before_they_are_used() -> None:
    code = "import sys, lobal; sys.exit(not {*lobal.__all__} <= {*dir(lobal)} or 'torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", lobal.__all__)
def test_every_public_name_is_there_without_further_imports(name: str) -> None:
    assert getattr(lobal, name) is not None


def test_the_command_line_starts_without_torch() -> None:
    code = "import sys, lobal.cli.app; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def said(result: Result) -> str:
    """What was printed, without the frame around errors and the line breaks it makes."""
    return " ".join(result.output.replace("│", " ").split())


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a pool of 60 points and labels of 30, two of them failed; models in it are small."""
    from lobal.cli import suggestion

    model = lobal.MixtureRegressor(n_inducing=20, n_gate_inducing=10)
    monkeypatch.setattr(suggestion, "ActiveLearner", partial(lobal.ActiveLearner, model=model))
    monkeypatch.chdir(tmp_path)
    x = [k / 60 for k in range(60)]
    Path("pool.csv").write_text("id,x\n" + "".join(f"p{k},{x[k]}\n" for k in range(60)))
    labels = ["" if k in (4, 8) else str(math.sin(3.0 / (x[k] + 0.1))) for k in range(0, 60, 2)]
    Path("labels.csv").write_text("id,y\n" + "".join(f"p{2 * k},{label}\n" for k, label in enumerate(labels)))
    return tmp_path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_suggestions_come_with_identifiers_inputs_and_reasons(files: Path) -> None:
    result = invoke("suggest", "pool.csv", "labels.csv", "--target", "y", "--id", "id", "--number", 5)
    assert result.exit_code == 0, result.output
    rows = rows_of(files / "next.csv")
    assert list(rows[0]) == ["id", "x", "local_complexity", "superior_density"]
    assert len({row["id"] for row in rows}) == 5
    assert all(int(row["id"][1:]) % 2 == 1 for row in rows)  # neither labelled nor failed
    assert all(float(row["x"]) == int(row["id"][1:]) / 60 for row in rows)
    assert "2 rows without a target" in said(result)
    assert (files / "next.html").read_text().startswith("<!DOCTYPE html>")


def test_without_identifiers_suggestions_are_row_numbers(files: Path) -> None:
    pool = rows_of(files / "pool.csv")
    (files / "pool.csv").write_text("x\n" + "".join(f"{row['x']}\n" for row in pool))
    (files / "labels.csv").write_text("x,y\n" + "".join(f"{row['x']},1.5\n" for row in pool[:3]))
    arguments = ("--target", "y", "--number", 4, "--output", "new/next.csv", "--report", "why.html", "--quiet")
    result = invoke("suggest", "pool.csv", "labels.csv", *arguments)
    assert (result.exit_code, result.output) == (0, "")
    rows = rows_of(files / "new" / "next.csv")
    assert all(row["x"] == pool[int(row["row"])]["x"] for row in rows)
    assert all(int(row["row"]) >= 3 and row["local_complexity"] == "" for row in rows)  # too few labels for a model
    assert (files / "why.html").exists()


def test_pending_points_are_not_suggested_again_and_count_in_the_density(files: Path) -> None:
    call = ("suggest", "pool.csv", "labels.csv", "--target", "y", "--id", "id")
    invoke(*call, "--number", 10)
    more = ("--pending", "next.csv", "--number", 10, "--output", "more.csv")
    result = invoke(*call, *more)
    assert result.exit_code == 0, result.output
    assert "10 rows are pending" in said(result)
    last = invoke(*call, "--pending", "next.csv", "--pending", "more.csv", "--number", 10, "--output", "last.csv")
    assert last.exit_code == 0, last.output
    batches = [{row["id"] for row in rows_of(files / name)} for name in ("next.csv", "more.csv", "last.csv")]
    assert len(batches[0] | batches[1] | batches[2]) == 30
    assert "60 candidates" in (files / "last.html").read_text()
    assert re.search("28 labels, 30 pending since [^,]*, 2 failed", (files / "last.html").read_text())
    too_many = invoke(*call, "--pending", "next.csv", "--number", 21, "--output", "none.csv")
    assert "21 points are asked for, but only 20 of the pool's 60 are left" in said(too_many)


def test_without_identifiers_an_earlier_suggestion_is_pending_by_its_inputs(files: Path) -> None:
    pool = rows_of(files / "pool.csv")
    (files / "labels.csv").write_text("x,y\n" + "".join(f"{row['x']},1.5\n" for row in pool[:3]))
    call = ("suggest", "pool.csv", "labels.csv", "--target", "y", "--number", 28)
    first = invoke(*call)
    assert "Text columns are not used as inputs: id." in said(first)
    invoke(*call, "--pending", "next.csv", "--output", "more.csv")
    invoke(*call, "--number", 1, "--pending", "next.csv", "--pending", "more.csv", "--output", "last.csv")
    rows = [int(row["row"]) for name in ("next.csv", "more.csv", "last.csv") for row in rows_of(files / name)]
    assert len({*rows, 0, 1, 2}) == 60


def test_inputs_are_the_columns_that_are_named(files: Path) -> None:
    (files / "pool.csv").write_text("id,x,cost\n" + "".join(f"p{k},{k / 60},{k % 7}\n" for k in range(60)))
    call = ("suggest", "pool.csv", "labels.csv", "--target", "y", "--id", "id", "--number", 3, "--inputs", "x")
    assert invoke(*call).exit_code == 0
    assert list(rows_of(files / "next.csv")[0]) == ["id", "x", "local_complexity", "superior_density"]


def test_identifiers_that_look_like_formulas_are_recognised_in_a_suggestion(files: Path) -> None:
    (files / "pool.csv").write_text("id,x\n" + "".join(f"=p{k}(),{k / 60}\n" for k in range(60)))
    (files / "labels.csv").write_text("id,y\n" + "".join(f"=p{k}(),{k}\n" for k in range(3)))
    assert invoke(*SUGGEST, "--number", 5).exit_code == 0
    assert all(row["id"].startswith("'=p") for row in rows_of(files / "next.csv"))
    result = invoke(*SUGGEST, "--pending", "next.csv", "--output", "more.csv", "--number", 52)
    assert "5 rows are pending" in said(result)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a$b$_{", "$\\bad$"])
def test_any_column_name_is_shown_as_text(files: Path, name: str) -> None:
    (files / "pool.csv").write_text(f"id,{name},z,{name}2\n" + "".join(f"p{k},{k},{k % 7},t\n" for k in range(60)))
    result = invoke(*SUGGEST, "--number", 5)
    assert result.exit_code == 0, result.output
    page = (files / "next.html").read_text()
    assert "<script>" not in page
    assert f"Text columns are not used as inputs: {html.escape(name)}2." in page


def test_the_same_seed_suggests_the_same_points(files: Path) -> None:
    for output in ("one.csv", "two.csv"):
        invoke("suggest", "pool.csv", "labels.csv", "--target", "y", "--id", "id", "--number", 5, "--output", output)
    assert (files / "one.csv").read_bytes() == (files / "two.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pool.csv", "labels.csv", "--target", "z", "--id", "id"), "no column 'z'; its columns are id, y"),
        (("pool.csv", "labels.csv", "--target", "y"), "labels.csv has no column 'x', which is needed to find its rows"),
        (
            ("pool.csv", "labels.csv", "--target", "y", "--id", "id", "--number", 31),
            "only 30 of the pool's 60 are left",
        ),
        (("pool.csv", "labels.csv", "--target", "y", "--id", "id", "--inputs", "x,z"), "no column 'z'"),
        (("pool.csv", "labels.csv", "--target", "y", "--id", "id", "--inputs", "x,id"), "other than target"),
        (("pool.csv", "labels.csv", "--target", "y", "--id", "id", "--pending", "gone.csv"), "gone.csv"),
        (("pool.csv", "labels.csv", "--target", "y", "--id", "id", "--pending", "next.csv"), "would be overwritten"),
        (("pool.csv", "labels.csv", "--target", "y", "--id", "id", "--output", "pool.csv"), "would be overwritten"),
        (("pool.csv", "labels.csv", "--target", "y", "--id", "id", "--output", "next.xls"), "'next.xls'"),
        (("gone.csv", "labels.csv", "--target", "y"), "gone.csv"),
    ],
)
def test_suggestions_from_bad_input_exit_with_two(files: Path, arguments: tuple[Any, ...], message: str) -> None:
    result = invoke("suggest", *arguments)
    assert result.exit_code == 2
    assert message in said(result)
    assert "Traceback" not in result.output
    assert not (files / "next.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("empty.csv", "labels.csv"), "empty.csv is empty; its first line has to name the columns"),
        (("pool.csv", "empty.csv"), "empty.csv is empty; its first line has to name the columns"),
        (("header.csv", "labels.csv"), "header.csv has no rows below its header; it must contain all candidates"),
        (("pool.csv", "labels.csv", "--output", "folder.csv"), "folder.csv is a folder; name a file as --output"),
        (("pool.csv", "labels.csv", "--report", "pool.csv/a.html"), "pool.csv/a.html would lie in a file"),
        (("pool.csv", "labels.csv", "--pending", "gone.csv"), "No such file or directory: gone.csv; check the name"),
    ],
)
def test_empty_tables_and_impossible_places_are_named_before_the_work(
    files: Path, arguments: tuple[Any, ...], message: str
) -> None:
    (files / "empty.csv").touch()
    (files / "header.csv").write_text("id,x\n")
    (files / "folder.csv").mkdir()
    result = invoke("suggest", *arguments, "--target", "y", "--id", "id")
    assert result.exit_code == 2
    assert message in said(result)
    assert not (files / "next.csv").exists()


def test_labels_without_rows_are_none_so_far(files: Path) -> None:
    (files / "labels.csv").write_text("id,y\n")
    result = invoke(*SUGGEST, "--number", 3)
    assert result.exit_code == 0
    assert "too few labels for a model yet" in said(result)


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "your quota is used up"),
        (errno.EACCES, "get permission to write there"),
    ],
)
@pytest.mark.parametrize("command", [(*SUGGEST, "--number", "3"), ("report", "mine")], ids=["suggest", "report"])
def test_errors_of_the_system_come_with_advice(
    files: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], number: int, advice: str
) -> None:
    lobal.ActiveLearner(lobal.Pool([[k / 10] for k in range(10)]), seed=0, path=files / "mine").close()

    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("lobal.core.files.write_synced", failing)
    result = invoke(*command)
    assert result.exit_code == 2
    assert os.strerror(number) in said(result)
    assert said(result).count(advice) == 1
    assert "Errno" not in said(result)


def test_a_folder_without_permission_is_named_before_the_work(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda _, mode, **__: mode != os.W_OK)
    result = invoke(*SUGGEST, "--output", "new/next.csv")
    assert result.exit_code == 2
    assert "Permission denied: new; get permission to write there" in said(result)


@pytest.mark.parametrize("read", ["pool.csv", "labels.csv", "before.csv"])
@pytest.mark.parametrize("link", [None, Path.symlink_to, Path.hardlink_to], ids=["same", "soft", "hard"])
def test_a_report_never_replaces_what_was_read(files: Path, read: str, link: Any) -> None:
    (files / "before.csv").write_text("id\n")
    content, page = (files / read).read_bytes(), files / read
    if link is not None:
        page = files / "page.html"
        link(page, files / read)
    result = invoke(*SUGGEST, "--pending", "before.csv", "--report", page)
    assert (result.exit_code, (files / read).read_bytes()) == (2, content)
    assert "would be overwritten; choose another --report" in said(result)


def test_points_and_report_need_two_files(files: Path) -> None:
    (files / "sub").mkdir()
    result = invoke(*SUGGEST, "--output", "next.csv", "--report", "sub/../next.csv")
    assert result.exit_code == 2
    assert "--output and --report are both next.csv" in said(result)


@pytest.mark.parametrize("name", ["journal.jsonl", "header.json", "lock", "candidates.lobal", "steps/0000.lobal", "."])
def test_no_command_writes_over_a_campaign(files: Path, name: str) -> None:
    lobal.ActiveLearner(lobal.Pool([[k / 10] for k in range(10)]), seed=0, path=files / "mine").close()
    before = {path: path.read_bytes() for path in (files / "mine").rglob("*") if path.is_file()}
    for command in (("report", "mine"), (*SUGGEST, "--report", "x.html"), ("forcefield", "train", "pool.csv")):
        result = invoke(*command, "--output", f"mine/{name}")
        assert result.exit_code == 2, result.output
        assert "--output" in said(result) or "a table's name must end in" in said(result)
    assert {path: path.read_bytes() for path in (files / "mine").rglob("*") if path.is_file()} == before


def test_a_report_is_not_written_over_a_link_to_the_journal(tmp_path: Path) -> None:
    lobal.ActiveLearner(lobal.Pool([[k / 10] for k in range(10)]), seed=0, path=tmp_path / "mine").close()
    (tmp_path / "page.html").hardlink_to(tmp_path / "mine" / "journal.jsonl")
    assert invoke("report", tmp_path / "mine", "--output", tmp_path / "page.html").exit_code == 2


def test_a_report_in_the_folder_of_its_campaign_may_be_written_again(tmp_path: Path) -> None:
    lobal.ActiveLearner(lobal.Pool([[k / 10] for k in range(10)]), seed=0, path=tmp_path / "mine").close()
    for _ in range(2):
        assert invoke("report", tmp_path / "mine", "--output", tmp_path / "mine" / "report.html").exit_code == 0


def test_a_campaign_is_shown_as_a_page_beside_it(tmp_path: Path) -> None:
    learner = lobal.ActiveLearner(lobal.Pool([[k / 10] for k in range(10)]), seed=0, path=tmp_path / "mine")
    learner.ask(3)  # and another process may look while this one goes on
    result = invoke("report", tmp_path / "mine")
    learner.close()
    assert result.exit_code == 0, result.output
    assert "<h1>Campaign mine</h1>" in (tmp_path / "mine.html").read_text()


def test_a_folder_without_a_campaign_is_bad_input(tmp_path: Path) -> None:
    result = invoke("report", tmp_path / "gone")
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.parametrize("broken", ["active", "random"])
def test_a_demo_that_fails_begins_nothing_more(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """The second process is a thread here."""
    begun: list[str] = []

    def campaign(arm: str, *_: object) -> tuple[None, list[object]]:
        begun.append(arm)
        time.sleep(0.1)
        if arm == broken:
            raise IndexError("the campaign's own")
        return None, []

    monkeypatch.setattr(demo, "_campaign", campaign)
    monkeypatch.setattr(demo, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    with pytest.raises(IndexError, match="own"):
        demo.compare(128, 20, lambda *_: None)
    assert len(begun) < 45
