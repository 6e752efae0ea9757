"""Settings chosen by validation: what is recorded, what is shared, what it may cost and whether it pays."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from lobal.core.dataset import LabelledSet
from lobal.experts.svgp import FullCovariance
from lobal.mixture.adam import candidates
from lobal.mixture.adam import tuning as adam_tuning
from lobal.mixture.adam.objective import squared_error
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.data import TrainingData
from lobal.mixture.fit import fit_mixture, tuned_settings
from lobal.mixture.model import FittedMixture
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.tuning_record import Decision, Trial, Tuned, decisions_as_json, decisions_from_json
from tests.estimator_setting import FEW_CANDIDATES
from tests.mixture.adam.test_training import sample

LADDER = 2.0 ** torch.arange(-3, 4).double()
QUICK = AdamSettings(batch_size=64, max_epochs=30, patience=3, epochs_per_kappa=1)


def data(n: int = 120) -> TrainingData:
    return TrainingData(points=sample(n, 1), validation=sample(200, 2), keep_validation=True)


def settings(**changes: Any) -> MixtureSettings:
    given = {"bandwidths": LADDER, "n_inducing": 40, "n_gate_inducing": 10, "training": QUICK, "adaptive": True}
    return MixtureSettings(**{**given, **changes})


def tuned(**changes: Any) -> Tuned:
    return tuned_settings(data(), settings(**changes), torch.Generator().manual_seed(0))


def decision(decisions: list[Decision], varied: str) -> Decision:
    return next(found for found in decisions if found.varied == varied)


def validation_error(fitted: FittedMixture, validation: LabelledSet) -> float:
    return (validation.y - fitted.mixture.mean(validation.X)).square().mean().sqrt().item()


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """One candidate a decision, so that what matters comes soon."""
    for name, few in FEW_CANDIDATES.items():
        monkeypatch.setattr(adam_tuning, name, few)


@pytest.fixture(scope="module")
def full() -> Tuned:
    return tuned()


def test_every_step_of_algorithm_2_is_recorded_in_its_order(full: Tuned) -> None:
    varied = list(dict.fromkeys(found.varied for found in full.decisions if found.varied != "sigma_l"))
    gate = "sigma_G / global bandwidth, lambda_G"
    assert varied == ["m_E, m_G", "eta_0", "eta_H", "B", "L", gate, "eta_G", "theta", "s_0", "kappa", "settings"]


def test_what_is_chosen_was_tried(full: Tuned) -> None:
    for found in full.decisions:
        assert found.chosen in [trial.value for trial in found.trials]


@pytest.mark.parametrize("varied", ["eta_H", "B", "eta_G", "theta", "s_0"])
def test_the_finished_candidate_of_least_error_is_chosen(full: Tuned, varied: str) -> None:
    found = decision(full.decisions, varied)
    finished = [trial for trial in found.trials if trial.end in ("finished", "known")]
    assert found.chosen == min(finished, key=lambda trial: trial.error or 0.0).value


def test_the_settings_hold_what_was_chosen(full: Tuned) -> None:
    training = full.settings.training
    assert isinstance(training, AdamSettings)
    assert decision(full.decisions, "settings").chosen == "tuned"
    assert training.penalty == decision(full.decisions, "theta").chosen
    assert training.sparsity == decision(full.decisions, "kappa").chosen
    assert training.patience == QUICK.patience
    assert training.max_epochs == QUICK.max_epochs


def test_too_small_a_learning_rate_is_interrupted(full: Tuned) -> None:
    first = decision(full.decisions, "eta_0").trials[0]
    assert (first.value, first.end, first.epochs) == (0.003, "interrupted", candidates.FIRST_STEPS)


def test_sparsities_are_tried_downwards_until_one_loses(full: Tuned) -> None:
    first, *rest = decision(full.decisions, "kappa").trials
    tried = [kappa for kappa in adam_tuning.SPARSITIES if kappa < first.value]
    assert [trial.value for trial in rest] == [first.value, *tried[: len(rest) - 1]]
    assert decision(full.decisions, "kappa").chosen in (rest[-1].value, rest[-2].value)


@pytest.mark.usefixtures("few_candidates")
def test_the_same_seed_gives_the_same_decisions() -> None:
    first, second = (tuned(training=replace(QUICK, max_epochs=5)) for _ in range(2))
    assert first.decisions == second.decisions


@pytest.mark.usefixtures("few_candidates")
def test_unused_bandwidths_are_dropped() -> None:
    wide = 2.0 ** torch.arange(-2, 9).double()
    found = tuned(bandwidths=wide, gate_bandwidth=torch.tensor(0.3).double())
    ladders = [one.chosen for one in found.decisions if one.varied == "sigma_l"]
    assert isinstance(ladders[-1], tuple)
    assert ladders[-1][-1] < wide[-1]
    assert found.settings.training.sparsity <= len(found.settings.bandwidths)


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("powers", [(2, 5), (-6, -3)], ids=["below", "above"])
def test_ends_in_use_are_extended(powers: tuple[int, int]) -> None:
    ladder = 2.0 ** torch.arange(*powers).double()
    bandwidths = tuned(bandwidths=ladder, gate_bandwidth=torch.tensor(0.3).double()).settings.bandwidths
    assert len(bandwidths) > len(ladder)
    assert bandwidths[0] < ladder[0] if powers[0] > 0 else bandwidths[-1] > ladder[-1]


@pytest.mark.usefixtures("few_candidates")
def test_a_ladder_that_is_given_stays() -> None:
    found = tuned(adaptive=False, training=replace(QUICK, max_epochs=4))
    assert torch.equal(found.settings.bandwidths, LADDER)


def test_the_tuned_mixture_validates_no_worse(full: Tuned) -> None:
    patient = replace(QUICK, max_epochs=100)
    given = fit_mixture(data(), settings(training=patient), torch.Generator().manual_seed(0))
    assert isinstance(full.settings.training, AdamSettings)
    better = replace(full.settings, training=replace(full.settings.training, max_epochs=100))
    found = fit_mixture(data(), better, torch.Generator().manual_seed(0))
    validation = sample(200, 2)
    assert validation_error(found, validation) <= 1.01 * validation_error(given, validation)


@pytest.mark.usefixtures("few_candidates")
def test_settings_stay_where_tuning_does_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adam_tuning, "FIRST_PENALTY", 1e3)
    given = settings(adaptive=False)
    found = tuned_settings(data(), given, torch.Generator().manual_seed(0))
    assert found.decisions[-1].chosen == "as given"
    assert found.settings is given


@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize(
    "changes", [{"covariance": FullCovariance}, {"objective": squared_error}], ids=["covariance", "objective"]
)
def test_other_ways_to_train_are_tuned_too(changes: dict[str, Any]) -> None:
    training = replace(QUICK, max_epochs=2, **changes)
    varied = {found.varied for found in tuned(training=training, adaptive=False).decisions}
    assert {"eta_0", "B", "L", "kappa"} <= varied


def test_exact_experts_are_refused_under_adam() -> None:
    with pytest.raises(ValueError, match="needs sparse experts"):
        tuned(exact=True)


def test_the_record_survives_json(full: Tuned) -> None:
    decisions = [*full.decisions, Decision("eta_0", (Trial(1.0, None, 3, "diverged"),), 1.0)]
    assert decisions_from_json(decisions_as_json(decisions)) == decisions
