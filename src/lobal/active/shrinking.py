"""Inducing points, as few as do no harm: what Algorithm 1 does in its second iteration.

m_E, then m_G, are halved as long as the mixture with fewer points is as good as the one with all of them. Two things
speak against a candidate, each measured against the mixture with all points, so that small losses do not add up:

- It has lost: its squared errors at labels it has not learned from are larger, by more than the standard error of the
  mean difference and by more than `TOLERANCE`. This is the paper's criterion.
- It has moved: what it says at the labelled inputs, each without its label, differs from what the mixture with all
  points says, in the mean square by more than `LARGEST_MOVE` of the squared error that the latter expects of itself.
  Labels have noise and predictions have little, so this shows losses that labels cannot: on the Doppler function with
  1024 labels, 128 points in the place of 512 raised the error from 0.26 to 0.39, all of it at the fast waves, and
  labels left out showed a loss of a quarter of its standard error.

Neither can tell what many more labels will ask for. Those bear smaller bandwidths, which need more inducing points, and
the numbers found here stay. That is why the learner does not look for them unless it is asked to.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Real
from numpy import ndarray

from lobal.core.comparison import is_better
from lobal.experts.svgp import SparseExperts
from lobal.mixture.estimator import MixtureRegressor
from lobal.mixture.options import N_INDUCING
from lobal.mixture.tuning_record import Decision, End, Trial

Validation: TypeAlias = tuple[Real[ndarray, "k d"], Float[ndarray, " k"]]

TOLERANCE = 0.01  # of the mean squared error of the labels
# Mean square of the moves over the mean variance: a tenth of a standard deviation. The variance falls about as 1/n and
# what fewer points miss does not, so that at ten times the labels it is a tenth of the squared error.
LARGEST_MOVE = 0.01
# Below these a fit takes no less time.
FEWEST = {"n_inducing": 32, "n_gate_inducing": 16}
SYMBOLS = {"n_inducing": "m_E", "n_gate_inducing": "m_G"}
# Labels for each inducing point that it takes to judge; as in the paper, where m_E = n_0 and n_1 = 2 n_0.
LABELS_PER_POINT = 2


class Answers(NamedTuple):
    """What a mixture is judged by."""

    squares: Float[ndarray, " k"]  # squared errors at labels that were not learned from
    mean: Float[ndarray, " n"]  # prediction of every label from all others
    variance: Float[ndarray, " n"]  # its variance, without the noise of the label
    epochs: int  # of its training

    def end(self, reference: "Answers") -> End:
        """What there is to be said against these answers in the place of the reference's."""
        if has_lost(self.squares, reference.squares):
            return "lost"
        return "moved" if has_moved(self.mean, reference.mean, reference.variance) else "finished"

    def as_trial(self, number: int, end: End) -> Trial:
        """The same for the record."""
        return Trial(number, math.sqrt(self.squares.mean()), self.epochs, end)


def has_lost(squares: Float[ndarray, " k"], reference: Float[ndarray, " k"]) -> bool:
    """Whether squared errors are larger than those of the reference, label by label, significantly and noticeably."""
    loss, least = torch.from_numpy(squares), TOLERANCE * float(reference.mean())
    return is_better(torch.from_numpy(reference), loss, least=least)


def has_moved(mean: Float[ndarray, " n"], reference: Float[ndarray, " n"], variance: Float[ndarray, " n"]) -> bool:
    """Whether predictions differ from the reference's, as measured by the variance of the latter."""
    return bool(np.square(mean - reference).mean() > LARGEST_MOVE * variance.mean())


def fewest(
    varied: str, number: int, least: int, begin: Answers, reference: Answers, attempt: Callable[[int], Answers]
) -> Decision:
    """The number halved while nothing speaks against it and it stays at least `least`, with all that was tried.

    Args:
        varied: what the number is called in the record.
        number: to begin with.
        least: the floor.
        begin: the answers with the first number.
        reference: those that all are compared with.
        attempt: the answers with another number.
    """
    trials = [begin.as_trial(number, "known")]
    while number // 2 >= least:
        answers = attempt(number // 2)
        trials.append(answers.as_trial(number // 2, answers.end(reference)))
        if trials[-1].end != "finished":
            break
        number //= 2
    return Decision(varied, tuple(trials), number)


class Judged(NamedTuple):
    """A model and what it is judged by."""

    model: MixtureRegressor
    answers: Answers


def shrunk(
    model: MixtureRegressor,
    fit: Callable[[dict[str, int]], MixtureRegressor],
    X: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    validation: Validation | None,
) -> MixtureRegressor:
    """The model with as few inducing points as do no harm, m_E first; its `tuning_` says how they were found.

    The same model where it has no inducing points or labels are too few to tell.

    Args:
        model: fitted with all points.
        fit: the model with other numbers, by the names of the options.
        X: inputs that it is fitted to.
        y: their labels.
        validation: inputs and labels to measure errors on; without them, errors are leave-one-out.
    """
    if not _can_be_judged(model, X):
        return model
    reference, decisions = _answers(model, X, y, validation), []
    best = Judged(model, reference)

    def fitted(numbers: dict[str, int]) -> Judged:
        other = fit(numbers)
        return Judged(other, _answers(other, X, y, validation))

    for name in FEWEST:
        best, decision = _with_fewest(name, best, reference, fitted)
        decisions.append(decision)
    best.model.tuning_ = [*best.model.tuning_, *decisions]
    return best.model


def numbers_found(model: MixtureRegressor) -> dict[str, int]:
    """The numbers of inducing points by the names of the options, where `shrunk` found them."""
    is_shrunk = any(decision.varied in SYMBOLS.values() for decision in model.tuning_)
    return _numbers(model) if is_shrunk else {}


def _with_fewest(
    name: str, best: Judged, reference: Answers, fitted: Callable[[dict[str, int]], Judged]
) -> tuple[Judged, Decision]:
    """The model with fewer points of one kind, the number of the others kept."""
    kept = _numbers(best.model)
    tried = {kept[name]: best}

    def attempt(number: int) -> Answers:
        tried[number] = fitted({**kept, name: number})
        return tried[number].answers

    decision = fewest(SYMBOLS[name], kept[name], FEWEST[name], best.answers, reference, attempt)
    assert isinstance(decision.chosen, int)  # one of the numbers tried
    return tried[decision.chosen], decision


def _can_be_judged(model: MixtureRegressor, X: Float[ndarray, "n d"]) -> bool:
    """Whether the model has inducing points, and different inputs enough to tell how many it needs."""
    is_sparse = isinstance(model.mixture_.experts, SparseExperts)
    return is_sparse and len(np.unique(X, axis=0)) >= LABELS_PER_POINT * _numbers(model)["n_inducing"]


def _numbers(model: MixtureRegressor) -> dict[str, Any]:
    """The numbers of inducing points by the names of the options."""
    m_E = N_INDUCING if model.n_inducing is None else model.n_inducing
    return {"n_inducing": m_E, "n_gate_inducing": model.n_gate_inducing}


def _answers(
    model: MixtureRegressor, X: Float[ndarray, "n d"], y: Float[ndarray, " n"], validation: Validation | None
) -> Answers:
    """Squared errors are those on the validation labels where there are some; all else is leave-one-out."""
    mean, deviation = model.leave_one_out(X, y)
    inputs, labels = (X, y) if validation is None else validation
    said = mean if validation is None else model.predict(inputs)
    variance = (np.square(deviation) - model.noise_variance(X)).clip(min=0.0)
    return Answers(np.square(labels - said), mean, variance, len(model.history_))
