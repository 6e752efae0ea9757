"""The analytic engine from labelled data to a fitted mixture, on sparse or exact experts, with the better kernel.

A single Gaussian process takes waves of every length for roughness, a mixture does not. So a Matern kernel that suits
the global expert better is tried beside the Gaussian, and kept if labels are predicted better from the others.
"""

from lobal.mixture.analytic.exact import fit_exact
from lobal.mixture.analytic.sparse import fit_sparse
from lobal.mixture.data import TrainingData
from lobal.mixture.model import FittedMixture
from lobal.mixture.progress import Progress
from lobal.mixture.start import Start


def fit_analytic(data: TrainingData, start: Start, progress: Progress | None) -> FittedMixture:
    """A mixture with an ordinal gate."""
    fit = fit_exact if start.settings.exact else fit_sparse
    starts = [start] if start.rougher is None else [start, start.rougher]
    return min((fit(data, each, progress)._replace(start=each) for each in starts), key=_left_out_error)


def _left_out_error(fitted: FittedMixture) -> float:
    assert fitted.residual is not None  # which the analytic engine computes
    return fitted.residual.square().mean().item()
