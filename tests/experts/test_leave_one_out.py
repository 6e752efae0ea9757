"""Leave-one-out answers: by formula as by fitting again without the label."""

import math

import pytest
import torch
from torch import Tensor

from lobal.core import kernels
from lobal.core.dataset import LabelledSet
from lobal.core.kernels import WhitenedFeatures, scale_inputs
from lobal.experts import features as stored_features
from lobal.experts.exact import exact_experts, neighbourhoods
from lobal.experts.features import StoredFeatures
from lobal.experts.interface import Hyperparameters
from lobal.experts.leave_one_out import (
    LARGEST_LEVERAGE,
    LeaveOneOut,
    condition,
    exact_leave_one_out,
    leave_one_out_among_neighbours,
    relative_weights,
    sparse_leave_one_out,
)
from tests.experts.setting import CLOSE, Setting, fitc_experts

every_noise = pytest.mark.parametrize("heteroscedastic", [False, True], ids=["one noise", "noise per label"])
every_weight = pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])


def noise_of(setting: Setting, heteroscedastic: bool) -> Hyperparameters:
    return setting.heteroscedastic if heteroscedastic else setting.hyperparameters


def points_of(setting: Setting, weighted: bool) -> LabelledSet:
    n = len(setting.y)
    weight = torch.linspace(0.1, 7.0, n, dtype=torch.float64) if weighted else torch.ones(n, dtype=torch.float64)
    return LabelledSet(X=setting.X, y=setting.y, weight=weight)


def sparse_answers(
    setting: Setting, points: LabelledSet, hyperparameters: Hyperparameters, inducing: Tensor | None = None
) -> LeaveOneOut:
    features = WhitenedFeatures.at(setting.Z if inducing is None else inducing, **setting.kernels)
    stored = StoredFeatures(features, points.X)
    return sparse_leave_one_out(stored, points, hyperparameters, condition(stored, points, hyperparameters))


def without(i: int, hyperparameters: Hyperparameters, n: int) -> tuple[Tensor, Hyperparameters]:
    rest = torch.arange(n) != i
    return rest, hyperparameters._replace(noise=hyperparameters.noise.expand(n)[rest])


@every_weight
@every_noise
def test_sparse_answers_equal_fitting_again_without_the_label(
    weighted: bool, heteroscedastic: bool, setting: Setting
) -> None:
    points, hyperparameters = points_of(setting, weighted), noise_of(setting, heteroscedastic)
    answers, weight = sparse_answers(setting, points, hyperparameters), relative_weights(points)
    for i in range(len(points)):
        rest, others = without(i, hyperparameters, len(points))
        refitted = fitc_experts(
            setting.features, points.X[rest], points.y[rest], others, weights=weight[rest].expand(3, -1)
        )
        mean, variance = refitted.posterior(points.X[i : i + 1])
        torch.testing.assert_close(answers.mean[:, i], mean[:, 0], **CLOSE)
        torch.testing.assert_close(
            answers.variance[:, i], variance[:, 0] + hyperparameters.noise.expand(len(points))[i], **CLOSE
        )


@every_noise
def test_with_every_point_inducing_the_answers_are_the_exact_ones(heteroscedastic: bool, setting: Setting) -> None:
    points, hyperparameters = points_of(setting, weighted=False), noise_of(setting, heteroscedastic)
    sparse = sparse_answers(setting, points, hyperparameters, inducing=points.X)
    exact = exact_leave_one_out(exact_experts(points.X, points.y, hyperparameters, **setting.kernels))
    torch.testing.assert_close(sparse, exact, rtol=1e-5, atol=1e-6)


@every_weight
@every_noise
def test_leverages_sum_to_the_effective_number_of_parameters(
    weighted: bool, heteroscedastic: bool, setting: Setting
) -> None:
    """The trace of Phi A^-1 Phi^T diag(lambda w / s) is that of I - A^-1."""
    points, hyperparameters = points_of(setting, weighted), noise_of(setting, heteroscedastic)
    stored = StoredFeatures(setting.features, points.X)
    factor = condition(stored, points, hyperparameters).factor
    effective = len(setting.Z) - torch.cholesky_inverse(factor).diagonal(dim1=-2, dim2=-1).sum(-1)
    leverage = sparse_answers(setting, points, hyperparameters).leverage
    torch.testing.assert_close(leverage.sum(1), effective)
    assert ((leverage > 0.0) & (leverage < 1.0)).all()


@every_weight
def test_the_leverage_is_the_pull_of_a_label_on_its_own_fit(weighted: bool, setting: Setting) -> None:
    points, hyperparameters = points_of(setting, weighted), setting.heteroscedastic
    leverage = sparse_answers(setting, points, hyperparameters).leverage
    weights = relative_weights(points).expand(3, -1)
    before = fitc_experts(setting.features, points.X, points.y, hyperparameters, weights=weights).mean(points.X)
    for i in (0, 13, 29):
        moved = points.y + torch.eye(30, dtype=torch.float64)[i]
        after = fitc_experts(setting.features, points.X, moved, hyperparameters, weights=weights).mean(points.X)
        torch.testing.assert_close(leverage[:, i], (after - before)[:, i], **CLOSE)


