"""Tables as laboratories have them: what `lobal campaign` says of each of their peculiarities."""

import codecs
import json
import math
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.campaign.setting import done, refused, rows_of

N = 24
NEW = ("campaign", "new", "c", "--pool", "pool.csv", "--target", "HV")
ALLOYS = [f"A{k};{k},5;{k * 7 % N},25" for k in range(N)]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, header: str, rows: list[str], encoding: str = "utf-8") -> None:
    Path(name).write_bytes("\r\n".join([header, *rows, ""]).encode(encoding))


def begin(*options: object) -> str:
    write("pool.csv", "Probe;Kupfer;Zinn", ALLOYS)
    return done(*NEW, "--id", "Probe", *options)


# The pool.


@pytest.mark.parametrize(
    ("encoding", "words"),
    [("cp1252", ", encoded as cp1252."), ("utf-8-sig", "."), ("utf-16", ", encoded as utf-16."), ("utf-8", ".")],
)
def test_semicolons_decimal_commas_and_encodings_are_found_and_said(encoding: str, words: str) -> None:
    write("pool.csv", "Probe;Glühzeit;Zinn", ALLOYS, encoding)
    notes = done(*NEW, "--id", "Probe")
    assert f"pool.csv was read as separated by semicolons, with decimal commas{words}" in notes
    assert "Inputs: Glühzeit, Zinn. 24 candidates; campaign begun in c." in notes


def test_compositions_with_decimal_commas_are_inputs_beside_whole_numbers() -> None:
    parts = [(25.14 + k, 30.02 + k, 20.5 - k / 2, 24.34 - 1.5 * k) for k in range(N // 2)]
    rows = [
        ";".join([f"{part:.2f}".replace(".", ",") for part in four] + [str(900 + k)]) for k, four in enumerate(parts)
    ]
    write("pool.csv", "Fe;Cr;Ni;Mo;Grad", rows, "cp1252")
    assert "Inputs: Fe, Cr, Ni, Mo, Grad. 12 candidates" in done(*NEW)
    done("campaign", "ask", "c", 3)
    assert all("," in row["Fe"] and row["HV"] == "" for row in rows_of("next.csv", ";"))


def test_blank_rows_and_columns_at_the_end_are_left_out() -> None:
    write("pool.csv", "Probe;Kupfer;Zinn;;", [f"{row};;" for row in ALLOYS] + [";;;;", ";;;;"])
    assert "Inputs: Kupfer, Zinn. 24 candidates" in done(*NEW, "--id", "Probe")


def test_a_table_that_may_be_read_in_two_ways_needs_its_separator() -> None:
    write("pool.csv", "u,v;w", [f"{k},{k};{k}" for k in range(N)])
    message = refused(*NEW)
    assert "pool.csv may be separated by commas or semicolons; pass --sep ',' or --sep ';', or save it anew" in message
    assert "Inputs: w." in done(*NEW, "--sep", ";", "--inputs", "w")


def test_thousands_are_refused_with_how_to_write_them() -> None:
    write("pool.csv", "Probe;Kupfer;Zinn", [*ALLOYS, "B;1.234,5;2,5"])
    message = refused(*NEW, "--id", "Probe")
    assert "line 26 (Probe 'B'): 'Kupfer' is '1.234,5', which has a thousands separator: write it as 1234,5" in message


def test_all_rows_without_an_input_are_named_and_left_out_on_request() -> None:
    write("pool.csv", "Probe;Kupfer;Zinn", [*ALLOYS, "B;;2,5", "C;1,5;?", "D;;"])
    message = refused(*NEW, "--id", "Probe")
    assert "3 rows of pool.csv without a number for every input: line 26 (Probe 'B'): 'Kupfer' is missing;" in message
    assert "line 27 (Probe 'C'): 'Zinn' is '?'; line 28 (Probe 'D'): 'Kupfer' is missing, 'Zinn' is missing" in message
    assert "correct them, leave them out with --skip-incomplete, or choose other columns with --inputs" in message
    notes = done(*NEW, "--id", "Probe", "--skip-incomplete")
    assert "3 rows of pool.csv are left out as incomplete: line 26 (Probe 'B')" in notes
    assert "24 candidates" in notes


def test_columns_of_dates_texts_and_row_numbers_are_warned_of() -> None:
    rows = [f"{k + 1};{k},5;{k % 28 + 1}.03.2024;{'Nord' if k % 2 else 'West'}" for k in range(N)]
    write("pool.csv", "Nr;Kupfer;Datum;Werk", rows)
    notes = done(*NEW)
    assert "Inputs: Nr, Kupfer." in notes
    assert "Columns of dates are not used as inputs: Datum." in notes
    assert "Text columns are not used as inputs: Werk. Categories are possible if they are named in --inputs." in notes
    assert "Inputs that only count the rows: Nr. Leave them out with --inputs, or pass one that identifies the" in notes


def test_a_column_of_texts_that_is_named_is_a_category() -> None:
    rows = [f"{k * 7 % N},{'Nord' if k % 2 else 'West'}" for k in range(N)]
    write("pool.csv", "Kupfer,Werk", rows)
    assert "Inputs: Kupfer, Werk." in done(*NEW, "--inputs", "Kupfer,Werk")
    done("campaign", "ask", "c", 4)
    assert {row["Werk"] for row in rows_of("next.csv")} <= {"Nord", "West"}


def test_workbooks_are_pools_and_answers() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [("Probe", "Kupfer", "Zinn"), *((f"A{k}", k + 0.5, k * 7 % N) for k in range(N))]:
        book.active.append(row)
    book.create_sheet("Notizen").append(["from", "Monday"])
    book.save("pool.xlsx")
    options = ("campaign", "new", "c", "--pool", "pool.xlsx", "--target", "HV", "--id", "Probe")
    assert "pool.xlsx has several sheets; pass one of its sheets as --sheet: 'Sheet', 'Notizen'" in refused(*options)
    assert "Inputs: Kupfer, Zinn. 24 candidates" in done(*options, "--sheet", "Sheet")
    assert "3 points in next.xlsx." in done("campaign", "ask", "c", 3, "--output", "next.xlsx")
    assert "next.xlsx: no label recorded." in done("campaign", "tell", "c", "next.xlsx")


# The results.


def test_texts_are_failures_or_refused_with_what_to_pass() -> None:
    begin()
    write("r.csv", "Probe;HV", ["A1;cracked", "A2;lost", "A3;310,5"])
    message = refused("campaign", "tell", "c", "r.csv")
    assert "column 'HV' of r.csv has labels that are no numbers: 'cracked' in line 2 (Probe 'A1');" in message
    assert "'lost' in line 3 (Probe 'A2'); pass --failed cracked,lost if these failed; or correct them" in message
    notes = done("campaign", "tell", "c", "r.csv", "--failed", "cracked,lost")
    assert "Labels of r.csv that count as failed: 2 (cracked, lost). r.csv: 1 label recorded, 2 failed." in notes


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("drop", "that count as failed: 1 (<310)."),
        ("bound", "that are used as if their bounds were measured: 1 (<310)."),
    ],
)
def test_censored_labels_are_used_as_is_said(choice: str, words: str) -> None:
    begin("--censored", choice)
    write("r.csv", "Probe;HV", ["A1;<310", "A3;310,5"])
    assert f"Censored labels of r.csv {words}" in done("campaign", "tell", "c", "r.csv")


