"""Hyperparameters chosen by validation: Algorithm 2, `hyper_init`, for the mixture that Adam trains.

One decision after the other, in the order of Sec. 4.4.3, each recorded. Bandwidths that the user gave are kept. The
numbers of inducing points in the settings are upper bounds. Differences from the paper: an extension of the ladder has
to lower the validation error, since a softmax leaves no expert entirely unused; and if the tuned settings validate
worse than the given ones, the given ones are returned.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any, final

import torch

from lobal.core.arrays import Bandwidths
from lobal.core.kernels import scale_inputs
from lobal.mixture.adam.candidates import CandidateTrainer, Outcome
from lobal.mixture.adam.fit import GATE_WIDTH, adam_settings, gate_width, validation_labels
from lobal.mixture.adam.objective import elbo
from lobal.mixture.adam.settings import AdamSettings
from lobal.mixture.data import TrainingData
from lobal.mixture.ladder import CHANGES, extended, largest_useful, trimmed
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import global_start
from lobal.mixture.tuning_record import Decision, Trial, Tuned, Value

logger = logging.getLogger(__name__)

# The paper gives the first values (the FIRST_ constants) and the direction; the steps are of 2 or about sqrt(10).
LEARNING_RATES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # eta_0, tried upwards until one is large enough
FIRST_HYPERPARAMETER_RATE, HYPERPARAMETER_RATES = 0.2, (1.0, 0.5, 0.1, 0.05)  # eta_H
BATCHES = (2, 4, 8)  # B = n_0, then n_0 over these
SMALLEST_BATCH = 16
GATE_WIDTHS = (1.0, 3.0, 10.0)  # sigma_G in units of the global bandwidth
FIRST_GATE_SCALE, GATE_SCALES = 10.0, (1.0, 10.0, 100.0)  # lambda_G
FIRST_GATE_RATE, GATE_RATES = 1.0, (0.5, 0.25)  # eta_G
FIRST_PENALTY, PENALTIES = 0.01, (0.0, 0.03, 0.1, 0.3, 1.0)  # theta, in nats
SQUARED_PENALTY = 0.01  # one nat of theta in units of the labels' variance, for the squared error objective
FIRST_GATE_NOISE, GATE_NOISES = 0.1, (0.0, 0.3, 1.0)  # s_0
SPARSITIES = (4, 3, 2, 1)  # kappa


def tuned_adam(data: TrainingData, settings: MixtureSettings, generator: torch.Generator) -> Tuned:
    """Algorithm 2, about fifty trainings."""
    if settings.exact:
        raise ValueError("tuning='full' under Adam needs sparse experts, got exact ones; use tuning='off'")
    validation_labels(data)  # raises an error if there are none
    tuning = _Tuning(data, settings, generator)
    tuning.choose_rates()
    tuning.begin_mixture()
    tuning.choose_gate()
    tuning.choose_penalty_ladder_and_noise()
    tuning.lower_sparsity()
    return Tuned(tuning.better_settings(), tuning.decisions)


@final
class _Tuning:
    """The incumbent settings, their outcome, and the decisions that led to them."""

    def __init__(self, data: TrainingData, settings: MixtureSettings, generator: torch.Generator) -> None:
        self.decisions: list[Decision] = []
        self._given = settings
        self._points = data.for_training()
        start = global_start(data.points, settings, generator)
        self._start = start
        self._candidates = CandidateTrainer(data, start, generator)
        n, m_E = len(self._points), min(len(self._points), settings.n_inducing)
        m_G = min(max(n // 4, 1), settings.n_gate_inducing)
        self._settings = replace(settings, shared_bandwidth=start.shared_bandwidth, n_inducing=m_E, n_gate_inducing=m_G)
        self._as_given = self._candidates.run(self._settings)
        self._best: Outcome | None = None
        self._note("m_E, m_G", [self._as_given.as_trial((m_E, m_G))], (m_E, m_G))

    def choose_rates(self) -> None:
        """Lines 10 and 11: eta_0, eta_H and B on a single expert that starts from its prior."""
        n, ladder = len(self._points), self._given.bandwidths
        self._settings = self._with(
            bandwidths=torch.ones_like(ladder[:1]),
            sparsity=1,
            penalty=0.0,
            hyperparameter_rate=FIRST_HYPERPARAMETER_RATE,
            batch_size=n,
        )
        self._choose_learning_rate()
        rates = [(rate, {"hyperparameter_rate": rate}) for rate in HYPERPARAMETER_RATES]
        self._compare("eta_H", FIRST_HYPERPARAMETER_RATE, rates, untrained=True)
        sizes = [n // parts for parts in BATCHES if n // parts >= SMALLEST_BATCH]
        self._compare("B", n, [(b, {"batch_size": b}) for b in sizes], while_better=True, untrained=True)
        self._settings = self._with(bandwidths=ladder)

    def _choose_learning_rate(self) -> None:
        """Upwards while the objective falls in all first epochs, then downwards while that validates better."""
        trials: list[Trial] = []
        for rate in LEARNING_RATES:
            outcome = self._try_rate(rate, trials, probe=rate != LEARNING_RATES[-1])
            if outcome.end != "interrupted":
                break
        for rate in reversed(LEARNING_RATES[: len(trials) - 1]):
            outcome = self._try_rate(rate, trials)
            if self._best is not None and outcome is not self._best:
                break
        self._note("eta_0", trials, self._training.learning_rate)

    def _try_rate(self, rate: float, trials: list[Trial], *, probe: bool = False) -> Outcome:
        candidate = self._with(learning_rate=rate)
        outcome = self._candidates.run(candidate, untrained=True, probe=probe)
        trials.append(outcome.as_trial(rate))
        if self._is_better(outcome):
            self._take(candidate, outcome)
        return outcome

    def begin_mixture(self) -> None:
        """Lines 12 to 15: the ladder around the global bandwidth, and initial values of the rest."""
        self._settings = self._with(
            gate_bandwidth=gate_width(self._start, self._given),
            gate_scale=FIRST_GATE_SCALE,
            sparsity=len(self._given.bandwidths),
            gate_rate=FIRST_GATE_RATE,
            penalty=self._in_units(FIRST_PENALTY),
            gate_noise=FIRST_GATE_NOISE,
        )
        self._best = None
        outcome, L = self._candidates.run(self._settings), len(self._given.bandwidths)
        self._take(self._settings, outcome)
        self._note("L", [outcome.as_trial(L)], L)

    def choose_gate(self) -> None:
        """Lines 16 and 17: sigma_G and lambda_G on a grid, then eta_G downwards."""
        if self._given.gate_bandwidth is None:
            grid = [pair for pair in product(GATE_WIDTHS, GATE_SCALES) if pair != (GATE_WIDTH, FIRST_GATE_SCALE)]
            bandwidths = {width: {"gate_bandwidth": width * self._start.global_bandwidth} for width in GATE_WIDTHS}
            pairs = [((w, scale), {**bandwidths[w], "gate_scale": scale}) for w, scale in grid]
            self._compare("sigma_G / global bandwidth, lambda_G", (GATE_WIDTH, FIRST_GATE_SCALE), pairs)
        else:
            scales = [(scale, {"gate_scale": scale}) for scale in GATE_SCALES if scale != FIRST_GATE_SCALE]
            self._compare("lambda_G", FIRST_GATE_SCALE, scales)
        self._compare("eta_G", FIRST_GATE_RATE, [(rate, {"gate_rate": rate}) for rate in GATE_RATES], while_better=True)

    def choose_penalty_ladder_and_noise(self) -> None:
        """Line 18: theta; more bandwidths beyond ends that are in use, fewer at ends that are not; s_0."""
        values = [self._in_units(penalty) for penalty in PENALTIES]
        self._compare("theta", self._training.penalty, [(value, {"penalty": value}) for value in values])
        if self._given.adaptive:
            largest = largest_useful(scale_inputs(self._points.X, self._start.shared_bandwidth))
            self._change_ladder(lambda ladder, shares: extended(ladder, shares, largest), self._is_better)
            self._change_ladder(trimmed, self._is_as_good)
        self._compare("s_0", FIRST_GATE_NOISE, [(noise, {"gate_noise": noise}) for noise in GATE_NOISES])

    def lower_sparsity(self) -> None:
        """Line 19: the smallest kappa without loss; every training continues from the best state so far."""
        if self._best is None:
            return
        L = len(self._settings.bandwidths)
        begin, trials = self._best.state, [self._best.as_trial(L, known=True)]
        for kappa in [L, *(kappa for kappa in SPARSITIES if kappa < L)]:
            candidate = self._with(sparsity=kappa, epochs_per_kappa=1, gate_noise=0.0)
            outcome = self._candidates.run(candidate, begin=begin)
            trials.append(outcome.as_trial(kappa))
            if kappa == L:
                self._best = outcome if self._is_better(outcome) else self._best
            elif self._is_as_good(outcome):
                self._settings = self._with(sparsity=kappa)
            else:
                break
        self._note("kappa", trials, self._training.sparsity)

    def better_settings(self) -> MixtureSettings:
        """The incumbent, or the given settings if these validated better."""
        trials, is_tuned = [self._as_given.as_trial("as given", known=True)], False
        if self._best is not None:
            trials.append(self._best.as_trial("tuned", known=True))
            is_tuned = self._best.error <= self._as_given.error
        self._note("settings", trials, "tuned" if is_tuned else "as given")
        return self._settings if is_tuned else self._given

    def _compare(
        self,
        varied: str,
        incumbent: Value,
        candidates: Iterable[tuple[Value, dict[str, Any]]],
        *,
        while_better: bool = False,
        untrained: bool = False,
    ) -> None:
        """Try changes of the incumbent and keep the best; `while_better` stops at the first that is not better."""
        if self._best is None:
            return
        trials, chosen = [self._best.as_trial(incumbent, known=True)], incumbent
        # Each is a change of the incumbent at the time when the comparison begins.
        tried = [(value, self._with(**changes)) for value, changes in candidates]
        for value, candidate in tried:
            outcome = self._candidates.run(candidate, untrained=untrained)
            trials.append(outcome.as_trial(value))
            if self._is_better(outcome):
                self._take(candidate, outcome)
                chosen = value
            elif while_better:
                break
        self._note(varied, trials, chosen)

    def _change_ladder(
        self,
        changed: Callable[[Bandwidths, torch.Tensor], torch.Tensor],
        is_accepted: Callable[[Outcome], bool],
    ) -> None:
        for _ in range(CHANGES):
            if self._best is None or self._best.shares is None:
                return
            ladder = self._settings.bandwidths
            other = changed(ladder, self._best.shares)
            if len(other) == len(ladder):
                return
            candidate = self._with(bandwidths=other, sparsity=len(other))
            outcome = self._candidates.run(candidate)
            before = tuple(ladder.tolist())
            trials = [self._best.as_trial(before, known=True), outcome.as_trial(tuple(other.tolist()))]
            accepted = is_accepted(outcome)
            if accepted:
                self._take(candidate, outcome)
            self._note("sigma_l", trials, tuple(self._settings.bandwidths.tolist()))
            if not accepted:
                return

    @property
    def _training(self) -> AdamSettings:
        return adam_settings(self._settings)

    def _with(self, **changes: Any) -> MixtureSettings:  # noqa: ANN401 - values of either kind of settings
        """The incumbent with other settings of the mixture or of its training."""
        inner = {name: value for name, value in changes.items() if name in AdamSettings.__dataclass_fields__}
        outer = {name: value for name, value in changes.items() if name not in inner}
        return replace(self._settings, **outer, training=replace(self._training, **inner))

    def _take(self, candidate: MixtureSettings, outcome: Outcome) -> None:
        if outcome.end == "finished":
            self._settings, self._best = candidate, outcome

    def _is_better(self, outcome: Outcome) -> bool:
        return outcome.end == "finished" and (self._best is None or outcome.error < self._best.error)

    def _is_as_good(self, outcome: Outcome) -> bool:
        return outcome.end == "finished" and self._best is not None and not outcome.is_worse_than(self._best)

    def _in_units(self, penalty: float) -> float:
        return penalty if self._training.objective is elbo else SQUARED_PENALTY * penalty

    def _note(self, varied: str, trials: list[Trial], chosen: Value) -> None:
        logger.info("%s: %s of %s", varied, chosen, [trial.value for trial in trials])
        self.decisions.append(Decision(varied, tuple(trials), chosen))
