import math
from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.molecules import density
from lobal.molecules.density import (
    configuration_density,
    density_width,
    error_weights,
    intrinsic_dimension,
    is_single_precision_enough,
    named_test_density,
)
from lobal.molecules.geometry.descriptor import describe
from lobal.molecules.geometry.permutations import closure, identity
from tests.molecules.setting import EXACT, GROUP, random_molecules, rmd17_malonaldehyde

# Of kernels that were summed up in single precision.
SINGLE: dict[str, Any] = {"rtol": 1e-4, "atol": 0.0}


def naive_density(R: Tensor, centres: Tensor, permutations: Tensor, width: float) -> Tensor:
    """The sum as it is written, one configuration, centre and permutation at a time."""
    sums = [
        sum(
            math.exp(-(describe(z[None]).values - describe(c[pi][None]).values).square().sum().item() / (2 * width**2))
            for c in centres
            for pi in permutations
        )
        for z in R
    ]
    return torch.tensor(sums, dtype=torch.float64)


@pytest.mark.parametrize("width", [0.03, 0.2])
def test_the_density_is_the_sum_over_centres_and_permutations(width: float, generator: torch.Generator) -> None:
    R, centres = random_molecules(generator, 5), random_molecules(generator, 7)
    ours = configuration_density(describe(R).values, describe(centres).values, GROUP, width=width)
    torch.testing.assert_close(ours, naive_density(R, centres, GROUP, width), rtol=1e-10, atol=0.0)


def test_at_the_centres_half_of_the_kernels_give_the_same(generator: torch.Generator) -> None:
    R = random_molecules(generator, 9)
    ours = configuration_density(describe(R).values, describe(R).values, GROUP, width=0.2)
    torch.testing.assert_close(ours, naive_density(R, R, GROUP, 0.2), **SINGLE)


