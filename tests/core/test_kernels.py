import gpytorch
import numpy as np
import pytest
import sklearn.gaussian_process.kernels as sk
import torch
from torch import Tensor

from lobal.core import kernels
from lobal.core.kernels import (
    KERNELS,
    Kernel,
    WhitenedFeatures,
    gaussian,
    gram_matrices,
    kernel_and_slope,
    kernel_matrix,
    kernel_named,
    local_kernel_matrix,
    rows_at_once,
    scale_inputs,
    squared_distances,
)
from tests.core.setting import EXACT, covariance, tensor, uniform

ORDERS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5, "gaussian": np.inf}
every_kernel = pytest.mark.parametrize("name", sorted(KERNELS))


def features_at(Z: Tensor, *, shared_bandwidth: Tensor, kernel: Kernel = gaussian) -> WhitenedFeatures:
    return WhitenedFeatures.at(Z, bandwidths=tensor(0.3, 1.0), shared_bandwidth=shared_bandwidth, kernel=kernel)


@every_kernel
def test_kernel_agrees_with_gpytorch(name: str, generator: torch.Generator) -> None:
    A, B = uniform(generator, 7, 3), uniform(generator, 5, 3)
    is_gaussian = name == "gaussian"
    oracle = gpytorch.kernels.RBFKernel() if is_gaussian else gpytorch.kernels.MaternKernel(nu=ORDERS[name])
    oracle.double().lengthscale = tensor(0.7)
    ours = KERNELS[name](squared_distances(A, B) / 0.7**2)
    torch.testing.assert_close(ours, oracle(A, B).to_dense().detach(), **EXACT)


@every_kernel
def test_slope_of_a_kernel_is_its_derivative(name: str, generator: torch.Generator) -> None:
    squared = uniform(generator, 7, 5).requires_grad_()
    value, slope = kernel_and_slope(squared.detach(), KERNELS[name])
    oracle = KERNELS[name](squared)
    torch.testing.assert_close(value, oracle.detach(), **EXACT)
    torch.testing.assert_close(slope, torch.autograd.grad(oracle.sum(), squared)[0], **EXACT)


@every_kernel
def test_slope_of_a_kernel_is_finite_at_zero(name: str) -> None:
    value, slope = kernel_and_slope(tensor(0.0), KERNELS[name])
    assert value.item() == 1.0
    assert torch.isfinite(slope).all()


@every_kernel
def test_kernel_agrees_with_scikit_learn(name: str, generator: torch.Generator) -> None:
    A, B = uniform(generator, 7, 3), uniform(generator, 5, 3)
    ours = KERNELS[name](squared_distances(A, B) / 0.7**2)
    np.testing.assert_allclose(ours, sk.Matern(0.7, nu=ORDERS[name])(A.numpy(), B.numpy()), rtol=1e-12)


@every_kernel
def test_kernel_is_one_at_zero_and_decreases(name: str) -> None:
    values = kernel_named(name)(torch.linspace(0.0, 30.0, 200, dtype=torch.float64))
    assert values[0].item() == pytest.approx(1.0, abs=1e-12)
    assert (values.diff() < 0).all()
    assert (values > 0).all()


@every_kernel
def test_gradients_are_finite_at_zero_distance_and_agree_with_finite_differences(name: str) -> None:
    X = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    bandwidths = tensor(0.5, 2.0).requires_grad_()
    gram_matrices(squared_distances(X, X), bandwidths, KERNELS[name]).sum().backward()
    torch.testing.assert_close(X.grad, torch.zeros_like(X))
    torch.testing.assert_close(bandwidths.grad, torch.zeros_like(bandwidths))
    assert torch.autograd.gradcheck(KERNELS[name], (tensor(0.01, 0.5, 4.0).requires_grad_(),))


def test_an_unknown_kernel_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"one of \['gaussian', 'matern12', .*\], got 'cubic'"):
        kernel_named("cubic")


