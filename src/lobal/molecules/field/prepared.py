"""Energies and forces for dynamics: `ForceField.predict` without what need not be done at every step.

Dynamics asks for one configuration, or for some, again and again. Most of the time of `predict` then goes into checks,
conversions and many small operations. Here descriptors are in units of Sigma, and the sums of `prediction` are products
with two matrices. Of a configuration, a centre and its slope these are

    X = [x, -|x|^2 / 2, 1],    Y = [y, 1, -|y|^2 / 2],    S = [beta, 0, -y^T beta],

so that X Y^T = -|x - y|^2 / 2 and X S^T = (x - y)^T beta. The experts of a mixture are added up before derivatives are
taken, and these together with those of the gate.

Nothing is checked: where positions are not finite or atoms coincide, energies and forces are not finite.
"""

import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lobal.core.arrays import Scalar
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.field.gate import ForceGate
from lobal.molecules.field.kernel import BLOCK_ENTRIES, GPU_BLOCK_ENTRIES
from lobal.molecules.field.prediction import Predictor
from lobal.molecules.field.radial import RadialKernel
from lobal.molecules.geometry.descriptor import Descriptors, Positions, atom_pairs


class _Terms(NamedTuple):
    """Energies, and what their derivatives follow from; index m runs over configurations and permutations."""

    x: Float[Tensor, "n D"]
    first: Float[Tensor, "n L m"]  # g'
    along: Float[Tensor, "n L m"]  # g'' (x - y)^T beta + g' w_E
    energies: Float[Tensor, "n L"]


@final
@dataclass(frozen=True, kw_only=True)
class _Sums:
    """The sums of a `Predictor` over one of the distinct bandwidths, whose weight is in S and in w_E."""

    radial: RadialKernel
    inverse: Float[Tensor, " D"]  # 1 / Sigma
    shift: Float[Tensor, " D"]
    Y: Float[Tensor, "m columns"]
    S: Float[Tensor, "L m columns"] | None  # none where all slopes are zero: where only energies are labels
    factor: Float[Tensor, "L 1"]  # -2 / sigma^2
    energies: Float[Tensor, "L m"] | None  # w_E, where energies are labels

    @classmethod
    def of(cls, predictor: Predictor) -> "list[_Sums]":
        """Everything that does not depend on the configuration, for every distinct bandwidth."""
        inverses = predictor.scales.bandwidths.reciprocal()
        return [
            cls._of(predictor, b, *parts)
            for b, parts in enumerate(zip(inverses, predictor.scales.weights, strict=True))
        ]

    @classmethod
    def _of(cls, predictor: Predictor, b: int, inverse: Float[Tensor, " D"], share: Scalar) -> "_Sums":
        y, slopes, offsets = predictor.anchors * inverse, predictor.slopes * inverse, predictor.offsets[:, b, :, None]
        S = share * torch.cat([slopes, torch.zeros_like(offsets), -offsets], dim=2)
        has_slopes = predictor.energies is None or bool(slopes.any())
        return cls(
            radial=predictor.radial,
            inverse=inverse,
            shift=-inverse * predictor.centre,
            Y=torch.cat([y, torch.ones_like(y[:, :1]), -0.5 * predictor.squares[b, :, None]], dim=1),
            S=S if has_slopes else None,
            factor=-2.0 * predictor.bandwidths.square().reciprocal()[:, None],
            energies=None if predictor.energies is None else share * predictor.energies,
        )

    def experts(self, some: slice) -> "_Sums":
        """The sums of some of the L experts."""
        S, energies = (None if part is None else part[some] for part in (self.S, self.energies))
        return replace(self, S=S, energies=energies, factor=self.factor[some])

    def terms(self, values: Descriptors) -> _Terms:
        """Energies and more at configurations given by their descriptors."""
        x = torch.addcmul(self.shift, values, self.inverse)
        half = torch.linalg.vecdot(x, x)[:, None].mul_(-0.5)
        X = torch.cat([x, half, torch.ones_like(half)], dim=1)
        g = self.radial(((X @ self.Y.mT)[:, None] * self.factor).clamp_min_(0.0))
        parts = []
        if self.S is not None:
            a = (X @ self.S.flatten(0, 1).mT).view_as(g.first)
            parts.append((torch.linalg.vecdot(g.first, a), g.second * a))
        if self.energies is not None:
            parts.append((torch.linalg.vecdot(g.value, self.energies), g.first * self.energies))
        energies, along = (functools.reduce(torch.add, part) for part in zip(*parts, strict=True))
        return _Terms(x, g.first, along, energies)

    def derivative(self, terms: _Terms, weights: Float[Tensor, "n L"]) -> Float[Tensor, "n D"]:
        """That of the experts' weighted sum, by the descriptors."""
        slope = (terms.along * (self.factor * weights[..., None])).sum(1) @ self.Y
        # In the place of -|x|^2 / 2 is the sum of `along`.
        towards = torch.addcmul(slope[:, :-2], slope[:, -2:-1], terms.x, value=-1.0)
        if self.S is not None:
            towards.addmm_((terms.first * weights[..., None]).flatten(1), self.S[..., :-2].flatten(0, 1))
        return towards.mul_(self.inverse)


