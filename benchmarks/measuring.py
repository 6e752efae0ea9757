"""Seconds and memory of what a (Linux) machine does, and how fast it can do it at best."""

import contextlib
import gc
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar, final

import torch

Value = TypeVar("Value")

MEBIBYTE = 2**20
REPETITIONS = 5  # of which the quickest counts: other work on the machine only ever slows it down
GEMM_SIZE = {"cpu": 1024, "cuda": 8192}  # large enough for the full rate
COPY_ENTRIES = 2**25  # 256 MiB of float64: more than any cache holds


class Usage(NamedTuple):
    """Wall time, and the most memory in use meanwhile."""

    seconds: float
    peak_mib: float  # resident memory of the process, or what torch had allocated on the GPU


@final
@dataclass(frozen=True, kw_only=True)
class Rates:
    """What the machine reaches at best, in float64."""

    flops: float  # of a matrix product, per second
    bytes: float  # read or written by a copy, per second


def finished_work(device: torch.device) -> float:
    """The time at which all that was asked of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def measured(function: Callable[[], Value], device: torch.device) -> tuple[Value, Usage]:
    """What the function returns when it is called once, and what that took."""
    gc.collect()
    _forget_peak(device)
    begun = finished_work(device)
    value = function()
    return value, Usage(finished_work(device) - begun, _peak(device) / MEBIBYTE)


def typical_lap(times: Sequence[float]) -> float:
    """The median of the steps between ascending times that start at zero."""
    return statistics.median(after - before for before, after in zip([0.0, *times], times, strict=False))


def machine_rates(device: torch.device, *, gemm_size: int | None = None, copy_entries: int = COPY_ENTRIES) -> Rates:
    """The rates of a large matrix product and a large copy, measured now with the threads that torch has."""
    size = GEMM_SIZE.get(device.type, 1024) if gemm_size is None else gemm_size
    A, B = (torch.ones(size, size, dtype=torch.float64, device=device) for _ in range(2))
    product = torch.empty_like(A)
    values = torch.ones(copy_entries, dtype=torch.float64, device=device)
    target = torch.empty_like(values)
    return Rates(
        flops=2.0 * size**3 / _quickest(lambda: torch.mm(A, B, out=product), device),
        bytes=2.0 * values.numel() * values.element_size() / _quickest(lambda: target.copy_(values), device),
    )


def _quickest(function: Callable[[], object], device: torch.device) -> float:
    function()  # warms up
    times = []
    for _ in range(REPETITIONS):
        begun = finished_work(device)
        function()
        times.append(finished_work(device) - begun)
    return min(times)


def _forget_peak(device: torch.device) -> None:
    """Start the peak of the memory anew; where the system cannot, it is that since the process began."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    # Not resource.getrusage, whose peak cannot be started anew.
    return 1024.0 * float(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0])
