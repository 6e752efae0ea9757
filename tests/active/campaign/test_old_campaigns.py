"""Campaigns of earlier formats still load, and go on as they would have."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from lobal import ActiveLearner

FIXTURES = Path(__file__).parents[2] / "fixtures" / "campaigns"

# Random draws from a pool are the same only where torch draws the same exponential numbers from a seed; 2.4 does not.
DRAWN = torch.empty(1, dtype=torch.float64).exponential_(generator=torch.Generator().manual_seed(0)).item()
SAME_DRAWS = math.isclose(DRAWN, 3.508326186707642, rel_tol=1e-12)


@pytest.mark.parametrize("name", ["pool", "box", "pool_format_2"])
def test_a_campaign_of_an_earlier_format_loads_and_goes_on(name: str, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / name, tmp_path / name)
    expected = json.loads((FIXTURES / f"{name}_expected.json").read_text())
    with ActiveLearner.load(tmp_path / name) as learner:
        X, y, _ = learner.labelled
        np.testing.assert_array_equal(X, expected["inputs"])
        np.testing.assert_array_equal(y, expected["labels"])
        assert learner.pending.tolist() == expected["pending"]
        assert learner.failed.tolist() == expected["failed"]
        assert list(learner.history.sizes) == expected["sizes"]
        np.testing.assert_allclose(learner.training_density(), expected["training_density"], rtol=1e-12)
        asked = learner.ask(len(expected["next"]))
        assert asked.shape == np.shape(expected["next"])
        if SAME_DRAWS or name == "box":
            np.testing.assert_allclose(asked, expected["next"], rtol=1e-9)
    with ActiveLearner.load(tmp_path / name) as again:  # with an event of the present format after the others
        np.testing.assert_array_equal(again.pending, learner.pending)
