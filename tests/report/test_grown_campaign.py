from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lobal import ActiveLearner
from lobal.molecules.geometry.descriptor import descriptors
from lobal.report import grown_campaign as module
from lobal.report.grown_campaign import GrownCampaign, campaign_rounds, formula
from tests.molecules.dynamics.test_growth import grow
from tests.molecules.setting import water
from tests.molecules.test_growing import begun, labels, pool
from tests.report.grown_setting import chain, grown_campaign

ROUND = {"number": 1, "labels": 12, "force_rmse": 0.1, "energy_rmse": None}


@pytest.fixture(scope="module")
def learner(tmp_path_factory: pytest.TempPathFactory) -> ActiveLearner:
    """Twelve labels, and six more in each of two rounds."""
    return grow(tmp_path_factory.mktemp("grown") / "campaign")[0]


@pytest.fixture(scope="module")
def campaign(learner: ActiveLearner) -> GrownCampaign:
    return GrownCampaign.of(learner)


def told(about: Any) -> ActiveLearner:
    """A campaign whose pool was replaced once, with these words about it."""
    learner = begun()
    learner.grow(pool(40, 5), about=about)
    return learner


def test_labels_are_those_of_the_campaign_and_know_their_round(campaign: GrownCampaign, learner: ActiveLearner) -> None:
    np.testing.assert_array_equal(campaign.R, learner.labelled.X)
    np.testing.assert_array_equal(campaign.energies, learner.labelled.y[:, 0])
    assert campaign.round_of.tolist() == [0] * 12 + [1] * 6 + [2] * 6


def test_the_pool_has_no_labelled_configuration(campaign: GrownCampaign, learner: ActiveLearner) -> None:
    assert len(campaign.pool) == len(learner.candidates) - len(learner.labelled.y) > 0
    assert torch.cdist(descriptors(campaign.pool), descriptors(campaign.R)).min() > 0.0


def test_complexities_are_those_of_the_model_in_units_of_their_median(
    campaign: GrownCampaign, learner: ActiveLearner
) -> None:
    assert np.median(campaign.pool_complexity) == pytest.approx(1.0)
    R = torch.cat([campaign.R, campaign.pool]).numpy()
    expected = learner.model.local_complexity(R, dimension=1.0)
    found = np.concatenate([campaign.complexity, campaign.pool_complexity])
    np.testing.assert_allclose(found, expected / np.median(expected[24:]))


def test_every_round_is_there_with_the_present_force_field_last(
    campaign: GrownCampaign, learner: ActiveLearner
) -> None:
    assert [(each.number, each.labels, each.pool) for each in campaign.rounds] == [
        (1, 12, 60),
        (2, 18, 60),
        (3, 24, None),
    ]
    assert campaign.rounds[-1].force_rmse == learner.model.about["errors"]["force_rmse"]
    assert all(each.savings is not None and 0.0 <= each.savings < 1.0 for each in campaign.rounds)


def test_the_temperature_is_that_of_the_last_pool(campaign: GrownCampaign) -> None:
    assert campaign.temperature == 300.0


@pytest.mark.parametrize("about", [ROUND, *({"temperature": each} for each in (None, "hot", 0.0, np.inf, True))])
def test_a_temperature_that_the_journal_does_not_have_is_not_known(about: dict[str, Any]) -> None:
    assert GrownCampaign.of(told(about)).temperature is None


@pytest.mark.parametrize(
    "about", [{"resets": 2}, {"number": 1, "labels": 12}, {**ROUND, "labels": "12"}, {**ROUND, "seconds": -3.0}]
)
def test_growths_that_are_no_rounds_have_none(about: dict[str, Any]) -> None:
    found = GrownCampaign.of(told(about))
    assert found.rounds == ()
    assert not found.round_of.any()


def test_a_pool_without_any_of_its_labels_is_that_of_the_last_round() -> None:
    (only,) = campaign_rounds(told({**ROUND, "pool": 40, "resets": 3}))
    assert (only.labels, only.pool, only.resets, only.force_rmse) == (12, 40, 3, 0.1)


def test_before_the_first_round_there_is_a_force_field_and_no_pool() -> None:
    found = GrownCampaign.of(begun())
    assert len(found.pool) == 0
    assert [(each.number, each.labels, each.pool) for each in found.rounds] == [(1, 12, None)]
    assert np.median(found.complexity) == pytest.approx(1.0)


def test_some_of_a_large_pool_are_shown(learner: ActiveLearner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POINTS", 7)
    found = GrownCampaign.of(learner)
    assert len(found.pool) == len(found.pool_complexity) == 7


def test_failed_configurations_are_no_labels() -> None:
    learner = told(ROUND)
    rows = learner.ask(4)
    energies, forces = labels(learner.candidates.inputs_at(torch.from_numpy(rows)))
    energies[1] = np.nan
    learner.tell(rows, (energies, forces))
    found = GrownCampaign.of(learner)
    np.testing.assert_array_equal(found.failed, water(40, seed=5).R[rows[1:2] - 12])
    assert (len(found.R), len(found.pool)) == (15, 36)
    assert found.round_of.tolist() == [0] * 12 + [1] * 3


@pytest.mark.parametrize(
    ("species", "expected"),
    [
        ([8, 6, 1, 6, 1, 6, 8, 1, 1], "C₃H₄O₂"),
        ([1, 8, 1], "H₂O"),
        ([6] * 12 + [35], "C₁₂Br"),
        ([17, 11], "ClNa"),
        ([7, 1, 5, 6], "CHBN"),
    ],
)
def test_formulas_have_carbon_and_hydrogen_first_and_the_rest_by_the_alphabet(
    species: list[int], expected: str
) -> None:
    assert formula(torch.tensor(species)) == expected


def test_bonds_are_those_of_the_configuration_of_least_energy() -> None:
    R = chain(np.linspace([60.0], [180.0], 6))
    found = grown_campaign(R, energies=np.array([3.0, 2.0, -7.0, 1.0, 0.0, 0.0]))
    assert torch.equal(found.reference, R[2])


def test_the_slowest_torsions_of_the_pool_come_first(rng: np.random.Generator) -> None:
    narrow, wide = rng.normal(180.0, 20.0, 50), rng.uniform(-180.0, 180.0, 50)
    straight = chain(np.full((5, 2), 180.0))
    found = grown_campaign(straight, chain(np.column_stack([narrow, wide])))
    assert found.torsions()[1] == ["C1-C2-C3-C4", "C0-C1-C2-C3"]
    assert replace(found, pool=chain(np.column_stack([wide, narrow]))).torsions()[1] == ["C0-C1-C2-C3", "C1-C2-C3-C4"]


def test_without_a_pool_the_slowest_torsions_are_those_of_the_labels(rng: np.random.Generator) -> None:
    R = chain(np.column_stack([rng.normal(180.0, 20.0, 50), rng.uniform(-180.0, 180.0, 50)]))
    straight = int((R[:, 0] - R[:, -1]).norm(dim=1).argmax())
    found = grown_campaign(R, energies=np.where(np.arange(50) == straight, -1.0, 0.0))
    assert found.torsions()[1] == ["C1-C2-C3-C4", "C0-C1-C2-C3"]
