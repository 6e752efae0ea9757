import torch
from torch import Tensor

from lobal.core.dataset import LabelledSet
from lobal.core.doppler import Doppler
from lobal.core.kernels import gram_matrices, kernel_named, matern32, squared_distances
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.data import TrainingData
from lobal.mixture.fit import fit_mixture
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.smoothness import (
    left_out_terms,
    smoothest_of_the_best,
    smoothness_by_mixtures,
)


def labelled(X: Tensor, y: Tensor) -> LabelledSet:
    return LabelledSet(X=X, y=y, weight=torch.ones_like(y))


def gp_draw(kernel: str, seed: int, *, n: int = 120) -> LabelledSet:
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n, 1, dtype=torch.float64, generator=generator)
    K = gram_matrices(squared_distances(X, X), torch.tensor([0.1]).double(), kernel_named(kernel))[0]
    f = torch.linalg.cholesky(K + 1e-9 * torch.eye(n)) @ torch.randn(n, dtype=torch.float64, generator=generator)
    return labelled(X, f + 0.01 * torch.randn(n, dtype=torch.float64, generator=generator))


def test_a_rougher_kernel_has_to_be_better_by_more_than_chance() -> None:
    noise = torch.randn(100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    noise = (noise - noise.mean()) / noise.std()
    terms = {"gaussian": torch.zeros(100).double(), "matern12": noise}
    assert smoothest_of_the_best(terms | {"matern12": noise + 0.09}) == "gaussian"
    assert smoothest_of_the_best(terms | {"matern12": noise + 0.11}) == "matern12"


def noisy_doppler() -> LabelledSet:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(250, 1, dtype=torch.float64, generator=generator)
    f = torch.tensor(Doppler()(X[:, 0].numpy()))
    return labelled(X, (f + torch.randn(250, dtype=torch.float64, generator=generator)) / f.std())


MIXTURE = MixtureSettings(
    bandwidths=torch.exp2(torch.arange(-3, 4).double()),
    n_inducing=96,
    n_gate_inducing=32,
    adaptive=True,
    training=AnalyticSettings(),
)


def test_to_mixtures_waves_of_every_length_are_not_clearly_rough() -> None:
    data = TrainingData(points=noisy_doppler())
    assert smoothness_by_mixtures(data, MIXTURE, torch.Generator().manual_seed(0)) >= 2.5


def test_mixtures_do_not_take_a_rough_target_for_a_smooth_one() -> None:
    data = TrainingData(points=gp_draw("matern12", 0))
    assert smoothness_by_mixtures(data, MIXTURE, torch.Generator().manual_seed(0)) <= 1.5


def test_labels_left_out_have_the_likelihood_of_an_exact_expert() -> None:
    points = gp_draw("matern32", 0, n=40)
    settings = MixtureSettings(
        bandwidths=torch.ones(1).double(), exact=True, kernel=matern32, training=AnalyticSettings()
    )
    mixture = fit_mixture(TrainingData(points=points), settings, torch.Generator().manual_seed(0)).mixture
    mean, variance = mixture.experts.leave_one_out()
    expected = torch.distributions.Normal(mean[0], variance[0].sqrt()).log_prob(points.y)
    assert torch.allclose(left_out_terms(mixture, points), expected)
