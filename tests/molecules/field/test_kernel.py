from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.molecules.field import kernel as module
from lobal.molecules.field.kernel import MolecularKernel
from lobal.molecules.field.labels import Labels
from lobal.molecules.field.radial import RadialKernel, gaussian, matern52
from lobal.molecules.geometry.descriptor import atom_pairs, dense_jacobian, describe
from lobal.molecules.geometry.permutations import identity, symmetrised_bandwidth
from tests.molecules.setting import (
    ANISOTROPIC,
    EXACT,
    GROUP,
    ISOTROPIC,
    SIGMAS,
    covariance,
    every_bandwidth,
    every_label,
    every_radial,
    random_molecules,
)

CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}


@pytest.fixture
def R(generator: torch.Generator) -> Tensor:  # noqa: N802 - as in the paper
    return random_molecules(generator, 4)


@pytest.fixture
def Q(generator: torch.Generator) -> Tensor:  # noqa: N802 - likewise
    return random_molecules(generator, 3) + 0.1


def make(radial: RadialKernel = gaussian, shared: Tensor = ANISOTROPIC, group: Tensor = GROUP) -> MolecularKernel:
    return MolecularKernel(radial=radial, shared_bandwidth=shared, permutations=group)


def energy_covariance(r: Tensor, q: Tensor, kernel: MolecularKernel, sigma: Tensor) -> Tensor:
    """Eq. (eq:sGDMLKernel) as printed, for the energies of two configurations, over the order of the group."""
    group = kernel.permutations
    first, second = atom_pairs(len(r))
    x, y = ((p[group[:, first]] - p[group[:, second]]).square().sum(-1).rsqrt() for p in (r, q))
    squared = ((x[:, None] - y) / (sigma * kernel.shared_bandwidth)).square().sum(-1)
    return kernel.radial(squared).value.sum() / len(group)


def by_differentiation(r: Tensor, q: Tensor, kernel: MolecularKernel, sigma: Tensor) -> Tensor:
    """Covariance of (E, F) of two configurations by automatic differentiation."""
    grad = torch.func.jacrev
    value = energy_covariance(r, q, kernel, sigma)
    left = -grad(energy_covariance, 0)(r, q, kernel, sigma).flatten()
    right = -grad(energy_covariance, 1)(r, q, kernel, sigma).flatten()
    both = grad(grad(energy_covariance, 0), 1)(r, q, kernel, sigma).reshape(r.numel(), q.numel())
    return torch.cat([torch.cat([value[None], right])[None], torch.cat([left[:, None], both], 1)])


@every_bandwidth
@every_radial
def test_covariances_are_the_derivatives_of_the_printed_kernel(
    radial: RadialKernel, shared: Tensor, R: Tensor, Q: Tensor
) -> None:
    kernel = make(radial, shared)
    ours = covariance(kernel, describe(R), describe(Q), bandwidths=SIGMAS)
    rows = [
        torch.cat([torch.cat([by_differentiation(r, q, kernel, sigma) for q in Q], 1) for r in R]) for sigma in SIGMAS
    ]
    torch.testing.assert_close(ours, torch.stack(rows), **CLOSE)


@every_label
@pytest.mark.parametrize("others", list(Labels))
def test_parts_of_the_labels_have_parts_of_the_covariance(labels: Labels, others: Labels, R: Tensor, Q: Tensor) -> None:
    def chosen(which: Labels) -> Tensor:
        return torch.tensor([which.energies] + 12 * [which.forces]).nonzero()[:, 0]

    whole = covariance(make(), describe(R), describe(Q), bandwidths=SIGMAS).view(3, 4, 13, 3, 13)
    part = covariance(make(), describe(R), describe(Q), bandwidths=SIGMAS, rows=labels, columns=others)
    expected = whole[:, :, chosen(labels)][..., chosen(others)]
    torch.testing.assert_close(part, expected.flatten(3, 4).flatten(1, 2), **EXACT)
    assert part.shape == (3, 4 * labels.width(4), 3 * others.width(4))


