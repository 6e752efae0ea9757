"""Inducing points, as few as do no harm: what Algorithm 1 does in its second iteration.

m_E, then m_G, are halved as long as the mixture with fewer points is as good as the one with all of them. A number is
rejected for one of two reasons, each measured against the mixture with all points, so that small losses do not add up:

- It has lost: its squared errors at labels it has not learned from are larger, by more than the standard error of the
  mean difference and by more than `TOLERANCE`. This is the paper's criterion.
- It has moved: its leave-one-out predictions differ from those of the mixture with all points, in the mean square by
  more than `LARGEST_MOVE` of the latter's predictive variance. Labels have noise and predictions have little, so this
  shows losses that labels cannot: on the Doppler function with 1024 labels, 128 points in the place of 512 raised the
  error from 0.26 to 0.39, all of it at the fast waves, and labels left out showed a loss of a quarter of its standard
  error.

Neither can tell what many more labels will need. Those allow smaller bandwidths, which need more inducing points, and
the numbers found here stay. That is why the learner does not look for them unless `shrink_inducing` is set.
"""

import math
from collections.abc import Callable, Mapping
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
    """A mixture and what it is judged by."""

    model: MixtureRegressor
    squares: Float[ndarray, " k"]  # squared errors at labels that were not learned from
    mean: Float[ndarray, " n"]  # prediction of every label from all others
    variance: Float[ndarray, " n"]  # its variance, without the noise of the label
    epochs: int  # of its training

    def end(self, reference: "Answers") -> End:
        """What is wrong with these answers in comparison with the reference's; "finished" if nothing is."""
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
    name: str,
    numbers: Mapping[str, int],
    begin: Answers,
    reference: Answers,
    attempt: Callable[[dict[str, int]], Answers],
) -> tuple[Answers, Decision]:
    """The answers with one number halved as long as they are as good as the reference's, and all that was tried.

    It begins with the answers to `numbers`, by the names of the options, and ends at `FEWEST`; `attempt` returns the
    answers with other numbers.
    """
    best, number, trials = begin, numbers[name], [begin.as_trial(numbers[name], "known")]
    while number // 2 >= FEWEST[name]:
        answers = attempt({**numbers, name: number // 2})
        trials.append(answers.as_trial(number // 2, answers.end(reference)))
        if trials[-1].end != "finished":
            break
        best, number = answers, number // 2
    return best, Decision(SYMBOLS[name], tuple(trials), number)


def shrunk(
    model: MixtureRegressor,
    fit: Callable[[dict[str, int]], MixtureRegressor],
    X: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    validation: Validation | None,
) -> MixtureRegressor:
    """The model with as few inducing points as do no harm, m_E first; its `tuning_` says how they were found.

    The same model where it has no inducing points or labels are too few to tell. `fit` returns the model with other
    numbers, by the names of the options. Errors are measured on the validation labels, or leave-one-out without them.
    """
    if not _can_be_judged(model, X):
        return model

    def attempt(numbers: dict[str, int]) -> Answers:
        return _answers(fit(numbers), X, y, validation)

    reference = best = _answers(model, X, y, validation)
    decisions = []
    for name in FEWEST:
        best, decision = fewest(name, _numbers(best.model), best, reference, attempt)
        decisions.append(decision)
    best.model.tuning_ = [*best.model.tuning_, *decisions]
    return best.model


def numbers_found(model: MixtureRegressor) -> dict[str, int]:
    """The numbers of inducing points by the names of the options, where `shrunk` found them."""
    is_shrunk = any(decision.varied in SYMBOLS.values() for decision in model.tuning_)
    return _numbers(model) if is_shrunk else {}


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
    return Answers(model, np.square(labels - said), mean, variance, len(model.history_))
