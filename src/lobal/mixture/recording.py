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
class RecordedEpoch:
    """An epoch whose steps change nothing but tensors in place, to be replayed with other rows and noise.

    A step has to have been made before, outside of the recording: libraries set themselves up in their first call.
    """

    def __init__(self, step: Step, order: Int[Tensor, " n"], noise: Float[Tensor, "n L"], batch_size: int) -> None:
        self._order, self._noise = order.clone(), noise.clone()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._objective = epoch_of(step, self._order, self._noise, batch_size)

    def __call__(self, order: Int[Tensor, " n"], noise: Float[Tensor, "n L"]) -> Scalar:
        """Make the steps, with these rows and this noise."""
        self._order.copy_(order)
        self._noise.copy_(noise)
        self._graph.replay()
        return self._objective.clone()
