"""CUDA graphs: on a GPU an epoch of Adam is recorded once and replayed.

An epoch consists of many small operations, and launching them one by one takes longer than the operations themselves.
"""

from collections.abc import Callable, Hashable
from typing import final

import torch
from torch import Tensor


@final
class CudaGraph:
    """A recorded function that reads and writes nothing but tensors on a GPU, replayed with new inputs.

    The function must have been called once before it is recorded: libraries initialise themselves in their first call.
    """

    def __init__(self, function: Callable[..., Tensor], *inputs: Tensor) -> None:
        self._inputs = [values.clone() for values in inputs]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._output = function(*self._inputs)

    def __call__(self, *inputs: Tensor) -> Tensor:
        """The function's result for these inputs."""
        for static, values in zip(self._inputs, inputs, strict=True):
            static.copy_(values)
        self._graph.replay()
        return self._output.clone()


@final
class GraphCache:
    """Calls functions by name; on a GPU, from the second call with the same key on, by replaying a recorded graph.

    The key holds everything besides the tensors that the function's result depends on.
    """

    def __init__(self, device: torch.device) -> None:
        self._is_on_gpu = device.type == "cuda"
        self._graphs: dict[str, tuple[Hashable, CudaGraph | None]] = {}

    def __call__(self, name: str, key: Hashable, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """The function's result."""
        known, graph = self._graphs.get(name, (None, None))
        if not self._is_on_gpu or known != key:
            self._graphs[name] = key, None
            return function(*inputs)
        if graph is None:
            graph = CudaGraph(function, *inputs)
            self._graphs[name] = key, graph
        return graph(*inputs)