def test_labels_with_thousands_are_refused() -> None:
    begin()
    write("r.csv", "Probe;HV", ["A1;1.310,5", "A2;310,5"])
    message = refused("campaign", "tell", "c", "r.csv")
    assert "'1.310,5', which has a thousands separator: write it as 1310,5 in line 2 (Probe 'A1'); correct" in message


def test_a_label_with_another_decimal_mark_is_refused() -> None:
    begin()
    write("r.csv", "Probe;HV", ["A1;310,5", "A2;311,5", "A3;312.5"])
    message = refused("campaign", "tell", "c", "r.csv")
    assert "'312.5', though the table has decimal commas: write it as 312,5, or pass --decimal ." in message


def test_several_files_are_told_at_once() -> None:
    begin()
    write("r.csv", "Probe;HV", ["A1;310,5"])
    write("s.csv", "HV\tProbe", ["311,5\tA2"], "cp1252")
    notes = done("campaign", "tell", "c", "r.csv", "s.csv")
    assert notes == "r.csv: 1 label recorded. s.csv: 1 label recorded."


def test_identifiers_in_another_case_that_may_be_several_are_refused() -> None:
    write("pool.csv", "Probe,u", ["ab,1", "AB,2", *(f"B{k},{k}" for k in range(N))])
    done(*NEW, "--id", "Probe")
    write("r.csv", "Probe,HV", ["AB,3", " ab ,4", "b3,7"])
    assert "in spite of case or spaces: 'b3' as 'B3'. r.csv: 3 labels" in done("campaign", "tell", "c", "r.csv")
    write("r.csv", "Probe,HV", ["Ab,3"])
    message = "Probe 'Ab' in line 2 of r.csv may be any of 'ab', 'AB', which differ only in case or spaces; correct it"
    assert message in refused("campaign", "tell", "c", "r.csv")


# Reasons, costs.


def test_reasons_have_prediction_interval_nearest_label_difference_complexity_and_share() -> None:
    begin()
    write("r.csv", "Probe;HV", [f"A{k};{300 + 50 * math.sin(k / 3):.1f}".replace(".", ",") for k in range(0, N, 2)])
    done("campaign", "tell", "c", "r.csv")
    notes = done("campaign", "ask", "c", 10)
    for words in (
        "predicted ",
        "(95% between ",
        "; nearest label ",
        " at A",
        ", distance ",
        "between two labels that differ by ",
        "local complexity ordinary, ",
        " times the median",
        "it is one of the checks, which are drawn at random.",
        "it fills a gap between the points so far.",
    ):
        assert words in notes
    assert all(row["why"].startswith("predicted ") for row in rows_of("next.csv", ";"))


def test_the_cost_of_a_label_is_a_column_and_the_budget_ends_a_run() -> None:
    write("pool.csv", "u,v,price", [f"{k},{k * 7 % N},{1 + 9 * (k > 11)}" for k in range(N)])
    notes = done(*NEW, "--cost", "price")
    assert "Inputs: u, v." in notes
    Path("measure.py").write_text("import json, sys; json.dump({'HV': 3.5}, open(sys.argv[2], 'w'))")
    command = f"{shlex.quote(sys.executable)} -S measure.py {{input}} {{output}}"
    options = ("--command", command, "--labels", 20, "--batch", 3, "--budget", 12, "--quiet")
    done("run", "c", *options)
    prices = [1 + 9 * (json.loads(path.read_text())["u"] > 11) for path in Path("c/calls").glob("*/input.json")]
    assert 0 < sum(prices) <= 12


def test_files_marked_as_utf_8_are_no_columns_of_strange_names() -> None:
    rows = b"".join(b"%d,%d\n" % (k * 5 % N, k * 7 % N) for k in range(N))
    Path("pool.csv").write_bytes(codecs.BOM_UTF8 + b"u,v\n" + rows)
    assert done(*NEW).startswith("Inputs: u, v. 24 candidates")
