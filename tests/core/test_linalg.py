import logging
import math

import pytest
import torch
from torch import Tensor

from lobal.core import linalg
from lobal.core.linalg import LARGEST_JITTER, _whitened_by_blocks, correlation, safe_cholesky, whitened
from tests.core.setting import EXACT, covariance, tensor, uniform


def with_least_eigenvalue(least: float) -> Tensor:
    """A 4 x 4 matrix of trace four whose smallest eigenvalue is the given one."""
    rotation = torch.linalg.qr(torch.arange(16, dtype=torch.float64).reshape(4, 4).sin()).Q
    return rotation @ torch.diag(tensor(least, 1.0, 1.0, 2.0 - least)) @ rotation.mT


@pytest.mark.parametrize(
    ("least", "expected"), [(0.5, 1e-10), (-3e-10, 1e-9), (-3e-8, 1e-7), (-3e-5, 1e-4), (-5e-3, LARGEST_JITTER)]
)
def test_cholesky_takes_the_least_power_of_ten_that_works(least: float, expected: float) -> None:
    K = with_least_eigenvalue(least)
    lower, jitter = safe_cholesky(K)
    diagonal = K.diagonal().diag()
    assert jitter.item() == pytest.approx(expected, rel=1e-9, abs=0.0)
    assert least > 0.0 or torch.linalg.cholesky_ex(K + 0.1 * jitter * diagonal).info > 0
    torch.testing.assert_close(lower @ lower.mT, K + jitter * diagonal, **EXACT)
    assert torch.equal(lower, lower.tril())


def test_cholesky_begins_with_the_jitter_asked_for_and_may_leave_it_in_place(generator: torch.Generator) -> None:
    K = covariance(generator, 5)
    lower, jitter = safe_cholesky(K, first_jitter=0.0)
    assert jitter.item() == 0.0
    torch.testing.assert_close(lower, torch.linalg.cholesky(K), **EXACT)
    singular = with_least_eigenvalue(-3e-8)
    lower, jitter = safe_cholesky(singular, first_jitter=0.0, in_place=True)
    assert jitter.item() == pytest.approx(1e-7)
    torch.testing.assert_close(lower @ lower.mT, singular, **EXACT)
    torch.testing.assert_close(singular.diagonal(), (1.0 + jitter) * with_least_eigenvalue(-3e-8).diagonal(), **EXACT)


def test_cholesky_chooses_the_jitter_matrix_by_matrix() -> None:
    batch = torch.stack([with_least_eigenvalue(least) for least in (0.5, -3e-8, -3e-4)])
    lower, jitter = safe_cholesky(batch)
    torch.testing.assert_close(jitter, tensor(1e-10, 1e-7, 1e-3), rtol=1e-9, atol=0.0)
    torch.testing.assert_close(lower, torch.stack([safe_cholesky(K).lower for K in batch]), **EXACT)


def test_jitter_is_relative_to_each_diagonal_entry() -> None:
    units = tensor(1e-6, 1.0, 1.0, 1e6)
    K = with_least_eigenvalue(0.5)
    expected = units[:, None] * safe_cholesky(K).lower
    torch.testing.assert_close(safe_cholesky(K * units * units[:, None]).lower, expected, rtol=1e-9, atol=0.0)


def test_jitter_that_grows_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, safe_cholesky.__module__):
        safe_cholesky(with_least_eigenvalue(0.5))
        assert not caplog.messages
        safe_cholesky(torch.stack([with_least_eigenvalue(least) for least in (0.5, -3e-8)]))
    assert caplog.messages == ["Cholesky factorisation of (2, 4, 4) needed jitter 1e-07"]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_cholesky_of_numbers_that_are_not_finite_is_an_error(bad: float) -> None:
    K = torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    K[1, 0, 2] = bad
    with pytest.raises(ValueError, match="holds NaN or infinite entries; check the inputs and bandwidths"):
        safe_cholesky(K)


