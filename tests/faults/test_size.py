"""What a long campaign takes on disk."""

from pathlib import Path

import numpy as np

from lobal import ActiveLearner, Pool
from lobal.active.campaign.steps import MOST_KEPT
from tests.faults.counting import counted, is_long
from tests.faults.disk import Disk
from tests.faults.setting import NearestSurrogate

MEGABYTE = 1_000_000


def test_a_thousand_steps_of_batch_one_take_less_than_two_hundred_megabytes(tmp_path: Path) -> None:
    steps = 1000 if is_long() else 60
    space = Pool(np.random.default_rng(0).random((2 * steps, 2)), density=np.ones(2 * steps))
    options = {"model": NearestSurrogate(), "intrinsic_dimension": 2.0, "draw": "random"}
    with Disk(tmp_path).in_use(), ActiveLearner(space, path=tmp_path / "campaign", **options) as active:
        active.run(lambda X: X[:, 0], sizes=range(1, steps + 1))
    files = [file for file in (tmp_path / "campaign").rglob("*") if file.is_file()]
    assert len(files) <= 6 + MOST_KEPT  # header, journal, candidates, lock, the last two models, and steps to undo
    assert sum(file.stat().st_size for file in files) < steps * 200 * MEGABYTE / 1000
    counted("steps of batch one", steps)
