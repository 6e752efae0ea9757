"""Mutants: small changes of the code, drawn at random, that the tests should detect. Survivors are printed.

python -m benchmarks.mutants --number 100 --seed 0 --jobs 2
python -m benchmarks.mutants --at core/density.py:57    # all mutants of one line

Every job works in its own copy of the repository. A mutant is tested by the test files that mirror its module, then by
those listed for its room; a run that takes longer than the limit counts as detected, since it most likely loops. All
these test files have to pass without any change first.
"""

import ast
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import pytest
import sklearn.ensemble  # noqa: F401 - imported before the processes that run the tests are forked, to save time
import torch
import typer

TOP = Path(__file__).parents[1]
COPIED = ("src", "tests", "experiments", "benchmarks", "docs", "pyproject.toml", "README.md")
# Rooms to mutate, and the tests of each beyond those that mirror a module; the slowest last.
ROOMS = {
    "core": ("tests/core", "tests/experts", "tests/active/test_draws.py", "tests/active/test_learner.py"),
    "active": ("tests/active",),
    "mixture/analytic": (
        "tests/mixture/analytic",
        "tests/mixture/test_estimator_analytic.py",
        "tests/mixture/test_fit.py",
        "tests/mixture/test_engines.py",
        "tests/mixture/test_estimator_noise.py",
    ),
}
BROKEN = (3, 4, 5)  # pytest's exit codes for internal errors, wrong usage and no tests
SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "bases", "type_params"}
SKIPPED_NODES = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
}
NAMES = {"min": "max", "argmin": "argmax", "any": "all", "clamp_min": "clamp_max", "sum": "mean"}
NAMES |= {new: old for old, new in NAMES.items()}


class Mutation(NamedTuple):
    """One possible change of a syntax tree, which `apply` makes in place."""

    line: int
    what: str
    apply: Callable[[], None]


class Mutant(NamedTuple):
    """One change of one file: the position of the change among all of that file."""

    path: str  # below src/lobal
    number: int
    line: int
    what: str


def mutations(tree: ast.Module) -> list[Mutation]:
    """All changes of the tree, in the order of its nodes; annotations, messages and assertions are left alone."""
    return [mutation for node in _nodes(tree) for mutation in _of_node(node)]


def mutated(source: str, number: int) -> str:
    """The source after one of its changes."""
    tree = ast.parse(source)
    mutations(tree)[number].apply()
    return ast.unparse(ast.fix_missing_locations(tree))


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    is_alias = isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.dump(node.annotation)
    if is_alias or isinstance(node, SKIPPED_NODES):
        return
    yield node
    for field, value in ast.iter_fields(node):
        if field not in SKIPPED_FIELDS:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _nodes(child)


