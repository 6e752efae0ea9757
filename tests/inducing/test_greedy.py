import pytest
import torch
from scipy.linalg import lapack
from torch import Tensor

from lobal.core.kernels import gaussian, matern32, squared_distances
from lobal.inducing.greedy import fast_forward_points, information, prior_variance, variance_points
from tests.inducing.setting import uniform

NOISE = 0.2


def rough(A: Tensor, B: Tensor) -> Tensor:
    return 2.0 * matern32(squared_distances(A / 0.2, B / 0.2))


def smooth(A: Tensor, B: Tensor) -> Tensor:
    return gaussian(squared_distances(A / 0.3, B / 0.3))


def problem(generator: torch.Generator, n: int = 40) -> tuple[Tensor, Tensor]:
    X = uniform(generator, n)
    return X, torch.sin(7.0 * X[:, 0]) + 0.4 * torch.randn(n, dtype=torch.float64, generator=generator)


def test_variance_reduction_agrees_with_a_pivoted_cholesky_factorisation(generator: torch.Generator) -> None:
    """The pivots of diag(sqrt(quality)) K diag(sqrt(quality)) by LAPACK."""
    X, _ = problem(generator)
    quality = 0.1 + X[:, 1]
    root = quality.sqrt()
    pivots = lapack.dpstrf((root[:, None] * rough(X, X) * root).numpy())[1] - 1
    assert torch.equal(variance_points(X, 40, kernel=rough, weight=quality), X[torch.as_tensor(pivots).long()])


def test_high_quality_draws_points(generator: torch.Generator) -> None:
    X, _ = problem(generator, 400)
    quality = torch.where(X[:, 0] < 0.5, 100.0, 1.0).double()
    plain, drawn = (variance_points(X, 30, kernel=rough, weight=w)[:, 0] < 0.5 for w in (None, quality))
    assert plain.sum() < 20 < 25 < drawn.sum()


def test_more_points_than_the_kernel_has_rank_are_still_distinct(generator: torch.Generator) -> None:
    X, _ = problem(generator, 100)
    points = variance_points(X, 60, kernel=lambda A, B: A @ B.mT)
    assert len(torch.unique(points, dim=0)) == 60


def posterior(H: Tensor, K: Tensor, y: Tensor) -> torch.distributions.MultivariateNormal:
    """Of function values with prior N(0, K) and labels N(H f, noise)."""
    precision = torch.linalg.inv(K) + H.mT @ H / NOISE
    covariance = torch.linalg.inv(precision)
    return torch.distributions.MultivariateNormal(covariance @ H.mT @ y / NOISE, 0.5 * (covariance + covariance.mT))


def projection(K: Tensor, rows: list[int]) -> Tensor:
    """E[f | f_I] = H f: what labels depend on when only the points of I are inducing."""
    H = torch.zeros_like(K)
    if rows:
        H[:, rows] = torch.linalg.solve(K[rows][:, rows], K[rows]).mT
    return H


def naive_information(K: Tensor, y: Tensor, rows: list[int]) -> Tensor:
    """KL of all function values, after candidate i's own label depends on f_i, from before."""
    before, values = projection(K, rows), []
    for i in range(len(y)):
        after = before.clone()
        after[i] = torch.eye(len(y), dtype=K.dtype)[i]
        values.append(torch.distributions.kl_divergence(posterior(after, K, y), posterior(before, K, y)))
    return torch.stack(values)


def test_fast_forward_selection_agrees_with_divergences_computed_anew(generator: torch.Generator) -> None:
    X, y = problem(generator, 25)
    K, rows = rough(X, X) + 1e-9 * torch.eye(25, dtype=torch.float64), list[int]()
    for _ in range(8):
        J = naive_information(K, y, rows)
        J[rows] = -1.0
        rows.append(int(J.argmax()))
    assert torch.equal(fast_forward_points(X, 8, y=y, kernel=rough, noise=NOISE), X[rows])


def test_information_is_the_divergence_between_posteriors(generator: torch.Generator) -> None:
    X, y = problem(generator, 20)
    K, rows = rough(X, X) + 1e-9 * torch.eye(20, dtype=torch.float64), [2, 9, 11]
    V = torch.linalg.solve_triangular(torch.linalg.cholesky(K[rows][:, rows]), K[rows], upper=False)
    M = NOISE * torch.eye(3, dtype=torch.float64) + V @ V.mT
    explained, mean = (V * torch.linalg.solve(M, V)).sum(0), V.mT @ torch.linalg.solve(M, V @ y)
    J = information(y - mean, (K.diagonal() - V.square().sum(0)).clamp_min(0.0), explained, NOISE)
    torch.testing.assert_close(J, naive_information(K, y, rows), rtol=1e-5, atol=1e-6)


def test_selection_ends_at_the_threshold(generator: torch.Generator) -> None:
    X, y = problem(generator, 200)
    options = {"y": y, "kernel": smooth, "noise": NOISE}
    numbers = [len(fast_forward_points(X, 200, threshold=J, **options)) for J in (1e6, 1.0, 0.1, 0.01)]
    assert 0 == numbers[0] < numbers[1] < numbers[2] < numbers[3] < 200


def test_repeated_inputs_are_not_chosen_twice(generator: torch.Generator) -> None:
    X, y = problem(generator, 20)
    points = fast_forward_points(X.repeat(2, 1), 40, y=y.repeat(2), kernel=rough, noise=NOISE)
    assert len(points) == len(torch.unique(points, dim=0)) <= 20


@pytest.mark.parametrize("noise", [0.0, -1.0, float("nan")])
def test_noise_must_be_positive(noise: float, generator: torch.Generator) -> None:
    X, y = problem(generator)
    with pytest.raises(ValueError, match="noise must be a variance above zero, got"):
        fast_forward_points(X, 3, y=y, kernel=rough, noise=noise)


def test_kernels_that_carry_gradients_may_be_given(generator: torch.Generator) -> None:
    """As GPyTorch's do."""
    X, y = problem(generator)
    scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    for method, options in ((variance_points, {}), (fast_forward_points, {"y": y, "noise": NOISE})):
        points = method(X, 5, kernel=lambda A, B: scale * rough(A, B), **options)
        assert torch.equal(points, method(X, 5, kernel=rough, **options))


def test_prior_variances_are_the_diagonal(generator: torch.Generator) -> None:
    X, _ = problem(generator, 150)
    torch.testing.assert_close(prior_variance(X, lambda A, B: 1.0 + A @ B.mT), 1.0 + X.square().sum(1))
