"""What `lobal campaign` refuses, in words that say what to do."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lobal import ActiveLearner
from tests.cli.campaign.setting import call, done, refused, rows_of, said

N = 60
NEW = ("campaign", "new", "c", "--pool", "pool.csv", "--target", "y")
SPACE = {
    "variables": [
        {"type": "real", "name": "x", "lower": 0.0, "upper": 1.0},
        {"type": "integer", "name": "n", "lower": 1, "upper": 5},
        {"type": "categorical", "name": "solvent", "levels": ["water", "ethanol"]},
    ]
}


def curve(k: int) -> float:
    return 3.0 + math.sin(6.0 * k / N)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign `p` from a table and `s` from a space, without labels."""
    folder = tmp_path_factory.mktemp("messages")
    rows = [f"P{k},{k / N:.3f},{k * 7 % N},7,{'AB'[k % 2]},{'same' if k < 2 else k}" for k in range(N)]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("pool.csv").write_text("\n".join(["id,u,v,constant,kind,twice", *rows]))
        Path("space.json").write_text(json.dumps(SPACE))
        done("campaign", "new", "p", "--pool", "pool.csv", "--target", "y", "--id", "id", "--inputs", "u,v,kind")
        done("campaign", "new", "s", "--space", "space.json", "--target", "y")
        Path("labels.csv").write_text("\n".join(["id,y", *(f"P{k},{curve(k):.3f}" for k in range(0, N, 3))]))
    return folder


