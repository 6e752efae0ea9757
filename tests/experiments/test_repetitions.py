import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.repetitions import Repetitions, Result, summary


def square(n: int, seed: int) -> Result:
    return {"n": n, "seed": seed, "value": float(n + seed), "missing": None}


def repetitions(run: Callable[[int, int], Result] = square, **settings: Any) -> Repetitions:
    return Repetitions(experiment="test", command="python -m test", settings=settings, run=run)


def test_the_summary_has_means_and_standard_errors() -> None:
    (entry,) = summary([square(10, 0), square(10, 2)])
    assert entry == {"n": 10, "repetitions": 2, "value": {"mean": 11.0, "standard_error": pytest.approx(1.0)}}


def test_the_summary_leaves_out_lists_and_what_a_repetition_lacks() -> None:
    some = {"largest": 1.0, "curve": [1.0, 2.0]}
    (entry,) = summary([square(10, 0) | some, square(10, 2) | some | {"largest": None}])
    assert entry.keys() == {"n", "repetitions", "value"}


def test_lists_are_kept_but_not_averaged() -> None:
    (entry,) = summary([square(10, 0) | {"profile": [1.0, 2.0]}])
    assert entry.keys() == {"n", "repetitions", "value"}


def test_finished_pairs_are_not_run_again(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []

    def counted(n: int, seed: int) -> Result:
        calls.append((n, seed))
        return square(n, seed)

    path = tmp_path / "folder" / "record.json"
    repetitions(counted).complete([(1, 0), (1, 1)], path)
    record = repetitions(counted).complete([(1, 1), (2, 0), (1, 0)], path)
    assert calls == [(1, 0), (1, 1), (2, 0)]
    assert [(row["n"], row["seed"]) for row in record["results"]] == [(1, 0), (1, 1), (2, 0)]
    assert json.loads(path.read_text()) == record


def test_an_interrupted_run_keeps_what_was_finished(tmp_path: Path) -> None:
    def interrupted(n: int, seed: int) -> Result:
        if seed == 1:
            raise KeyboardInterrupt
        return square(n, seed)

    with pytest.raises(KeyboardInterrupt):
        repetitions(interrupted).complete([(1, 0), (1, 1)], tmp_path / "record.json")
    assert json.loads((tmp_path / "record.json").read_text())["results"] == [square(1, 0)]


def test_results_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    repetitions(penalty=0.5).complete([(1, 0)], tmp_path / "record.json")
    with pytest.raises(ValueError, match=r"penalty 0\.5 instead of 0\.0"):
        repetitions(penalty=0.0).complete([(1, 1)], tmp_path / "record.json")


def test_conclusions_follow_from_all_results_and_are_kept_with_them(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    counted = Repetitions(
        experiment="test", command="test", settings={}, run=square, conclude=lambda results: {"count": len(results)}
    )
    counted.complete([(1, 0)], path)
    assert counted.complete([(1, 1)], path)["count"] == 2
    assert json.loads(path.read_text())["count"] == 2


def test_every_new_result_is_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repetitions().complete([(1, 0), (1, 1)], tmp_path / "record.json")
    assert capsys.readouterr().out == "n = 1, seed 0 is done\nn = 1, seed 1 is done\n"


@pytest.mark.slow
def test_several_processes_give_the_same_record(tmp_path: Path) -> None:
    pairs = [(1, 0), (1, 1), (2, 0)]
    parallel = repetitions().complete(pairs, tmp_path / "parallel.json", jobs=2)
    assert parallel == repetitions().complete(pairs, tmp_path / "serial.json")
