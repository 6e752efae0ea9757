"""The analytic engine from labelled data to a fitted mixture, on sparse or exact experts."""

from lobal.mixture.analytic.exact import fit_exact
from lobal.mixture.analytic.sparse import fit_sparse
from lobal.mixture.data import TrainingData
from lobal.mixture.model import FittedMixture
from lobal.mixture.progress import Progress
from lobal.mixture.start import Start


def fit_analytic(data: TrainingData, start: Start, progress: Progress | None) -> FittedMixture:
    """A mixture with an ordinal gate."""
    return (fit_exact if start.settings.exact else fit_sparse)(data, start, progress)
