"""Recorded epochs against epochs that are not recorded."""

import pytest
import torch
from torch import Tensor

from lobal.mixture.adam.cuda_graphs import GraphCache
from lobal.mixture.adam.settings import AdamSettings
from tests.mixture.adam.test_training import make_trainer, run

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_on_a_cpu_the_function_is_called_every_time() -> None:
    calls: list[Tensor] = []
    cache = GraphCache(torch.device("cpu"))
    for number in range(3):
        cache("double", 0, lambda x: (calls.append(x), 2.0 * x)[1], torch.tensor(float(number)))  # type: ignore[func-returns-value]
    assert [call.item() for call in calls] == [0.0, 1.0, 2.0]


@needs_gpu
def test_a_recorded_function_reads_its_new_inputs() -> None:
    cache = GraphCache(torch.device("cuda"))
    results = [cache("double", 0, lambda x: 2.0 * x, torch.tensor([float(number)]).cuda()) for number in range(4)]
    assert torch.cat(results).tolist() == [0.0, 2.0, 4.0, 6.0]


@needs_gpu
def test_training_on_a_gpu_agrees_with_training_on_a_cpu() -> None:
    settings = AdamSettings(batch_size=50, max_epochs=20, epochs_per_kappa=2)
    on_gpu, on_cpu = (
        [epoch.validation_error for epoch in run(make_trainer(settings, device=device))] for device in ("cuda", "cpu")
    )
    assert on_gpu == pytest.approx(on_cpu, rel=1e-3)
