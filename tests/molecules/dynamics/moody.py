"""An oracle whose calls fail in every way, for tests of workers; other processes import this file."""

import fcntl
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, final

import numpy as np
import torch

HANGING = 60.0  # seconds, longer than any test


class StrangeError(Exception):
    """Cannot be read by another process: `pickle` makes it anew from its message alone."""

    def __init__(self, reason: str, place: int) -> None:
        super().__init__(f"{reason} at {place}")


def crash() -> NoReturn:
    os._exit(3)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(HANGING)


def leave() -> NoReturn:
    sys.exit(3)


def diverge() -> NoReturn:
    raise RuntimeError("diverged")


def be_strange() -> NoReturn:
    raise StrangeError("diverged", 3)


def not_a_number() -> tuple[np.ndarray, np.ndarray]:
    return np.array([np.nan]), np.zeros((1, 3, 3))


WAYS = {each.__name__: each for each in (crash, be_killed, hang, leave, diverge, be_strange, not_a_number)}


@final
@dataclass(frozen=True)
class Moody:
    """Labels of configurations that are known by their number, the first coordinate.

    Args:
        log: file with the number of every call, written when it begins.
        ways: how calls fail, by number; -1 for those that have none.
        times: how often they do; later calls work.
        seconds: that a call takes.
    """

    log: Path
    ways: Mapping[int, str] = field(default_factory=dict)
    times: int = 2**62
    seconds: float = 0.0

    def __call__(self, R: np.ndarray) -> Any:
        assert len(R) == 1
        number = round(R[0, 0, 0])
        before = self.made().count(number)
        self._write(number)
        way = self.ways.get(number, self.ways.get(-1))
        if way is not None and before < self.times:
            answer = WAYS[way]()
            if answer is not None:
                return answer
        time.sleep(self.seconds)
        return np.array([10.0 + number]), np.full((1, 3, 3), float(number))

    def made(self) -> list[int]:
        """The calls that have begun."""
        return [int(line) for line in self.log.read_text().split()] if self.log.exists() else []

    def _write(self, number: int) -> None:
        with self.log.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(f"{number}\n")


def numbered(*numbers: int) -> torch.Tensor:
    """Configurations with these numbers."""
    R = torch.zeros(len(numbers), 3, 3, dtype=torch.float64)
    R[:, 0, 0] = torch.tensor(numbers, dtype=torch.float64)
    return R
