"""A laboratory with tables of a German Excel: late, failed, repeated, corrected and censored labels, and kills."""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import pytest

from lobal import ActiveLearner
from tests.cli.campaign.setting import ROOT, done, killed, refused, rows_of

TARGET = "Härte HV"
NEW = ("campaign", "new", "h", "--pool", "alloys.csv", "--target", TARGET, "--id", "Probe", "--failed", "gerissen")
FIRST, SECOND = "first.csv", "second.csv"


def alloys() -> ModuleType:
    specification = importlib.util.spec_from_file_location("alloys", ROOT.parent / "examples" / "alloys.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign with 12 points asked for, `first.csv`, and their results in German, `results.csv`."""
    folder = tmp_path_factory.mktemp("alloys")
    laboratory = alloys()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        laboratory.main("table", "alloys.csv")
        notes = done(*NEW)
        assert "alloys.csv was read as separated by semicolons, with decimal commas, encoded as cp1252." in notes
        assert "Inputs: Chrom %, Nickel %, Molybdän %, Glühtemperatur °C." in notes
        assert "Hersteller. Categories are possible if they are named in --inputs. 3000 candidates" in notes
        done("campaign", "ask", "h", 12, "--output", FIRST)
        laboratory.main("measure", FIRST, "results.csv")
    return folder


@pytest.fixture
def here(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, as working directory."""
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(name: str = FIRST) -> list[str]:
    return [row["Probe"] for row in rows_of(name, ";")]


def write(name: str, labels: Mapping[str, str]) -> str:
    rows = "".join(f"{sample};{label}\n" for sample, label in labels.items())
    Path(name).write_bytes(f"Probe;{TARGET}\n{rows}".encode("cp1252"))
    return name


def tell(*arguments: object) -> str:
    return done("campaign", "tell", "h", *arguments)


def labels() -> dict[str, list[float]]:
    """All labels by their samples, sorted."""
    with ActiveLearner.read("h") as learner:
        numbers, values = learner.ledger.labelled()
        names = learner.candidates.named(learner.ledger.candidates(numbers), learner.ledger.inputs(numbers))
    found: dict[str, list[float]] = {}
    for name, value in zip(names, values.tolist(), strict=True):
        found.setdefault(name, []).append(value)
    return found


def counts() -> tuple[int, int, int]:
    """Labels, pending and failed points."""
    with ActiveLearner.read("h") as learner:
        return learner.ledger.n_labels, len(learner.ledger.pending), len(learner.ledger.failed)


@pytest.mark.usefixtures("here")
def test_results_in_german_are_recorded_once() -> None:
    assert "results.csv: 11 labels recorded, 1 failed." in tell("results.csv")
    assert "results.csv: 0 labels recorded, 12 known already." in tell("results.csv")
    assert counts() == (11, 0, 1)
    assert labels()["L0282"] == [445.8]


@pytest.mark.usefixtures("here")
def test_the_same_results_again_are_repeated_measurements_if_it_is_said() -> None:
    tell("results.csv")
    notes = tell("results.csv", "--again")
    assert "results.csv: 11 labels recorded, 1 known already." in notes
    assert "have a further one now; all of them count: Probe L0282; Probe L0965;" in notes
    assert counts() == (22, 0, 1)


@pytest.mark.usefixtures("here")
def test_undo_takes_the_last_results_back_and_no_others() -> None:
    tell("results.csv")
    tell("results.csv", "--again")
    assert done("campaign", "undo", "h") == "Undone: 11 labels."
    assert counts() == (11, 0, 1)


@pytest.mark.usefixtures("here")
def test_late_labels_are_told_after_the_next_points_are_asked_for() -> None:
    late, *rest = asked()
    tell(write("some.csv", dict.fromkeys(rest, "300,5")))
    notes = done("campaign", "ask", "h", 5, "--output", SECOND)
    assert "1 earlier point still pending; `lobal campaign export` lists all points. 5 points in second.csv." in notes
    assert late not in asked(SECOND)
    tell(write("late.csv", {late: "301,5"}))
    assert labels()[late] == [301.5]
    assert counts() == (12, 5, 0)


@pytest.mark.usefixtures("here")
def test_a_corrected_label_counts_beside_the_first_and_is_named() -> None:
    tell("results.csv")
    notes = tell(write("corrected.csv", {"L0282": "440,0"}))
    assert "corrected.csv: 1 label recorded." in notes
    assert "Points that had a label already, and have a further one now; all of them count: Probe L0282." in notes
    assert labels()["L0282"] == [445.8, 440.0]


@pytest.mark.usefixtures("here")
def test_a_labelled_sample_that_fails_later_keeps_its_label() -> None:
    tell("results.csv")
    notes = tell(write("cracked.csv", {"L0282": "gerissen"}))
    assert "cracked.csv: 0 labels recorded." in notes
    assert "Points that failed now, but have a label already, which they keep: Probe L0282." in notes
    assert counts() == (11, 0, 1)


@pytest.mark.usefixtures("here")
def test_a_failed_sample_that_is_measured_after_all_has_a_label() -> None:
    tell("results.csv")
    tell(write("mended.csv", {"L1087": "210,5"}))
    assert labels()["L1087"] == [210.5]
    assert counts() == (12, 0, 0)


@pytest.mark.usefixtures("here")
def test_a_censored_label_is_refused_with_what_to_do_and_nothing_is_recorded() -> None:
    write("censored.csv", {"L0282": "<310", "L0965": "200,5"})
    message = refused("campaign", "tell", "h", "censored.csv")
    assert "'<310' (censored) in line 2 (Probe 'L0282'); pass --censored drop to count censored labels as" in message
    assert counts() == (0, 12, 0)


@pytest.mark.parametrize(("choice", "expected"), [("drop", (1, 10, 1)), ("bound", (2, 10, 0))])
@pytest.mark.usefixtures("here")
def test_censored_labels_are_failures_or_bounds(choice: str, expected: tuple[int, int, int]) -> None:
    tell(write("censored.csv", {"L0282": "<310", "L0965": "200,5"}), "--censored", choice)
    assert counts() == expected
    assert labels().get("L0282") == (None if choice == "drop" else [310.0])


@pytest.mark.usefixtures("here")
def test_blank_cells_stay_pending() -> None:
    notes = tell(write("blank.csv", {"L0282": "", "L0965": "200,5"}))
    assert "Rows of blank.csv without a value yet: 1. Their points stay as they are; write 'gerissen' where" in notes
    assert counts() == (1, 11, 0)


@pytest.mark.usefixtures("here")
def test_a_table_without_any_value_records_nothing() -> None:
    assert "first.csv: no label recorded." in tell(FIRST)
    assert counts() == (0, 12, 0)


@pytest.mark.usefixtures("here")
def test_samples_in_another_case_are_recognised_and_named() -> None:
    notes = tell(write("case.csv", {" l0282 ": "200,5"}))
    assert "Identifiers of case.csv that were matched in spite of case or spaces: 'l0282' as 'L0282'." in notes
    assert labels() == {"L0282": [200.5]}


@pytest.mark.usefixtures("here")
def test_a_sample_that_nobody_asked_for_is_welcome() -> None:
    tell(write("own.csv", {"L0001": "200,5"}))
    assert counts() == (1, 12, 0)


@pytest.mark.usefixtures("here")
def test_a_sample_outside_the_pool_is_left_out_by_name() -> None:
    notes = tell(write("outside.csv", {"L0282": "200,5", "X17": "300,5"}))
    assert "Rows of outside.csv that are not among the candidates are not used: line 3 (Probe 'X17')." in notes
    assert labels() == {"L0282": [200.5]}


@pytest.mark.usefixtures("here")
def test_results_of_a_workbook_are_recorded() -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [("Probe", TARGET), ("L0282", 445.8), ("L0965", "gerissen"), ("L0977", None)]:
        book.active.append(row)
    book.save("results.xlsx")
    assert "results.xlsx: 1 label recorded, 1 failed." in tell("results.xlsx")
    assert counts() == (1, 10, 1)


@pytest.mark.usefixtures("here")
def test_the_table_of_points_itself_is_filled_in_and_told() -> None:
    text = Path(FIRST).read_text(encoding="utf-8-sig").replace(";;", ";212,5;", 1)
    Path(FIRST).write_text(text, encoding="cp1252")
    tell(FIRST)
    assert labels() == {"L0282": [212.5]}


# What is known.


@pytest.mark.usefixtures("here")
def test_status_says_counts_errors_and_advice() -> None:
    assert done("campaign", "status", "h") == (
        f"0 labels, 12 pending since {pending_since()} UTC, 0 failed. The error of predictions of Härte HV is not "
        "known yet; 10 more labels are needed. Stopping advice: not known yet."
    )
    tell("results.csv")
    found = done("campaign", "status", "h")
    assert found.startswith("11 labels, 0 pending, 1 failed. Predictions of Härte HV are off by ")
    assert "(root mean square, leave-one-out)" in found
    assert "The noise of Härte HV has a standard deviation" in found


def pending_since() -> str:
    with ActiveLearner.read("h") as learner:
        since = learner.summary().pending_since
    assert since is not None
    return f"{since:%Y-%m-%d %H:%M}"


@pytest.mark.usefixtures("here")
def test_predictions_of_all_candidates_are_written_in_german() -> None:
    tell("results.csv")
    assert done("campaign", "predict", "h", "--output", "all.csv") == "3000 predictions in all.csv."
    rows = rows_of("all.csv", ";")
    assert len(rows) == 3000
    assert [*rows[0]][-5:] == [TARGET, f"{TARGET} sd", f"{TARGET} lower", f"{TARGET} upper", "local complexity"]
    values = [float(rows[0][f"{TARGET}{part}"].replace(",", ".")) for part in (" lower", "", " upper")]
    assert values == sorted(values)


@pytest.mark.usefixtures("here")
def test_predictions_of_a_table_are_those_of_the_candidates() -> None:
    tell("results.csv")
    done("campaign", "predict", "h", "--output", "all.csv")
    done("campaign", "predict", "h", FIRST, "--output", "by_inputs.csv")
    Path("names.csv").write_text("".join(f"{name}\n" for name in ["Probe", *asked()]))
    done("campaign", "predict", "h", "names.csv", "--output", "by_names.csv")
    expected = {row["Probe"]: row[TARGET][:6] for row in rows_of("all.csv", ";")}
    for name in ("by_inputs.csv", "by_names.csv"):
        assert {row["Probe"]: row[TARGET][:6] for row in rows_of(name, ";")} == {
            sample: expected[sample] for sample in asked()
        }


@pytest.mark.usefixtures("here")
def test_an_export_has_all_points_and_brings_nothing_new() -> None:
    tell(write("some.csv", {"L0282": "200,5", "L0965": "gerissen"}))
    assert done("campaign", "export", "h") == "12 rows in labels.csv."
    rows = rows_of("labels.csv", ";")
    assert [(row["Probe"], row[TARGET], row["state"], row["number"]) for row in rows[:3]] == [
        ("L0282", "200,5", "labelled", "1"),
        ("L0965", "", "failed", "2"),
        ("L0977", "", "pending", "3"),
    ]
    assert "labels.csv: 0 labels recorded, 1 known already." in tell("labels.csv")


# Kills.


def test_a_killed_tell_is_told_again_and_nothing_is_lost_or_doubled(here: Path) -> None:
    extra = {"L0001": "201,5", "L0002": "gerissen"}
    write("more.csv", dict.fromkeys(asked(), "300,5") | {asked()[0]: "gerissen"} | extra)
    places = copies(here, 4)
    codes = killed([(k, place, ["campaign", "tell", "h", "more.csv"]) for k, place in enumerate(places, start=1)])
    assert codes[:3] == [-9, -9, -9]
    for place in places:
        os.chdir(place)
        tell("more.csv")
        assert counts() == (12, 0, 2)
        assert all(values in ([300.5], [201.5]) for values in labels().values())


def test_a_killed_ask_goes_on_with_the_same_points(here: Path) -> None:
    tell("results.csv")
    places = copies(here, 5)
    codes = killed([(k, place, ["campaign", "ask", "h", "5"]) for k, place in enumerate(places, start=1)])
    assert codes.count(-9) >= 4
    done("campaign", "ask", "h", 5)
    expected = asked("next.csv")
    for place in places:
        os.chdir(place)
        if counts()[1]:  # the points are recorded, the table may not be written
            done("campaign", "export", "h")
            found = [row["Probe"] for row in rows_of("labels.csv", ";") if row["state"] == "pending"]
        else:
            done("campaign", "ask", "h", 5)
            found = asked("next.csv")
        assert found == expected


def test_a_table_that_cannot_be_written_leaves_no_pending_points(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lobal.cli.campaign import rounds

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(rounds, "write_atomically", full)
    assert "No space left on device" in refused("campaign", "ask", "h", 5)
    assert counts() == (0, 12, 0)
    assert here.exists()


def copies(here: Path, n: int) -> list[Path]:
    """Folders with the same files."""
    places = [here.with_name(f"{here.name}_{k}") for k in range(n)]
    for place in places:
        shutil.copytree(here, place)
    return places
