import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lobal import ActiveLearner, Adam, Box, MixtureRegressor, Pool
from lobal.active.campaign.folder import Campaign
from lobal.active.mixture_surrogate import FittedMixtureSurrogate, MixtureSurrogate
from tests.learner_setting import MODEL, bumpy, learner, pool

SIZES = [20, 30, 40]


def assert_equal(whole: ActiveLearner, again: ActiveLearner) -> None:
    """Same points, labels and steps."""
    assert np.array_equal(whole.labelled.X, again.labelled.X)
    assert np.array_equal(whole.labelled.y, again.labelled.y)
    assert whole.history == again.history


@pytest.mark.parametrize("space", [pool(), Box(0.0, 1.0, n_candidates=512)], ids=["pool", "box"])
def test_a_loaded_campaign_goes_on_as_if_it_had_not_stopped(space: Pool | Box, tmp_path: Path) -> None:
    whole = learner(space)
    whole.run(bumpy, sizes=SIZES)
    with learner(space, path=tmp_path / "campaign") as kept:
        kept.run(bumpy, sizes=SIZES[:2])
    with ActiveLearner.load(tmp_path / "campaign") as again:
        again.run(bumpy, sizes=SIZES)
    assert_equal(whole, again)


def in_memory(active: ActiveLearner) -> ActiveLearner:
    """The same learner without its folder."""
    campaign = active._state._campaign
    assert campaign is not None
    active._state._campaign, active._state._events = None, campaign.events
    return active


def test_a_campaign_saved_late_is_the_same_campaign(tmp_path: Path) -> None:
    active = learner(validation=(np.linspace(0, 1, 20)[:, None], np.zeros(20)))
    active.run(bumpy, sizes=[20, 30])
    active.save(tmp_path / "campaign")
    active.close()
    with ActiveLearner.load(tmp_path / "campaign") as again:
        assert np.array_equal(again.ask(20), in_memory(active).ask(20))


def test_a_surrogate_may_write_to_its_campaign_unless_that_is_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    monkeypatch.setattr(MixtureSurrogate, "use_folder", lambda _, *folder, **options: told.append((*folder, options)))
    with learner(path=tmp_path / "campaign"):
        ActiveLearner.read(tmp_path / "campaign")
    with ActiveLearner.load(tmp_path / "campaign"):
        assert told == [(tmp_path / "campaign", {"read_only": flag}) for flag in (False, True, False)]


def test_a_model_need_not_have_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(FittedMixtureSurrogate, "record")
    active = learner()
    active.run(bumpy, sizes=[20, 30])
    step = active.history[-1]
    assert step.noise is not None  # a model was fitted
    assert (step.n_inducing, step.decisions) == (None, ())


def test_points_that_come_when_no_others_are_left_have_a_weight_relative_to_the_largest() -> None:
    state = learner(pool(6))._state
    proposal = 100.0 * state.candidates.pool_density
    proposal[2:] = 0.0
    weights = state.weights(proposal, 3)
    assert weights.tolist() == pytest.approx([100.0] * 2 + [1e-10] * 4, rel=1e-9, abs=0.0)


def test_what_came_after_the_last_step_counts_once_in_a_campaign_saved_late(tmp_path: Path) -> None:
    active = learner()
    active.run(bumpy, sizes=[20, 30])
    rows = np.setdiff1d(np.arange(100), active.labelled.candidate)
    active.tell(rows, bumpy(active.candidates.X[rows]))
    active.save(tmp_path / "campaign")
    again = ActiveLearner.read(tmp_path / "campaign")
    np.testing.assert_array_equal(again.training_density(), active.training_density())
    active.close()


def test_a_campaign_saved_late_has_the_last_model(tmp_path: Path) -> None:
    kept, late = learner(path=tmp_path / "kept"), learner()
    for active in (kept, late):
        active.run(bumpy, sizes=SIZES)
        assert active.model is not None  # a later one than the last step's
    late.save(tmp_path / "late")
    for active in (kept, late):
        active.close()
    files = [sorted(file.name for file in (tmp_path / name / "steps").iterdir()) for name in ("kept", "late")]
    assert files[0] == [*files[1][:2], "0001.model", *files[1][2:]]
    assert files[1] == ["0000.lobal", "0001.lobal", "0002.lobal", "0002.model"]
    journals = [Campaign.read(tmp_path / name).events for name in ("kept", "late")]
    asked = [[event | {"time": 0.0} for event in journal if event["event"] == "asked"] for journal in journals]
    assert asked[0] == asked[1]
    models = [MixtureRegressor.load(tmp_path / name / "steps" / "0002.model") for name in ("kept", "late")]
    X = np.linspace(0, 1, 50)[:, None]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


def test_a_campaign_that_could_not_be_saved_stays_in_memory(tmp_path: Path) -> None:
    active = learner()
    active.ask(5)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        active.save(tmp_path / "file")
    active.tell(active.pending, np.zeros(5))
    active.save(tmp_path / "campaign")
    assert len(ActiveLearner.read(tmp_path / "campaign").labelled.y) == 5
    with pytest.raises(ValueError, match=r"is kept in .*campaign already"):
        active.save(tmp_path / "other")
    active.close()


def test_a_step_without_labels_since_goes_on_with_the_same_model(tmp_path: Path) -> None:
    with learner(path=tmp_path / "campaign") as active:
        active.run(bumpy, sizes=[30])
        active.ask(10)
    with ActiveLearner.load(tmp_path / "campaign") as again:
        assert again.attainable() == pytest.approx(active.attainable(), rel=1e-9)
        assert again.expected_savings() == pytest.approx(active.expected_savings(), rel=1e-9)
        assert np.array_equal(again.ask(10), in_memory(active).ask(10))


