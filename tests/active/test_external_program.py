import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lobal.active.external_program import ExternalProgram
from tests.faults.setting import X, begun

PREAMBLE = "import json, os, sys, time\npoint = json.load(open(sys.argv[1]))\n"


def program(folder: Path, body: str, **options: Any) -> ExternalProgram:
    """A program that has the point as `point`, and writes what `body` assigns to `result`."""
    script = folder / "simulate.py"
    script.write_text(PREAMBLE + body + "\nopen(sys.argv[2], 'w').write(json.dumps(result))\n")
    return ExternalProgram(f"{sys.executable} -S '{script}' {{input}} {{output}}", folder, **options)


def n_calls(folder: Path) -> int:
    return len(list((folder / "calls").iterdir()))


OUTPUTS = [
    ("result = point['a'] + point['b']", None, 3.0),
    ("result = {'y': 1.5}", None, 1.5),
    ("result = {'strength': 1.5, 'cost': 2}", ["cost", "strength"], [2.0, 1.5]),
    ("result = 4", ["y"], [4.0]),
]


@pytest.mark.parametrize(("body", "outputs", "expected"), OUTPUTS)
def test_values_are_read_from_what_the_program_writes(body: str, outputs: Any, expected: Any, tmp_path: Path) -> None:
    simulate = program(tmp_path, body, outputs=outputs)
    assert simulate({"a": 1, "b": np.float64(2.0)}).tolist() == [expected]
    assert simulate([{"a": 1, "b": 2.0}]).tolist() == [expected]


FAILURES = [
    ("result = None", "the program says that it failed: output.json has None"),
    ("result = {'y': float('nan')}", "the program says that it failed: output.json has nan"),
    ("result = {'a': 1, 'b': 2}", "expected one value in output.json"),
    ("result = {}", "expected one value in output.json"),
    ("result = 'high'", "expected numbers in output.json"),
    ("result = [1, 2]", "expected numbers in output.json"),
    ("sys.exit('diverged')", "the program ended with status 1; see stderr.txt: 'diverged'"),
    ("os._exit(0)", "output.json cannot be read"),
    ("open(sys.argv[2], 'w').write('{\"y\": 1'); os._exit(0)", "output.json cannot be read"),
]


@pytest.mark.parametrize(("body", "reason"), FAILURES)
def test_a_failure_is_nan_with_its_reason_in_the_log(
    body: str, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert np.isnan(program(tmp_path, body)({"a": 1})).tolist() == [True]
    assert reason in caplog.text
    assert reason in json.loads((tmp_path / "calls" / "0000" / "result.json").read_text())["failed"]


def test_the_folder_of_a_call_keeps_all_files(tmp_path: Path) -> None:
    program(tmp_path, "print('hello'); sys.stderr.write('careful'); result = 1")({"kind": "steel", "a": 1})
    folder = tmp_path / "calls" / "0000"
    assert json.loads((folder / "input.json").read_text()) == {"kind": "steel", "a": 1}
    assert (folder / "stdout.txt").read_text() == "hello\n"
    assert (folder / "stderr.txt").read_text() == "careful"
    assert (folder / "output.json").read_text() == "1"


def test_after_the_timeout_the_program_and_its_children_are_killed(tmp_path: Path) -> None:
    body = "child = os.fork()\nif child: open('PID', 'w').write(str(child))\ntime.sleep(600)\nresult = 1"
    simulate = program(tmp_path, body.replace("PID", str(tmp_path / "pid")), timeout=3.0)
    assert np.isnan(simulate({"a": 1})).all()
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):  # until whoever adopts orphans has taken note of its end
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or ") Z " in state.read_text():
            return
        time.sleep(0.05)
    pytest.fail(f"process {child} is still there")


def test_calls_that_fail_are_made_again(tmp_path: Path) -> None:
    body = f"result = None if len(os.listdir({str(tmp_path / 'calls')!r})) < 3 else 7.0"
    assert program(tmp_path, body, retries=2)({"a": 1}).tolist() == [7.0]
    assert n_calls(tmp_path) == 3


