"""A simulator that crashes, hangs and loses outputs, driven by `lobal run`."""

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lobal import ActiveLearner
from tests.cli.campaign.setting import ROOT, call, done, environment, refused, rows_of, said

SOURCE = """
import json, math, sys, time
point = json.load(open(sys.argv[1]))
if point["material"] == "polymer" and point["angle"] > 60.0:
    sys.exit("the plate has molten")
if point["flow"] < 0.06:
    time.sleep(20.0)
pressure = math.nan if point["fins"] in (3, 4) else math.log(point["flow"]) + 0.1 * point["fins"]
values = {"temperature": math.log(point["power"]) + 0.01 * point["angle"], "pressure": pressure}
time.sleep(float(sys.argv[3]))
json.dump(values, open(sys.argv[2], "w"))
"""
TARGETS = "temperature,pressure"


def simulator() -> ModuleType:
    specification = importlib.util.spec_from_file_location("simulator", ROOT.parent / "examples" / "simulator.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("space.json").write_text(json.dumps(simulator().SPACE))
    Path("simulate.py").write_text(SOURCE)
    return tmp_path


def begin(targets: str = TARGETS) -> None:
    done("campaign", "new", "s", "--space", "space.json", "--target", targets)


def command(seconds: float = 0.0) -> str:
    return f"{shlex.quote(sys.executable)} -S simulate.py {{input}} {{output}} {seconds}"


def run(labels: int, *options: object, seconds: float = 0.0) -> tuple[object, ...]:
    given = ("--labels", labels, "--workers", 2, "--timeout", 2, "--quiet")
    return ("run", "s", "--command", command(seconds), *given, *options)


@pytest.fixture
def ran() -> tuple[int, int]:
    """A campaign with 14 labels of two outputs; how many calls were made, and how many failed."""
    begin()
    done(*run(14))
    return calls()


def calls() -> tuple[int, int]:
    results = [json.loads(path.read_text()) for path in Path("s/calls").glob("*/result.json")]
    return len(results), sum("failed" in result for result in results)


def points() -> list[dict[str, str]]:
    done("campaign", "export", "s", "--force")
    return rows_of("labels.csv")


def test_a_run_reaches_its_number_in_spite_of_crashes_hangs_and_lost_outputs(ran: tuple[int, int]) -> None:
    states = [row["state"] for row in points()]
    assert states.count("labelled") == 14
    assert states.count("pending") == 0
    assert states.count("failed") == ran[1] > 0
    assert len(states) == ran[0]
    ends = [json.loads(path.read_text()).get("failed", "") for path in Path("s/calls").glob("*/result.json")]
    assert any("the plate has molten" in end for end in ends)
    assert any("no result within 2 s; killed" in end for end in ends)
    lost = [row for row in points() if row["fins"] in ("3", "4") and row["state"] == "labelled"]
    assert lost
    assert all(row["pressure"] == "" and row["temperature"] for row in lost)
    assert_feasible()


def assert_feasible() -> None:
    """All points keep constraint and bounds, with whole numbers and levels."""
    for row in points():
        assert float(row["flow"]) * int(row["fins"]) <= 6000.0
        assert 0.01 <= float(row["flow"]) <= 1000.0
        assert 1 <= int(row["fins"]) <= 12
        assert row["material"] in ("copper", "steel", "polymer")


@pytest.mark.usefixtures("ran")
def test_asked_by_hand_after_a_run_the_points_have_names_units_and_are_recognised_rounded() -> None:
    assert "Units: flow in l/h, power in W, angle in deg. 3 points in next.csv." in done("campaign", "ask", "s", 3)
    rows = rows_of("next.csv")
    assert [*rows[0]] == ["flow", "power", "angle", "fins", "material", "temperature", "pressure", "why"]
    write_rounded(rows, "1.5,")
    assert "rounded.csv: 3 labels recorded." in done("campaign", "tell", "s", "rounded.csv")
    assert "rounded.csv: 0 labels recorded, 3 known already." in done("campaign", "tell", "s", "rounded.csv")
    write_rounded(rows, "1.5,2.5")  # the second output has come since
    notes = done("campaign", "tell", "s", "rounded.csv")
    assert "rounded.csv: 3 labels recorded." in notes
    assert "further" not in notes
    with ActiveLearner.read("s") as learner:
        values = [entry.labels for entry in learner.ledger.entries[-3:]]
    assert values == [[[1.5, None], [None, 2.5]]] * 3
    assert not learner.ledger.pending


def write_rounded(rows: list[dict[str, str]], labels: str) -> None:
    """The points with three digits, and labels."""
    lines = [f"flow,power,angle,fins,material,{TARGETS}"]
    for row in rows:
        numbers = [f"{float(row[name]):.3g}" for name in ("flow", "power", "angle")]
        lines.append(",".join([*numbers, row["fins"], row["material"], labels]))
    Path("rounded.csv").write_text("\n".join(lines))


def test_of_a_single_target_the_program_may_write_other_values_as_well() -> None:
    begin("pressure")
    done(*run(4))
    flows = [float(row["pressure"]) for row in points() if row["state"] == "labelled"]
    assert len(flows) == 4
    assert "pressure" in done("campaign", "status", "s")


def test_a_program_that_always_fails_is_said_without_a_traceback() -> None:
    begin()
    Path("simulate.py").write_text("import sys; sys.exit('no licence')")
    message = refused(*run(3))
    assert "the program gave no label for any of 3 points, which stay pending; see the files in s/calls" in message
    assert "take the points back with `lobal campaign undo s`" in message
    Path("simulate.py").write_text(SOURCE)
    done(*run(3))


def test_calls_that_fail_are_tried_again_as_often_as_is_said() -> None:
    begin("pressure")
    Path("seen").mkdir()
    Path("simulate.py").write_text(
        "import json, sys\nfrom pathlib import Path\npoint = json.load(open(sys.argv[1]))\n"
        "seen = Path('seen', f\"{point['power']!r}\")\n"
        "if not seen.exists():\n    seen.touch()\n    sys.exit('the licence server is busy')\n"
        "json.dump({'pressure': 1.5}, open(sys.argv[2], 'w'))\n"
    )
    found = done(*run(4, "--retries", 1))
    assert found.startswith("4 labels, 0 pending, 0 failed.")
    assert calls() == (8, 4)


def test_a_command_without_its_files_is_refused() -> None:
    begin()
    result = call("run", "s", "--command", "./simulate", "--labels", 3)
    assert result.exit_code == 2
    assert "command must have {input} and {output} among its arguments" in said(result)


@pytest.fixture
def running() -> Iterator["subprocess.Popen[bytes]"]:
    """A run to 12 labels in a process of its own, with calls that take a moment."""
    begin()
    words = [sys.executable, "-m", "lobal.cli", *map(str, run(12, seconds=0.4))]
    process = subprocess.Popen(words, env=environment(), stderr=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


def test_a_run_that_is_killed_goes_on_and_buys_nothing_again(running: "subprocess.Popen[bytes]") -> None:
    wait_for_labels(4)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    before = {row["number"]: row for row in points() if row["state"] != "pending"}
    assert 4 <= len(before) < 12
    made, finished = {*inputs()}, {path for path in inputs() if is_finished(path)}
    done(*run(12))
    after = {row["number"]: row for row in points()}
    assert {number: after[number] for number in before} == before
    assert sum(row["state"] == "labelled" for row in after.values()) == 12
    bought = {inputs()[path] for path in {*inputs()} - made}
    assert not bought & {inputs()[path] for path in finished}
    assert_feasible()


def test_after_a_second_interrupt_the_calls_are_killed_and_the_same_command_goes_on() -> None:
    begin()
    words = [sys.executable, "-m", "lobal.cli", *map(str, run(4, "--timeout", 300, seconds=200.0))]
    with subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for_calls(2)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            while "waiting for 2 calls of the oracle; a second Ctrl-C gives them up" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            assert process.wait(timeout=60.0) == 130
        finally:
            process.kill()
    assert "Stopped with 0 labels, 4 pending and 0 failed; the same command goes on, and buys no result twice." in rest
    assert done(*run(4)).startswith("4 labels")


def wait_for_calls(n: int) -> None:
    end = time.monotonic() + 120.0
    while len([*Path("s/calls").glob("*/input.json")]) < n:
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.2)


def inputs() -> dict[Path, str]:
    """What the calls so far were asked for."""
    return {path.parent: path.read_text() for path in Path("s/calls").glob("*/input.json")}


def is_finished(path: Path) -> bool:
    return (path / "output.json").exists() and (path / "output.json").read_text().endswith("}")


def wait_for_labels(n: int) -> None:
    journal, end = Path("s/journal.jsonl"), time.monotonic() + 60.0
    while time.monotonic() < end:
        if journal.read_text().count('"told"') >= n:
            return
        time.sleep(0.05)
    pytest.fail("the run has no labels")
