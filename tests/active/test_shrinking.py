"""How few inducing points will do: the search on made-up answers, and a learner that makes it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lobal import ActiveLearner, Adam, MixtureRegressor
from lobal.active.campaign.folder import Campaign
from lobal.active.shrinking import LARGEST_MOVE, TOLERANCE, Answers, fewest, has_lost, has_moved
from lobal.mixture.tuning_record import Decision
from tests.learner_setting import learner

ROOMY = MixtureRegressor(n_inducing=64, n_gate_inducing=32)


def slope(X: np.ndarray) -> np.ndarray:
    """Nothing that would take many inducing points, with a little reproducible noise."""
    return np.sin(3.0 * X[:, 0]) + 0.1 * np.sin(1e5 * X[:, 0])


def shrinking(**changes: Any) -> ActiveLearner:
    return learner(**{"model": ROOMY, "shrink_inducing": True, "draw": "random", **changes})


# The search.

N = 400
NOISE = np.random.default_rng(0).standard_normal(N)
FLAT = np.zeros(N)


def answers(bias: float = 0.0, *, move: float = 0.0) -> Answers:
    """Errors of unit noise and a bias in half of the labels; predictions that move by so many standard deviations."""
    sides = np.where(np.arange(N) % 2, bias, 0.0)
    return Answers(ROOMY, np.square(NOISE + sides), FLAT + move, FLAT + 1.0, epochs=3)


START = answers()


def search(tried: dict[int, Answers], *, number: int = 512, name: str = "n_inducing") -> Decision:
    best, decision = fewest(name, {name: number, "other": 7}, START, START, lambda numbers: tried[numbers[name]])
    assert best is {**tried, number: START}[decision.chosen]
    return decision


def test_a_number_is_halved_until_errors_grow() -> None:
    decision = search({256: answers(), 128: answers(bias=0.02), 64: answers(bias=2.0)})
    assert (decision.varied, decision.chosen) == ("m_E", 128)
    assert [trial.value for trial in decision.trials] == [512, 256, 128, 64]
    assert [trial.end for trial in decision.trials] == ["known", "finished", "finished", "lost"]


def test_every_candidate_is_in_the_record_with_its_error() -> None:
    trials = search({256: answers(bias=2.0)}).trials
    errors = [np.sqrt(np.mean(squares)) for squares in (NOISE**2, answers(bias=2.0).squares)]
    assert [trial.error for trial in trials] == pytest.approx(errors)
    assert [trial.epochs for trial in trials] == [3, 3]


def test_predictions_that_move_end_the_search_where_errors_do_not_show_it() -> None:
    decision = search({256: answers(move=0.05), 128: answers(move=0.5)})
    assert decision.chosen == 256
    assert decision.trials[-1].end == "moved"


def test_small_losses_do_not_add_up() -> None:
    """Every one of them would pass if it were compared with the one before."""
    steps = {512 // 2**k: answers(move=0.06 * k) for k in range(1, 5)}
    assert search(steps).chosen == 256


@pytest.mark.parametrize(("name", "floor"), [("n_inducing", 32), ("n_gate_inducing", 16)])
def test_no_number_falls_below_the_floor(name: str, floor: int) -> None:
    for number, last in ((512, floor), (3 * floor, floor + floor // 2), (2 * floor - 1, 2 * floor - 1)):
        decision = search({k: answers() for k in range(512)}, number=number, name=name)
        assert decision.chosen == decision.trials[-1].value == last


def test_equal_errors_and_gains_are_no_loss() -> None:
    assert not has_lost(NOISE**2, NOISE**2)
    assert not has_lost(0.5 * NOISE**2, NOISE**2)
    assert not has_moved(FLAT, FLAT, FLAT)  # not even where the model is certain


def test_a_loss_has_to_be_significant_and_noticeable() -> None:
    reference = NOISE**2
    two = 100.0 * (np.arange(N) == 7) - 50.0 * (np.arange(N) == 8)  # much in the mean, but said by two labels
    assert not has_lost(reference + two, reference)
    mean = reference.mean()
    assert not has_lost(reference + 0.9 * TOLERANCE * mean, reference)  # at every label alike, but small
    assert has_lost(reference + 1.1 * TOLERANCE * mean, reference)
    assert not has_lost(np.array([9.0]), np.array([1.0]))  # one label has no standard error


def test_a_move_is_measured_by_the_models_own_variance() -> None:
    for factor, is_far in ((0.9, False), (1.1, True)):
        assert has_moved(FLAT + np.sqrt(factor * LARGEST_MOVE * 4.0), FLAT, FLAT + 4.0) is is_far


def test_a_small_region_that_is_missed_counts_as_a_move() -> None:
    mean = np.where(np.arange(N) < N // 100, 3.0, 0.0)  # one label in a hundred, by so many standard deviations
    assert has_moved(mean, FLAT, FLAT + 1.0)


# The learner.


@pytest.fixture(scope="module")
def whole() -> ActiveLearner:
    active = shrinking()
    active.run(slope, sizes=[64, 128, 160, 200])
    return active


def test_a_simple_function_needs_few_inducing_points_looked_for_once(whole: ActiveLearner) -> None:
    assert whole.history.inducing_numbers == {"n_inducing": 32, "n_gate_inducing": 16}
    table = whole.history.as_table()
    assert table["size"] == [0, 64, 128, 160]
    assert table["n_inducing"] == [None, None, 32, 32]
    assert table["n_gate_inducing"] == [None, None, 16, 16]
    assert whole.model is not None
    mixture = whole.model.mixture_
    assert (len(mixture.experts.features.points), len(mixture.gate.features.points)) == (32, 16)


def test_the_record_says_how_they_were_found(whole: ActiveLearner) -> None:
    decisions = whole.history[2].decisions
    assert [decision["varied"] for decision in decisions] == ["m_E", "m_G"]
    assert [[trial["value"] for trial in decision["trials"]] for decision in decisions] == [[64, 32], [32, 16]]
    assert all(trial["error"] > 0 for decision in decisions for trial in decision["trials"])
    assert whole.history[3].decisions == ()


def test_without_the_option_all_inducing_points_stay(whole: ActiveLearner) -> None:
    plain = learner(model=ROOMY, draw="random")
    plain.run(slope, sizes=[64, 128, 130])
    assert plain.history.inducing_numbers == {}
    assert plain.model is not None
    assert len(plain.model.mixture_.experts.features.points) == 64
    assert np.array_equal(plain.labelled.X[:128], whole.labelled.X[:128])  # the step before is the same


def test_inducing_points_that_are_needed_stay() -> None:
    active = shrinking(model=clone(ROOMY).set_params(noise="estimate"))  # which is no obstacle
    active.run(lambda X: np.sin(60.0 * X[:, 0]) + 0.01 * np.sin(1e5 * X[:, 0]), sizes=[64, 150, 160])
    assert active.history.inducing_numbers["n_inducing"] == 64
    assert active.history[2].decisions[0]["trials"][-1]["end"] in ("lost", "moved")


def test_nothing_is_looked_for_before_there_are_two_labels_for_each_point() -> None:
    active = shrinking()
    active.run(slope, sizes=[60, 127, 128, 129])
    assert active.history.as_table()["n_inducing"] == [None, None, None, 32]


def test_validation_labels_are_what_errors_are_measured_on() -> None:
    X = np.linspace(0.0, 1.0, 40)[:, None]
    active = shrinking(validation=(X, slope(X) + 7.0))  # so far off that nothing else can have that error
    active.run(slope, sizes=[64, 128, 130])
    error = active.history[2].decisions[0]["trials"][0]["error"]
    assert error == pytest.approx(7.0, abs=0.2)
    assert error == pytest.approx(active.history[2].validation_error, abs=0.2)


def test_adam_shrinks_too() -> None:
    active = shrinking(model=clone(ROOMY).set_params(engine=Adam(max_epochs=5)))
    active.run(slope, sizes=[64, 128, 130])
    trials = active.history[2].decisions[0]["trials"]
    assert [(trial["value"], trial["epochs"]) for trial in trials] == [(64, 5), (32, 5)]


@pytest.mark.parametrize("options", [{"experts": "exact"}, {"exchange": True}], ids=str)
def test_exact_experts_have_no_inducing_points_to_lose(options: dict[str, Any]) -> None:
    active = shrinking(model=clone(ROOMY).set_params(**options))
    active.run(slope, sizes=[64, 128, 130])
    assert active.history.inducing_numbers == {}


# Keeping it.


def test_a_loaded_campaign_keeps_to_the_numbers_it_found(whole: ActiveLearner, tmp_path: Path) -> None:
    with shrinking(path=tmp_path / "campaign") as kept:
        kept.run(slope, sizes=[64, 128, 160])
    with ActiveLearner.load(tmp_path / "campaign") as again:
        assert again.surrogate.to_settings()["shrink_inducing"]
        again.run(slope, sizes=[200])
        assert again.history == whole.history
        assert np.array_equal(again.labelled.X, whole.labelled.X)


@pytest.mark.parametrize("instant", ["before", "after"])
def test_killed_in_the_step_that_shrinks_a_campaign_resumes_with_the_same_points(
    instant: str, whole: ActiveLearner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Campaign.append

    def killed(campaign: Campaign, event: dict[str, Any], following: Mapping[str, Any]) -> None:
        if event["event"] != "asked" or event["step"]["n_inducing"] is None:
            append(campaign, event, following)
            return
        if instant == "after":
            append(campaign, event, following)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Campaign, "append", killed)
        with pytest.raises(KeyboardInterrupt), shrinking(path=tmp_path / "campaign") as kept:
            kept.run(slope, sizes=[64, 128, 160, 200])
    with ActiveLearner.load(tmp_path / "campaign") as again:
        assert len(again.history) == (2 if instant == "before" else 3)
        again.run(slope, sizes=[64, 128, 160, 200])
        assert again.history == whole.history
        assert np.array_equal(again.labelled.X, whole.labelled.X)
        assert np.array_equal(again.superior_density(), whole.superior_density())


def test_a_model_that_cannot_be_read_is_fitted_again_with_the_numbers_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with shrinking(path=tmp_path / "campaign") as kept:
        kept.run(slope, sizes=[64, 128])
        kept.ask(10)
    (tmp_path / "campaign" / "steps" / "0002.model").write_bytes(b"spoilt")
    X = np.linspace(0.0, 1.0, 50)[:, None]
    with ActiveLearner.load(tmp_path / "campaign") as again:
        assert again.model.n_inducing == 32
        assert "cannot be read and is fitted again" in caplog.text
        assert np.allclose(again.model.predict(X), kept.model.predict(X))
