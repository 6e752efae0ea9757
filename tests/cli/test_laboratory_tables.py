"""`lobal suggest` with tables as laboratories have them."""

import codecs
import math
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import lobal
from lobal.cli.app import app

N = 60
CALL = ("suggest", "pool.csv", "labels.csv", "--target", "Härte", "--id", "Probe", "--number", "5")


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def said(result: Result) -> str:
    """What was printed, without the frame around errors and the line breaks it makes."""
    return " ".join(result.output.replace("│", " ").split())


def german(value: float) -> str:
    return f"{value:.4f}".replace(".", ",")


def write_labels(name: str, *rows: tuple[str, str]) -> None:
    text = "".join(f"{probe};{label}\n" for probe, label in rows)
    Path(name).write_bytes(f"Probe;Härte\n{text}".encode("cp1252"))


def hardness(k: int) -> float:
    return 300.0 + 50.0 * math.sin(3.0 * k / N)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pool in the format of a German Excel and labels of every other row; models are small."""
    from lobal.cli import suggestion

    model = lobal.MixtureRegressor(n_inducing=20, n_gate_inducing=10)
    monkeypatch.setattr(suggestion, "ActiveLearner", partial(lobal.ActiveLearner, model=model))
    monkeypatch.chdir(tmp_path)
    rows = [f"P{k};{german(k / N)};{k * 7 % N};gegossen;{k % 28 + 1}.03.2024;" for k in range(N)]
    text = "\n".join(["Probe;Kupfer;Glühzeit;Verfahren;Datum;", *rows, ";;;;;", ";;;;;", ""])
    Path("pool.csv").write_bytes(text.encode("cp1252"))
    write_labels("labels.csv", *((f"P{k}", german(hardness(k))) for k in range(0, N, 2)))
    return tmp_path


def test_a_german_table_is_read_used_and_answered_in_kind(files: Path) -> None:
    result = invoke(*CALL)
    assert result.exit_code == 0, result.output
    for note in (
        "pool.csv was read as separated by semicolons, with decimal commas, encoded as cp1252.",
        "Inputs: Kupfer, Glühzeit.",
        "Columns of dates are not used as inputs: Datum.",
        "Text columns are not used as inputs: Verfahren. Categories are possible in a search space.",
    ):
        assert note in said(result)
    content = (files / "next.csv").read_bytes()
    lines = content.removeprefix(codecs.BOM_UTF8).decode().splitlines()
    assert content.startswith(codecs.BOM_UTF8)
    assert lines[0] == "Probe;Kupfer;Glühzeit;local_complexity;superior_density"
    assert all(line.split(";")[1] == german(int(line.split(";")[0][1:]) / N) for line in lines[1:])


def test_what_was_written_is_read_as_pending_from_several_files(files: Path) -> None:
    assert invoke(*CALL).exit_code == 0
    assert invoke(*CALL, "--output", "more.xlsx", "--pending", "next.csv").exit_code == 0
    last = invoke(*CALL, "--output", "last.csv", "--pending", "next.csv", "more.xlsx")
    assert "10 rows are pending" in said(last), last.output


def test_labels_may_be_in_several_files(files: Path) -> None:
    write_labels("more.csv", ("P1", german(hardness(1))), ("p3", "cracked"))
    result = invoke("suggest", "pool.csv", "labels.csv", "more.csv", *CALL[3:], "--failed", "cracked,n.a.")
    assert result.exit_code == 0, result.output
    assert "Labels of more.csv that count as failed: 1 (cracked)." in said(result)
    assert "Identifiers of more.csv that were matched in spite of case or spaces: 'p3' as 'P3'." in said(result)
    assert "31 labels, " in (files / "next.html").read_text()
    twice = invoke("suggest", "pool.csv", "labels.csv", "./labels.csv", *CALL[3:], "--force")
    assert "a file is given twice: labels.csv, labels.csv; give each once" in said(twice)


def test_nothing_is_overwritten_without_force(files: Path) -> None:
    assert invoke(*CALL).exit_code == 0
    again = invoke(*CALL)
    assert again.exit_code == 2
    assert "next.csv exists; choose another --output, or overwrite it with --force" in said(again)
    page = invoke(*CALL, "--output", "other.csv", "--report", "next.html")
    assert "next.html exists; choose another --report, or overwrite it with --force" in said(page)
    assert invoke(*CALL, "--force").exit_code == 0


def test_incomplete_rows_are_named_and_left_out_on_request(files: Path) -> None:
    text = (files / "pool.csv").read_text(encoding="cp1252").replace("P2;0,0333", "P2;").replace("P5;0,0833", "P5;?")
    (files / "pool.csv").write_text(text, encoding="cp1252")
    refused = invoke(*CALL)
    assert refused.exit_code == 2
    assert "line 4 (Probe 'P2'): 'Kupfer' is missing; line 7 (Probe 'P5'): 'Kupfer' is '?'" in said(refused)
    assert "leave them out with --skip-incomplete" in said(refused)
    result = invoke(*CALL, "--skip-incomplete")
    assert "2 rows of pool.csv are left out as incomplete" in said(result), result.output
    assert "58 candidates" in (files / "next.html").read_text()


def test_row_numbers_are_those_of_the_file_also_where_rows_are_left_out(files: Path) -> None:
    (files / "pool.csv").write_text("x,z\n?,1\n" + "".join(f"{k},{k * 7 % 11}\n" for k in range(9)))
    (files / "labels.csv").write_text("x,z,y\n0,0,1\n?,1,2\n")
    call = ("suggest", "pool.csv", "labels.csv", "--target", "y", "--number", 8, "--skip-incomplete")
    result = invoke(*call)
    assert result.exit_code == 0, result.output
    rows = [line.split(",") for line in (files / "next.csv").read_text().splitlines()[1:]]
    assert sorted(int(row[0]) for row in rows) == [*range(2, 10)]
    assert all(int(row[0]) == int(row[1]) + 1 for row in rows)


def test_censored_labels_are_refused_or_used_on_request() -> None:
    write_labels("labels.csv", ("P0", "<310"), ("P1", "305,5"))
    refused = invoke(*CALL)
    assert "'<310' (censored) in line 2 (Probe 'P0'); pass --censored drop" in said(refused)
    used = invoke(*CALL, "--censored", "bound")
    assert "that are used as if their bounds were measured: 1 (<310)." in said(used), used.output


@pytest.mark.filterwarnings("ignore::lobal.mixture.outliers.OutlierWarning")
@pytest.mark.parametrize("factor", [100.0, 1000.0])
def test_labels_in_other_units_are_warned_of_with_rows(factor: float) -> None:
    wrong = {4, 14, 24, 34, 44, 54}
    labels = [(k, hardness(k) / (factor if k in wrong else 1.0)) for k in range(0, N, 2)]
    write_labels("labels.csv", *((f"P{k}", f"{y:.6f}".replace(".", ",")) for k, y in labels))
    result = invoke(*CALL, "--inputs", "Kupfer")
    assert f"Warning: 6 labels seem to be in other units, about {1 / factor:.2g} times" in said(result), result.output
    assert "line 4 (Probe 'P4') of labels.csv: " in said(result)


def test_options_for_tables_are_checked_before_the_work() -> None:
    assert "--decimal has to be '.' or ',', got ';'" in said(invoke(*CALL, "--decimal", ";"))
    assert "--censored has to be one of drop, bound, got 'x'" in said(invoke(*CALL, "--censored", "x"))
