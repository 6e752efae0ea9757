"""Seconds and memory of a campaign over a memory-mapped pool: ask, tell, expected savings, and loading it again.

The pool is a mixture of Gaussians, written in parts. Every process that touches it is measured from its start: the
peak is the largest resident memory the system counted for it, pages of the file included.

usage: python benchmarks/large_pool.py [--rows 10000000] [--campaign] [--output numbers.json]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROWS_A_PART = 2**18
CLUSTERS = 12
BATCH = 500
MEBIBYTE = 2**20
LINE = "{step:<14} {seconds:8.1f} s   {cpu_seconds:8.1f} s of CPU   {now_mib:6.0f} MiB now   {peak_mib:6.0f} MiB peak"


def main() -> None:
    """Make the pool, then run the campaign and its resumption in processes of their own."""
    options = arguments()
    if options.stage is not None:
        STAGES[options.stage](options)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        begun = time.perf_counter()
        make_pool(Path(folder) / "pool.npy", options)
        print(f"pool of {options.rows} rows made in {time.perf_counter() - begun:.0f} s", flush=True)
        report: dict[str, Any] = {
            "command": " ".join(["python", *sys.argv]),
            **{name: getattr(options, name) for name in ("rows", "columns", "dtype", "draw", "threads")},
            "campaign": in_process("campaign", folder),
        }
        if options.campaign:
            report["resumption"] = in_process("resumption", folder)
            report["files_mib"] = sizes(Path(folder) / "campaign")
            print(json.dumps(report["files_mib"], indent=2))
    if options.output is not None:
        Path(options.output).write_text(json.dumps(report, indent=2) + "\n")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    parser.add_argument("--folder", default=None, help="where the pool's temporary folder goes")
    parser.add_argument("--campaign", action="store_true", help="keep the campaign in a folder, and load it again")
    parser.add_argument("--draw", choices=["random", "low_dispersion"], default="random")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", default=None, help="JSON file for the numbers")
    parser.add_argument("--stage", choices=list(STAGES), default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def make_pool(path: Path, options: argparse.Namespace) -> None:
    """Rows of Gaussian clusters of different weight, place and width, in random order."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(CLUSTERS, 0.7))
    places = rng.uniform(-4.0, 4.0, (CLUSTERS, options.columns))
    widths = np.exp(rng.uniform(-1.5, 0.5, (CLUSTERS, options.columns)))
    # Written, not mapped: a process begins with the peak of the one that starts it.
    with path.open("wb") as file:
        shape = (options.rows, options.columns)
        header = {"descr": np.dtype(options.dtype).str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, options.rows, ROWS_A_PART):
            cluster = rng.choice(CLUSTERS, size=min(ROWS_A_PART, options.rows - start), p=shares)
            noise = rng.standard_normal((len(cluster), options.columns))
            (places[cluster] + widths[cluster] * noise).astype(options.dtype).tofile(file)


def labels(X: np.ndarray) -> np.ndarray:
    """Quickly varying around the origin of the first column, slowly elsewhere, with a little reproducible noise."""
    noise = np.sin(1e5 * X[:, 0])
    return np.asarray(np.sin(4.0 / (np.abs(X[:, 0]) + 0.3)) + 0.3 * X[:, 1] + 0.05 * noise)


def in_process(stage: str, folder: str) -> list[dict[str, Any]]:
    """What a stage, run from its own process's start, printed about its steps."""
    command = [sys.executable, *sys.argv, "--stage", stage, "--folder", folder]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    steps = []
    for line in process.stdout:
        steps.append(json.loads(line))
        print(LINE.format(**steps[-1]), flush=True)
    if process.wait():
        raise SystemExit(f"{stage} failed with status {process.returncode}")
    return steps


def run_campaign(options: argparse.Namespace) -> None:
    """Three batches and the expected savings, from a pool in a memory-mapped file."""
    with measured("import"):
        import torch

        from lobal import ActiveLearner, MixtureRegressor, Pool
    torch.set_num_threads(options.threads)
    with measured("Pool"):
        pool = Pool(np.load(Path(options.folder) / "pool.npy", mmap_mode="r"))
    with measured("ActiveLearner"):
        learner = ActiveLearner(
            pool,
            seed=0,
            path=Path(options.folder) / "campaign" if options.campaign else None,
            model=MixtureRegressor(n_inducing=64),
            draw=options.draw,
        )
    for number in range(3):
        with measured(f"ask {number}"):
            batch = learner.ask(BATCH)
        if number < 2:
            with measured(f"tell {number}"):
                learner.tell(batch, labels(np.asarray(pool.X[batch], dtype=np.float64)))
            with measured(f"fit {number}"):
                assert learner.model is not None
    with measured("expected_savings"):
        learner.expected_savings()
    learner.close()


def resume_campaign(options: argparse.Namespace) -> None:
    """The campaign loaded from its folder, the labels still missing told, and one batch more."""
    import torch

    from lobal import ActiveLearner

    torch.set_num_threads(options.threads)
    with measured("load"):
        learner = ActiveLearner.load(Path(options.folder) / "campaign")
    with measured("tell 2"):
        learner.tell(learner.pending, labels(np.asarray(learner.candidates.X[learner.pending], dtype=np.float64)))
    with measured("fit 2"):
        assert learner.model is not None
    with measured("ask 3"):
        learner.ask(BATCH)
    learner.close()


@contextmanager
def measured(step: str) -> Iterator[None]:
    """Print, as JSON, the seconds of what is done inside and the process's memory after it."""
    begun, cpu_begun = time.perf_counter(), time.process_time()
    yield
    seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - cpu_begun
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    now = pages * resource.getpagesize() / MEBIBYTE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEBIBYTE
    numbers = {"seconds": round(seconds, 2), "cpu_seconds": round(cpu_seconds, 2)}
    print(json.dumps({"step": step, **numbers, "now_mib": round(now), "peak_mib": round(peak)}), flush=True)


def sizes(folder: Path) -> dict[str, float]:
    """The size of every file of a campaign."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): round(path.stat().st_size / MEBIBYTE, 2) for path in files}


STAGES = {"campaign": run_campaign, "resumption": resume_campaign}

if __name__ == "__main__":
    main()
