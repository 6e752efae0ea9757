"""A pool larger than the memory: read in parts, kept in its file, moved with it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal import ActiveLearner, MixtureRegressor, Pool
from lobal.active.draws import draw_low_dispersion

ROWS, COLUMNS = 200_000, 8
MOST_ROWS = 2**16  # at a time: a third of the pool
MODEL = MixtureRegressor(n_inducing=20, n_gate_inducing=10)


class Guarded(np.memmap):
    """A mapped array that can be read in parts only; what is read in another way is NaN."""

    numbers: np.ndarray
    most: int

    def __getitem__(self, key: Any) -> Any:
        part = self.numbers[key]
        self.most = max(self.most, len(np.atleast_1d(part)))
        assert self.most <= MOST_ROWS, f"{self.most} rows at once"
        return part


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    (tmp_path / "nan").write_bytes(np.full(ROWS * COLUMNS, np.nan).tobytes())
    X = Guarded(tmp_path / "nan", dtype=np.float64, mode="r", shape=(ROWS, COLUMNS))
    X.numbers, X.most = np.random.default_rng(0).standard_normal(X.shape), 0
    return X


def smooth(X: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(2.0 * X[:, 0]) + X[:, 1])


def test_a_mapped_pool_is_never_in_memory_as_a_whole(guarded: Guarded, tmp_path: Path) -> None:
    with ActiveLearner(Pool(guarded), path=tmp_path / "campaign", model=MODEL) as learner:
        for _ in range(2):
            batch = learner.ask(30)
            learner.tell(batch, smooth(guarded.numbers[batch]))
        rows = np.arange(20)
        learner.tell(rows, smooth(guarded.numbers[rows]))  # nobody asked for these: their density is estimated
        assert 0.0 < learner.attainable() <= 1.0 + 1e-9
        savings = learner.expected_savings()
        assert savings is None or 0.0 <= savings.share < 1.0
        assert len(learner.superior_density()) == ROWS
    assert guarded.most > MOST_ROWS // 2
    assert (tmp_path / "campaign" / "candidates.lobal").stat().st_size < 9 * ROWS  # one density, no inputs


def test_even_draws_read_a_mapped_pool_in_parts(guarded: Guarded) -> None:
    weights = torch.ones(ROWS, dtype=torch.float64)
    drawn = draw_low_dispersion(weights, guarded, 100, generator=torch.Generator().manual_seed(0))
    assert len(set(drawn.tolist())) == 100
    halves = guarded.numbers[drawn.numpy()] > 0.0
    assert np.abs(halves.mean(axis=0) - 0.5).max() < 0.15


def mapped_pool(path: Path, rows: slice = slice(None)) -> Pool:
    if not path.exists():
        np.save(path, np.random.default_rng(0).random((400, 3)).astype(np.float32))
    return Pool(np.load(path, mmap_mode="r")[rows, :2])


def two_steps(learner: ActiveLearner) -> np.ndarray:
    batch = learner.ask(20)
    learner.tell(batch, smooth(np.asarray(learner.candidates.X[batch])))
    return np.asarray(learner.ask(20))


def test_a_part_of_a_mapped_file_is_resumed_as_it_was(tmp_path: Path) -> None:
    expected = two_steps(ActiveLearner(mapped_pool(tmp_path / "pool.npy", slice(50, 350)), model=MODEL))
    pool = mapped_pool(tmp_path / "pool.npy", slice(50, 350))
    with ActiveLearner(pool, model=MODEL, path=tmp_path / "campaign") as learner:
        batch = learner.ask(20)
    with ActiveLearner.load(tmp_path / "campaign") as learner:
        assert isinstance(learner.candidates.X, np.memmap)
        np.testing.assert_array_equal(learner.candidates.X, pool.X)
        learner.tell(batch, smooth(np.asarray(pool.X[batch])))
        np.testing.assert_array_equal(learner.ask(20), expected)


def test_a_pool_whose_file_was_moved_can_be_given_again(tmp_path: Path) -> None:
    with ActiveLearner(mapped_pool(tmp_path / "pool.npy"), model=MODEL, path=tmp_path / "campaign") as learner:
        batch = learner.ask(20)
    (tmp_path / "pool.npy").rename(tmp_path / "moved.npy")
    with pytest.raises(FileNotFoundError, match=r"pool\.npy, which is gone; .*pool=lobal\.Pool"):
        ActiveLearner.load(tmp_path / "campaign")
    with pytest.raises(ValueError, match=r"another, not this of shape \(7, 2\)"):
        ActiveLearner.load(tmp_path / "campaign", pool=mapped_pool(tmp_path / "moved.npy", slice(7)))
    with ActiveLearner.load(tmp_path / "campaign", pool=mapped_pool(tmp_path / "moved.npy")) as learner:
        np.testing.assert_array_equal(learner.pending, batch)
    read = ActiveLearner.read(tmp_path / "campaign", pool=mapped_pool(tmp_path / "moved.npy"))
    np.testing.assert_array_equal(read.pending, batch)


def test_a_campaign_with_its_own_inputs_takes_no_others(tmp_path: Path) -> None:
    pool = Pool(np.random.default_rng(0).random((50, 2)))
    ActiveLearner(pool, path=tmp_path / "campaign").close()
    with pytest.raises(ValueError, match="this campaign has its inputs with it"):
        ActiveLearner.read(tmp_path / "campaign", pool=pool)