@pytest.fixture(autouse=True)
def here(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


BEGINNINGS: list[tuple[tuple[object, ...], str]] = [
    (
        ("campaign", "new", "c", "--target", "y"),
        "candidates are needed: give a table of them as --pool, or a search space as --space",
    ),
    (
        (*NEW, "--space", "space.json", "--inputs", "u"),
        "--inputs and --space both name the inputs; give one of them",
    ),
    (
        ("campaign", "new", "c", "--target", "y", "--space", "space.json", "--id", "id"),
        "--id names columns of a table of candidates; give that as --pool",
    ),
    ((*NEW[:-1], "y,y"), "--target must name the column of the labels, each once, got ('y', 'y')"),
    ((*NEW, "--id", "y"), "--target, --id and --cost must name different columns, got 'y' twice"),
    ((*NEW, "--inputs", "u,y"), "inputs are columns other than target, cost and identifier, got 'y'"),
    ((*NEW, "--inputs", "u,u"), "--inputs must name each column once, got 'u' twice"),
    ((*NEW, "--inputs", "u,w"), "pool.csv has no column 'w'; its columns are id, u, v, constant, kind, twice"),
    ((*NEW, "--inputs", "u,id"), "column 'id' of pool.csv has 60 different texts"),
    ((*NEW, "--inputs", "u,constant"), "column 'constant' of pool.csv is 7.0 in all rows; leave it out with --inputs"),
    (
        (*NEW, "--inputs", "u,v", "--id", "twice"),
        "identifiers must be unique, but pool.csv has 'same' in column 'twice' twice",
    ),
    ((*NEW, "--inputs", "u,v", "--censored", "maybe"), "--censored has to be one of drop, bound, got 'maybe'"),
    (
        ("campaign", "new", "p", "--pool", "pool.csv", "--target", "y"),
        "p holds a campaign already; go on with it, or choose another folder",
    ),
    (
        ("campaign", "new", "c", "--space", "space.json", "--target", "n"),
        "inputs are columns other than target, cost and identifier, got 'n'",
    ),
    (("campaign", "new", "c", "--pool", "none.csv", "--target", "y"), "none.csv; check the name"),
    (("campaign", "new", "c", "--pool", "p/lock", "--target", "y"), "a table's name must end in one of .csv, .xlsx"),
]


@pytest.mark.parametrize(("arguments", "message"), BEGINNINGS)
def test_a_beginning_is_refused_and_leaves_nothing(arguments: tuple[object, ...], message: str) -> None:
    assert message in refused(*arguments)
    assert not Path("c").exists()


def test_a_column_of_row_numbers_must_identify_or_be_renamed() -> None:
    text = Path("pool.csv").read_text().replace("id,u,v", "id,u,row")
    Path("pool.csv").write_text(text)
    message = "pool.csv has a column 'row'; pass it as --id if it identifies the rows, otherwise rename it"
    assert message in refused(*NEW, "--inputs", "u,row")


def test_a_pool_without_rows_is_refused() -> None:
    Path("pool.csv").write_text("u,v\n")
    assert "pool.csv has no rows below its header; it must contain all candidates" in refused(*NEW)


def test_rows_without_a_number_are_named() -> None:
    Path("pool.csv").write_text("u,v\n1,2\n,3\n4,5\n")
    message = refused(*NEW)
    assert "1 row of pool.csv without a number for every input: line 3: 'u' is missing; correct them" in message


def test_rows_are_numbered_as_in_the_file_if_some_are_left_out() -> None:
    Path("pool.csv").write_text("u,v\n1,2\n,3\n4,5\n6,9\n")
    done(*NEW, "--skip-incomplete")
    done("campaign", "ask", "c", 3)
    assert sorted((row["row"], row["u"]) for row in rows_of("next.csv")) == [("1", "1.0"), ("3", "4.0"), ("4", "6.0")]
    Path("r.csv").write_text("row,y\n4,2.5\n")
    done("campaign", "tell", "c", "r.csv")
    done("campaign", "export", "c", "--output", "e.csv")
    assert [row["u"] for row in rows_of("e.csv") if row["y"] == "2.5"] == ["6.0"]


def test_rows_that_break_a_constraint_are_left_out_and_counted() -> None:
    variables = [{"type": "real", "name": "u", "lower": 0, "upper": 1}]
    Path("space.json").write_text(json.dumps({"variables": variables, "constraints": ["u <= 0.5"]}))
    notes = done(*NEW, "--space", "space.json")
    assert "29 rows of pool.csv break a constraint and are left out. 31 candidates" in notes


COMMANDS: list[Callable[[str], tuple[object, ...]]] = [
    lambda folder: ("campaign", "ask", folder, 3),
    lambda folder: ("campaign", "tell", folder, "labels.csv"),
    lambda folder: ("campaign", "status", folder),
    lambda folder: ("campaign", "predict", folder),
    lambda folder: ("campaign", "report", folder),
    lambda folder: ("campaign", "export", folder, "--output", "e.csv"),
    lambda folder: ("campaign", "undo", folder),
    lambda folder: ("run", folder, "--command", "./simulate {input} {output}", "--labels", 3),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_without_a_campaign_is_refused(command: Callable[[str], tuple[object, ...]]) -> None:
    message = "nowhere is no campaign of `lobal campaign`: there is no such folder; campaigns here: p, s"
    assert message in refused(*command("nowhere"))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"targets": ["y"]}', '{"targets": []}'])
def test_damaged_descriptions_are_refused(content: str) -> None:
    Path("p/tables.json").write_text(content)
    message = refused("campaign", "status", "p")
    assert "p/tables.json" in message
    assert "campaign's description of its tables" in message


def test_predictions_need_ten_labels() -> None:
    message = "need 10 labels to predict, have 0; ask for points and tell labels"
    assert message in refused("campaign", "predict", "p")


@pytest.mark.parametrize("command", [("ask", "p", 3), ("export", "p"), ("predict", "p")])
def test_files_are_overwritten_only_if_it_is_said(command: tuple[object, ...]) -> None:
    Path("there.csv").write_text("mine")
    message = refused("campaign", *command, "--output", "there.csv")
    assert "there.csv exists; choose another --output, or overwrite it with --force" in message
    assert Path("there.csv").read_text() == "mine"


def test_files_of_the_campaign_are_never_overwritten() -> None:
    done("campaign", "ask", "p", 3)
    message = refused("campaign", "export", "p", "--output", "p/steps/x.csv", "--force")
    assert "is or would be one of a campaign's own files; choose another --output" in message
    page = refused("campaign", "report", "p", "--output", "p/header.json")
    assert "p/header.json" in page
    assert "choose another --output" in page


def test_predictions_do_not_overwrite_their_points() -> None:
    message = refused("campaign", "predict", "p", "labels.csv", "--output", "labels.csv", "--force")
    assert "labels.csv is an input file and would be overwritten; choose another --output" in message


RESULTS = [
    ("p", "id,z\nP1,3\n", "r.csv has no column 'y'; its columns are id, z"),
    ("p", "id,y\nQ1,3\n", "no row of r.csv is among the candidates by 'id', e.g. 'Q1', where candidates are 'P0' and"),
    ("p", "id,y\n,3\n", "column 'id' of r.csv has no identifier in line 2; fill it in"),
    ("p", "u,y\n0.1,3\n", "r.csv has no column 'v', nor a column 'id' that identifies the rows; its columns are u, y"),
    ("p", "u,v,kind,y\n0.5,59,A,3\n", "points must be rows of the pool, got u = 0.5, v = 59.0, kind = A; check the"),
    ("p", "id,y\nP1,soft\n", "'soft' in line 2 (id 'P1'); pass --failed soft if these failed; or correct them"),
    ("s", "x,n,solvent,y\n0.5,2,oil,3\n", "line 2 of r.csv: 'solvent' must be one of ['water', 'ethanol'], got 'oil'"),
    ("s", "x,n,solvent,y\n1.5,2,water,3\n", "line 2 of r.csv: 'x' must lie between 0 and 1, got 1.5; leave"),
    ("s", "x,n,solvent,y\n0.5,2.5,water,3\n", "'n' must"),
    ("s", "x,n,y\n0.5,2,3\n", "r.csv has no column 'solvent'; its columns are x, n, y; add the missing columns as"),
]


@pytest.mark.parametrize(("folder", "text", "message"), RESULTS)
def test_results_are_refused_and_nothing_is_recorded(folder: str, text: str, message: str) -> None:
    Path("r.csv").write_text(text)
    assert message in refused("campaign", "tell", folder, "r.csv")
    assert done("campaign", "status", folder).startswith("0 labels, 0 pending, 0 failed.")


def test_one_table_that_cannot_be_read_leaves_the_others_unrecorded() -> None:
    refused("campaign", "tell", "p", "labels.csv", "nowhere.csv")
    assert done("campaign", "status", "p").startswith("0 labels, 0 pending, 0 failed.")


def test_more_points_than_there_are_cannot_be_asked_for() -> None:
    message = "61 points are asked for, but only 60 of the pool's 60 are left; ask for fewer or begin with a larger"
    assert message in refused("campaign", "ask", "p", 61)


def test_while_another_process_works_on_a_campaign_it_is_only_read() -> None:
    with ActiveLearner.load("p"):
        message = refused("campaign", "tell", "p", "labels.csv")
        assert "p" in message
        assert "is in use" in message
        assert done("campaign", "status", "p").startswith("0 labels, 0 pending, 0 failed.")
        assert "0 rows in e.csv." in done("campaign", "export", "p", "--output", "e.csv")
    assert "labels.csv: 20 labels recorded." in done("campaign", "tell", "p", "labels.csv")


def test_nothing_can_be_undone_at_the_beginning() -> None:
    assert "nothing to undo" in refused("campaign", "undo", "p")


def test_labels_in_other_units_are_warned_of_by_name() -> None:
    done(*NEW, "--inputs", "u", "--id", "id")
    rows = [f"P{k},{curve(k) * (1000.0 if k % 11 == 5 else 1.0):.4f}" for k in range(N)]
    Path("r.csv").write_text("\n".join(["id,y", *rows]))
    notes = done("campaign", "tell", "c", "r.csv")
    assert "r.csv: 60 labels recorded. Warning: 5 labels of y seem to be in other units, about 1e+03 times" in notes
    assert all(f"id P{k}: " in notes for k in (5, 16, 27, 38, 49))
    assert "If so, take them back with `lobal campaign undo`, and correct them." in notes
    done("campaign", "undo", "c")
    assert done("campaign", "status", "c").startswith("0 labels")


def test_columns_of_an_export_do_not_replace_inputs_of_the_same_name() -> None:
    Path("pool.csv").write_text("state,number\n1,2\n3,4\n5,9\n")
    done(*NEW)
    done("campaign", "ask", "c", 3)
    done("campaign", "export", "c", "--output", "e.csv")
    assert [*rows_of("e.csv")[0]] == ["row", "state", "number", "y", "state_", "number_"]


def test_tables_of_a_space_are_written_as_is_said() -> None:
    done("campaign", "new", "c", "--space", "space.json", "--target", "y", "--sep", ";", "--decimal", ",")
    done("campaign", "ask", "c", 2)
    assert [*rows_of("next.csv", ";")[0]] == ["x", "n", "solvent", "y", "why"]
    assert "," in rows_of("next.csv", ";")[0]["x"]


@pytest.mark.parametrize(
    "command",
    ["new", "ask", "tell", "status", "predict", "report", "export", "undo"],
)
def test_every_command_has_a_help_text(command: str) -> None:
    result = call("campaign", command, "-h")
    assert result.exit_code == 0
    assert "[[" not in said(result)
    assert "......" not in said(result)
