import pytest
import torch

from lobal.baselines import greedy_variance
from lobal.baselines.greedy_variance import Covariances, FeatureProcess, Places, greedy_rows, process_for
from lobal.core.kernels import Kernel, gaussian, matern32
from lobal.experts.exact import exact_experts
from lobal.experts.interface import Hyperparameters
from tests.active.setting import ones
from tests.core.setting import seeded, tensor, uniform


def test_every_point_has_the_greatest_variance_of_processes_fitted_anew() -> None:
    X, known, noise = uniform(seeded(), 60, 2), uniform(seeded(1), 15, 2), 0.1 * uniform(seeded(2), 75)
    gate, scale = torch.softmax(uniform(seeded(3), 60, 2), dim=1), tensor(3.0)[0]
    settings = {"bandwidths": tensor(0.2, 0.7), "shared_bandwidth": tensor(1.0, 2.0), "kernel": matern32}
    rows = greedy_rows(X, known, Covariances(scale=scale, **settings), gate, noise, 10).tolist()
    for i, row in enumerate(rows):
        points = torch.cat([known, X[rows[:i]]])
        hyperparameters = Hyperparameters(tensor(0.0)[0], scale, torch.cat([noise[60:], noise[rows[:i]]]))
        experts = exact_experts(points, points[:, 0], hyperparameters, **settings)
        score = (gate.mT * experts.posterior(X).variance).sum(0) + noise[:60]
        score[rows[:i]] = 0.0
        assert row == score.argmax()


def test_processes_of_one_bandwidth_are_one_process_whatever_the_gate() -> None:
    X, known, noise = uniform(seeded(), 40, 1), uniform(seeded(1), 5, 1), 0.01 * ones(45)
    common = {"shared_bandwidth": tensor(1.0), "scale": tensor(1.0)[0], "kernel": gaussian}
    one, three = (Covariances(bandwidths=0.1 * ones(L), **common) for L in (1, 3))
    gate = torch.softmax(uniform(seeded(2), 40, 3), dim=1)
    alone = greedy_rows(X, known, one, ones(40)[:, None], noise, 12)
    assert greedy_rows(X, known, three, gate, noise, 12).tolist() == alone.tolist()


def test_nothing_has_to_be_known() -> None:
    X = torch.linspace(0.0, 1.0, 11, dtype=torch.float64)[:, None]
    process = Covariances(bandwidths=ones(1), shared_bandwidth=ones(1), scale=tensor(1.0)[0], kernel=gaussian)
    assert greedy_rows(X, X[:0], process, ones(11)[:, None], 0.1 * ones(11), 3).tolist() == [0, 10, 5]


def test_points_without_noise_are_chosen_once_though_their_variance_vanishes() -> None:
    X = ones(20)[:, None]
    process = Covariances(bandwidths=ones(1), shared_bandwidth=ones(1), scale=tensor(1.0)[0], kernel=gaussian)
    assert sorted(greedy_rows(X, X[:3], process, ones(20)[:, None], 0.0 * ones(23), 20).tolist()) == list(range(20))


def two_processes() -> Covariances:
    """A narrow and a wide process on the unit interval."""
    return Covariances(bandwidths=tensor(0.02, 0.1), shared_bandwidth=ones(1), scale=tensor(2.0)[0], kernel=gaussian)


def test_processes_of_few_features_choose_as_full_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    X, known, noise = uniform(seeded(), 800, 1), uniform(seeded(1), 30, 1), 0.1 + uniform(seeded(2), 830)
    wide = ((X[:, 0] - 0.2) / 0.2).clamp(0.0, 1.0)  # the narrow process is closed above 0.4, the wide one below 0.2
    gate = torch.stack([1.0 - wide, wide], dim=1)
    rows = greedy_rows(X, known, two_processes(), gate, noise, 400)
    monkeypatch.setattr(greedy_variance, "POINTS_PER_FEATURE", 10**6)
    assert rows.tolist() == greedy_rows(X, known, two_processes(), gate, noise, 400).tolist()


def test_a_process_that_is_open_at_few_candidates_needs_few_features(monkeypatch: pytest.MonkeyPatch) -> None:
    X, noise = uniform(seeded(), 300, 1), 0.1 + uniform(seeded(2), 300)
    narrow = (X[:, 0] < 0.03).double()
    gate = torch.stack([narrow, 1.0 - narrow], dim=1)
    places = Places(X=X, known=X[:0], noise=noise, known_noise=noise[:0])
    assert isinstance(process_for(places, two_processes(), 0, narrow, 200), FeatureProcess)
    rows = greedy_rows(X, X[:0], two_processes(), gate, noise, 200)
    monkeypatch.setattr(greedy_variance, "POINTS_PER_FEATURE", 10**6)
    assert rows.tolist() == greedy_rows(X, X[:0], two_processes(), gate, noise, 200).tolist()


def test_labels_without_noise_leave_no_variance_to_features() -> None:
    X = uniform(seeded(), 10, 1)
    inside = (X[:, 0] < 0.5).double()
    places = Places(X=X, known=X, noise=0.0 * ones(10), known_noise=0.0 * ones(10))
    process = process_for(places, two_processes(), 1, inside, 40)
    assert isinstance(process, FeatureProcess)
    for row in range(10):
        process.observe(row)
        process.observe(row)
    assert process.variance[inside > 0.0].abs().max() < 1e-9


@pytest.mark.parametrize(
    ("kernel", "b", "expected"), [(gaussian, 400, True), (gaussian, 50, False), (matern32, 400, False)]
)
def test_features_replace_points_only_if_they_are_fewer(kernel: Kernel, b: int, expected: bool) -> None:
    X = uniform(seeded(), 500, 1)
    places = Places(X=X, known=X[:10], noise=ones(500), known_noise=ones(10))
    prior = Covariances(bandwidths=tensor(0.1), shared_bandwidth=ones(1), scale=tensor(2.0)[0], kernel=kernel)
    assert isinstance(process_for(places, prior, 0, ones(500), b), FeatureProcess) == expected