@pytest.mark.parametrize("d", [1, 2, 5])
def test_squared_distances_keep_their_digits_far_from_the_origin(d: int, generator: torch.Generator) -> None:
    # Multiples of 2^-20 and an offset of 2^30 are exact, so the true distances do not change.
    A, B = ((uniform(generator, n, d) * 2**20).round() / 2**20 for n in (8, 6))
    expected = (A[:, None] - B[None]).square().sum(-1)
    for offset in (0.0, 2.0**30):
        torch.testing.assert_close(squared_distances(A + offset, B + offset), expected, **EXACT)


@pytest.mark.parametrize("d", [1, 3])
def test_squared_distances_are_never_negative(d: int, generator: torch.Generator) -> None:
    A = uniform(generator, 50, d) * 1e-9 + 1.0
    assert (squared_distances(A, A) >= 0).all()


def test_a_full_bandwidth_matrix_equals_whitening_by_hand(generator: torch.Generator) -> None:
    A, B, Sigma = uniform(generator, 6, 3), uniform(generator, 4, 3), covariance(generator, 3)
    ours = gaussian(squared_distances(scale_inputs(A, Sigma), scale_inputs(B, Sigma)))
    difference = A[:, None] - B[None]
    precision = torch.linalg.inv(Sigma @ Sigma.mT)
    by_hand = torch.exp(-0.5 * torch.einsum("abi,ij,abj->ab", difference, precision, difference))
    torch.testing.assert_close(ours, by_hand, **EXACT)


def test_a_number_a_diagonal_and_a_matrix_scale_alike(generator: torch.Generator) -> None:
    X, diagonal = uniform(generator, 6, 3), tensor(0.4, 0.4, 0.4)
    for bandwidth in (diagonal[0], diagonal, torch.diag(diagonal)):
        torch.testing.assert_close(scale_inputs(X, bandwidth), X / 0.4, **EXACT)


def test_gram_matrices_hold_one_kernel_matrix_per_bandwidth(generator: torch.Generator) -> None:
    squared = uniform(generator, 6, 4)
    K = gram_matrices(squared, tensor(0.5, 1.0, 2.0), gaussian)
    expected = torch.stack([torch.exp(-0.5 * squared / bandwidth**2) for bandwidth in (0.5, 1.0, 2.0)])
    torch.testing.assert_close(K, expected, **EXACT)


