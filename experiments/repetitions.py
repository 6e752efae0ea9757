"""Repetitions of an experiment over sizes and seeds, kept in one JSON file that an interrupted run resumes."""

import json
import math
import multiprocessing
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias, final

import numpy as np
import torch
import typer

from lobal.core.files import write_atomically
from lobal.core.versions import versions

Result: TypeAlias = dict[str, Any]  # one repetition: "n", "seed", and numbers (or None), or lists of them, by name

# Options that the experiments share.
Output = Annotated[Path, typer.Option(help="JSON file; results it already contains are not computed again.")]
Seeds = Annotated[int, typer.Option(min=1, help="Number of repetitions.")]
FirstSeed = Annotated[int, typer.Option(min=0, help="Seed of the first repetition.")]
Jobs = Annotated[int, typer.Option(min=1, help="Number of processes, of one thread each.")]
Device = Annotated[str, typer.Option(help="cpu or cuda, for the mixture.")]
Figure = Annotated[Path | None, typer.Option(help="File for the figure.")]


def typed_command() -> str:
    """The command of this process; of absolute paths only the name is kept, as the folder exists nowhere else."""
    words = [f"$LOBAL_DATA/{Path(word).name}" if Path(word).is_absolute() else word for word in sys.argv[1:]]
    spec = sys.modules["__main__"].__spec__
    module = "" if spec is None else spec.name.removesuffix(".__main__")
    return " ".join([f"python -m {module}", *(word if "$" in word else shlex.quote(word) for word in words)])


@final
@dataclass(frozen=True, kw_only=True)
class Repetitions:
    """What is repeated, and everything that has to be equal for results to share a file."""

    experiment: str
    settings: dict[str, Any]
    run: Callable[[int, int], Result]  # of n and seed; picklable if jobs > 1
    # Further entries of the record, computed from all results so far (none at first).
    conclude: Callable[[Sequence[Result]], dict[str, Any]] | None = None
    command: str = field(default_factory=typed_command)

    def complete(self, pairs: Sequence[tuple[int, int]], path: Path, *, jobs: int = 1) -> dict[str, Any]:
        """The record with results for all pairs (n, seed); those that the file already has are not run again.

        The file is complete after every result, which is announced. Several jobs are processes of one thread each.
        """
        results = self._finished(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self._content(results))
        missing = [pair for pair in pairs if pair not in results]
        for result in _in_turn(self.run, missing) if jobs == 1 else _in_parallel(self.run, missing, jobs):
            results[result["n"], result["seed"]] = result
            write_atomically(path, self._content(results))
            print(f"n = {result['n']}, seed {result['seed']} is done", flush=True)
        return self._record(results)

    def _finished(self, path: Path) -> dict[tuple[int, int], Result]:
        """The file's results by (n, seed).

        Raises:
            ValueError: the file's results come from other settings or versions and cannot be mixed with new ones.
        """
        if not path.exists():
            return {}
        record = json.loads(path.read_text())
        here = json.loads(self._content({}))
        for part in ("settings", "versions"):
            there, wanted = record.get(part, {}), here[part]
            differing = [name for name in there | wanted if there.get(name) != wanted.get(name)]
            if differing:
                details = ", ".join(f"{name} {there.get(name)} instead of {wanted.get(name)}" for name in differing)
                raise ValueError(f"{path} has results of other {part}: {details}; write to another file")
        return {(result["n"], result["seed"]): result for result in record["results"]}

    def _record(self, results: dict[tuple[int, int], Result]) -> dict[str, Any]:
        ordered = [results[pair] for pair in sorted(results)]
        return {
            "experiment": self.experiment,
            "command": self.command,
            "settings": self.settings,
            "versions": versions(),
            "summary": summary(ordered),
            **({} if self.conclude is None else self.conclude(ordered)),
            "results": ordered,
        }

    def _content(self, results: dict[tuple[int, int], Result]) -> bytes:
        return (json.dumps(self._record(results), indent=1) + "\n").encode()


def summary(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Mean and standard error of every number, one entry per size; what is no number in some is left out."""
    entries = []
    for n in sorted({result["n"] for result in results}):
        rows = [result for result in results if result["n"] == n]
        names = [name for name in rows[0] if name not in ("n", "seed")]
        measured = [name for name in names if all(isinstance(row[name], int | float) for row in rows)]
        numbers = {name: mean_and_error([float(row[name]) for row in rows]) for name in measured}
        entries.append({"n": n, "repetitions": len(rows), **numbers})
    return entries


def print_summary(record: dict[str, Any], n: int, *names: str) -> None:
    """Print mean and standard error of numbers at one size, by default of all that were measured."""
    entry = next(entry for entry in record["summary"] if entry["n"] == n)
    print(f"{record['experiment']}: n = {n}, repetitions: {entry['repetitions']}")
    for name, number in entry.items():
        if isinstance(number, dict) and any(part in name for part in names or [name]):
            error = "" if number["standard_error"] is None else f" ± {number['standard_error']:.2g}"
            print(f"  {name:40} {number['mean']:.4g}{error}")


def values_by_seed(results: Sequence[Result], name: str, sizes: Sequence[int | float]) -> np.ndarray:
    """Numbers (seeds, sizes) that the results have under names such as "rmse_1024"."""
    return np.array([[result[f"{name}_{size}"] for size in sizes] for result in results], dtype=np.float64)


def mean_and_error(values: Sequence[float]) -> dict[str, float | None]:
    """Mean and standard error; a single value has no standard error."""
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "standard_error": None if error is None else float(error)}


def _in_turn(run: Callable[[int, int], Result], pairs: Sequence[tuple[int, int]]) -> Iterator[Result]:
    return (run(n, seed) for n, seed in pairs)


def _in_parallel(run: Callable[[int, int], Result], pairs: Sequence[tuple[int, int]], jobs: int) -> Iterator[Result]:
    # A forked torch may hang on the locks of its parent's threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        try:
            for future in as_completed([pool.submit(run, n, seed) for n, seed in pairs]):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
