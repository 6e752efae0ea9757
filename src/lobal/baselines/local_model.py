"""Local polynomials fitted to labels: predictions, local bandwidths, noise."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.spatial import cKDTree
from torch import Tensor

from lobal.active.surrogate import NoiseFunction
from lobal.baselines.lepski import bandwidth_ladder, estimated_noise, optimal_choice
from lobal.baselines.local_fit import Basis, Fits, left_out_fits, local_fits, polynomial_basis
from lobal.core.arrays import Bandwidths, as_matrix, resolve_device
from lobal.core.dataset import LabelledSet
from lobal.core.real_numbers import as_numbers
from lobal.core.units import Units
from lobal.mixture.units import as_array, as_tensor, known_noise, label_units

# Of Lepski's method. Few standard deviations are exceeded by chance, many only where the bias is large; from 2 to 3
# errors on the Doppler function are about the same.
THRESHOLD = 2.5
NEIGHBOURS = 32  # labels that a local bandwidth is averaged over
CHECKED = 2**11  # labels that noise and error are estimated from: both are then known to a few per cent
LARGEST_BASIS = 2**12  # monomials up to degree 2 Q; with more, windows never have enough labels


class Scaling(NamedTuple):
    """Inputs with a standard deviation of one in every column; constant columns are left out, or all but one are."""

    units: Units
    is_used: Bool[ndarray, " d"]
    centre: Float[ndarray, " k"]
    scale: Float[ndarray, " k"]

    @classmethod
    def of(cls, X: Float[ndarray, "n d"]) -> "Scaling":
        """The scaling that these inputs give."""
        units = Units.of(X)
        inputs = units(X)
        is_used = np.ptp(inputs, axis=0) > 0.0
        is_used[0] |= not is_used.any()
        used = inputs[:, is_used]
        return cls(units, is_used, used.mean(axis=0), np.where(np.ptp(used, axis=0) > 0.0, used.std(axis=0), 1.0))

    def __call__(self, X: Float[ndarray, "n d"]) -> Float[ndarray, "n k"]:
        """Scaled inputs."""
        return np.asarray((self.units(X)[:, self.is_used] - self.centre) / self.scale)

    @property
    def width(self) -> float:
        """What a bandwidth of one is in units of the inputs, the geometric mean over the columns."""
        unit = self.units.unit[self.is_used]
        return float(np.exp(np.log(self.scale * np.where(unit > 0.0, unit, 1.0)).mean()))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LocalPolynomialModel:
    """Local polynomials of labels under the bandwidth that is best at each place, in units of the user's data.

    `fit_local_polynomials` makes one.
    """

    order: int  # Q
    threshold: float  # of Lepski's method
    X: Float[ndarray, "n d"]
    y: Float[ndarray, " n"]
    label_noise: Float[ndarray, " n"]  # variances
    noise: float | NoiseFunction  # variance at other inputs
    bandwidths: Bandwidths  # in units of the scaled inputs

    @cached_property
    def scaling(self) -> Scaling:
        """Units of the inputs in which bandwidths are isotropic."""
        return Scaling.of(self.X)

    @cached_property
    def basis(self) -> Basis:
        """The monomials of the polynomials."""
        return _checked_basis(self.order, int(self.scaling.is_used.sum()), self.bandwidths.device)

    @cached_property
    def labels(self) -> LabelledSet:
        """Scaled inputs, and labels in units of their standard deviation."""
        mean, unit = label_units(self.y)
        columns = (self.scaling(self.X), (self.y - mean) / unit, np.ones_like(self.y), self.label_noise / unit**2)
        X, y, weight, noise = (as_tensor(column, self.bandwidths.device) for column in columns)
        return LabelledSet(X=X, y=y, weight=weight, noise=noise)

    def predict(self, X: Any) -> Float[ndarray, " m"]:  # noqa: ANN401 - any array-like
        """f_LPS^Q at every input, Eq. (eq:LPSoptimalPredictor)."""
        return self.predicted(self._fits(X))

    def local_bandwidth(self, X: Any) -> Float[ndarray, " m"]:  # noqa: ANN401 - any array-like
        """LOB at every input, Eq. (eq:lpsLOBDefinition); with several columns, the geometric mean of their widths.

        The geometric mean over the nearest labels, in the way that Eq. (eq:gprLOB) takes one over experts: at a single
        place the choice depends on chance, and is far too large where the bias happens to vanish.
        """
        nearest = self._tree.query(self.scaling(self._checked(X)), k=min(NEIGHBOURS, len(self.y)))[1]
        logs = np.log(self._label_bandwidths[nearest]).reshape(len(nearest), -1)
        return np.asarray(self.scaling.width * np.exp(logs.mean(axis=1)))

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.labels.X.cpu().numpy())

    @cached_property
    def _label_bandwidths(self) -> Float[ndarray, " n"]:
        """The bandwidths that are best at the labels, in units of the scaled inputs."""
        fits = local_fits(self.labels.X, self.labels, self.bandwidths, self.basis)
        return as_array(self.bandwidths[self._choice(fits)])

    def noise_variance(self, X: Any) -> Float[ndarray, " m"]:  # noqa: ANN401 - any array-like
        """v at every input."""
        return known_noise(self.noise, self._checked(X))

    def leave_one_out(self, rows: Int[ndarray, " m"] | None = None) -> Float[ndarray, " m"]:
        """Predictions of training labels, by default of all, each from all others; bandwidths too are chosen anew."""
        chosen = np.arange(len(self.y)) if rows is None else rows
        return self.predicted(left_out_fits(torch.from_numpy(chosen), self.labels, self.bandwidths, self.basis))

    def _fits(self, X: Any) -> Fits:  # noqa: ANN401 - any array-like
        at = as_tensor(self.scaling(self._checked(X)), self.bandwidths.device)
        return local_fits(at, self.labels, self.bandwidths, self.basis)

    def _choice(self, fits: Fits) -> Int[Tensor, " m"]:
        return optimal_choice(fits, self.threshold, order=self.order, d=self.labels.X.shape[1])

    def predicted(self, fits: Fits) -> Float[ndarray, " m"]:
        """Labels as these fits predict them, each under the bandwidth that is best for it."""
        mean, unit = label_units(self.y)
        return mean + unit * as_array(fits.under(self._choice(fits))[0])

    def _checked(self, X: Any) -> Float[ndarray, "m d"]:  # noqa: ANN401 - any array-like
        inputs, d = as_matrix(X, name="X"), self.X.shape[1]
        if inputs.shape[1] != d:
            raise ValueError(f"X must have {d} columns, as the training inputs have, got shape {inputs.shape}")
        return np.asarray(inputs, dtype=np.float64)


def fit_local_polynomials(
    X: Any,  # noqa: ANN401 - any array-like
    y: Any,  # noqa: ANN401 - any array-like
    *,
    order: int = 1,
    threshold: float = THRESHOLD,
    noise: float | NoiseFunction | None = None,
    device: str | None = None,
) -> tuple[LocalPolynomialModel, Float[ndarray, " c"]]:
    """The model, and predictions of the labels in `checked_rows`, each from all others.

    The variance of the noise is a number, a function of inputs or, if None, a constant that is estimated.

    Raises:
        ValueError: inputs and labels do not fit each other or are not finite, or the order is too high for so many
            columns.
    """
    inputs, labels = np.asarray(as_matrix(X, name="X"), dtype=np.float64), as_numbers(y, name="y")
    if labels.shape != (len(inputs),) or not np.isfinite(labels).all():
        raise ValueError(f"y must be {len(inputs)} finite numbers, one for each row of X, got shape {labels.shape}")
    scaled = as_tensor(Scaling.of(inputs)(inputs), resolve_device(device))
    unit = label_units(labels)[1]
    known = unit**2 if noise is None else noise
    model = LocalPolynomialModel(
        order=order,
        threshold=threshold,
        X=inputs,
        y=labels,
        label_noise=known_noise(known, inputs),
        noise=known,
        bandwidths=bandwidth_ladder(scaled, _checked_basis(order, scaled.shape[1], scaled.device)),
    )
    rows = torch.from_numpy(checked_rows(len(labels)))
    fits = left_out_fits(rows, model.labels, model.bandwidths, model.basis)
    if noise is None:
        found = estimated_noise(fits, model.labels.y[rows])
        fits = fits._replace(variance=found * fits.variance)
        model = replace(model, label_noise=found * model.label_noise, noise=found * unit**2)
    return model, model.predicted(fits)


def checked_rows(n: int) -> Int[ndarray, " c"]:
    """Rows of labels, all over them, that noise and error are estimated from."""
    return np.unique(np.linspace(0, n - 1, min(n, CHECKED)).round().astype(np.int64))


def _checked_basis(order: int, d: int, device: torch.device) -> Basis:
    if math.comb(2 * order + d, d) > LARGEST_BASIS:
        raise ValueError(
            f"polynomials of order {order} in {d} columns have {math.comb(order + d, d)} terms, too many to be fitted "
            "locally; lower the order, or leave columns out"
        )
    return polynomial_basis(order, d, device)
