"""What newcomers get wrong, and what helps them on."""

import json
import math
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import lobal
from tests.cli.campaign.setting import call, done, environment, refused, rows_of, said

N = 60
FOLDERS = """
import sys
from typer.testing import CliRunner
from lobal.cli.app import app
for command in (["status", "x"], ["ask", "x", "3"], ["tell", "p", "x.csv"], ["ask", "p", "3", "--output", "pool.csv"]):
    assert CliRunner().invoke(app, ["campaign", *command]).exit_code == 2
assert "torch" not in sys.modules
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A campaign `p` of a small pool."""
    monkeypatch.chdir(tmp_path)
    rows = [f"P{k},{k / N:.3f},{k * 7 % N}" for k in range(N)]
    Path("pool.csv").write_text("\n".join(["id,u,v", *rows]))
    assert said(call("campaign", "new", "p", "--pool", "pool.csv", "--target", "y", "--id", "id")) == (
        "Inputs: u, v. 60 candidates; campaign begun in p. Then ask for points to label: lobal campaign ask p 20"
    )
    return tmp_path


def labels(k: int) -> float:
    return 300.0 + 50.0 * math.sin(6.0 * k / N)


def write_labels(name: str, values: dict[int, float]) -> None:
    Path(name).write_text("\n".join(["id,y", *(f"P{k},{value}" for k, value in values.items())]))


def test_a_file_in_place_of_the_folder_is_said_to_be_one() -> None:
    message = refused("campaign", "tell", "pool.csv", "p")
    assert (
        "pool.csv is no campaign of `lobal campaign`: it is a file; the folder of the campaign comes first" in message
    )


def test_within_the_folder_of_a_campaign_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("p")
    message = refused("campaign", "status", "p")
    assert "there is no such folder; you are in the folder of a campaign: call it . or go up by one folder" in message
    assert done("campaign", "status", ".").startswith("0 labels")


def test_where_no_campaign_is_one_is_to_be_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("empty/folder").mkdir(parents=True)
    monkeypatch.chdir("empty")
    message = refused("campaign", "status", "folder")
    assert "folder is no campaign of `lobal campaign`: it has no tables.json; begin one with `lobal campaign" in message


def test_a_campaign_of_python_is_left_to_python() -> None:
    lobal.ActiveLearner(lobal.Pool([[k / 10] for k in range(10)]), path="mine").close()
    message = refused("campaign", "status", "mine")
    assert "it was begun in Python; go on there, with lobal.ActiveLearner.load; campaigns here: p" in message


