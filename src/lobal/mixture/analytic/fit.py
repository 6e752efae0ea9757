"""The analytic engine from labelled data to a fitted mixture, on sparse or exact experts, with the better kernel.

A single Gaussian process takes waves of every length for roughness, a mixture does not. So a Matern kernel that suits
the global expert better is tried beside the Gaussian, and kept if labels are predicted better from the others. Local
bandwidths are measured with the Gaussian all the same, by predictions from neighbours (`ruler.py`). A start with little
noise is tried in the same way where neighbours suggest it (`start_choice.py`).
"""

from dataclasses import replace

from lobal.mixture.analytic.exact import fit_exact
from lobal.mixture.analytic.preparation import analytic_settings
from lobal.mixture.analytic.ruler import neighbourhood_ruler
from lobal.mixture.analytic.sparse import fit_sparse
from lobal.mixture.analytic.start_choice import quieter_start
from lobal.mixture.data import TrainingData
from lobal.mixture.model import FittedMixture
from lobal.mixture.progress import Progress
from lobal.mixture.start import Start, with_known_noise


def fit_analytic(data: TrainingData, start: Start, progress: Progress | None) -> FittedMixture:
    """A mixture with an ordinal gate."""
    fit = fit_exact if start.settings.exact else fit_sparse
    points, is_tuned = data.for_training(), start.settings.adaptive and start.settings.pilot
    first = fit(data, start, progress)._replace(start=start)
    quieter = quieter_start(points, start) if is_tuned else None
    if quieter is not None:
        first = min(first, fit(data, quieter, progress)._replace(start=quieter), key=_left_out_error)
        start = quieter if first.start is quieter else start
    best = first
    if start.rougher is not None:
        rougher = fit(data, start.rougher, progress)._replace(start=start.rougher)
        best = min(first, rougher, key=_left_out_error)
    ruler, k = None if best is first else first.mixture.ruler, analytic_settings(start.settings).neighbours
    if is_tuned and k is not None:
        hyperparameters = with_known_noise(first.hyperparameters, points)
        ruler = neighbourhood_ruler(points, start, hyperparameters, first.mixture.bandwidths, k=k) or ruler
    return best._replace(mixture=replace(best.mixture, other_ruler=ruler))


def _left_out_error(fitted: FittedMixture) -> float:
    assert fitted.residual is not None  # which the analytic engine computes
    return fitted.residual.square().mean().item()
