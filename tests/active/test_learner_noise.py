"""A learner whose model estimates its noise."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from lobal import ActiveLearner
from tests.learner_setting import MODEL, learner, pool

ESTIMATING = clone(MODEL).set_params(noise="estimate")


def fanned(X: np.ndarray) -> np.ndarray:
    """A wave with reproducible noise whose variance grows a thousandfold from left to right."""
    return np.sin(6.0 * X[:, 0]) + 0.03 * 32.0 ** X[:, 0] * np.sin(1e5 * X[:, 0])


@pytest.fixture(scope="module")
def active() -> ActiveLearner:
    campaign = learner(model=ESTIMATING)
    campaign.run(fanned, sizes=[200])
    return campaign


def test_the_superior_density_is_the_root_of_noise_complexity_and_test_density(active: ActiveLearner) -> None:
    noise = active.model.noise_variance(active.candidates.X)
    assert noise.max() > 20.0 * noise.min()
    q = active.candidates.test_density.numpy()
    ratio = active.superior_density() ** 2 / (noise * active.local_complexity() * q)
    np.testing.assert_allclose(ratio, ratio[0])


def test_the_attainable_sample_size_counts_the_noise(active: ActiveLearner) -> None:
    constant = learner()
    constant.tell(active.labelled.candidate, active.labelled.y)
    assert active.attainable() < constant.attainable()


def test_a_campaign_that_is_loaded_goes_on_estimating(tmp_path: Path) -> None:
    whole = learner(model=ESTIMATING)
    whole.run(fanned, sizes=[60, 70])
    with learner(model=ESTIMATING, path=tmp_path / "campaign") as kept:
        kept.run(fanned, sizes=[60])
        kept.ask(10)
    X = pool().X
    with ActiveLearner.load(tmp_path / "campaign") as again:
        assert again.model.noise == "estimate"
        assert again.surrogate.to_settings()["options"]["noise"] == "estimate"
        assert np.array_equal(again.model.noise_variance(X), kept.model.noise_variance(X))
        again.run(fanned, sizes=[70])
        assert np.array_equal(again.labelled.X, whole.labelled.X)
        assert np.array_equal(again.superior_density(), whole.superior_density())