@every_label
@every_bandwidth
@pytest.mark.parametrize("entries", [1, 13 * 13 * 9, 2**20])
def test_the_size_of_blocks_does_not_matter(
    labels: Labels, shared: Tensor, entries: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    R, Q = describe(random_molecules(generator, 4)), describe(random_molecules(generator, 3))
    kernel = make(shared=shared)
    expected = covariance(kernel, R, Q, bandwidths=SIGMAS, rows=labels)
    with_itself = covariance(kernel, R, R, bandwidths=SIGMAS, rows=labels)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", entries)
    torch.testing.assert_close(covariance(kernel, R, Q, bandwidths=SIGMAS, rows=labels), expected, **EXACT)
    torch.testing.assert_close(covariance(kernel, R, bandwidths=SIGMAS, rows=labels), with_itself, **EXACT)


@every_radial
@every_bandwidth
@every_label
def test_a_covariance_is_symmetric_and_has_no_negative_eigenvalue(
    radial: RadialKernel, shared: Tensor, labels: Labels, generator: torch.Generator
) -> None:
    geometry = describe(random_molecules(generator, 12))
    K = covariance(make(radial, shared), geometry, bandwidths=SIGMAS, rows=labels)
    torch.testing.assert_close(K, K.mT, **EXACT)
    values = torch.linalg.eigvalsh(K)
    assert (values[:, 0] >= -1e-12 * values[:, -1]).all()


def test_a_configuration_with_itself_has_a_closed_form(R: Tensor) -> None:
    """g'' does not enter: also for Matern kernels, whose third derivative is singular there."""
    geometry, A = describe(R[:1]), ANISOTROPIC.square().reciprocal()
    J = dense_jacobian(geometry)[0]
    K = covariance(make(matern52, group=identity(4)), geometry, bandwidths=SIGMAS[1:2])[0]
    expected = torch.block_diag(torch.ones(1, 1, dtype=torch.float64), 5.0 / 3.0 * J.T @ torch.diag(A) @ J)
    torch.testing.assert_close(K, expected, **CLOSE)


def test_a_symmetrised_bandwidth_makes_one_side_enough(R: Tensor, Q: Tensor) -> None:
    shared = symmetrised_bandwidth(ANISOTROPIC, GROUP)
    torch.testing.assert_close(one_sided(shared, R, Q), two_sided(shared, R, Q), **CLOSE)
    assert len(make(shared=shared).scales().weights) == 1


def two_sided(shared: Tensor, R: Tensor, Q: Tensor) -> Tensor:
    kernel = make(shared=shared)
    return covariance(kernel, describe(R), describe(Q), bandwidths=SIGMAS, rows=Labels.ENERGIES)


def one_sided(shared: Tensor, R: Tensor, Q: Tensor) -> Tensor:
    plain = make(shared=shared, group=identity(4))
    parts = [
        covariance(plain, describe(R), describe(Q[:, pi]), bandwidths=SIGMAS, rows=Labels.ENERGIES) for pi in GROUP
    ]
    return torch.stack(parts).sum(0)


def test_scales_are_distinct_and_their_weights_sum_to_one() -> None:
    one_atom_is_special = ANISOTROPIC.new_tensor([1.0, 1.0, 2.0, 3.0, 4.0, 4.0])
    for shared, count in ((ISOTROPIC, 1), (one_atom_is_special, 3), (ANISOTROPIC, 6)):
        bandwidths, weights = make(shared=shared).scales()
        assert bandwidths.shape == (count, 6)
        torch.testing.assert_close(weights, torch.full_like(weights, 1.0 / count), **EXACT)


@every_radial
@pytest.mark.parametrize("group", [GROUP, identity(4)], ids=["symmetric", "not symmetric"])
def test_covariances_can_be_differentiated_by_the_bandwidth(radial: RadialKernel, group: Tensor, R: Tensor) -> None:
    """As training Sigma by gradients needs it, also where a configuration meets itself."""

    def summed(shared: Tensor, bandwidths: Tensor) -> Tensor:
        K = covariance(make(radial, shared, group), describe(R), bandwidths=bandwidths)
        return (K * torch.linspace(-1.0, 1.0, K.numel(), dtype=K.dtype).view_as(K)).sum()

    values = [value.clone().requires_grad_() for value in (ANISOTROPIC, SIGMAS)]
    for value, ours in zip(values, torch.autograd.grad(summed(*values), values), strict=True):
        for c in range(len(value)):
            step = torch.zeros_like(value)
            step[c] = 1e-5
            above, below = (
                summed(*(other + sign * step if other is value else other for other in values)) for sign in (1, -1)
            )
            torch.testing.assert_close(ours[c], (above - below).detach() / 2e-5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"shared_bandwidth": ANISOTROPIC[:5]},
            r"of 4 atoms must have 6 entries, one per pair of atoms, got shape \(5,\)",
        ),
        ({"shared_bandwidth": 0.0 * ANISOTROPIC}, "must be finite and above zero"),
        ({"shared_bandwidth": torch.nan * ANISOTROPIC}, "must be finite and above zero"),
        ({"permutations": GROUP[:4]}, "are not a group"),
    ],
)
def test_what_is_no_kernel_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(make(), **change)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is available")
def test_a_gpu_gives_the_same_covariances(R: Tensor, Q: Tensor) -> None:
    kernel = MolecularKernel(radial=matern52, shared_bandwidth=ANISOTROPIC.cuda(), permutations=GROUP.cuda())
    ours = covariance(kernel, describe(R.cuda()), describe(Q.cuda()), bandwidths=SIGMAS.cuda())
    expected = covariance(make(matern52), describe(R), describe(Q), bandwidths=SIGMAS)
    torch.testing.assert_close(ours.cpu(), expected, **CLOSE)