def test_blocks_do_not_change_the_density(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    at, of = (describe(random_molecules(generator, n)).values for n in (15, 20))
    expected = [configuration_density(A, of, GROUP, width=0.2) for A in (at, of)]
    for entries in (1, 6 * 7**2):  # blocks of 1 and 7 configurations
        monkeypatch.setattr(density, "BLOCK_ENTRIES", entries)
        ours = [configuration_density(A, of, GROUP, width=0.2) for A in (at, of)]
        torch.testing.assert_close(ours[0], expected[0], **EXACT)
        torch.testing.assert_close(ours[1], expected[1], **SINGLE)


def test_a_configuration_counts_itself(generator: torch.Generator) -> None:
    values = describe(random_molecules(generator, 50)).values
    p = configuration_density(values, values, identity(4), width=1e-3)
    assert p.min() == 1.0
    torch.testing.assert_close(configuration_density(values[:5], values, identity(4), width=1e-3), p[:5], **SINGLE)


def test_single_precision_is_for_configurations_within_few_hundred_widths_of_each_other() -> None:
    near = torch.eye(36, dtype=torch.float64) * 12.0  # malonaldehyde at 500 K, in widths of 0.03
    assert is_single_precision_enough(near)
    assert not is_single_precision_enough(10.0 * near)


def test_far_configurations_are_summed_up_in_double_precision(generator: torch.Generator) -> None:
    """Two bunches hundreds of widths apart: single precision would lose what is between neighbours."""
    bunches = torch.cat([torch.zeros(4, 6), torch.full((4, 6), 10.0)]).double()
    values = 1.0 + bunches + 0.01 * torch.randn(8, 6, dtype=torch.float64, generator=generator)
    ours = configuration_density(values, values, identity(4), width=0.02)
    expected = torch.exp(-torch.cdist(values, values).square() / (2 * 0.02**2)).sum(1)
    torch.testing.assert_close(ours, expected, rtol=1e-8, atol=0.0)


def test_progress_is_logged_in_tenths(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(density, "BLOCK_ENTRIES", 1)
    values = describe(random_molecules(generator, 50)).values
    for at in (values, values[:20]):
        caplog.clear()
        with caplog.at_level("INFO"):
            configuration_density(at, values, identity(4), width=0.03)
        assert caplog.messages[-1] == "density of configurations, 100% done"
        assert len(caplog.messages) == 10


def peroxides(n: int, moves: int, seed: int = 0) -> Tensor:
    """Four atoms in a chain that turns about its middle, stretches there, and stretches at one end: 1 to 3 ways."""
    torsion, middle, end = torch.rand(3, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    angle, middle, end = 0.5 + 1.5 * torsion, 1.4 + 0.4 * middle * (moves > 1), 1.0 + 0.4 * end * (moves > 2)
    zero = torch.zeros_like(angle)
    atoms = [
        (-end, 0.3 + zero, zero),
        (zero, zero, zero),
        (middle, zero, zero),
        (middle + 0.3, angle.cos(), angle.sin()),
    ]
    return torch.stack([torch.stack(atom, 1) for atom in atoms], 1)


@pytest.mark.parametrize("moves", [1, 2, 3])
def test_the_intrinsic_dimension_counts_the_ways_in_which_configurations_differ(moves: int) -> None:
    values = describe(peroxides(1500, moves)).values
    assert intrinsic_dimension(values, identity(4)) == pytest.approx(moves, rel=0.15)


def test_the_intrinsic_dimension_does_not_see_permutations_and_copies() -> None:
    R, group = peroxides(800, 2), closure(torch.tensor([[3, 2, 1, 0]]))
    turned = torch.where((torch.arange(800) % 2 == 0)[:, None, None], R, R[:, group[1]])
    expected = intrinsic_dimension(describe(R).values, group)
    assert intrinsic_dimension(describe(turned).values, group) == pytest.approx(expected, rel=1e-9)
    copied = torch.cat([R, turned])
    assert intrinsic_dimension(describe(copied).values, group) == pytest.approx(expected, rel=1e-6)


def test_few_configurations_have_all_dimensions_that_their_molecule_allows() -> None:
    assert intrinsic_dimension(describe(peroxides(5, 2)).values, identity(4)) == 6.0
    assert intrinsic_dimension(describe(peroxides(1, 2).repeat(50, 1, 1)).values, identity(4)) == 6.0


def test_the_width_predicts_other_configurations_better_than_others_do() -> None:
    """By the likelihood of configurations of another draw, normalised along two dimensions."""
    values, new = (describe(peroxides(1000, 2, seed)).values for seed in (0, 1))
    width = density_width(values, identity(4))

    def likelihood(sigma: float) -> float:
        p = configuration_density(new, values, identity(4), width=sigma)
        return p.log().mean().item() - 2.0 * math.log(sigma)

    assert likelihood(width) > max(likelihood(2.0 * width), likelihood(0.5 * width))


def test_the_width_follows_the_size_and_the_number_of_configurations() -> None:
    values = describe(peroxides(2000, 2)).values
    width = density_width(values, identity(4))
    assert density_width(3.0 * values, identity(4)) == pytest.approx(3.0 * width)
    assert density_width(values[:100], identity(4)) > 1.2 * width


def test_malonaldehyde_has_some_fifteen_dimensions_and_nearly_the_width_of_the_paper() -> None:
    R = torch.from_numpy(rmd17_malonaldehyde()["R"])[::2]
    group = closure(torch.tensor([[0, 1, 2, 3, 4, 5, 7, 6, 8], [2, 1, 0, 4, 3, 8, 6, 7, 5]]))
    assert 12.0 < intrinsic_dimension(describe(R).values, group) < 18.0
    assert density_width(describe(R).values, group) == pytest.approx(0.03, rel=0.25)


def test_errors_count_along_the_trajectory_or_everywhere_alike() -> None:
    p = torch.tensor([1.0, 4.0, 16.0], dtype=torch.float64)
    torch.testing.assert_close(error_weights("pool", p), torch.ones_like(p), **EXACT)
    torch.testing.assert_close(error_weights("uniform", p), 3.0 / p / (1.0 / p).sum(), **EXACT)


def test_what_has_no_density_is_refused(generator: torch.Generator) -> None:
    values = describe(random_molecules(generator, 3)).values
    with pytest.raises(ValueError, match=r"width must be finite and above zero.*got 0"):
        configuration_density(values, values, GROUP, width=0.0)
    with pytest.raises(ValueError, match=r"one of pool, uniform, or a power .* got 'md'"):
        named_test_density("md", values[:, 0])
