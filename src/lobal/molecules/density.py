"""Density and intrinsic dimension of the configurations of a molecule, under its symmetries.

The estimate is a sum over centres z_j of the energy-energy entry of the sGDML kernel, Eq. (eq:sGDMLKernel), of one
width sigma (Sec. 5.3, "Experimental setup"), and not normalised:

    p(z) = sum_j sum_pi exp(-|Phi(z) - pi Phi(z_j)|^2 / (2 sigma^2)).

Of a pool at its own configurations the matrix of kernels is symmetric, since the permutations are a group and sigma is
the same for all pairs of atoms: half of it is enough.
"""

import logging
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.density import FEWEST_NEIGHBOURS, LARGEST_SAMPLE, two_neighbour_dimension
from lobal.molecules.geometry.descriptor import Descriptors
from lobal.molecules.geometry.permutations import (
    Permutations,
    descriptor_permutations,
    symmetrised_squared_distances,
    typical_distance,
)
from lobal.molecules.geometry.symmetry import ROUNDING

logger = logging.getLogger(__name__)

TEST_DENSITIES = ("pool", "uniform")
# Widths to choose from, by the typical distance of configurations: quarter octaves.
RELATIVE_WIDTHS: tuple[float, ...] = tuple(2.0 ** (-0.25 * step) for step in range(29))
# Kernels in one block: on a CPU they stay in the cache, a GPU is faster with large blocks.
BLOCK_ENTRIES = 2**18
GPU_BLOCK_ENTRIES = 2**26
# Single precision, which is twice as fast, may cost a kernel this share of its value. For the 131,250 frames of
# malonaldehyde (GFN2, 500 K) the bound is 3e-5 and the largest error of a density, of 640 looked at, 2e-5.
SINGLE_PRECISION_ERROR = 2e-4


def configuration_density(
    values_at: Descriptors, of: Float[Tensor, "m D"], permutations: Permutations, *, width: float
) -> Float[Tensor, " n"]:
    """p at configurations, from the centres `of`, both given by their descriptors.

    A configuration that is a centre counts itself: at its own configurations the density of a pool is one at least.
    The cost is n m |G| kernels, or half as many where both are the same; every tenth of it is logged.

    Raises:
        ValueError: the width is not above zero.
    """
    if not 0.0 < width < math.inf:
        raise ValueError(f"the width must be finite and above zero, in 1 / Angstrom, got {width}")
    columns = descriptor_permutations(permutations)
    centre = of.mean(0)[columns].mean(0)  # which the group leaves as it is: the norms are those of all images
    X = (of - centre) / width
    if not torch.equal(values_at, of):
        return _kernel_sums((values_at - centre) / width, X, columns, mirrored=False).to(of)
    X = X.to(torch.float32 if is_single_precision_enough(X) else X.dtype)
    return _kernel_sums(X, X, columns, mirrored=True).clamp_min_(1.0).to(of)


def intrinsic_dimension(values: Descriptors, permutations: Permutations) -> float:
    """delta by TwoNN on the symmetrised distance of at most `LARGEST_SAMPLE` configurations, at even intervals.

    It lies between one and the number of ways in which the molecule can change shape. Copies and images of
    configurations count once.
    """
    N = permutations.shape[1]
    largest = float(max(1, 3 * N - 6))
    squared = _sample_distances(values, permutations)
    resolution = ROUNDING * values.square().sum(1).max().sqrt().item()
    distinct = ~(squared.fill_diagonal_(math.inf) <= resolution**2).tril(-1).any(1)
    if int(distinct.sum()) < FEWEST_NEIGHBOURS:
        return largest
    return two_neighbour_dimension(squared[distinct][:, distinct], largest=largest)


def density_width(values: Descriptors, permutations: Permutations) -> float:
    """The width sigma of greatest leave-one-out likelihood, on at most `LARGEST_SAMPLE` configurations.

    Configurations are taken at even intervals, and of every two the closest images count. Kernels are normalised by
    sigma^-delta with the intrinsic dimension delta, since configurations fill no more dimensions; normalised in all
    descriptors, far smaller widths would come out.
    """
    dimension = intrinsic_dimension(values, permutations)
    squared = _sample_distances(values, permutations).fill_diagonal_(math.inf)
    floor = math.log(torch.finfo(squared.dtype).tiny)  # configurations without neighbours would decide everything

    def likelihood(width: float) -> float:
        log_sums = (squared / (-2.0 * width**2)).logsumexp(1).clamp_min(floor)
        return float(log_sums.mean()) - dimension * math.log(width)

    distance = typical_distance(values, permutations)
    widths = [factor * float(distance) for factor in RELATIVE_WIDTHS]
    return max(widths, key=likelihood)


