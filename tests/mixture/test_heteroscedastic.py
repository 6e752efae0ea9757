import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from lobal.core.dataset import LabelledSet
from lobal.mixture.data import TrainingData
from lobal.mixture.fit import fit_mixture, fit_with_estimated_noise
from lobal.mixture.settings import MixtureSettings
from tests.mixture.test_fit import ANALYTIC, BANDWIDTHS, sample

SETTINGS = MixtureSettings(bandwidths=BANDWIDTHS, n_inducing=30, training=ANALYTIC)


def fanned(n: int, seed: int) -> LabelledSet:
    """A wave whose noise grows in variance a hundredfold from left to right."""
    points, generator = sample(n, seed), torch.Generator().manual_seed(seed + 100)
    noise = 0.1 * 10.0 ** points.X[:, 0] * torch.randn(n, dtype=torch.float64, generator=generator)
    return replace(points, y=torch.sin(9 * points.X[:, 0]) + noise)


@pytest.mark.parametrize("changes", [{}, {"exact": True}], ids=["sparse", "exact"])
def test_the_labels_of_the_second_fit_have_the_noise_of_the_model(changes: dict[str, Any]) -> None:
    data = TrainingData(points=fanned(200, 0), gate_set=fanned(60, 1))
    fitted, noise = fit_with_estimated_noise(data, replace(SETTINGS, **changes), torch.Generator().manual_seed(0))
    assert noise is not None
    assert torch.equal(fitted.hyperparameters.noise, noise(data.for_training().X))


def test_constant_noise_leaves_the_first_fit() -> None:
    data = TrainingData(points=sample(200, 1))
    fitted, noise = fit_with_estimated_noise(data, SETTINGS, torch.Generator().manual_seed(0))
    assert noise is None
    first = fit_mixture(data, SETTINGS, torch.Generator().manual_seed(0))
    assert torch.equal(fitted.mixture.mean(data.points.X), first.mixture.mean(data.points.X))
    assert math.isclose(fitted.hyperparameters.noise.item(), 0.01, rel_tol=0.3)