def test_what_was_typed_wrongly_is_refused_before_the_heavy_imports() -> None:
    result = subprocess.run([sys.executable, "-c", FOLDERS], env=environment(), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_column_in_another_case_is_named() -> None:
    message = refused("campaign", "new", "c", "--pool", "pool.csv", "--target", "y", "--id", "ID")
    assert "pool.csv has no column 'ID'; its columns are id, u, v; did you mean 'id'?" in message


def test_the_points_say_what_to_do_with_them() -> None:
    notes = done("campaign", "ask", "p", 3, "--output", "next points.csv")
    assert "3 points in next points.csv. Fill in y there and tell it, or any table with them: lobal campaign" in notes
    assert notes.endswith("lobal campaign tell p 'next points.csv'")


def test_samples_that_nobody_asked_for_are_named_once_points_were_asked_for() -> None:
    write_labels("own.csv", {1: 3.5})
    assert done("campaign", "tell", "p", "own.csv") == "own.csv: 1 label recorded."
    done("campaign", "ask", "p", 3)
    write_labels("own.csv", {1: 3.5, 2: 4.5})
    notes = done("campaign", "tell", "p", "own.csv")
    assert "1 label recorded, 1 known already. Points that nobody asked for, recorded like all others: id P2." in notes


def test_points_to_predict_beyond_the_bounds_are_named_by_line() -> None:
    write_labels("r.csv", {k: labels(k) for k in range(0, N, 3)})
    done("campaign", "tell", "p", "r.csv")
    Path("wanted.csv").write_text("u,v\n0.5,3\n0.5,1e6\n0.4,-9\n")
    message = refused("campaign", "predict", "p", "wanted.csv")
    assert "line 3, line 4 of wanted.csv: 'v' must lie between 0 and 59, got" in message
    assert "leave such points out, or begin with wider bounds, in a --space (a pool alone has those of its" in message


def test_all_columns_with_values_beyond_the_bounds_are_named() -> None:
    Path("own.csv").write_text("u,v,y\n7,3,1.5\n0.5,1e6,2.5\n")
    message = refused("campaign", "tell", "p", "own.csv")
    assert "line 2 of own.csv: 'u' must lie between 0 and 0.983, got 7" in message
    assert "line 3 of own.csv: 'v' must lie between 0 and 59, got 1000000" in message
    assert message.rstrip(" ╯╰─").endswith("Nothing was recorded.")


def test_predictions_have_digits_that_mean_something() -> None:
    write_labels("r.csv", {k: labels(k) for k in range(0, N, 3)})
    done("campaign", "tell", "p", "r.csv")
    done("campaign", "predict", "p")
    values = [row[name] for row in rows_of("predictions.csv") for name in ("y", "y sd", "y lower", "local complexity")]
    assert all(len(f"{float(value):.7g}") >= len(value.removesuffix(".0").lstrip("0")) - 1 for value in values)


def test_three_labels_in_other_units_are_warned_of() -> None:
    wrong = {5, 29, 50}
    write_labels("r.csv", {k: labels(k) / (100.0 if k in wrong else 1.0) for k in range(N) if k % 3 == 2})
    notes = done("campaign", "tell", "p", "r.csv")
    assert (
        "Warning: 3 labels of y seem to be in other units, about 0.0097 times what the others predict: id P5: " in notes
    )


def test_a_slip_of_the_decimal_mark_is_named_by_status_and_ask() -> None:
    write_labels("r.csv", {k: round(labels(k) / (10.0 if k == 32 else 1.0), 1) for k in range(0, N, 2)})
    done("campaign", "tell", "p", "r.csv")
    warning = "Warning: 1 label that the others contradict: id P32: 29.7. Check units, signs and decimal marks; `lobal"
    assert warning in done("campaign", "status", "p")
    assert "that the others contradict: id P32" in done("campaign", "ask", "p", 2)


def test_a_report_replaces_reports_and_nothing_else() -> None:
    for _ in range(2):
        assert done("campaign", "report", "p", "--output", "page.html") == "Report in page.html."
    Path("notes.html").write_text("<p>mine</p>")
    message = refused("campaign", "report", "p", "--output", "notes.html")
    assert "notes.html exists; choose another --output, or overwrite it with --force" in message
    assert done("campaign", "report", "p", "--output", "notes.html", "--force") == "Report in notes.html."


def test_a_map_over_any_two_inputs_is_drawn_on_request() -> None:
    write_labels("r.csv", {k: labels(k) for k in range(0, N, 3)})
    done("campaign", "tell", "p", "r.csv")
    done("campaign", "report", "p", "--map", "v,u")
    assert "v and u, as asked for." in Path("p/report.html").read_text()
    assert "a map is over two different ones of u, v, got u and w" in refused("campaign", "report", "p", "--map", "u,w")
    assert "--map takes two inputs separated by a comma, got 'u'" in refused("campaign", "report", "p", "--map", "u")


SPACES = [
    (
        '{"variables": [{"log": True}]}',
        "'s.json' is not a search space: it is no JSON, Expecting value in line 1, column",
    ),
    ("{'variables': []}", "texts need double quotes, true and false are in lower case, and no comma follows the last"),
    ('{"variable": []}', "space must have the entry 'variables', got only ['variable']"),
]


@pytest.mark.parametrize(("text", "message"), SPACES)
def test_a_space_that_cannot_be_read_is_explained(text: str, message: str) -> None:
    Path("s.json").write_text(text)
    assert message in refused("campaign", "new", "c", "--space", "s.json", "--target", "y")


def test_a_program_that_is_not_there_is_said_before_points_are_asked_for() -> None:
    message = refused("run", "p", "--command", "./simulate {input} {output}", "--labels", 10)
    assert "there is no program './simulate' that can be run; check --command, got './simulate {input}" in message
    assert done("campaign", "status", "p").startswith("0 labels, 0 pending")


def test_constraints_may_name_columns_with_spaces_and_signs() -> None:
    rows = [f"{k},{k * 7 % N}" for k in range(N)]
    Path("alloys.csv").write_text("\n".join(["Chrom %,Nickel %", *rows]))
    variables = [{"type": "real", "name": f"{name} %", "lower": 0, "upper": N} for name in ("Chrom", "Nickel")]
    space = {"variables": variables, "constraints": ["`Chrom %` + `Nickel %` <= 60"]}
    Path("s.json").write_text(json.dumps(space))
    notes = done("campaign", "new", "c", "--pool", "alloys.csv", "--space", "s.json", "--target", "y")
    n = sum(k + k * 7 % N > 60 for k in range(N))
    assert f"{n} rows of alloys.csv break a constraint and are left out. {N - n} candidates" in notes


def test_one_label_that_is_missing_is_one() -> None:
    write_labels("r.csv", {k: labels(k) for k in range(9)})
    done("campaign", "tell", "p", "r.csv")
    assert "The error of predictions of y is not known yet; 1 more label is needed." in done("campaign", "status", "p")


def test_dates_among_the_inputs_are_called_so() -> None:
    rows = [f"{k},{k % 28 + 1:02d}.{k // 28 + 1:02d}.2024" for k in range(N)]
    Path("dated.csv").write_text("\n".join(["u,day", *rows]))
    message = refused("campaign", "new", "c", "--pool", "dated.csv", "--target", "y", "--inputs", "u,day")
    assert "column 'day' of dated.csv holds dates, which are no inputs; leave it out of --inputs, or add a" in message


def test_the_report_of_python_names_that_of_the_command_line() -> None:
    assert done("report", "p") == "report in p.html; `lobal campaign report p` names the labels"


def test_a_space_may_be_given_to_a_program() -> None:
    Path("s.json").write_text('{"variables": [{"type": "real", "name": "x", "lower": 0, "upper": 1}]}')
    notes = done("campaign", "new", "c", "--space", "s.json", "--target", "y")
    assert notes.endswith("points to label: lobal campaign ask c 20, or have a program label them: lobal run c")


def test_outputs_that_are_missing_are_counted_and_named_in_reasons() -> None:
    Path("s.json").write_text('{"variables": [{"type": "real", "name": "x", "lower": 0, "upper": 1}]}')
    done("campaign", "new", "c", "--space", "s.json", "--target", "strength,price")
    rows = [f"{k / 12},{'cracked' if k == 5 else math.sin(k)},{'' if k % 6 == 0 else k}" for k in range(12)]
    Path("r.csv").write_text("\n".join(["x,strength,price", *rows]))
    done("campaign", "tell", "c", "r.csv", "--failed", "cracked")
    notes = done("campaign", "status", "c")
    assert notes.startswith("12 labels (11 of strength, 10 of price), 0 pending, 0 failed.")
    notes = done("campaign", "ask", "c", 3)
    for words in ("predicted strength ", "), price ", "; nearest label strength ", "labels that differ by strength "):
        assert words in notes


def test_help_shows_commands_that_can_be_typed() -> None:
    for command in ("new", "ask", "tell", "predict"):
        words = said(call("campaign", command, "-h")).split("Example: ")[1].split(" ")[:4]
        assert shlex.join(words).startswith(f"lobal campaign {command} hardness")