def _of_node(node: ast.AST) -> Iterator[Mutation]:
    match node:
        case ast.Compare(ops=[old]):
            yield _set(node, "ops", [COMPARISONS[type(old)]()])
        case ast.BinOp(op=old) | ast.AugAssign(op=old) if type(old) in OPERATORS:
            yield _set(node, "op", OPERATORS[type(old)]())
        case ast.BoolOp(op=old):
            yield _set(node, "op", ast.Or() if isinstance(old, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub()):
            yield _set(node, "op", ast.UAdd())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _set(node, "operand", ast.UnaryOp(ast.Not(), operand), "without not")
        case ast.If() | ast.IfExp() | ast.While():
            yield _set(node, "test", ast.UnaryOp(ast.Not(), node.test), "condition negated")
        case _:
            yield from _of_value(node)


def _of_value(node: ast.AST) -> Iterator[Mutation]:
    match node:
        case ast.Return(value=ast.expr() as value):
            yield _set(node, "value", ast.BinOp(ast.Constant(2), ast.Mult(), value), "twice the value returned")
        case ast.Call(func=ast.Name(id=old)) if old in NAMES:
            yield _set(node.func, "id", NAMES[old])
        case ast.Call(func=ast.Attribute(attr=old)) if old in NAMES:
            yield _set(node.func, "attr", NAMES[old])
        case ast.Constant(value=bool() as old):
            yield _set(node, "value", not old)
        case ast.Constant(value=int() | float() as old):
            yield _set(node, "value", old + 1 if abs(old) <= 2 and isinstance(old, int) else 10 * old or 1.0)


def _set(node: ast.AST, field: str, value: object, what: str | None = None) -> Mutation:
    old = getattr(node, field)
    text = f"{_text(old)} -> {_text(value)}" if what is None else what
    return Mutation(getattr(node, "lineno", 0), text, partial(setattr, node, field, value))


def _text(value: object) -> str:
    part = value[0] if isinstance(value, list) else value
    return type(part).__name__ if isinstance(part, ast.AST) else repr(part)


def mutants(rooms: Sequence[str]) -> list[Mutant]:
    """All mutants of the modules in the rooms."""
    root = TOP / "src" / "lobal"
    found = []
    for path in sorted(path for room in rooms for path in (root / room).rglob("*.py")):
        tree = ast.parse(path.read_text())
        name = str(path.relative_to(root))
        found += [Mutant(name, number, each.line, each.what) for number, each in enumerate(mutations(tree))]
    return found


def files_for(path: str) -> list[list[str]]:
    """Test files of a module: those that mirror it, then those of its room."""
    module = Path(path)
    mirrored = sorted((TOP / "tests" / module.parent).glob(f"test_{module.stem.removeprefix('_')}*.py"))
    room = next(room for room in ROOMS if path.startswith(f"{room}/"))
    return [[str(test.relative_to(TOP)) for test in mirrored], list(ROOMS[room])]


def files_used(drawn: Sequence[Mutant]) -> list[str]:
    """All test files that the mutants are tested by, those in folders one by one."""
    named = {TOP / test for path in {each.path for each in drawn} for tests in files_for(path) for test in tests}
    files = {file for test in named for file in (test.rglob("test_*.py") if test.is_dir() else [test])}
    return sorted(str(file.relative_to(TOP)) for file in files)


def passes(file: str, *, limit: float) -> bool:
    """Whether a test file passes within the limit, without any change of the code."""
    return _exit_code([file], Path(os.environ["LOBAL_MUTANTS"]), limit) == 0


def outcome(mutant: Mutant, *, limit: float) -> tuple[Mutant, str]:
    """Whether the tests detect the mutant: "killed", "timeout" or "survived"."""
    copy = Path(os.environ["LOBAL_MUTANTS"])
    path = copy / "src" / "lobal" / mutant.path
    source = path.read_text()
    path.write_text(mutated(source, mutant.number))
    try:
        for tests in filter(None, files_for(mutant.path)):
            code = _exit_code(tests, copy, limit)
            if code is None:
                return mutant, "timeout"
            if code in BROKEN:
                raise RuntimeError(f"pytest could not run {tests}: exit code {code}")
            if code != 0:
                return mutant, "killed"
    finally:
        path.write_text(source)
    return mutant, "survived"


def _exit_code(tests: Sequence[str], top: Path, limit: float) -> int | None:
    """pytest's exit code in a forked process; none if it took too long."""
    child = os.fork()
    if child == 0:
        _run_tests(tests, top)
    begun = time.monotonic()
    while time.monotonic() - begun < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _run_tests(tests: Sequence[str], top: Path) -> None:
    """Run pytest and leave the process."""
    os.setsid()
    os.chdir(top)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.path[:0] = [str(top / "src"), str(top)]
    sys.dont_write_bytecode = True
    try:
        code = int(pytest.main(["-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
    except BaseException:
        code = 1
    os._exit(code)


def _prepare(folder: str) -> None:
    """A copy of the repository for this worker."""
    copy = Path(tempfile.mkdtemp(dir=folder))
    for name in COPIED:
        source = TOP / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    os.environ["LOBAL_MUTANTS"] = str(copy)
    os.environ["PYTHONPATH"] = f"{copy / 'src'}{os.pathsep}{copy}"


def main(
    number: Annotated[int, typer.Option(min=1, help="Mutants to draw.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")] = 2,
    limit: Annotated[float, typer.Option(help="Seconds after which a run of tests counts as endless.")] = 240.0,
    at: Annotated[str | None, typer.Option(help="Take all mutants of FILE:LINE instead.")] = None,
) -> None:
    """Draw mutants, run their tests, print the survivors."""
    torch.set_num_threads(1)
    drawn = [each for each in mutants([*ROOMS]) if f"{each.path}:{each.line}" == at]
    if at is None:
        drawn = random.Random(seed).sample(mutants([*ROOMS]), number)
    counts = {"killed": 0, "timeout": 0, "survived": 0}
    context = multiprocessing.get_context("fork")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare, initargs=(folder,)) as pool,
    ):
        files = files_used(drawn)
        passed = pool.map(partial(passes, limit=limit), files)
        if failing := [file for file, good in zip(files, passed, strict=True) if not good]:
            sys.exit(f"fail or take longer than {limit:g} s without any change: {', '.join(failing)}")
        for future in as_completed([pool.submit(outcome, mutant, limit=limit) for mutant in drawn]):
            mutant, result = future.result()
            counts[result] += 1
            print(f"{sum(counts.values())} of {len(drawn)}", end="\r", file=sys.stderr, flush=True)
            if result != "killed":
                line = (TOP / "src/lobal" / mutant.path).read_text().splitlines()[mutant.line - 1].strip()
                print(f"{result} {mutant.path}:{mutant.line} ({mutant.what})\n    {line}", flush=True)
    print(f"{len(drawn)} mutants: " + ", ".join(f"{count} {result}" for result, count in counts.items()))


if __name__ == "__main__":
    typer.run(main)
