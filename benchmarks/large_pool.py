"""Seconds and memory of a campaign over a memory-mapped pool: ask, tell, expected savings, and loading it again.

The pool is a mixture of Gaussians, written in parts. Campaign and resumption run in processes of their own; the peak is
the largest resident memory that the system counted for them, pages of the file included.

python -m benchmarks.large_pool --rows 10000000 --campaign --output numbers.json
python -m benchmarks.large_pool --rows 10000000 --batch 1000 --draw random  # independent draws, to compare with
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from experiments.repetitions import typed_command

ROWS_PER_PART = 2**18
COLUMNS, CLUSTERS = 8, 12
MEBIBYTE = 2**20
LINE = "{step:<16} {seconds:8.1f} s   {cpu_seconds:8.1f} s of CPU   {now_mib:6.0f} MiB now   {peak_mib:6.0f} MiB peak"


def main(
    rows: Annotated[int, typer.Option(min=1000, help="Candidates.")] = 10_000_000,
    folder: Annotated[Path | None, typer.Option(help="Where the temporary folder goes.")] = None,
    campaign: Annotated[bool, typer.Option(help="Keep the campaign in a folder, and load it again.")] = False,
    output: Annotated[Path | None, typer.Option(help="JSON file for the numbers.")] = None,
    batch: Annotated[int, typer.Option(min=10, help="Labels to ask for at a time.")] = 500,
    draw: Annotated[str | None, typer.Option(help="How they are drawn; the learner's default.")] = None,
    stage: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Make the pool, then run the campaign and its resumption."""
    if stage is not None:
        assert folder is not None
        if stage == "campaign":
            run_campaign(folder, batch, draw, is_kept=campaign)
        else:
            resume_campaign(folder, batch)
        return
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        make_pool(Path(temporary) / "pool.npy", rows)
        options = ["--folder", temporary, *["--campaign"] * campaign, "--batch", str(batch)]
        steps = _steps("campaign", options + ([] if draw is None else ["--draw", draw]))
        record = {"command": typed_command(), "rows": rows, "columns": COLUMNS, "campaign": steps}
        if campaign:
            record["resumption"] = _steps("resumption", options)
            files = sorted(path for path in (Path(temporary) / "campaign").rglob("*") if path.is_file())
            record["files_mib"] = {path.name: round(path.stat().st_size / MEBIBYTE, 2) for path in files}
    if output is not None:
        output.write_text(json.dumps(record, indent=2) + "\n")


def make_pool(path: Path, rows: int) -> None:
    """Rows of Gaussian clusters of different weight, place and width, in random order."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(CLUSTERS, 0.7))
    places = rng.uniform(-4.0, 4.0, (CLUSTERS, COLUMNS))
    widths = np.exp(rng.uniform(-1.5, 0.5, (CLUSTERS, COLUMNS)))
    # Written, not mapped: a process starts with the peak of its parent.
    with path.open("wb") as file:
        header = {"descr": np.dtype(np.float64).str, "fortran_order": False, "shape": (rows, COLUMNS)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, rows, ROWS_PER_PART):
            cluster = rng.choice(CLUSTERS, size=min(ROWS_PER_PART, rows - start), p=shares)
            (places[cluster] + widths[cluster] * rng.standard_normal((len(cluster), COLUMNS))).tofile(file)


def labels(X: np.ndarray) -> np.ndarray:
    """Quickly varying around the origin of the first column, slowly elsewhere, with a little reproducible noise."""
    noise = np.sin(1e5 * X[:, 0])
    return np.asarray(np.sin(4.0 / (np.abs(X[:, 0]) + 0.3)) + 0.3 * X[:, 1] + 0.05 * noise)


def _steps(stage: str, options: list[str]) -> list[dict[str, Any]]:
    """The measurements that a stage prints, run in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.large_pool", "--stage", stage, *options]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    steps = [json.loads(line) for line in printed.splitlines()]
    print("\n".join(LINE.format(**step) for step in steps), flush=True)
    return steps


def run_campaign(folder: Path, n: int, draw: str | None, *, is_kept: bool) -> None:
    """Three batches and the expected savings, from a pool in a memory-mapped file."""
    with measured("import"):
        from lobal import ActiveLearner, MixtureRegressor, Pool
    with measured("Pool"):
        pool = Pool(np.load(folder / "pool.npy", mmap_mode="r"))
    with measured("ActiveLearner"):
        path, model = folder / "campaign" if is_kept else None, MixtureRegressor(n_inducing=64)
        learner = ActiveLearner(pool, seed=0, path=path, model=model, draw=draw)
    for number in range(3):
        with measured(f"ask {number}"):
            batch = learner.ask(n)
        if number < 2:
            with measured(f"tell {number}"):
                learner.tell(batch, labels(np.asarray(pool.X[batch])))
            with measured(f"fit {number}"):
                assert learner.model is not None
    with measured("expected_savings"):
        learner.expected_savings()
    learner.close()


def resume_campaign(folder: Path, n: int) -> None:
    """The campaign loaded from its folder, the labels still missing told, and one batch more."""
    from lobal import ActiveLearner

    with measured("load"):
        learner = ActiveLearner.load(folder / "campaign")
    with measured("tell 2"):
        learner.tell(learner.pending, labels(np.asarray(learner.candidates.X[learner.pending])))
    with measured("fit 2"):
        assert learner.model is not None
    with measured("ask 3"):
        learner.ask(n)
    learner.close()


@contextmanager
def measured(step: str) -> Iterator[None]:
    """Print, as JSON, the seconds of the block and the memory of the process after it."""
    begun, cpu_begun = time.perf_counter(), time.process_time()
    yield
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - cpu_begun
    now = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / MEBIBYTE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEBIBYTE
    numbers = {"seconds": round(seconds, 2), "cpu_seconds": round(cpu_seconds, 2)}
    print(json.dumps({"step": step, **numbers, "now_mib": round(now), "peak_mib": round(peak)}), flush=True)


if __name__ == "__main__":
    typer.run(main)