def test_interrupted_by_the_keyboard_a_campaign_resumes_with_the_same_points(tmp_path: Path) -> None:
    whole, calls = learner(), iter(range(40))
    whole.run(bumpy, sizes=[20, 40])

    def interrupted(X: np.ndarray) -> np.ndarray:
        if next(calls) == 27:
            raise KeyboardInterrupt
        return bumpy(X)

    with pytest.raises(KeyboardInterrupt), learner(path=tmp_path / "campaign") as active:
        active.run(interrupted, sizes=[20, 40])
    with ActiveLearner.load(tmp_path / "campaign") as again:
        assert (len(again.labelled.y), len(again.pending)) == (27, 13)
        again.run(bumpy, sizes=[20, 40])
    assert_equal(whole, again)


def test_a_step_that_could_not_be_written_has_not_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, active = learner(), learner(path=tmp_path / "campaign")
    for each in (whole, active):
        each.run(bumpy, sizes=[30])
    before = active.training_density()

    def full(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("lobal.active.campaign.folder.save_record", full)
        with pytest.raises(OSError, match="disk full"):
            active.ask(10)
    assert np.array_equal(active.training_density(), before)
    assert len(active.history) == 1
    assert np.array_equal(active.ask(10), whole.ask(10))
    active.close()


# Noise that is a function.


def variance(X: np.ndarray) -> np.ndarray:
    return 0.01 + 0.1 * X[:, 0]


def test_a_noise_function_is_asked_for_again_and_the_campaign_goes_on_with_it(tmp_path: Path) -> None:
    model = clone(MODEL).set_params(noise=variance)
    whole = learner(model=model)
    whole.run(bumpy, sizes=SIZES[:2])
    with learner(model=model, path=tmp_path / "campaign") as kept:
        kept.run(bumpy, sizes=SIZES[:1])
    with pytest.raises(ValueError, match="was given a function as its noise"):
        ActiveLearner.load(tmp_path / "campaign")  # and releases the lock
    assert ActiveLearner.read(tmp_path / "campaign", noise=variance).model.noise is variance
    assert ActiveLearner.read(tmp_path / "campaign").model.noise is None  # for a look at it, constant noise is learned
    with ActiveLearner.load(tmp_path / "campaign", noise=variance) as again:
        again.run(bumpy, sizes=SIZES[:2])
        assert_equal(whole, again)
        assert again.model.noise is variance


# Devices.


def test_a_campaign_goes_on_or_is_looked_at_on_another_device(tmp_path: Path) -> None:
    model = clone(MODEL).set_params(device="cuda:77")  # of a machine that this one is not
    with learner(model=model, path=tmp_path / "campaign") as active:
        active.tell(np.arange(12), bumpy(active.candidates.X[:12]))
    assert ActiveLearner.read(tmp_path / "campaign", device="cpu").model.device == "cpu"
    with ActiveLearner.load(tmp_path / "campaign", device="cpu") as again:
        again.ask(2)
        assert again.surrogate.to_settings()["options"]["device"] == "cpu"
    with pytest.raises(ValueError, match="device"):
        ActiveLearner.load(tmp_path / "campaign", device="abacus")


# Other processes.


def test_a_running_campaign_can_be_read(tmp_path: Path) -> None:
    with learner(path=tmp_path / "campaign") as active:
        active.run(bumpy, sizes=[9])
        assert np.array_equal(ActiveLearner.read(tmp_path / "campaign").labelled.y, active.labelled.y)
        with pytest.raises(BlockingIOError):
            ActiveLearner.load(tmp_path / "campaign")


# Fits that take less than the time until the kill, on any machine.
QUICKEST = MixtureRegressor(engine=Adam(max_epochs=3), n_inducing=20, n_gate_inducing=10)


def slow_campaign(folder: Path, calls: Path) -> None:
    """What a campaign's own process does, from the start or from where the last one died."""

    def slow(X: np.ndarray) -> np.ndarray:
        time.sleep(0.004)
        with calls.open("a") as file:
            file.write(f"{float(X[0, 0])!r}\n")
        return bumpy(X)

    started = (folder / "header.json").exists()
    with ActiveLearner.load(folder) if started else learner(path=folder, model=QUICKEST) as active:
        active.run(slow, sizes=[20, 40, 60])


def run_for(seconds: float, folder: Path, calls: Path) -> bool:
    """Run the campaign in a process of its own, killed after so long; true if it came to its end."""
    process = multiprocessing.get_context("fork").Process(target=slow_campaign, args=(folder, calls))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode == 0


def test_killed_at_any_instant_a_campaign_resumes_with_the_same_points(tmp_path: Path) -> None:
    whole = learner(model=QUICKEST)
    whole.run(bumpy, sizes=[20, 40, 60])
    rng, kills = np.random.default_rng(0), 0
    while kills < 10:
        folder, calls, before = tmp_path / f"after_{kills}", tmp_path / f"calls_{kills}", kills
        while not run_for(0.8 * rng.random() * 1.2 ** (kills - before), folder, calls):
            kills += 1
        with ActiveLearner.load(folder) as again:
            assert_equal(whole, again)
        # A label is bought twice only if the process died between the oracle's answer and the journal.
        bought = calls.read_text().split()
        assert len(set(bought)) == 60 <= len(bought) <= 60 + kills - before
