"""Campaigns of earlier formats still load, and go on as they would have."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lobal import ActiveLearner
from tests.learner_setting import DRAWS_AS_RECORDED

FIXTURES = Path(__file__).parents[2] / "fixtures" / "campaigns"


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
        if DRAWS_AS_RECORDED or name == "box":
            np.testing.assert_allclose(asked, expected["next"], rtol=1e-9)
    with ActiveLearner.load(tmp_path / name) as again:  # with an event of the present format after the others
        np.testing.assert_array_equal(again.pending, learner.pending)
