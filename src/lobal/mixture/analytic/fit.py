"""The analytic engine from labelled data to a fitted mixture, on sparse or exact experts, with the better kernel.

A single Gaussian process takes waves of every length for roughness, a mixture does not. So a Matern kernel that suits
the global expert better is tried beside the Gaussian, and kept if labels are predicted better from the others. Local
bandwidths are measured by Gaussian experts all the same.
"""

from dataclasses import replace

from lobal.mixture.analytic.exact import fit_exact
from lobal.mixture.analytic.sparse import fit_sparse
from lobal.mixture.data import TrainingData
from lobal.mixture.model import FittedMixture
from lobal.mixture.progress import Progress
from lobal.mixture.start import Start


def fit_analytic(data: TrainingData, start: Start, progress: Progress | None) -> FittedMixture:
    """A mixture with an ordinal gate."""
    fit = fit_exact if start.settings.exact else fit_sparse
    first = fit(data, start, progress)._replace(start=start)
    if start.rougher is None:
        return first
    rougher = fit(data, start.rougher, progress)
    if _left_out_error(first) <= _left_out_error(rougher):
        return first
    mixture = replace(rougher.mixture, other_ruler=first.mixture.ruler)
    return rougher._replace(mixture=mixture, start=start.rougher)


def _left_out_error(fitted: FittedMixture) -> float:
    assert fitted.residual is not None  # which the analytic engine computes
    return fitted.residual.square().mean().item()
