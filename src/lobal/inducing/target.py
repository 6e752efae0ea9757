"""The target density of SVGD, estimated from a weighted sample in a box."""

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from scipy.spatial import cKDTree
from torch import Tensor

from lobal.core.arrays import Inputs
from lobal.core.density import silverman_widths
from lobal.core.kernels import squared_distances
from lobal.inducing.random_points import drawn_rows, merged

# The surrogate only has to be near the target, and every step evaluates all of its kernels.
SURROGATE_CENTRES = 1000
# Beyond four widths a Gaussian kernel is below 4e-4 of its height.
REACH = 4.0


@final
@dataclass(frozen=True, kw_only=True)
class Bounds:
    """A box whose faces are mirrors."""

    lower: Float[Tensor, " d"]
    upper: Float[Tensor, " d"]

    def reflected(self, X: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The points, those outside reflected back into the box, at most once at every face."""
        inside = self.lower + (X - self.lower).abs()
        inside = self.upper - (self.upper - inside).abs()
        return torch.minimum(torch.maximum(inside, self.lower), self.upper)

    def with_images(self, X: Float[Tensor, "n d"], reach: Float[Tensor, " n"]) -> "Mirrored":
        """The points and their mirror images behind every face within their reach."""
        points, rows = [X], [torch.arange(len(X), device=X.device)]
        signs = [torch.ones_like(X)]
        for column in range(X.shape[1]):
            for face in (self.lower[column], self.upper[column]):
                near = ((X[:, column] - face).abs() < reach).nonzero()[:, 0]
                image, sign = X[near].clone(), torch.ones_like(X[near])
                image[:, column], sign[:, column] = 2.0 * face - image[:, column], -1.0
                points, rows, signs = [*points, image], [*rows, near], [*signs, sign]
        return Mirrored(torch.cat(points), torch.cat(rows), torch.cat(signs))


class Mirrored(NamedTuple):
    """Points with mirror images, the rows they come from, and -1 where a column is mirrored."""

    points: Float[Tensor, "k d"]
    row: Int[Tensor, " k"]
    sign: Float[Tensor, "k d"]


@final
@dataclass(frozen=True, kw_only=True)
class TargetDensity:
    """The density of a weighted sample, by parabolic kernels that reach to the k-th neighbour; integrates to one."""

    tree: cKDTree
    mass: Float[Tensor, " k"]  # of the sample and its mirror images; the sample's sums to one
    neighbours: int

    @classmethod
    def of(cls, X: Inputs, weight: Float[Tensor, " n"], bounds: Bounds, *, neighbours: int) -> "TargetDensity":
        """The density of the sample within its bounds, with mirror images against the bias at the faces."""
        X, weight = merged(X, weight)
        k = min(neighbours, len(X))
        around = torch.as_tensor(cKDTree(X.cpu().numpy()).query(X.cpu().numpy(), k=[k])[0][:, 0]).to(X)
        mirrored = bounds.with_images(X, 1.5 * around)
        mass = (weight / weight.sum())[mirrored.row]
        return cls(tree=cKDTree(mirrored.points.cpu().numpy()), mass=mass, neighbours=k)

    def __call__(self, X: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        """The density at every point, positive."""
        d, tiny = X.shape[1], torch.finfo(X.dtype).tiny
        distance, row = self.tree.query(X.cpu().numpy(), k=range(1, self.neighbours + 1))
        near = torch.as_tensor(distance).to(X)
        radius = near[:, -1].clamp_min(tiny ** (1.0 / (2 * d)))
        # The parabola 1 - r^2 integrates to 2 / (d + 2) of the unit ball's volume.
        volume = math.pi ** (d / 2) / math.gamma(d / 2 + 1) * 2.0 / (d + 2.0)
        share = (1.0 - (near / radius[:, None]).square()).clamp_min(0.0)
        mass = (self.mass[torch.as_tensor(row, device=X.device)] * share).sum(1)
        density: Tensor = mass / (volume * radius.pow(d))
        return density.clamp_min(tiny)


class Surrogate(NamedTuple):
    """A smooth density rho near the target, up to a constant factor, whose score is known: Gaussian kernels."""

    centres: Float[Tensor, "k d"]
    widths: Float[Tensor, " d"]

    @classmethod
    def of(cls, X: Inputs, weight: Float[Tensor, " n"], bounds: Bounds, *, generator: torch.Generator) -> "Surrogate":
        """A kernel density estimate from points drawn by their weights, with Silverman's rule for the widths."""
        drawn = X[drawn_rows(weight, SURROGATE_CENTRES, generator=generator)]
        widths = silverman_widths(drawn)
        reach = REACH * widths.max().expand(len(drawn))
        return cls(bounds.with_images(drawn, reach).points, widths)

    def log_density_and_score(self, X: Float[Tensor, "n d"]) -> tuple[Float[Tensor, " n"], Float[Tensor, "n d"]]:
        """log rho, up to a constant, and its gradient."""
        points, centres = X / self.widths, self.centres / self.widths
        exponent = -0.5 * squared_distances(points, centres)
        pull = exponent.softmax(1) @ centres - points
        return exponent.logsumexp(1), pull / self.widths
