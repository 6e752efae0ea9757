"""Algorithm 1 in one word, and hyperparameters that are found once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lobal import ActiveLearner, Adam, Box, MixtureRegressor, Output, Pool
from lobal.active.mixture_surrogate import MixtureSurrogate, options_kept
from lobal.active.surrogate import FitTask
from lobal.mixture.adam import tuning as adam_tuning
from lobal.mixture.tuned_params import ENGINE, TRAINING
from tests.estimator_setting import FEW_CANDIDATES
from tests.learner_setting import bumpy

SIZES = [30, 60, 80]
SMALL: dict[str, Any] = {"n_inducing": 20, "n_gate_inducing": 8}
ADAM = Adam(penalty=0.5, batch_size=512, max_epochs=3)
BOX = Box(0.0, 1.0, n_candidates=256)


@pytest.fixture(autouse=True)
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, candidates in FEW_CANDIDATES.items():
        monkeypatch.setattr(adam_tuning, name, candidates)


def model(**changes: Any) -> MixtureRegressor:
    return MixtureRegressor(**{"preset": "paper", "engine": ADAM, **SMALL, **changes})


def hyperparameters(learner: ActiveLearner) -> dict[str, Any]:
    """Theta_H and Sigma_E of the learner's model."""
    mixture, engine = learner.model.mixture_, learner.model.engine
    training = learner.model.tuned_params_ or {ENGINE + name: getattr(engine, name) for name in TRAINING}
    return {
        **{name: training[ENGINE + name] for name in TRAINING},
        "bandwidths": mixture.bandwidths.tolist(),
        "shared": mixture.shared_bandwidth.tolist(),
        "gate": mixture.gate.features.shared_bandwidth.tolist(),
    }


def test_the_preset_sets_how_points_are_drawn_and_the_model() -> None:
    learner = ActiveLearner(BOX, preset="paper")
    assert (learner.settings.draw, learner.settings.exploration) == ("random", 0.0)
    assert (learner.settings.smoothness, learner.settings.complexity) == (np.inf, "local")
    assert isinstance(learner.surrogate, MixtureSurrogate)
    assert str(learner.surrogate.model) == str(MixtureRegressor(preset="paper"))
    shrinking = ActiveLearner(BOX, preset="paper", shrink_inducing=True).surrogate
    assert shrinking.changed_options == learner.surrogate.changed_options | {"shrink_inducing": True}


def test_options_beside_the_preset_win() -> None:
    learner = ActiveLearner(BOX, preset="paper", exploration=0.1, draw="spread", model=MixtureRegressor(**SMALL))
    assert (learner.settings.draw, learner.settings.exploration) == ("spread", 0.1)
    assert learner.surrogate.changed_options == {"n_inducing": 20, "n_gate_inducing": 8}
    with pytest.raises(ValueError, match=r"preset must be None or one of \['paper'\], got 'thesis'"):
        ActiveLearner(BOX, preset="thesis")


def test_the_preset_equals_its_options_spelt_out() -> None:
    spelt_out = {"kernel": "gaussian", "experts": "sparse", "inducing": "svgd", "tuning": "once", "objective": "elbo"}
    learners = [
        ActiveLearner(BOX, preset="paper", seed=1, model=model()),
        ActiveLearner(BOX, exploration=0.0, draw="random", seed=1, model=model(preset=None, **spelt_out)),
    ]
    for learner in learners:
        learner.run(bumpy, sizes=SIZES)
    assert np.array_equal(learners[0].labelled.X, learners[1].labelled.X)
    assert np.array_equal(*(learner.predict(np.linspace(0, 1, 9)[:, None]) for learner in learners))


@pytest.mark.parametrize("tuning", ["once", "full"])
def test_hyperparameters_found_once_do_not_move(tuning: str) -> None:
    learner, found = ActiveLearner(BOX, preset="paper", model=model(tuning=tuning)), []
    learner.run(bumpy, sizes=SIZES, callbacks=[lambda learner: found.append(hyperparameters(learner))])
    has_moved = [each != found[0] for each in found]
    assert has_moved == [False, tuning == "full", tuning == "full"]
    # They were found at the first step with a model, and nothing was looked for later.
    assert [bool(step.decisions) for step in learner.history] == [False, True, tuning == "full"]


def test_what_training_adapts_is_learned_anew() -> None:
    learner, noises = ActiveLearner(BOX, preset="paper", model=model()), []
    learner.run(
        bumpy, sizes=SIZES, callbacks=[lambda learner: noises.append((learner.model.noise_, learner.model.scale_))]
    )
    assert len(set(noises)) == len(SIZES)


def test_a_campaign_that_is_loaded_after_every_step_goes_on_with_the_same_hyperparameters(tmp_path: Path) -> None:
    whole = ActiveLearner(BOX, preset="paper", model=model())
    whole.run(bumpy, sizes=SIZES)
    ActiveLearner(BOX, preset="paper", model=model(), path=tmp_path).close()
    for size in SIZES:
        with ActiveLearner.load(tmp_path) as learner:
            learner.run(bumpy, sizes=[size])
    with ActiveLearner.load(tmp_path) as learner:
        assert learner.settings.preset == "paper"
        assert (learner.surrogate.model.preset, learner.surrogate.model.tuning) == ("paper", "once")
        assert np.array_equal(learner.labelled.X, whole.labelled.X)
        assert hyperparameters(learner) == hyperparameters(whole)
        assert np.array_equal(learner.predict(learner.labelled.X), whole.predict(learner.labelled.X))


def test_undoing_the_first_step_with_a_model_forgets_what_it_found() -> None:
    learner = ActiveLearner(BOX, preset="paper", model=model())
    learner.run(bumpy, sizes=SIZES[:1])
    learner.ask(5)
    assert options_kept(learner._knowledge._task())["tuning"] == "off"
    learner.undo()
    assert options_kept(learner._knowledge._task()) == {}


def test_every_output_keeps_its_own() -> None:
    X = np.random.default_rng(0).random((120, 1))
    space = Pool(X, outputs=[Output("left"), Output("right")])
    learner, found = ActiveLearner(space, preset="paper", model=model()), []

    def both(X: np.ndarray) -> np.ndarray:
        return np.stack([bumpy(X), np.sin(X[:, 0])], axis=1)

    def note(learner: ActiveLearner) -> None:
        models = learner.model.models
        found.append({name: each.mixture_.shared_bandwidth.tolist() for name, each in models.items()})

    learner.run(both, sizes=SIZES, callbacks=[note])
    assert found[0] == found[1] == found[2]
    assert found[0]["left"] != found[0]["right"]


def test_damaged_options_of_a_step_are_refused() -> None:
    learner = ActiveLearner(BOX, preset="paper", model=model())
    learner.run(bumpy, sizes=SIZES[:1])
    learner.ask(5)
    task: FitTask = learner._knowledge._task()
    task.kept["tuned.shared_bandwidth"].fill_(torch.nan)
    with pytest.raises(ValueError, match=r"the options that a step kept.shared_bandwidth\[0\] must be a number"):
        learner.surrogate.fit(task)
