"""Campaigns that begin with one configuration, of a molecule whose potential is known."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal import ActiveLearner
from lobal.molecules.dynamics.campaign import Beginning, opened_campaign
from lobal.molecules.dynamics.growth import Growth, GrowthSettings, Round, rounds_of
from lobal.molecules.dynamics.region import KnownRegion
from lobal.molecules.dynamics.start import StartSettings
from lobal.molecules.dynamics.walkers import SimulationOptions
from lobal.molecules.dynamics.workers import Workers, processes
from lobal.molecules.field.settings import ForceFieldSettings
from lobal.molecules.geometry.trajectory import Trajectory
from lobal.molecules.space import MoleculePool
from tests.molecules.setting import morse_potential, water

QUICK = ForceFieldSettings(anisotropy=None, bandwidths=(0.25, 0.5, 1.0), gate_inducing=10)
START = StartSettings(first=12, validation=12, settle=20, every=5, temperature=300.0)
POOL = SimulationOptions(temperature=300.0, configurations=60, walkers=10, time_step=1.0)
SETTINGS = GrowthSettings(first=12, budget=24, simulation=POOL)


def oracle(R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    energies, forces = morse_potential(torch.from_numpy(R))
    return energies.numpy(), forces.numpy()


@dataclass(frozen=True)
class Hanging:
    """The oracle, some of whose calls do not end. The file has a byte for every call that has begun."""

    file: Path
    calls: tuple[int, ...]

    def __call__(self, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with self.file.open("ab") as file:
            file.write(b".")
        if self.file.stat().st_size in self.calls:
            time.sleep(600.0)
        return oracle(R)


def at_rest() -> Trajectory:
    """The configuration of least energy, nearly: forces below 1 eV / Angstrom."""
    R = water(1).R
    for _ in range(200):
        R = R + 0.01 * morse_potential(R)[1]
    return Trajectory(source="water", units="eV and Ang", species=torch.tensor([8, 1, 1]), R=R)


REFERENCE = at_rest()
SWAPPED = torch.tensor([[0, 1, 2], [0, 2, 1]])


def opened(folder: Path, workers: Workers, **options: Any) -> ActiveLearner:
    beginning = Beginning(start=START, field=QUICK, **options)
    return opened_campaign(folder, REFERENCE, workers, beginning, about={"oracle": "morse"}).learner


def grow(folder: Path, settings: GrowthSettings = SETTINGS, **options: Any) -> tuple[ActiveLearner, list[Round]]:
    rounds: list[Round] = []
    with Workers(oracle) as workers, opened(folder, workers) as learner:
        Growth(learner, workers, REFERENCE.R[0], settings, report=rounds.append, **options).run()
    return learner, rounds


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[ActiveLearner, list[Round]]:
    return grow(tmp_path_factory.mktemp("grown") / "campaign")


def test_the_budget_is_spent_in_rounds_of_growing_size(grown: tuple[ActiveLearner, list[Round]]) -> None:
    learner, rounds = grown
    assert [each.labels for each in rounds] == SETTINGS.sizes == [12, 18, 24]
    assert learner.ledger.n_labels == 24
    assert [each.number for each in rounds] == [1, 2, 3]


def test_every_round_but_the_last_says_what_became_of_its_pool(grown: tuple[ActiveLearner, list[Round]]) -> None:
    *simulated, last = grown[1]
    assert all(each.pool == 60 and each.resets is not None and 0 <= (each.coverage or 0) <= 1 for each in simulated)
    assert last.pool is None
    assert last.force_rmse is not None


def test_labels_are_those_of_the_oracle(grown: tuple[ActiveLearner, list[Round]]) -> None:
    R, rows = grown[0].labelled.X, grown[0].labelled.y
    energies, forces = oracle(R)
    np.testing.assert_allclose(rows[:, 0], energies)
    np.testing.assert_allclose(rows[:, 1:], forces.reshape(len(R), -1))


def test_the_test_density_turns_from_uniform_to_that_of_the_pool(tmp_path: Path) -> None:
    """q_k = p_k^(1 - 1 / (k + 1))."""
    powers: list[Any] = []

    def note(_: Round) -> None:
        powers.append(learner.candidates.test_name)  # type: ignore[attr-defined]  # of molecules

    with Workers(oracle) as workers, opened(tmp_path / "campaign", workers) as learner:
        Growth(learner, workers, REFERENCE.R[0], SETTINGS, report=note).run()
    assert powers[:2] == [pytest.approx(1 / 2), pytest.approx(2 / 3)]


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    _learner, rounds = grow(tmp_path / "campaign")
    journal = (tmp_path / "campaign" / "journal.jsonl").read_bytes()
    _again, later = grow(tmp_path / "campaign")
    assert (tmp_path / "campaign" / "journal.jsonl").read_bytes() == journal
    assert [each.labels for each in later] == [each.labels for each in rounds]


def test_a_larger_budget_goes_on(tmp_path: Path) -> None:
    _learner, _ = grow(tmp_path / "campaign", GrowthSettings(first=12, budget=18, simulation=POOL))
    more, rounds = grow(tmp_path / "campaign")
    assert more.ledger.n_labels == 24
    assert [each.labels for each in rounds_of(more)] == [12, 18]
    assert [each.labels for each in rounds] == [12, 18, 24]


def test_a_larger_budget_goes_on_where_labels_of_the_smaller_one_were_still_to_come(tmp_path: Path) -> None:
    smaller, calls = GrowthSettings(first=12, budget=20, simulation=POOL), 0

    def interrupted(R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal calls
        calls += 1
        if calls > 7:
            raise KeyboardInterrupt
        return oracle(R)

    with Workers(oracle) as workers, opened(tmp_path / "campaign", workers) as learner:
        workers.oracle = interrupted
        with pytest.raises(KeyboardInterrupt):
            Growth(learner, workers, REFERENCE.R[0], smaller).run()
        assert (learner.ledger.n_labels, len(learner.pending)) == (19, 1)
    more, rounds = grow(tmp_path / "campaign")
    assert (more.ledger.n_labels, len(more.pending)) == (24, 0)
    assert [each.labels for each in rounds] == [12, 20, 24]


def test_a_force_field_that_is_good_enough_ends_it(tmp_path: Path) -> None:
    _learner, rounds = grow(tmp_path / "campaign", target=1e3)
    assert [each.labels for each in rounds] == [12]


def test_a_target_that_a_later_force_field_meets_ends_it_there(
    grown: tuple[ActiveLearner, list[Round]], tmp_path: Path
) -> None:
    first, second, _ = (each.force_rmse for each in grown[1])
    assert first is not None
    assert second is not None
    _learner, rounds = grow(tmp_path / "campaign", target=0.5 * (first + second))
    assert second < first
    assert [each.labels for each in rounds] == [12, 18]


def test_calls_that_hang_cost_a_label_and_the_budget_is_spent_all_the_same(tmp_path: Path) -> None:
    small = GrowthSettings(first=12, budget=14, simulation=POOL)
    hanging = Hanging(tmp_path / "calls", calls=(1, 2))  # one of the round's, and when it is made again
    with Workers(oracle) as workers, opened(tmp_path / "campaign", workers) as learner:
        with Workers(hanging, processes, timeout=1.0) as hung:
            Growth(learner, hung, REFERENCE.R[0], small).run()
        assert learner.ledger.n_labels == 14
        assert len(learner.failed) == 1


def test_the_same_seed_grows_the_same_campaign(grown: tuple[ActiveLearner, list[Round]], tmp_path: Path) -> None:
    learner, _ = grow(tmp_path / "campaign")
    np.testing.assert_array_equal(learner.labelled.X, grown[0].labelled.X)


def test_places_where_walkers_left_what_was_known_are_labelled(grown: tuple[ActiveLearner, list[Round]]) -> None:
    learner, X = grown[0], torch.from_numpy(grown[0].labelled.X)
    counts = [about["left"] for about in learner.growths]
    assert max(counts) > 0
    for about, count in zip(learner.growths, counts, strict=True):
        known, left = X[: about["drawn"]], X[about["drawn"] : about["drawn"] + count]
        assert not KnownRegion.of(known, SWAPPED).contains(left).any()


def test_they_are_labelled_too_where_a_growth_was_interrupted(
    grown: tuple[ActiveLearner, list[Round]], tmp_path: Path
) -> None:
    def stop(activity: str) -> None:
        if activity == "labels":
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            grow(tmp_path / "campaign", show=stop)
    learner, _ = grow(tmp_path / "campaign")
    np.testing.assert_array_equal(learner.labelled.X, grown[0].labelled.X)


def test_the_dimension_is_the_number_of_rotors_unless_it_is_given(tmp_path: Path) -> None:
    with Workers(oracle) as workers:
        with opened(tmp_path / "rotors", workers) as learner:
            assert learner.settings.intrinsic_dimension == 1.0  # water has none, and one is the least
        with opened(tmp_path / "given", workers, dimension=3.0) as learner:
            assert learner.settings.intrinsic_dimension == 3.0
        with pytest.raises(ValueError, match=r"began with intrinsic dimension 3\.0, got 1\.0; use the same"):
            opened(tmp_path / "given", workers)


def test_only_a_pool_that_grows_can() -> None:
    with (
        Workers(oracle) as workers,
        ActiveLearner(MoleculePool(water(20))) as learner,
        pytest.raises(ValueError, match="expected a campaign over a MoleculePool that grows"),
    ):
        Growth(learner, workers, REFERENCE.R[0], SETTINGS)


def test_sizes_have_no_tiny_last_round() -> None:
    assert GrowthSettings(first=50, budget=400).sizes == [50, 75, 112, 168, 252, 400]
    assert GrowthSettings(first=50, budget=52).sizes == [50, 52]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 10}, "budget must be .*at least 13, got 10"),
        ({"budget": 20, "ratio": 1.0}, "ratio"),
        ({"budget": 100, "simulation": SimulationOptions(configurations=35)}, "40 for the labels of the .*, got 35"),
        ({"budget": 14, "simulation": SimulationOptions(configurations=9)}, "at least 10 configurations, .*, got 9"),
    ],
)
def test_settings_out_of_bounds_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GrowthSettings(first=12, **options)
