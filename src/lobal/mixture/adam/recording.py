"""Training epochs on a GPU: recorded once, then replayed, since launching their many small steps takes longer."""

from collections.abc import Callable, Hashable
from typing import TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

Rows: TypeAlias = Int[Tensor, " b"] | slice
Step: TypeAlias = Callable[[Rows, Float[Tensor, "b L"]], Float[Tensor, "*C"]]


def epoch_of(step: Step, order: Int[Tensor, " n"], noise: Float[Tensor, "n L"], batch_size: int) -> Float[Tensor, "*C"]:
    """One step for every batch of the rows; the mean of what they return."""
    batches = zip(map(_run, order.split(batch_size)), noise.split(batch_size), strict=True)
    return torch.stack([step(rows, shaken) for rows, shaken in batches]).mean(0)


def _run(rows: Int[Tensor, " b"]) -> Rows:
    """Rows that follow each other as a slice, for which nothing is copied; a recording on a GPU cannot know them."""
    if rows.device.type != "cpu":
        return rows
    run = slice(int(rows[0]), int(rows[0]) + len(rows))
    return run if torch.equal(rows, torch.arange(run.start, run.stop)) else rows


@final
class Recorded:
    """A function that reads and changes nothing but tensors on a GPU, to be replayed with other values of its inputs.

    It has to have been called before, outside of the recording: libraries set themselves up in their first call.
    """

    def __init__(self, function: Callable[..., Tensor], *inputs: Tensor) -> None:
        self._inputs = [values.clone() for values in inputs]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._output = function(*self._inputs)

    def __call__(self, *inputs: Tensor) -> Tensor:
        """What the function returns."""
        for kept, values in zip(self._inputs, inputs, strict=True):
            kept.copy_(values)
        self._graph.replay()
        return self._output.clone()


@final
class Replays:
    """Functions by name, which a GPU replays from the second call under the same condition on; a CPU just calls them.

    The condition says what besides tensors the function depends on.
    """

    def __init__(self, device: torch.device) -> None:
        self._is_on_gpu = device.type == "cuda"
        self._recordings: dict[str, tuple[Hashable, Recorded | None]] = {}

    def __call__(self, name: str, condition: Hashable, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """What the function returns."""
        known, recording = self._recordings.get(name, (None, None))
        if not self._is_on_gpu or known != condition:
            self._recordings[name] = condition, None
            return function(*inputs)
        if recording is None:
            recording = Recorded(function, *inputs)
            self._recordings[name] = condition, recording
        return recording(*inputs)