def test_exact_leverages_are_the_diagonal_of_the_smoother(setting: Setting) -> None:
    experts = exact_experts(setting.X, setting.y, setting.heteroscedastic, **setting.kernels)
    C = experts.factor @ experts.factor.mT
    smoother = (C - torch.diag(setting.noises)) @ torch.cholesky_inverse(experts.factor)
    answers = exact_leave_one_out(experts)
    torch.testing.assert_close(answers.leverage, smoother.diagonal(dim1=-2, dim2=-1), **CLOSE)
    torch.testing.assert_close((answers.mean, answers.variance), tuple(experts.leave_one_out()))


@pytest.mark.parametrize(("entries", "cache"), [(100, 2**30), (2**24, 0), (100, 0)])
@every_noise
def test_parts_answer_like_the_whole(
    entries: int, cache: int, heteroscedastic: bool, setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, hyperparameters = points_of(setting, weighted=True), noise_of(setting, heteroscedastic)
    whole = sparse_answers(setting, points, hyperparameters)
    monkeypatch.setattr(stored_features, "CACHE_BYTES", cache)
    monkeypatch.setattr(kernels, "CHUNK_ENTRIES", entries)
    torch.testing.assert_close(sparse_answers(setting, points, hyperparameters), whole, rtol=1e-9, atol=1e-11)


def test_only_the_ratios_of_the_weights_matter(setting: Setting) -> None:
    points = points_of(setting, weighted=True)
    scaled = LabelledSet(X=points.X, y=points.y, weight=123.0 * points.weight)
    ours, theirs = (sparse_answers(setting, p, setting.hyperparameters) for p in (points, scaled))
    torch.testing.assert_close(ours, theirs)


def test_conditioning_under_a_gate_weighs_the_labels_by_it(setting: Setting, generator: torch.Generator) -> None:
    points, hyperparameters = points_of(setting, weighted=True), setting.heteroscedastic
    gate = torch.softmax(torch.randn(30, 3, dtype=torch.float64, generator=generator), dim=1)
    ours = condition(StoredFeatures(setting.features, points.X), points, hyperparameters, gate)
    by_hand = fitc_experts(
        setting.features, points.X, points.y, hyperparameters, weights=gate.mT * relative_weights(points)
    )
    torch.testing.assert_close(ours.whitened_mean, by_hand.whitened_mean)


def test_the_log_likelihood_is_that_of_a_normal_label(setting: Setting) -> None:
    answers = sparse_answers(setting, points_of(setting, weighted=False), setting.hyperparameters)
    normal = torch.distributions.Normal(answers.mean, answers.variance.sqrt())
    expected = normal.log_prob(setting.y) + 0.5 * math.log(2.0 * math.pi)
    torch.testing.assert_close(answers.log_likelihood(setting.y), expected)


@pytest.mark.parametrize("dense", [False, True])
def test_labels_that_are_interpolated_leave_finite_answers(dense: bool, setting: Setting) -> None:
    points = points_of(setting, weighted=False)
    quiet = setting.hyperparameters._replace(noise=setting.hyperparameters.noise.new_tensor(1e-14))
    if dense:
        answers = exact_leave_one_out(exact_experts(points.X, points.y, quiet, **setting.kernels))
    else:
        answers = sparse_answers(setting, points, quiet, inducing=points.X)
    assert all(torch.isfinite(values).all() for values in answers)
    assert answers.leverage.max() <= LARGEST_LEVERAGE
    assert (answers.variance > 0.0).all()


@every_noise
def test_among_all_the_answers_are_the_exact_ones(heteroscedastic: bool, setting: Setting) -> None:
    points, hyperparameters = points_of(setting, weighted=False), noise_of(setting, heteroscedastic)
    exact = exact_leave_one_out(exact_experts(points.X, points.y, hyperparameters, **setting.kernels))
    torch.testing.assert_close(among(setting, points, hyperparameters, len(points)), exact)


@every_noise
def test_among_neighbours_other_labels_do_not_count(heteroscedastic: bool, setting: Setting) -> None:
    points, hyperparameters = points_of(setting, weighted=False), noise_of(setting, heteroscedastic)
    answers = among(setting, points, hyperparameters, 8)
    groups = neighbourhoods(scale_inputs(points.X, setting.shared_bandwidth), 8)
    assert len(groups) == 4
    for rows in groups:
        its_own = hyperparameters._replace(noise=hyperparameters.noise.expand(len(points))[rows])
        alone = exact_leave_one_out(exact_experts(points.X[rows], points.y[rows], its_own, **setting.kernels))
        torch.testing.assert_close(answers.mean[:, rows], alone.mean)
        torch.testing.assert_close(answers.variance[:, rows], alone.variance)


def among(setting: Setting, points: LabelledSet, hyperparameters: Hyperparameters, most: int) -> LeaveOneOut:
    groups = neighbourhoods(scale_inputs(points.X, setting.shared_bandwidth), most)
    return leave_one_out_among_neighbours(
        points, hyperparameters, groups, lambda p, h: exact_experts(p.X, p.y, h, **setting.kernels)
    )
