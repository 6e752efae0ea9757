import ast
from pathlib import Path

import pytest

from benchmarks import mutants
from benchmarks.mutants import Mutant, files_for, files_used, mutated, mutations, outcome


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", {"a >= b"}),
        ("a + b", {"a - b"}),
        ("a and b", {"a or b"}),
        ("-a", {"+a"}),
        ("not a", {"not not a"}),
        ("x.max(a)", {"x.min(a)"}),
        ("a if b else c", {"a if not b else c"}),
        ("n = 3", {"n = 30"}),
        ("n = 0", {"n = 1"}),
        ("n = 0.0", {"n = 1.0"}),
        ("n = True", {"n = False"}),
        ("f(a, 0.5)", {"f(a, 5.0)"}),
    ],
)
def test_a_statement_has_these_mutants(source: str, expected: set[str]) -> None:
    number = len(mutations(ast.parse(source)))
    assert {mutated(source, index) for index in range(number)} == expected


@pytest.mark.parametrize(
    "source", ['x: Float[Tensor, "2"]', "raise ValueError(1)", "assert a < b", "A: TypeAlias = B[1]"]
)
def test_annotations_messages_and_assertions_are_left_alone(source: str) -> None:
    assert mutations(ast.parse(source)) == []


def test_a_module_is_tested_by_its_mirror_and_then_by_its_room() -> None:
    mirrored, room = files_for("core/density.py")
    assert mirrored == ["tests/core/test_density.py"]
    assert room[0] == "tests/core"


@pytest.mark.parametrize(("code", "expected"), [(0, "survived"), (1, "killed"), (None, "timeout")])
def test_the_source_is_restored_whatever_the_outcome(
    code: int | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "src" / "lobal" / "core" / "density.py"
    path.parent.mkdir(parents=True)
    path.write_text("n = 3  # as it was\n")
    monkeypatch.setenv("LOBAL_MUTANTS", str(tmp_path))
    monkeypatch.setattr(mutants, "_exit_code", lambda *_: code if path.read_text() == "n = 30" else -1)
    assert outcome(Mutant("core/density.py", 0, 1, ""), limit=1.0)[1] == expected
    assert path.read_text() == "n = 3  # as it was\n"


def test_the_files_used_are_test_files_of_the_modules_drawn() -> None:
    drawn = [Mutant(path, 0, 1, "") for path in ("core/density.py", "mixture/analytic/exact.py")]
    files = files_used(drawn)
    assert {"tests/core/test_density.py", "tests/mixture/analytic/test_exact.py"} <= set(files)
    assert "tests/active/test_scoring.py" not in files
    assert all((mutants.TOP / file).is_file() for file in files)


@pytest.mark.parametrize("code", [1, 4, None])
def test_nothing_is_mutated_while_a_test_file_fails(
    code: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = "tests/core/test_density.py"
    monkeypatch.setattr(mutants, "COPIED", ())
    monkeypatch.setattr(mutants, "ROOMS", {"core": ("tests/core",)})
    monkeypatch.setattr(mutants, "_exit_code", lambda tests, *_: code if tests == [failing] else 0)
    with pytest.raises(SystemExit, match=f"without any change: {failing}$"):
        mutants.main(number=1, seed=0, jobs=1, limit=1.0, at=None)
    assert capsys.readouterr().out == ""