def test_a_result_that_is_there_is_not_bought_again(tmp_path: Path) -> None:
    assert program(tmp_path, "result = 1.0")({"a": 1}).tolist() == [1.0]
    again = program(tmp_path, "result = 2.0")
    assert again([{"a": 1}, {"a": 2}]).tolist() == [1.0, 2.0]
    assert n_calls(tmp_path) == 2


@pytest.mark.parametrize(
    ("output", "expected"), [('{"y": 5.0}', 5.0), ('{"y": 5', 1.0), ("5", 1.0), ("", 1.0), ("null", 1.0)]
)
def test_what_an_interrupted_call_wrote_is_read_if_it_is_whole(output: str, expected: float, tmp_path: Path) -> None:
    folder = tmp_path / "calls" / "0000"
    folder.mkdir(parents=True)
    (folder / "input.json").write_text('{"a": 1}')
    (folder / "output.json").write_text(output)
    assert program(tmp_path, "result = 1.0")({"a": 1}).tolist() == [expected]


def test_a_failed_call_is_made_again_by_the_next_campaign(tmp_path: Path) -> None:
    assert np.isnan(program(tmp_path, "open(sys.argv[2], 'w').write('{\"y\": 1}'); sys.exit(1)")({"a": 1})).all()
    assert program(tmp_path, "result = 2.0")({"a": 1}).tolist() == [2.0]


def test_several_threads_drive_a_campaign(tmp_path: Path) -> None:
    simulate = program(tmp_path, "result = {'y': point['x'] ** 2} if point['x'] < 0.8 else None", names=["x"])
    active = begun()
    with ThreadPoolExecutor(3) as workers:
        active.run(simulate, sizes=[8], executor=workers)
    assert active.labelled.y.tolist() == (active.labelled.X[:, 0] ** 2).tolist()
    assert (X[active.failed, 0] >= 0.8).all()
    assert n_calls(tmp_path) == 8 + len(active.failed)


WRONG = [
    (("./simulate {input}", {}), ValueError, r"command must have \{output\} among its arguments"),
    (("", {}), ValueError, r"command must have \{input\} and \{output\}"),
    (("a {input} {output}", {"timeout": 0.0}), ValueError, "timeout must be above 0"),
    (("a {input} {output}", {"retries": -1}), ValueError, "retries must be"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG)
def test_wrong_options_are_refused(arguments: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    command, options = arguments
    with pytest.raises(error, match=message):
        ExternalProgram(command, tmp_path, **options)


def test_a_program_that_is_not_there_is_a_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert np.isnan(ExternalProgram("./nowhere {input} {output}", tmp_path)({"a": 1})).all()
    assert "./nowhere cannot be run" in caplog.text


def test_no_shell_is_involved(tmp_path: Path) -> None:
    ExternalProgram(f"echo {{input}} {{output}} ; touch {tmp_path / 'made'}", tmp_path)({"a": 1})
    assert not os.path.lexists(tmp_path / "made")


def test_of_several_outputs_one_may_fail(tmp_path: Path) -> None:
    simulate = program(tmp_path, "result = {'a': 2.0, 'b': None}", outputs=["a", "b"])
    np.testing.assert_array_equal(simulate({"a": 1}), [[2.0, np.nan]])
    again = program(tmp_path, "raise SystemExit(1)", outputs=["a", "b"])
    np.testing.assert_array_equal(again({"a": 1}), [[2.0, np.nan]])  # the call is not made again


def test_a_program_that_is_stopped_is_killed_and_not_called_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    simulate = program(
        tmp_path, "open('begun', 'w'); time.sleep(600)".replace("begun", str(tmp_path / "begun")), retries=3
    )
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(simulate, {"a": 1})
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        simulate.stop()
        assert np.isnan(future.result(timeout=30.0)).all()
    assert np.isnan(simulate({"a": 2})).all()
    assert n_calls(tmp_path) == 2
    assert "failed" not in caplog.text