@every_kernel
@pytest.mark.parametrize("dimensions", [0, 1, 2])
def test_squared_features_sum_to_the_nystroem_diagonal(name: str, dimensions: int, generator: torch.Generator) -> None:
    Z, X = uniform(generator, 6, 2), uniform(generator, 9, 2)
    shared_bandwidth = [tensor(0.6)[0], tensor(0.5, 0.9), covariance(generator, 2)][dimensions]
    Z_scaled, X_scaled = scale_inputs(Z, shared_bandwidth), scale_inputs(X, shared_bandwidth)
    K_zz = gram_matrices(squared_distances(Z_scaled, Z_scaled), tensor(0.3, 1.0), KERNELS[name])
    K_zx = gram_matrices(squared_distances(Z_scaled, X_scaled), tensor(0.3, 1.0), KERNELS[name])
    expected = torch.einsum("lzx,lzx->lx", K_zx, torch.linalg.solve(K_zz, K_zx))
    features = features_at(Z, shared_bandwidth=shared_bandwidth, kernel=KERNELS[name])
    torch.testing.assert_close(features(X).square().sum(-1), expected, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(features(Z) @ features(Z).mT, K_zz, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("entries", [1, 2 * 6 * 4, 2**24])
def test_features_in_chunks_equal_the_whole(
    entries: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    Z, X, values = uniform(generator, 6, 2), uniform(generator, 10, 2), uniform(generator, 2, 6, 3)
    features = features_at(Z, shared_bandwidth=tensor(0.5, 0.9))
    monkeypatch.setattr(kernels, "CHUNK_ENTRIES", entries)
    chunks = list(features.chunks(X))
    assert all(chunk.numel() <= max(entries, 2 * 6) for chunk in chunks)
    torch.testing.assert_close(torch.cat(chunks, dim=1), features(X), **EXACT)
    torch.testing.assert_close(features.stacked(X), features(X), **EXACT)
    assert features.stacked(X).is_contiguous()
    torch.testing.assert_close(features.products(X, values), features(X) @ values, rtol=1e-8, atol=1e-8)


def test_a_gpu_works_on_a_gigabyte_at_a_time_and_a_cpu_on_an_eighth_of_it() -> None:
    assert rows_at_once(2**20, torch.device("cuda")) == 2**30 // 8 // 2**20
    assert rows_at_once(2**20, torch.device("cpu")) == 2**27 // 8 // 2**20


def test_features_of_many_points_survive_a_singular_kernel_matrix(generator: torch.Generator) -> None:
    Z = uniform(generator, 5, 1).repeat(4, 1)
    phi = features_at(Z, shared_bandwidth=tensor(1.0))(uniform(generator, 30, 1))
    assert torch.isfinite(phi).all()
    assert (phi.square().sum(-1) < 1.0 + 1e-6).all()


@every_kernel
def test_a_kernel_matrix_is_the_gram_matrix_of_one_bandwidth(name: str, generator: torch.Generator) -> None:
    A, B, Sigma = uniform(generator, 7, 3), uniform(generator, 5, 3), covariance(generator, 3)
    squared = squared_distances(scale_inputs(A, Sigma), scale_inputs(B, Sigma))
    expected = gram_matrices(squared, tensor(0.4), KERNELS[name])[0]
    torch.testing.assert_close(kernel_matrix(A, B, 0.4 * Sigma, KERNELS[name]), expected, **EXACT)


@every_kernel
def test_equal_inputs_have_a_kernel_of_exactly_one_also_beside_distant_ones(
    name: str, generator: torch.Generator
) -> None:
    X = torch.cat([uniform(generator, 5, 3), 1e8 + uniform(generator, 1, 3)]).repeat(2, 1)
    K = kernel_matrix(X, X, tensor(0.3)[0], KERNELS[name])
    assert torch.equal(K.diagonal(), torch.ones(12).double())
    assert torch.equal(K[:6, 6:].diagonal(), torch.ones(6).double())


def test_the_features_of_one_bandwidth_are_those_of_all(generator: torch.Generator) -> None:
    X, features = uniform(generator, 7, 2), features_at(uniform(generator, 4, 2), shared_bandwidth=tensor(0.5)[0])
    for expert, phi in enumerate(features(X)):
        torch.testing.assert_close(features.alone(expert)(X)[0], phi, **EXACT)


@every_kernel
def test_the_kernel_of_local_bandwidths_is_the_ordinary_one_if_they_are_equal(name: str) -> None:
    kernel = kernel_named(name)
    A, B = (torch.from_numpy(np.random.default_rng(seed).random((6, 3))) for seed in (0, 1))
    width = torch.full((6,), 0.4, dtype=torch.float64)
    expected = kernel(squared_distances(A, B) / 0.4**2)
    torch.testing.assert_close(local_kernel_matrix(A, width, B, width, kernel), expected)


@every_kernel
def test_the_kernel_of_local_bandwidths_is_positive_definite(name: str) -> None:
    kernel = kernel_named(name)
    generator = np.random.default_rng(0)
    A, width = (torch.from_numpy(x) for x in (generator.random((60, 2)), generator.uniform(0.02, 2.0, 60)))
    K = local_kernel_matrix(A, width, A, width, kernel)
    torch.testing.assert_close(K.diagonal(), torch.ones(60, dtype=torch.float64))
    assert torch.linalg.eigvalsh(K).min() > -1e-10