def test_cholesky_of_an_indefinite_matrix_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"a 4 x 4 .* not positive definite with jitter 0\.01; remove duplicate"):
        safe_cholesky(torch.stack([with_least_eigenvalue(least) for least in (0.5, -0.5)]))


@pytest.mark.parametrize("block", [1, 3, 4, 11, 64])
def test_whitening_by_blocks_is_forward_substitution(
    block: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linalg, "BLOCK", block)
    factor = torch.eye(11).double() + uniform(generator, 2, 11, 11).tril()
    rows = uniform(generator, 2, 7, 11)
    by_blocks = _whitened_by_blocks(factor, rows)
    torch.testing.assert_close(by_blocks, whitened(factor, rows), **EXACT)
    torch.testing.assert_close(by_blocks @ factor.mT, rows, **EXACT)


ONE = tensor(1.0)[0]


def test_a_correlation_is_the_covariance_in_units_of_standard_deviations(generator: torch.Generator) -> None:
    C = covariance(generator, 5)
    deviation = C.diagonal().sqrt()
    matrix, factor = correlation(C, prior=ONE)
    torch.testing.assert_close(matrix, C / deviation / deviation[:, None], **EXACT)
    torch.testing.assert_close(factor @ factor.mT, matrix, **EXACT)
    assert torch.equal(matrix.diagonal(), torch.ones(5).double())
    assert torch.equal(matrix, matrix.mT)


def test_a_place_without_variance_is_correlated_with_no_other(generator: torch.Generator) -> None:
    C = torch.zeros(4, 4).double()
    C[1:, 1:] = covariance(generator, 3)
    matrix, factor = correlation(C, prior=ONE)
    torch.testing.assert_close(matrix[0], tensor(1.0, 0.0, 0.0, 0.0), rtol=0.0, atol=0.0)
    torch.testing.assert_close(factor[0], matrix[0], rtol=0.0, atol=0.0)
    torch.testing.assert_close(matrix[1:, 1:], correlation(C[1:, 1:], prior=ONE).matrix, **EXACT)


def test_what_is_equal_has_correlation_one() -> None:
    matrix, factor = correlation(torch.full((3, 3), 0.2).double(), prior=ONE)
    torch.testing.assert_close(matrix, torch.ones(3, 3).double(), rtol=0.0, atol=1e-9)
    torch.testing.assert_close(factor[:, 0], torch.ones(3).double(), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("least", [-3e-15, -3e-10, -3e-5])
def test_rounding_errors_leave_a_correlation(least: float) -> None:
    """Those of a few places without variance, which normalisation would magnify."""
    C = torch.eye(8).double()
    C[4:, 4:] = abs(least) * (with_least_eigenvalue(-0.5) - torch.eye(4))
    C = C + 1e-3 * least * torch.ones(8, 8).double().tril(-1)
    matrix, factor = correlation(C, prior=ONE)
    assert torch.linalg.eigvalsh(matrix).min() > -1e-12
    assert torch.equal(matrix.diagonal(), torch.ones(8).double())
    torch.testing.assert_close(factor @ factor.mT, matrix, **EXACT)
    torch.testing.assert_close(matrix[:4, :4], torch.eye(4).double(), rtol=0.0, atol=1e-3)


def test_rounding_errors_are_in_units_of_the_prior_variance(generator: torch.Generator) -> None:
    C = covariance(generator, 5)
    torch.testing.assert_close(correlation(1e9 * C, prior=1e9 * ONE), correlation(C, prior=ONE), **EXACT)


def test_what_is_no_covariance_has_no_correlation() -> None:
    with pytest.raises(ValueError, match=r"2 x 2 posterior covariance is not positive definite .* raise the noise"):
        correlation(torch.tensor([[1.0, 3.0], [3.0, 1.0]]).double(), prior=ONE)
    with pytest.raises(ValueError, match="holds NaN or infinite entries; check the inputs and labels"):
        correlation(torch.tensor([[1.0, 3.0], [math.nan, 1.0]]).double(), prior=ONE)
