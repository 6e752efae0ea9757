"""The analytic engine from labelled data to a fitted mixture, on sparse or exact experts, with the better kernel.

A single Gaussian process takes waves of every length for roughness, a mixture does not. So a Matern kernel that suits
the global expert better is tried beside the Gaussian, and kept if labels are predicted better from the others. Local
bandwidths are measured with the Gaussian all the same, by predictions from neighbours (`ruler.py`). A start with little
noise is tried in the same way where neighbours suggest it (`start_choice.py`).
"""

from dataclasses import replace
from typing import final

from lobal.mixture.analytic.exact import fit_exact
from lobal.mixture.analytic.preparation import analytic_settings
from lobal.mixture.analytic.ruler import neighbourhood_ruler
from lobal.mixture.analytic.sparse import fit_sparse
from lobal.mixture.analytic.start_choice import quieter_start
from lobal.mixture.data import TrainingData
from lobal.mixture.model import FittedMixture
from lobal.mixture.progress import Epoch, Progress
from lobal.mixture.start import Start, with_known_noise


def fit_analytic(data: TrainingData, start: Start, progress: Progress | None) -> FittedMixture:
    """A mixture with an ordinal gate."""
    attempts = Attempts(data, progress)
    points, is_tuned = data.for_training(), start.settings.adaptive and start.settings.pilot
    first = attempts.fit(start)
    quieter = quieter_start(points, start) if is_tuned else None
    if quieter is not None:
        first = min(first, attempts.fit(quieter), key=_left_out_error)
        start = quieter if first.start is quieter else start
    best = first
    if start.rougher is not None:
        best = min(first, attempts.fit(start.rougher), key=_left_out_error)
    attempts.end_with(best)
    ruler, k = None if best is first else first.mixture.ruler, analytic_settings(start.settings).neighbours
    if is_tuned and k is not None:
        hyperparameters = with_known_noise(first.hyperparameters, points)
        ruler = neighbourhood_ruler(points, start, hyperparameters, first.mixture.bandwidths, k=k) or ruler
    return best._replace(mixture=replace(best.mixture, other_ruler=ruler))


@final
class Attempts:
    """Fits from several starts, of which one is kept; the training history ends with an entry of that one."""

    def __init__(self, data: TrainingData, progress: Progress | None) -> None:
        self._data, self._progress = data, progress
        self._epochs: list[Epoch] = []
        self._last: list[tuple[Start, Epoch]] = []  # of every fit

    def fit(self, start: Start) -> FittedMixture:
        """The mixture that this start leads to."""
        fit = fit_exact if start.settings.exact else fit_sparse
        fitted = fit(self._data, start, self._note)._replace(start=start)
        self._last.append((start, self._epochs[-1]))
        return fitted

    def end_with(self, fitted: FittedMixture) -> None:
        """Repeat the last entry of this fit, if others were made after it."""
        epoch = next(epoch for start, epoch in self._last if start is fitted.start)
        if epoch is not self._epochs[-1]:
            self._note(epoch)

    def _note(self, epoch: Epoch) -> None:
        self._epochs.append(epoch)
        if self._progress is not None:
            self._progress(epoch)


def _left_out_error(fitted: FittedMixture) -> float:
    assert fitted.residual is not None  # which the analytic engine computes
    return fitted.residual.square().mean().item()
