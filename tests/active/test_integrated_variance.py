"""Points by variance: one by one the best there is, and only where the model's variance is a guide."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import lobal
from lobal.active.candidates import Candidates, Metric
from lobal.active.draws import INTEGRATED_VARIANCE, SPREAD, DrawTask
from lobal.active.integrated_variance import (
    LARGEST_KNOWN,
    LARGEST_TAIL,
    Posterior,
    Sites,
    greedy_rows,
    integrated_variance,
    suitable_design,
)
from lobal.active.settings import LearnerSettings
from lobal.active.surrogate import FittedSurrogate, Process
from lobal.core.kernels import gaussian, matern32, squared_distances
from tests.active.setting import ones, sample
from tests.active.test_spread import task


class Known(FittedSurrogate):
    """A process with given bandwidths and noise."""

    model = "no model"

    def __init__(self, width: float = 0.3, noise: float = 0.01, tail: float = 0.0, right: float = 1.0) -> None:
        self.width, self.variance, self.tail, self.right = width, noise, tail, right

    def metric(self, candidates: Candidates) -> Metric:
        del candidates
        return Metric(torch.as_tensor, squared_distances)

    def processes(self) -> list[Process]:
        """Bandwidths beyond x = 0.5 are `right` times the others."""
        return [
            Process(
                kernel=gaussian,
                coordinates=torch.as_tensor,
                bandwidth=lambda X: self.width * torch.as_tensor(np.where(X[:, 0] > 0.5, self.right, 1.0)),
                noise=lambda X: self.variance * ones(len(X)),
                tail=self.tail,
            )
        ]

    predict = local_bandwidth = noise_variance = save = relative_error = None  # type: ignore[assignment]


def sites(n: int, seed: int) -> Sites:
    generator = np.random.default_rng(seed)
    width, noise = generator.uniform(0.2, 0.6, n), generator.uniform(0.01, 0.1, n)
    return Sites(*(torch.from_numpy(part) for part in (generator.random((n, 2)), width, noise)))


def total_variance(points: Sites, places: Sites) -> Tensor:
    """Of the process given labels at the points, by one dense solve."""
    K = points.covariance(points, matern32) + points.noise.diag()
    cross = points.covariance(places, matern32)
    return (1.0 - (cross * torch.linalg.solve(K, cross)).sum(0)).sum()


def joined(known: Sites, choice: Sites, rows: list[int]) -> Sites:
    return Sites(*(torch.cat([a, b[rows]]) for a, b in zip(known, choice, strict=True)))


def left(known: Sites, choice: Sites, places: Sites, before: list[int], row: int) -> float:
    """The share of the variance that is left with one more label."""
    after, now = (total_variance(joined(known, choice, rows), places) for rows in ([*before, row], before))
    return float(after / now)


def test_gains_are_shares_of_the_variance_that_refitted_processes_lose() -> None:
    known, choice, places = sites(7, 0), sites(12, 1), sites(20, 2)
    posterior, given = Posterior(known, choice, places, kernel=matern32, b=3), []
    for row in (4, 9, 2):
        before = total_variance(joined(known, choice, given), places)
        after = torch.stack([total_variance(joined(known, choice, [*given, k]), places) for k in range(12)])
        others = [k for k in range(12) if k not in given]
        torch.testing.assert_close(posterior.gains()[others], ((before - after) / before)[others])
        posterior.add(row)
        given.append(row)


def test_every_point_is_the_best_under_all_processes_together() -> None:
    known, choice, places = sites(5, 3), sites(15, 4), sites(30, 5)
    both = [(known, choice, places), tuple(each.scaled(0.5, 0.2) for each in (known, choice, places))]
    rows = greedy_rows([Posterior(*each, kernel=matern32, b=4) for each in both], 4, cost=None).tolist()
    for i, row in enumerate(rows):
        before, others = rows[:i], [k for k in range(15) if k not in rows[:i]]
        assert row == min(others, key=lambda k: sum(left(*each, before, k) for each in both))


def test_half_the_cost_is_worth_half_the_gain() -> None:
    known, choice, places = sites(5, 3), sites(15, 4), sites(30, 5)
    gains = Posterior(known, choice, places, kernel=matern32, b=1).gains()
    cost = gains / gains.max()
    cost[7] *= 0.9
    assert greedy_rows([Posterior(known, choice, places, kernel=matern32, b=1)], 1, cost=cost).tolist() == [7]


@pytest.mark.parametrize("d", [1, 2, 8])
def test_the_points_are_different_and_none_was_drawn_before(d: int) -> None:
    drawn = list(range(0, 60, 3))
    chosen = integrated_variance(task(sample(60, d), 40, drawn=drawn, fitted=Known())).tolist()
    assert len({*chosen}) == 40
    assert not {*chosen} & {*drawn}


def test_a_process_that_expects_a_line_leaves_no_region_without_labels() -> None:
    """Its best points are at the edges; the checks are spread over all inputs, and counted by the others."""
    X = sample(2000, 3)
    is_inside = (np.abs(X - 0.5) < 0.3).all(1)  # a fifth of the cube
    none, some = (
        integrated_variance(task(X, 60, drawn=[0, 1], check=check, fitted=Known(20.0, 0.05))).numpy()
        for check in (0, 12)
    )
    assert is_inside[none].mean() < 0.05
    assert is_inside[some[:12]].mean() > 0.1
    assert is_inside[some[12:]].mean() < 0.05
    assert len({*some.tolist()}) == 60


def test_checks_follow_the_test_density_and_no_complexity() -> None:
    X = np.linspace(0.0, 1.0, 1000)[:, None]
    density = torch.from_numpy(np.where(X[:, 0] < 0.5, 1.9, 0.1))
    superior = torch.from_numpy(np.where(X[:, 0] < 0.5, 0.01, 1.99))
    given = task(X, 200, drawn=[0], check=200, fitted=Known(), superior=superior)
    given = replace(given, candidates=replace(given.candidates, test_density=density))
    share = (X[integrated_variance(given).numpy(), 0] < 0.5).mean()
    assert share == pytest.approx(19 ** (1 / 3) / (1 + 19 ** (1 / 3)), abs=0.05)  # centres have q^(delta / (delta + 2))


def test_labels_are_denser_where_the_bandwidth_is_small_as_far_as_it_is_trusted() -> None:
    X = np.linspace(0.0, 1.0, 400)[:, None]
    left = [(X[integrated_variance(given_trust(X, trust)).numpy(), 0] < 0.5).mean() for trust in (0.0, 1.0)]
    assert left[0] == pytest.approx(0.5, abs=0.1)
    assert left[1] > 0.7


def given_trust(X: np.ndarray, trust: float) -> DrawTask:
    return task(X, 30, drawn=[100, 300], fitted=Known(0.03, right=8.0), trust=trust)


@pytest.mark.parametrize(
    ("fitted", "n", "dimension", "name"),
    [
        (Known(), 50, 3.0, INTEGRATED_VARIANCE),
        (Known(tail=2.0 * LARGEST_TAIL), 50, 3.0, SPREAD),
        (None, 50, 3.0, SPREAD),
        (Known(), LARGEST_KNOWN + 1, 3.0, SPREAD),
        (Known(), 50, 2.0, SPREAD),
    ],
)
def test_variance_is_a_guide_where_errors_have_no_long_tail(
    fitted: Known | None, n: int, dimension: float, name: str
) -> None:
    assert suitable_design(fitted, n=n, dimension=dimension) == name


def test_a_model_that_is_no_process_is_refused_by_name_and_spread_by_default() -> None:
    other = Known()
    other.processes = list  # type: ignore[method-assign,assignment]
    given = task(sample(50, 2), 5, drawn=[0], fitted=other)
    assert suitable_design(other, n=6, dimension=8.0) == SPREAD
    with pytest.raises(ValueError, match=r"needs a model that is a Gaussian process, got str; use draw='spread'"):
        integrated_variance(given)


def test_a_smooth_function_is_learned_by_variance_and_a_hidden_patch_by_spreading() -> None:
    X = sample(2000, 3)
    smooth = np.sin(3.0 * X[:, 0]) + X[:, 1]
    patch = smooth + 2.0 * np.exp(-0.5 * np.square((X - 0.6) / 0.1).sum(1))
    draws = []
    for labels in (smooth, patch):
        learner = lobal.ActiveLearner(lobal.Pool(X), seed=0)
        first = learner.ask(60)
        learner.tell(first, labels[first])
        learner.ask(10)
        draws.append(learner.history[-1].draw)
    assert draws == [INTEGRATED_VARIANCE, SPREAD]


def test_an_output_that_is_known_already_has_no_say() -> None:
    known, choice, places = sites(5, 3), sites(15, 4), sites(30, 5)
    other = tuple(each._replace(Z=each.Z.flip(1), width=2.0 * each.width) for each in (known, choice, places))
    alone = greedy_rows([Posterior(known, choice, places, kernel=matern32, b=3)], 3, cost=None)
    for weight, is_alone in ((1e-9, True), (1e9, False)):
        both = [
            Posterior(known, choice, places, kernel=matern32, b=3),
            Posterior(*other, kernel=matern32, b=3, weight=weight),
        ]
        assert (greedy_rows(both, 3, cost=None).tolist() == alone.tolist()) == is_alone


def test_campaigns_of_earlier_versions_go_on_as_they_began() -> None:
    assert LearnerSettings.from_fields({"draw": "spread"}).draw == "spread"
    assert LearnerSettings().draw == "adaptive"


def test_reasons_say_what_a_label_is_for() -> None:
    X = sample(500, 2)
    learner = lobal.ActiveLearner(lobal.Pool(X), seed=0, draw=INTEGRATED_VARIANCE, exploration=0.5)
    first = learner.ask(20)
    learner.tell(first, X[first, 0])
    reasons = learner.reasons(learner.ask(6))
    assert learner.history[-1].check == 3
    assert [reason.share for reason in reasons] == ["spread"] * 3 + ["variance"] * 3
    assert "a label there lowers the expected error of predictions most" in reasons[-1].words()


def test_a_campaign_that_is_loaded_asks_for_the_same_points(tmp_path: Path) -> None:
    X = sample(600, 3)
    learner = lobal.ActiveLearner(lobal.Pool(X), seed=0, path=tmp_path / "campaign")
    for n in (30, 10):
        batch = learner.ask(n)
        learner.tell(batch, np.sin(4.0 * X[batch, 0]) + X[batch, 1] * X[batch, 2])
    learner.close()
    with lobal.ActiveLearner.load(tmp_path / "campaign") as loaded:
        assert loaded.history[-1].draw == INTEGRATED_VARIANCE
        again = loaded.ask(10).tolist()
    undisturbed = lobal.ActiveLearner(lobal.Pool(X), seed=0)
    for n in (30, 10, 10):
        batch = undisturbed.ask(n)
        undisturbed.tell(batch, np.sin(4.0 * X[batch, 0]) + X[batch, 1] * X[batch, 2])
    assert batch.tolist() == again
