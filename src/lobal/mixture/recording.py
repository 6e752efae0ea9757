"""Training epochs on a GPU: recorded once, then replayed, since launching their many small steps takes longer."""

from collections.abc import Callable
from typing import TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.arrays import Scalar

Step: TypeAlias = Callable[[Int[Tensor, " b"], Float[Tensor, "b L"]], Scalar]


def epoch_of(step: Step, order: Int[Tensor, " n"], noise: Float[Tensor, "n L"], batch_size: int) -> Scalar:
    """One step for every batch of the rows; the mean of what they return."""
    batches = zip(order.split(batch_size), noise.split(batch_size), strict=True)
    return torch.stack([step(rows, shaken) for rows, shaken in batches]).mean()


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
