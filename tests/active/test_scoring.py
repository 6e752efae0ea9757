"""What a model says about the candidates: once, part by part, and the promise that follows from it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from lobal import ActiveLearner, MixtureRegressor, Pool
from lobal.active import candidates as candidate_parts
from lobal.active.mixture_surrogate import FittedMixtureSurrogate
from lobal.active.scoring import attainable, evaluated, scores_from
from lobal.core import arrays
from lobal.report.html import campaign_report
from tests.learner_setting import bumpy, learner

X = np.random.default_rng(0).random((100, 2))
CANDIDATES = Pool(X).candidates(seed=0)
# With so few labels, noise that grows fiftyfold may also be taken for a rough function, and then be constant.
OPTIONS = {"n_inducing": 20, "n_gate_inducing": 10, "random_state": 0, "kernel": "gaussian"}


def fitted(**options: object) -> MixtureRegressor:
    rng = np.random.default_rng(1)
    y = np.sin(9.0 * X[:, 0]) + 0.02 * 50.0 ** X[:, 0] * rng.standard_normal(100)
    return MixtureRegressor(**OPTIONS | options).fit(X, y)


def test_parts_of_the_candidates_are_scored_like_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(smoothness=2.0, intrinsic_dimension=2.0)
    density = torch.from_numpy(1.0 + X[:, 1])
    whole = model.local_complexity(X, density=density.numpy())
    monkeypatch.setattr(arrays, "SLICE_ENTRIES", 60)
    monkeypatch.setattr(candidate_parts, "CHUNK", 7)
    said = evaluated(FittedMixtureSurrogate(model, {}), CANDIDATES)
    scores = scores_from(*said, density, CANDIDATES, smoothness=2.0, dimension=2.0)
    np.testing.assert_allclose(scores.complexity, whole, rtol=1e-9)


@pytest.mark.parametrize(
    "noise", [None, 0.25, lambda X: 0.1 + X[:, 0], "estimate"], ids=["learned", "number", "function", "estimated"]
)
def test_the_noise_is_that_of_the_model_at_all_candidates(noise: object, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(noise=noise)
    monkeypatch.setattr(candidate_parts, "CHUNK", 7)
    found = evaluated(FittedMixtureSurrogate(model, {}), CANDIDATES)[1]
    np.testing.assert_allclose(found, model.noise_variance(X), rtol=1e-12)
    assert (found.max() > found.min()).item() == (callable(noise) or noise == "estimate")


def test_an_uneven_test_density_alone_promises_nothing() -> None:
    """The formula would promise savings from evening out q, even where the complexity is constant."""
    candidates = Pool(X, test_density=np.exp(4.0 * X[:, 0])).candidates(seed=0)
    ones = torch.ones(100, dtype=torch.float64)
    assert attainable(ones, ones, candidates, smoothness=np.inf, dimension=2.0) == pytest.approx(1.0)
    uneven = torch.from_numpy(np.exp(3.0 * X[:, 1]))
    assert attainable(uneven, ones, candidates, smoothness=np.inf, dimension=2.0) < 0.95


def test_complexity_that_goes_with_the_test_density_promises_nothing() -> None:
    """Labels drawn from q are where they should be already."""
    candidates = Pool(X, density=np.ones(100), test_density=np.exp(-3.0 * X[:, 1])).candidates(seed=0)
    ones = torch.ones(100, dtype=torch.float64)
    assert attainable(candidates.test_density, ones, candidates, smoothness=np.inf, dimension=2.0) == pytest.approx(1.0)


class Counting:
    """Counts the inputs that methods of the model are called with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: dict[str, int] = {}
        for name in ("local_bandwidth", "local_complexity", "noise_variance", "fit"):
            monkeypatch.setattr(MixtureRegressor, name, self._counted(name, getattr(MixtureRegressor, name)))

    def _counted(self, name: str, method: object) -> object:
        def counted(model: MixtureRegressor, X: np.ndarray, *rest: object, **options: object) -> object:
            self.calls[name] = self.calls.get(name, 0) + len(X)
            return method(model, X, *rest, **options)  # type: ignore[operator]

        return counted


def test_a_step_and_its_report_score_the_candidates_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    active = learner(Pool(np.random.default_rng(0).random((500, 2))))
    active.run(bumpy, sizes=[40])
    counting = Counting(monkeypatch)
    active.ask(20)
    active.superior_density(), active.local_complexity(), active.expected_savings(), active.importance_weights()
    # The noise at the 40 labels is needed for their leave-one-out errors.
    assert counting.calls == {"fit": 40, "local_bandwidth": 500, "noise_variance": 500 + 40}
    campaign_report(active, tmp_path / "report.html")
    assert counting.calls["local_bandwidth"] == 500
    # Partial dependence looks at moved points, 41 values of two columns for each of 100 candidates, and at a sample.
    assert counting.calls["local_complexity"] == 2 * 41 * 100 + 100 + 500


def test_the_density_of_the_labels_is_computed_once_for_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    active: ActiveLearner = learner()
    active.run(bumpy, sizes=[40, 60])
    calls: list[int] = []
    state = type(active._state)
    original = state.labelled_density
    monkeypatch.setattr(state, "labelled_density", lambda self: calls.append(1) or original(self))
    assert active.model is not None
    active.importance_weights()
    assert len(calls) == 1
