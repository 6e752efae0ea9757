"""Other processes that use a campaign, for the tests; they import this file."""

import contextlib
import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

import torch

from lobal.active.campaign.folder import Campaign

Work: TypeAlias = Callable[[Path, Connection], None]
Killable: TypeAlias = tuple[Connection, Callable[[], None]]

# The server imports lobal once and forks: a process then takes milliseconds.
FORK_SERVER = multiprocessing.get_context("forkserver")
FORK_SERVER.set_forkserver_preload(["lobal.active.campaign.folder"])


@contextlib.contextmanager
def running(work: Work, path: Path) -> Iterator[Killable]:
    """The pipe from a process that does the work, and a function that kills it with SIGKILL and waits for its end."""
    ours, theirs = FORK_SERVER.Pipe()
    process = FORK_SERVER.Process(target=work, args=(path, theirs))
    process.start()
    theirs.close()

    def kill() -> None:
        process.kill()
        process.join()

    try:
        yield ours, kill
    finally:
        kill()
        process.close()
        ours.close()


def received(pipe: Connection) -> list[int]:
    """All that a process which has ended sent before that."""
    messages = []
    with contextlib.suppress(EOFError):
        while True:
            messages.append(pipe.recv())
    return messages


def append_forever(path: Path, pipe: Connection) -> None:
    """Append the numbers that follow the journal's, acknowledging each when it is on disk."""
    with Campaign.open(path) as campaign:
        for number in itertools.count(len(campaign.events)):
            campaign.append({"number": number, "padding": "x" * (997 * number % 10_000)})
            pipe.send(number)


def create(path: Path, pipe: Connection) -> None:
    """When told, create the campaign with a large record, and say the process's number, or zero if it is taken."""
    number = os.getpid()
    tensors = {"process": torch.full((200_000,), number, dtype=torch.int64)}
    pipe.recv()
    try:
        with Campaign.create(path, {"process": number}, records={"one.lobal": tensors}):
            pipe.send(number)
            signal.pause()
    except (FileExistsError, BlockingIOError):
        pipe.send(0)
        signal.pause()


def hold(path: Path, pipe: Connection) -> None:
    """Say the process's number once the campaign is open, and close it when told."""
    with Campaign.open(path):
        pipe.send(os.getpid())
        pipe.recv()
    pipe.send(0)
    signal.pause()


def hold_with_a_worker(path: Path, pipe: Connection) -> None:
    """Open the campaign and fork a worker that tries to append, says its number and outlives this process."""
    campaign = Campaign.open(path)
    if os.fork() == 0:
        with contextlib.suppress(ValueError):
            campaign.append({"from": "worker"})
        pipe.send(os.getpid())
        pipe.close()
    signal.pause()
