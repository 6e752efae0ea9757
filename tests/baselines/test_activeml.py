from dataclasses import replace

import numpy as np
import pytest
import torch

from lobal.active.draws import design
from lobal.baselines import activeml
from lobal.core.kernels import gaussian, squared_distances
from lobal.experts.global_expert import GlobalExpert
from lobal.experts.interface import Hyperparameters
from tests.active.setting import ones
from tests.baselines.setting import candidates, line, task, with_its_package
from tests.core.setting import tensor

x = np.linspace(0.0, 1.0, 81)


def test_greedy_sampling_takes_the_farthest_point_and_counts_pending_ones_as_chosen() -> None:
    gsx = design(with_its_package("gsx"))
    first, second, *_ = gsx(line(x, np.sin(x), np.array([0, 1]), b=3)).tolist()
    assert first == 80
    assert second in {40, 41}
    assert gsx(line(x, np.sin(x), np.array([0, 1]), pending=(80,), b=1)).item() in {40, 41}


def test_distances_are_taken_in_columns_of_equal_spread() -> None:
    gsx, given, units = design(with_its_package("gsx")), task(b=10), np.array([1.0, 2.0**20])
    space = replace(candidates("pool"), inputs=given.candidates.X * units)
    drawn, labelled = (given.drawn[0], given.drawn[1] * units), given.labelled._replace(X=given.labelled.X * units)
    stretched = replace(task(b=10), candidates=space, drawn=drawn, labelled=labelled)
    assert gsx(stretched).tolist() == gsx(given).tolist()


def test_improved_greedy_sampling_multiplies_by_the_distance_of_labels() -> None:
    given = task(b=1)
    chosen = design(with_its_package("igs"))(given).item()
    assert given.fitted is not None
    X, known = given.candidates.X, given.drawn[1]
    labels = np.concatenate([given.labelled.y, given.fitted.predict(known[30:])])
    distance = np.linalg.norm((X[:, None] - known) / X[:100].std(axis=0), axis=2)
    product = (distance * np.abs(given.fitted.predict(X)[:, None] - labels)).min(axis=1)
    assert product[chosen] == product[35:100].max()


def test_the_committee_is_asked_where_the_labels_jump() -> None:
    labelled = np.arange(0, 81, 5)
    chosen = design(with_its_package("qbc"))(line(x, (x > 0.52).astype(float), labelled, b=4)).tolist()
    assert set(chosen) <= set(range(36, 50))


@pytest.mark.parametrize("amplitude", [0.0, 1.0])
def test_the_divergence_is_greatest_where_there_are_no_labels(amplitude: float) -> None:
    labelled = np.arange(0, 40, 2)
    chosen = design(with_its_package("kl"))(line(x, amplitude * np.sin(20.0 * x), labelled, b=6)).numpy()
    assert x[chosen].min() > 0.49


def test_the_divergence_is_finite_for_candidates_far_away() -> None:
    far = np.concatenate([x, [1e4, -1e4]])
    chosen = design(with_its_package("kl"))(line(far, np.sin(far), np.arange(0, 40), b=6)).tolist()
    assert len(set(chosen)) == 6


def test_the_divergence_is_that_of_gaussian_processes_in_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    width, scale, noise = 0.7, 2.0, 0.1
    hyperparameters = Hyperparameters(tensor(0.0)[0], tensor(scale)[0], tensor(noise)[0])
    expert = GlobalExpert(hyperparameters, width * ones(2), gaussian)
    kl, given = design(with_its_package("kl")), task()
    monkeypatch.setattr(activeml, "fitted_process", lambda _: expert)
    inputs = np.concatenate([given.candidates.X[35:100], given.drawn[1]])  # which standardised units are of
    scaled = torch.from_numpy((inputs - inputs.mean(axis=0)) / inputs.std(axis=0) / width)
    K = scale * gaussian(squared_distances(scaled, scaled)) + noise * torch.eye(100, dtype=torch.float64)
    left, known = K[:65, :65], K[65:95, :65]
    S = left - known.mT @ torch.linalg.solve(K[65:95, 65:95], known)  # of labels: with their noise
    latent = S - noise * torch.eye(65, dtype=torch.float64)
    ratio = 1.0 - latent.square() / S.diagonal()[:, None] / S.diagonal()  # of variances with and without a label
    divergence = 0.5 * (ratio - 1.0 - ratio.log()).sum(1)
    assert sorted(kl(given).tolist()) == sorted((divergence.topk(8).indices + 35).tolist())