def _sample_distances(values: Descriptors, permutations: Permutations) -> Float[Tensor, "m m"]:
    """Squared symmetrised distances of configurations at even intervals."""
    rows = torch.linspace(0, len(values) - 1, min(len(values), LARGEST_SAMPLE), device=values.device).long()
    return symmetrised_squared_distances(values[rows], values[rows], permutations)


def is_single_precision_enough(X: Descriptors) -> bool:
    """Whether kernels between centred configurations, in units of the width, survive rounding.

    The exponent is a difference of numbers up to |X|^2. That a far kernel vanishes too early is no loss where the sum
    is one at least, which is why this is asked at the centres only.
    """
    bound = 2.0 * torch.finfo(torch.float32).eps * X.square().sum(1).max().item()
    return bound < SINGLE_PRECISION_ERROR and torch.get_float32_matmul_precision() == "highest"


def named_test_density(name: str | float, pool_density: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The test density q at the configurations of the pool, not normalised.

    "pool" stands for p_X, "uniform" for a constant, and a number from 0 to 1 for that power of p_X.

    Raises:
        ValueError: there is no such test density.
    """
    is_power = isinstance(name, float) and 0.0 <= name <= 1.0
    if not is_power and name not in TEST_DENSITIES:
        raise ValueError(
            f"the test density must be one of {', '.join(TEST_DENSITIES)}, or a power from 0.0 to 1.0 of the pool's, "
            f"got {name!r}"
        )
    return pool_density.pow(name if isinstance(name, float) else float(name == "pool"))


def error_weights(name: str | float, pool_density: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Weights q / p_X, one on average, of errors at configurations that follow p_X."""
    weights = named_test_density(name, pool_density) / pool_density
    return weights / weights.mean()


def _kernel_sums(
    at: Descriptors, X: Float[Tensor, "m D"], columns: Int[Tensor, "g D"], *, mirrored: bool
) -> Float[Tensor, " n"]:
    """Sums of kernels block by block.

    Where both sides are the same, blocks on and above the diagonal are enough: those above it count for their columns
    as well, image by image.
    """
    entries = GPU_BLOCK_ENTRIES if X.is_cuda else BLOCK_ENTRIES
    side, left = max(1, math.isqrt(entries // len(columns))), _left(at)
    sums = torch.zeros(len(at), dtype=torch.float64, device=at.device)
    for start in range(0, len(X), side):
        part = slice(start, start + side)
        right = _right(X[part], columns)
        for row in range(0, start + 1 if mirrored else len(at), side):
            rows = slice(row, row + side)
            K = (left[rows] @ right).exp_()
            sums[rows] += K.sum(1)
            if mirrored and row < start:
                sums[part] += K.sum(0).view(len(columns), -1).sum(0)
        before, done = (10.0 * min(1.0, end / len(X)) ** (1 + mirrored) for end in (start, start + side))
        if int(done) > int(before):
            logger.info("density of configurations, %d%% done", 10 * int(done))
    return sums


def _left(X: Descriptors) -> Float[Tensor, "n D+2"]:
    """Rows whose product with a column of `_right` is x^T y - |x|^2 / 2 - |y|^2 / 2 = -|x - y|^2 / 2."""
    half = -0.5 * X.square().sum(1, keepdim=True)
    return torch.cat([X, half, torch.ones_like(half)], dim=1)


def _right(X: Descriptors, columns: Int[Tensor, "g D"]) -> Float[Tensor, "D+2 images"]:
    """All images of the configurations as columns, permutation by permutation."""
    images = X[:, columns].movedim(1, 0).flatten(0, 1)
    half = -0.5 * images.square().sum(1, keepdim=True)
    return torch.cat([images, torch.ones_like(half), half], dim=1).mT