@final
@dataclass(frozen=True, kw_only=True)
class PreparedForceField:
    """The map from positions to energies (eV) and forces (eV / Angstrom) of a force field, as `predict` has them."""

    experts: list[_Sums]
    constants: Float[Tensor, " L"]
    gate: ForceGate | None
    channels: list[_Sums]  # of the gate
    ends: Float[Tensor, "N D"]  # +1 for the first atom of a pair, -1 for the second
    block: int  # configurations at a time

    @classmethod
    def of(cls, field: ForceField) -> "PreparedForceField":
        """Everything that does not depend on the configuration, on the device of the force field."""
        first, second = atom_pairs(len(field.species), field.weights.device)
        unit = torch.eye(len(field.species), dtype=field.weights.dtype, device=field.weights.device)
        entries = GPU_BLOCK_ENTRIES if unit.is_cuda else BLOCK_ENTRIES
        return cls(
            experts=_Sums.of(field.predictor),
            constants=field.constants,
            gate=field.gate,
            channels=[] if field.gate is None else _Sums.of(field.gate.channels),
            ends=unit[:, first] - unit[:, second],
            block=max(1, entries // field.predictor.offsets[0].numel()),
        )

    def __call__(self, R: Positions) -> tuple[Float[Tensor, " n"], Float[Tensor, "n N 3"]]:
        """Energies and forces at positions of the dtype and on the device of the force field."""
        parts = [self._predicted(part) for part in R.split(self.block)]
        if len(parts) == 1:
            return parts[0]
        energies, forces = zip(*parts, strict=True)
        return torch.cat(energies), torch.cat(forces)

    def _predicted(self, R: Positions) -> tuple[Float[Tensor, " n"], Float[Tensor, "n N 3"]]:
        difference = self.ends.mT @ R
        values: Tensor = torch.linalg.vector_norm(difference, dim=2).reciprocal()
        energies, slope = self._alone(values) if self.gate is None else self._mixed(self.gate, values)
        return energies, self.ends @ (difference * (slope * values.pow(3))[..., None])

    def _alone(self, values: Descriptors) -> tuple[Float[Tensor, " n"], Float[Tensor, "n D"]]:
        energies, slope = _summed(self.experts, values, torch.ones_like(values[:, :1]))
        return energies[:, 0] + self.constants, slope

    def _mixed(self, gate: ForceGate, values: Descriptors) -> tuple[Float[Tensor, " n"], Float[Tensor, "n D"]]:
        """Energies of the mixture and their derivatives, dE = sum_l G_l dE_l + sum_l E_l dG_l."""
        above = [each.terms(values) for each in self.channels]
        weights, slopes = gate.weights_at(_energies(above).mT)
        energies, slope = torch.empty_like(values[:, 0]), torch.empty_like(values)
        pull = torch.empty_like(slopes[:, 0])
        for some, rows in _used(weights):
            G = weights[rows, some]
            E, slope[rows] = _summed([each.experts(some) for each in self.experts], values[rows], G)
            E += self.constants[some]
            energies[rows], pull[rows] = (G * E).sum(1), (E[..., None] * slopes[rows, some]).sum(1)
        return energies, slope + _derivative(self.channels, above, pull)


def _summed(
    sums: list[_Sums], values: Descriptors, weights: Float[Tensor, "n L"]
) -> tuple[Float[Tensor, "n L"], Float[Tensor, "n D"]]:
    """Energies of all experts, and the derivative of their weighted sum, over all distinct bandwidths."""
    terms = [each.terms(values) for each in sums]
    return _energies(terms), _derivative(sums, terms, weights)


def _energies(terms: list[_Terms]) -> Float[Tensor, "n L"]:
    return functools.reduce(torch.add, (each.energies for each in terms))


def _derivative(sums: list[_Sums], terms: list[_Terms], weights: Float[Tensor, "n L"]) -> Float[Tensor, "n D"]:
    slopes = (each.derivative(its, weights) for each, its in zip(sums, terms, strict=True))
    return functools.reduce(torch.add, slopes)


def _used(weights: Float[Tensor, "n L"]) -> Iterator[tuple[slice, slice | Int[Tensor, " k"]]]:
    """Experts next to each other, each with the configurations where they have all the weight."""
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, shares in enumerate(weights.tolist()):
        used = [number for number, share in enumerate(shares) if share != 0.0]  # all, if they are NaN
        rows[used[0], used[-1]].append(row)
    for (first, last), some in rows.items():
        whole = len(some) == len(weights)
        yield slice(first, last + 1), slice(None) if whole else torch.tensor(some, device=weights.device)
