"""Campaigns whose candidates are replaced: pools that a force field simulates."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal import ActiveLearner, Pool
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.space import MoleculePool
from lobal.molecules.surrogate import ForceFieldSurrogate
from tests.molecules.setting import morse_potential, water

QUICK = ForceFieldSettings(anisotropy=None, bandwidths=(0.25, 0.5, 1.0), gate_inducing=10)
FIRST = water(12)


def pool(n: int, seed: int, **options: Any) -> MoleculePool:
    return MoleculePool(water(n, seed=seed), grows=True, **options)


def labels(R: Any) -> tuple[np.ndarray, np.ndarray]:
    energies, forces = morse_potential(torch.as_tensor(R))
    return energies.numpy(), forces.numpy()


def oracle(R: np.ndarray) -> Any:
    return labels(R)


def begun(path: Path | None = None) -> ActiveLearner:
    """A campaign whose first twelve configurations are labelled."""
    learner = ActiveLearner(MoleculePool(FIRST, grows=True), path=path, model=ForceFieldSurrogate(QUICK), seed=3)
    learner.tell(np.arange(12), labels(FIRST.R))
    return learner


def grown(path: Path | None = None) -> ActiveLearner:
    """The same after a growth and a step."""
    learner = begun(path)
    learner.grow(pool(40, 5), about={"resets": 2})
    learner.run(oracle, sizes=[18])
    return learner


def test_points_so_far_are_the_first_candidates_and_keep_their_labels() -> None:
    learner = begun()
    before = learner.labelled
    learner.grow(pool(40, 5))
    assert len(learner.candidates) == 52
    np.testing.assert_array_equal(learner.labelled.X, before.X)
    np.testing.assert_array_equal(learner.labelled.y, before.y)
    np.testing.assert_array_equal(learner.labelled.candidate, np.arange(12))
    np.testing.assert_array_equal(learner.candidates.inputs_at(torch.arange(12)), FIRST.R)


def test_the_next_points_are_of_the_new_pool() -> None:
    learner = begun()
    learner.grow(pool(40, 5))
    rows = learner.ask(6)
    assert (rows >= 12).all()
    np.testing.assert_array_equal(learner.candidates.inputs_at(torch.from_numpy(rows)), water(40, seed=5).R[rows - 12])


def test_the_test_density_is_that_of_the_new_pool() -> None:
    learner = begun()
    learner.grow(pool(40, 5, test_density=0.5))
    p_X, q = learner.candidates.pool_density, learner.candidates.test_density
    torch.testing.assert_close(q, p_X.sqrt() / (p_X.sqrt() / p_X).mean())


def test_what_was_said_about_growths_is_kept() -> None:
    assert begun().growths == []
    assert grown().growths == [{"resets": 2}]


def test_a_campaign_goes_on_from_disk_after_growths(tmp_path: Path) -> None:
    """With the same points, wherever it was cut off."""
    with grown(tmp_path / "whole") as learner:
        learner.grow(pool(30, 6), about={"resets": 3})
        shutil.copytree(tmp_path / "whole", tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
        density, expected = learner.training_density(), learner.ask(5)
    with ActiveLearner.load(tmp_path / "copy") as loaded:
        assert loaded.growths == [{"resets": 2}, {"resets": 3}]
        np.testing.assert_allclose(loaded.training_density(), density)
        np.testing.assert_array_equal(loaded.ask(5), expected)


def test_a_campaign_goes_on_within_a_growth(tmp_path: Path) -> None:
    with grown(tmp_path / "whole") as learner:
        shutil.copytree(tmp_path / "whole", tmp_path / "copy", ignore=shutil.ignore_patterns("lock"))
        expected = learner.ask(5)
        y = learner.labelled.y
    with ActiveLearner.load(tmp_path / "copy") as loaded:
        np.testing.assert_array_equal(loaded.labelled.y, y)
        np.testing.assert_array_equal(loaded.ask(5), expected)


def test_a_campaign_in_memory_is_saved_with_its_present_pool(tmp_path: Path) -> None:
    learner = grown()
    learner.save(tmp_path / "saved")
    learner.close()
    with ActiveLearner.load(tmp_path / "saved") as loaded:
        np.testing.assert_array_equal(loaded.ask(5), grown().ask(5))


def test_the_last_two_pools_are_kept(tmp_path: Path) -> None:
    with grown(tmp_path / "campaign") as learner:
        for seed in (6, 7):
            learner.grow(pool(20, seed))
    assert sorted(file.name for file in (tmp_path / "campaign" / "pools").iterdir()) == ["0002.lobal", "0003.lobal"]


def test_labels_of_the_present_pool_are_undone_but_no_growth() -> None:
    learner = grown()
    learner.undo()
    assert len(learner.labelled.y) < 18
    bare = begun()
    bare.grow(pool(40, 5))
    with pytest.raises(ValueError, match=r"last event cannot be undone: other candidates .* call grow\(\)"):
        bare.undo()


def test_candidates_do_not_change_under_pending_points() -> None:
    learner = begun()
    learner.grow(pool(40, 5))
    learner.ask(3)
    with pytest.raises(ValueError, match="while points are pending, got 3; tell or give them up"):
        learner.grow(pool(20, 6))


def test_other_candidates_stay_as_they_are() -> None:
    fixed = ActiveLearner(Pool(np.random.default_rng(0).random((30, 1))))
    with pytest.raises(ValueError, match="candidates of this campaign are fixed"):
        fixed.grow(pool(20, 6))
    with pytest.raises(ValueError, match="candidates of this campaign are fixed"):
        ActiveLearner(MoleculePool(water(20))).grow(pool(20, 6))
    with pytest.raises(ValueError, match="can only be those of another, got"):
        begun().grow(Pool(np.ones((20, 1))))


@pytest.mark.parametrize("damage", ["removed", "cut", "another"])
def test_a_damaged_pool_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    grown(tmp_path / "campaign").close()
    file = tmp_path / "campaign" / "pools" / "0001.lobal"
    if damage == "removed":
        file.unlink()
    elif damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        with begun(tmp_path / "other") as other:
            other.grow(pool(40, 9))
        shutil.copy(tmp_path / "other" / "pools" / "0001.lobal", file)
    with pytest.raises(ValueError, match=r"line 3 cannot be: .*0001\.lobal.*restore it from a copy"):
        ActiveLearner.load(tmp_path / "campaign")
