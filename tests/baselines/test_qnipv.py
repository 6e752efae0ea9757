from dataclasses import replace

import numpy as np
import torch

from lobal.active.draws import design, draw_random
from lobal.baselines.qnipv import greedy_rows
from lobal.core.kernels import gaussian, squared_distances
from tests.active.setting import ones
from tests.baselines.setting import line, with_its_package
from tests.core.setting import seeded, uniform


def test_every_point_maximises_the_acquisition_function_of_botorch() -> None:
    with_its_package("qnipv")
    from botorch.acquisition.active_learning import qNegIntegratedPosteriorVariance
    from botorch.models import SingleTaskGP

    labelled, X, at, pending = (uniform(seeded(n), n, 2) for n in (12, 30, 20, 3))
    y = torch.sin(9.0 * labelled[:, :1])
    model = SingleTaskGP(labelled, (y - y.mean()) / y.std(), outcome_transform=None).eval()
    with torch.no_grad():
        S = model.posterior(torch.cat([X, at, pending])).distribution.covariance_matrix.clone()
        rows = greedy_rows(S, model.likelihood.noise.item(), 30, 20, 4)
        for i, row in enumerate(rows.tolist()):
            before = torch.cat([pending, X[rows[:i]]])
            value = qNegIntegratedPosteriorVariance(model, mc_points=at, X_pending=before)(X[:, None])
            value[rows[:i]] = -torch.inf
            assert row == value.argmax()


def test_the_integrated_variance_falls_more_than_by_random_points() -> None:
    generator = seeded()
    points = uniform(generator, 300, 2)
    K = gaussian(squared_distances(points / 0.15, points / 0.15))

    def integrated(rows: torch.Tensor) -> float:
        K_xx, K_xz = K[rows][:, rows] + 0.01 * torch.eye(len(rows), dtype=K.dtype), K[rows, 200:]
        return float((1.0 - (K_xz * torch.linalg.solve(K_xx, K_xz)).sum(0)).mean())

    ours = integrated(greedy_rows(K.clone(), 0.01, 200, 100, 15))
    random = [integrated(draw_random(ones(200), points[:200].numpy(), 15, generator=generator)) for _ in range(20)]
    assert ours < 0.8 * min(random)


def test_points_go_where_the_test_density_is_and_labels_are_not() -> None:
    x = np.linspace(0.0, 1.0, 81)
    given = line(x, np.sin(20.0 * x), np.arange(30, 50), b=6)
    left = replace(given.candidates, test_density=torch.from_numpy(np.where(x < 0.5, 1.0, 0.0)))
    assert x[design(with_its_package("qnipv"))(replace(given, candidates=left)).numpy()].max() < 0.4
