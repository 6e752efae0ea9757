from pathlib import Path

import numpy as np
import pytest

from experiments import doppler_active
from experiments.doppler_active import campaign, main, run
from lobal.cli.demo import DopplerOracle
from lobal.mixture.adam import tuning as adam_tuning
from tests.estimator_setting import FEW_CANDIDATES

QUICK = {"n_inducing": 32, "n_gate_inducing": 8}


@pytest.mark.parametrize("arms", [("active", "spread"), ("draws", "random")])
def test_arms_that_choose_alike_before_there_is_a_model_start_from_the_same_labels(arms: tuple[str, str]) -> None:
    learners = [campaign(arm, 3, sizes=[16], **QUICK)[0] for arm in arms]
    assert np.array_equal(learners[0].labelled.X, learners[1].labelled.X)
    assert np.array_equal(learners[0].labelled.y, learners[1].labelled.y)


def test_the_random_arm_keeps_following_the_test_density() -> None:
    learner, _ = campaign("random", 0, sizes=[16, 64], **QUICK)
    assert np.allclose(learner.training_density(), 1.0)


def test_labels_repeat_with_the_seed() -> None:
    X = np.linspace(0, 1, 5)[:, None]
    assert np.array_equal(DopplerOracle(1)(X), DopplerOracle(1)(X))
    assert not np.array_equal(DopplerOracle(1)(X), DopplerOracle(2)(X))


def test_a_run_has_a_column_for_every_size() -> None:
    result = run(32, 0, arm="active", start=16, **QUICK)
    assert {"rmse_16", "rmse_32", "max_error_32"} <= set(result)


@pytest.mark.parametrize(("arm", "exploration"), [("paper", 0.0), ("paper_random", 1.0)])
def test_the_papers_arms_are_its_preset_with_the_values_of_sec_5_1(arm: str, exploration: float) -> None:
    learner, errors = campaign(arm, 0, sizes=[16, 32], n_inducing=12, n_gate_inducing=8, max_epochs=2)
    assert (learner.settings.preset, learner.settings.draw, learner.settings.exploration) == (
        "paper",
        "random",
        exploration,
    )
    model = learner.model
    assert (model.preset, model.inducing, model.tuning, model.engine.penalty) == ("paper", "svgd", "off", 0.5)
    assert (model.scale, model.gate_bandwidth, model.shared_bandwidth) == (20.0, 0.05, 1.0)
    assert learner.has_validation
    assert list(errors.rmse) == [16, 32]


def test_with_hyper_init_the_papers_arm_is_the_bare_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, candidates in FEW_CANDIDATES.items():
        monkeypatch.setattr(adam_tuning, name, candidates)
    learner, _ = campaign("paper", 0, sizes=[16, 32], hyper_init=True, n_inducing=12, n_gate_inducing=8)
    assert str(learner.surrogate.changed_options["engine"]) == "Adam(batch_size=512, penalty=0.5)"
    assert learner.history[1].decisions
    assert learner.model.tuning == "off"


def test_hyper_init_is_for_the_papers_arms(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--hyper-init is for the arms .*'paper'.*got 'active'"):
        main("active", output=tmp_path / "result.json", hyper_init=True)


def test_repetitions_are_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doppler_active, "run", lambda n, seed, **_: {"n": n, "seed": seed, f"rmse_{n}": 1.0 + seed})
    main("active", output=tmp_path / "result.json", seeds=2)
    assert '"mean": 1.5' in (tmp_path / "result.json").read_text()


def test_an_unknown_arm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'lazy'"):
        main("lazy", output=tmp_path / "result.json")


def test_inducing_points_shrink_on_request() -> None:
    options = {"n_inducing": 64, "n_gate_inducing": 32}
    for shrink, gates in ((True, [32, 16, 16]), (False, [32, 32, 32])):
        # Whether fewer will do depends on the draws; with this seed they do under the lowest and the newest torch.
        _, errors = campaign("active", 2, sizes=[64, 128, 160], shrink_inducing=shrink, **options)
        assert list(errors.n_gate_inducing.values()) == gates
    assert min(errors.cpu_seconds.values()) > 0


def test_a_file_of_another_option_is_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doppler_active, "run", lambda n, seed, **_: {"n": n, "seed": seed, f"rmse_{n}": 1.0 + seed})
    main("active", output=tmp_path / "result.json", seeds=2)
    with pytest.raises(ValueError, match="shrink_inducing False instead of True"):
        main("active", output=tmp_path / "result.json", seeds=2, shrink_inducing=True)
