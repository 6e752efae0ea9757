"""What a campaign begins with, and that it goes on wherever its beginning was stopped."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lobal import ActiveLearner
from lobal.molecules.dynamics.campaign import Beginning, Opened, opened_campaign
from lobal.molecules.dynamics.start import StartSettings
from lobal.molecules.dynamics.workers import Workers
from lobal.molecules.geometry.trajectory import read_trajectory
from tests.molecules.dynamics.test_growth import QUICK, REFERENCE
from tests.molecules.dynamics.test_start import Disturbed

EXAMPLES = Path(__file__).parents[3] / "examples" / "molecules"
START = StartSettings(first=12, validation=10, settle=4, every=1, temperature=300.0)


def opened(folder: Path, oracle: Any = None, name: str = "morse", **options: Any) -> Opened:
    beginning = Beginning(start=START, field=QUICK, **options)
    with Workers(oracle or Disturbed()) as workers:
        return opened_campaign(folder, REFERENCE, workers, beginning, about={"oracle": name})


def assert_begun(campaign: Opened) -> None:
    """The first frames have their labels, each one, and nothing else was asked for."""
    learner, start = campaign
    np.testing.assert_array_equal(learner.labelled.X, start.first.R)
    np.testing.assert_array_equal(learner.labelled.y[:, 0], start.first.energies)
    np.testing.assert_array_equal(learner.labelled.y[:, 1:], start.first.forces.flatten(1))  # type: ignore[union-attr]
    assert (learner.ledger.n_labels, len(learner.pending)) == (12, 0)


@pytest.mark.parametrize(("molecule", "rotors"), [("malonaldehyde", 2), ("glycine", 3), ("aspirin", 5)])
def test_the_dimension_is_the_number_of_rotors(molecule: str, rotors: int) -> None:
    reference = read_trajectory(EXAMPLES / f"{molecule}.xyz", labelled=False)
    assert Beginning(start=START).dimension_of(reference.R[0], reference.species) == float(rotors)


def test_a_rigid_molecule_has_dimension_one_and_a_dimension_that_is_given_counts() -> None:
    R, species = REFERENCE.R[0], REFERENCE.species
    assert Beginning(start=START).dimension_of(R, species) == 1.0
    assert Beginning(start=START, dimension=2.5).dimension_of(R, species) == 2.5


@pytest.mark.parametrize("dimension", [0.0, -1.0, float("nan")])
def test_a_dimension_that_is_not_positive_is_refused(dimension: float) -> None:
    with pytest.raises(ValueError, match="dimension must be above 0, got"):
        Beginning(start=START, dimension=dimension)


def test_the_first_frames_are_the_first_labels(tmp_path: Path) -> None:
    campaign = opened(tmp_path / "campaign")
    with campaign.learner:
        assert_begun(campaign)


def test_a_campaign_that_is_opened_again_is_as_it_was_and_calls_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "campaign").learner:
        journal = (tmp_path / "campaign" / "journal.jsonl").read_bytes()
    again = Disturbed()
    campaign = opened(tmp_path / "campaign", again)
    with campaign.learner:
        assert_begun(campaign)
    assert again.calls == []
    assert (tmp_path / "campaign" / "journal.jsonl").read_bytes() == journal


@pytest.mark.parametrize("method", ["tell", "save"])
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_a_campaign_that_was_stopped_before_its_first_labels_goes_on(
    method: str, is_done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = getattr(ActiveLearner, method)

    def stopped(*arguments: Any) -> None:
        if is_done:
            done(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(ActiveLearner, method, stopped)
    with pytest.raises(KeyboardInterrupt):
        opened(tmp_path / "campaign")
    monkeypatch.undo()
    again = Disturbed()
    campaign = opened(tmp_path / "campaign", again)
    with campaign.learner:
        assert_begun(campaign)
    assert again.calls == []


def test_another_dimension_is_refused_and_the_campaign_can_be_opened_afterwards(tmp_path: Path) -> None:
    opened(tmp_path / "campaign", dimension=2.0).learner.close()
    for other in (None, 3.0):
        with pytest.raises(ValueError, match=r"began with intrinsic dimension 2.0, got [13]\.0; use the same"):
            opened(tmp_path / "campaign", dimension=other)
    opened(tmp_path / "campaign", dimension=2.0).learner.close()


def test_another_program_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "campaign").learner.close()
    with pytest.raises(ValueError, match="it began with oracle 'morse', got 'gfn2'; use the same, or another folder"):
        opened(tmp_path / "campaign", name="gfn2")


def test_validation_frames_are_for_errors_only(tmp_path: Path) -> None:
    with opened(tmp_path / "campaign").learner as learner:
        model = learner.model
    assert (model.about["configurations"], model.about["validation"]) == (12, 10)
    assert model.about["errors"]["force_rmse"] > 0.0
