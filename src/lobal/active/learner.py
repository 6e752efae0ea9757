"""The active learner: Algorithm 1, asked and told.

Everything random at step k is seeded by the campaign's seed and k, and every event is on disk before it counts, so a
campaign that dies at any instant goes on where it stopped and asks for the same points.
"""

import json
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from sklearn.base import clone
from torch import Tensor

from lobal.active.campaign.folder import Campaign
from lobal.active.campaign.history import History, Step
from lobal.active.campaign.ledger import Observations
from lobal.active.campaign.state import State
from lobal.active.campaign.storage import StepState, Stored, begun_with, model_of_last_step, restored_model
from lobal.active.designs import Candidates, NextDensity, candidates_of, located, next_density, place, with_exploration
from lobal.active.oracles import as_labels, labels_as_they_come
from lobal.active.scoring import Scores
from lobal.active.settings import (
    DRAWS,
    as_batch,
    checked_model,
    checked_path,
    checked_sizes,
    checked_space,
    checked_validation,
    learner_settings,
    whole_number,
)
from lobal.active.shrinking import numbers_found, shrunk
from lobal.active.spaces import Box, Oracle, Pool
from lobal.core.arrays import rows_at
from lobal.core.density import LARGEST_SAMPLE, importance_weights
from lobal.core.density import intrinsic_dimension as estimated_dimension
from lobal.core.status import Show, Standing, campaign_line
from lobal.mixture.decisions import decisions_as_json
from lobal.mixture.estimator import SMALLEST_TRAINING_SET, MixtureRegressor, NoiseFunction

StoppingRule: TypeAlias = Callable[["ActiveLearner"], bool]
Callback: TypeAlias = Callable[["ActiveLearner"], None]


@final
class ActiveLearner:
    """Decides which points to label next, so that the whole training set follows the superior training density.

    Args:
        space: a `Pool` of candidates or a `Box` to choose from.
        seed: of everything random.
        path: folder to keep the campaign in, step by step; without it nothing is written until `save`.
        model: an unfitted `MixtureRegressor` whose options every fit takes; by default one without options.
        validation: inputs and labels that steer the fits and are used for nothing else.
        smoothness: alpha of the target.
        intrinsic_dimension: delta of the inputs; estimated from a pool, the number of columns of a box.
        exploration: share of the test density in what the learner aims for, so that no region starves on the evidence
            of a handful of labels.
        draw: "random" as in the paper, or "low_dispersion" for evenly spread draws of the same density.
        shrink_inducing: look once, when there is a complexity to place them by and two labels for each, how few
            inducing points will do, and keep to that. Saves time in long campaigns, and may cost accuracy in very long
            ones: more labels bear smaller bandwidths, which need more inducing points.
    """

    def __init__(
        self,
        space: Pool | Box,
        *,
        seed: int = 0,
        path: str | os.PathLike[str] | None = None,
        model: MixtureRegressor | None = None,
        validation: tuple[Any, Any] | None = None,
        smoothness: float = math.inf,
        intrinsic_dimension: float | None = None,
        exploration: float = 0.1,
        draw: str = "random",
        shrink_inducing: bool = False,
    ) -> None:
        template = clone(checked_model(model))
        self.settings: dict[str, Any] = learner_settings(
            seed=seed,
            smoothness=smoothness,
            intrinsic_dimension=1.0 if intrinsic_dimension is None else intrinsic_dimension,
            exploration=exploration,
            draw=draw,
            shrink_inducing=shrink_inducing,
            model=template,
        )
        folder = None if path is None else checked_path(path)
        steering = checked_validation(validation, checked_space(space).dimension)
        candidates = candidates_of(space, seed=self.settings["seed"])
        if intrinsic_dimension is None:
            self.settings["intrinsic_dimension"] = _dimension(candidates, self.settings["seed"])
        self._set_up(State(Stored(self.settings, candidates, steering)), template)
        if folder is not None:
            self.save(folder)

    def _set_up(self, state: State, template: MixtureRegressor) -> None:
        self.settings, self.candidates, self.validation = state.begun
        self._state = state
        self._scores = Scores(
            candidates=self.candidates,
            smoothness=self.settings["smoothness"],
            dimension=self.settings["intrinsic_dimension"],
        )
        self._template = template
        self._model: MixtureRegressor | None = None

    # Asking and telling.

    def ask(self, n: int) -> Int[ndarray, " n"] | Float[ndarray, "n d"]:
        """The next n points to label: row numbers of a pool, inputs in a box.

        One pass through the loop of Algorithm 1. The points are pending until they are told; whoever asks again before
        that gets others, chosen as if the pending ones were labelled.
        """
        self._state.check_left(whole_number("the number of points to ask for", n, least=1))
        generator = torch.Generator().manual_seed(self._step_seed())
        complexity = None if self.model is None else self._scored_complexity()
        findings = self._findings(complexity)
        following = None if complexity is None else self._following(complexity, n)
        # Before there is a model: X_n0 ~ p_0 = q.
        weights = self._state.weights(self._state.density if following is None else following.proposal, n)
        draw = DRAWS[self.settings["draw"]]
        indices = draw(weights, self.candidates.X, n, generator=generator, repeated=self.is_box)
        inputs = place(self.candidates, indices, generator=generator)
        step = Step(
            number=len(self.history),
            size=self._state.ledger.size,
            batch=n,
            indices=tuple(indices.tolist()),
            gamma_1=None if following is None else following.gamma_1,
            gamma_2=None if following is None else following.gamma_2,
            **findings,
        )
        left = StepState(
            number=step.number,
            density=self._state.density if following is None else following.density,
            complexity=complexity,
            model=self._model,
        )
        self._state.go_on(step, inputs, left)
        return inputs if self.is_box else indices.numpy()

    def tell(self, batch: Any, labels: Any) -> None:  # noqa: ANN401 - array-likes of any kind are welcome
        """Take labels of points: row numbers of a pool, or inputs in a box, in any order and number.

        NaN or infinite labels are failures: the point is neither learned from nor asked for again. A point may be
        told more than once, and points nobody asked for are welcome.
        """
        values = as_labels(labels, name="labels")
        points = as_batch(batch, self.candidates.bounds)
        if not values.size and not points.size:
            return
        candidates, inputs = located(self.candidates, points)
        if values.shape != (len(candidates),):
            raise ValueError(f"{len(candidates)} points need as many labels, got labels of shape {values.shape}")
        self._state.tell(self._state.enter(candidates, inputs), values)
        if np.isfinite(values).any():
            self._model = None

    def expect(self, batch: Any) -> None:  # noqa: ANN401 - array-likes of any kind are welcome
        """Take note of points that are being labelled already, though nobody asked for them here.

        From now on they are pending like those asked for.
        """
        points = as_batch(batch, self.candidates.bounds)
        if points.size:
            self._state.enter(*located(self.candidates, points))

    def run(
        self,
        oracle: Oracle,
        *,
        sizes: Sequence[int],
        executor: Executor | None = None,
        points_per_call: int | None = None,
        stop: Sequence[StoppingRule] = (),
        callbacks: Sequence[Callback] = (),
        progress: bool = False,
    ) -> History:
        """Ask the oracle until there are sizes[-1] labels, re-estimating at each of the sizes.

        Args:
            oracle: labels (m,) of inputs (m, d). If it raises, the points it was called with failed; if it returns NaN,
                those points did. Where none of a batch has a label in the end, the run ends and none is given up.
            sizes: numbers of labels n_0 < n_1 < ... at which the model is estimated anew; those that are there
                already are passed over, so a campaign that was interrupted goes on with the same call.
            executor: where calls run side by side; any `concurrent.futures.Executor`.
            points_per_call: by default one where an executor or a path is given, so that each label is safe as soon
                as it is there, and else the whole batch.
            stop: rules that end the run early, looked at after every size.
            callbacks: called after every size, for records and pictures.
            progress: show a line on the terminal that follows the run.

        Ctrl-C leaves the learner, and the campaign on disk, as after the last label: run it again to go on.
        """
        if not callable(oracle):
            raise TypeError(f"oracle must be a function of inputs (m, d) that returns labels (m,), got {oracle!r}")
        targets = checked_sizes(sizes, None if self.is_box else len(self.candidates))
        if points_per_call is None:
            points_per_call = 1 if executor is not None or self._state.is_kept else targets[-1]
        whole_number("points_per_call", points_per_call, least=1)
        with campaign_line(progress, targets[-1]) as show:
            for size in targets:
                missing = size - self._state.ledger.size
                if missing > 0:
                    show(self._standing("fitting the model, choosing points"))
                    self.ask(missing)
                if self._state.ledger.pending:
                    self._answer(oracle, executor, points_per_call, show)
                    for callback in callbacks:
                        callback(self)
                if any(rule(self) for rule in stop):
                    break
        return self.history

    # What is known.

    @property
    def is_box(self) -> bool:
        """Whether points are inputs in a box rather than rows of a pool."""
        return self._state.is_box

    @property
    def history(self) -> History:
        """The steps so far."""
        return self._state.history

    @property
    def labelled(self) -> Observations:
        """All labels and their inputs, in the order they were asked for."""
        return self._state.ledger.observations()

    @property
    def pending(self) -> Int[ndarray, " n"] | Float[ndarray, "n d"]:
        """Points asked for, or expected, whose label is still to come."""
        return self._state.points(self._state.ledger.pending)

    @property
    def failed(self) -> Int[ndarray, " n"] | Float[ndarray, "n d"]:
        """Points that have no label and will have none."""
        return self._state.points(self._state.ledger.failed)

    @property
    def model(self) -> MixtureRegressor | None:
        """The mixture fitted to all labels so far; none while there are too few."""
        if self._model is None and self._state.ledger.n_labels >= SMALLEST_TRAINING_SET:
            self._model = self._fit()
        return self._model

    def local_complexity(self) -> Float[ndarray, " N"]:
        """LFC at every candidate, Eq. (eq:approxLFC), up to a constant factor."""
        return self._scored_complexity().numpy()

    def superior_density(self) -> Float[ndarray, " N"]:
        """The superior training density at every candidate, Eq. (eq:approxPOpt), at equal norm with the pool's."""
        return self._superior(self._scored_complexity()).numpy()

    def training_density(self) -> Float[ndarray, " N"]:
        """p_k at every candidate: what the points drawn so far follow, labelled, pending or failed.

        The labels alone follow it if failures are few, or as likely in one place as in another. Failed points stay in
        it nevertheless: without them, a region where labels cannot be had would look empty, and draw ever more points
        (all of them, once batches are small). `importance_weights` puts right what that means for the labels.
        """
        return self._state.density.numpy().copy()

    def importance_weights(self) -> Float[ndarray, " n"]:
        """q / p_k at the labelled points: `sample_weight` for any model that is to serve under the test density.

        From ten failures on, p_k is multiplied with the share of points nearby that have a label.
        """
        q = self.candidates.test_density[torch.as_tensor(self.labelled.candidate)]
        return importance_weights(q, self._state.labelled_density()).numpy()

    def headroom(self) -> float:
        """The share of random labels that active learning needs for the same error, estimated from the complexity.

        One means there is nothing to gain, one half that half of the labels can be saved. The noise of the estimate
        itself makes it optimistic.
        """
        attainable = self._scores.attainable(self._scored_complexity(), self._scores.noise(self._known_model()))
        return min(attainable, 1.0)  # rounding may carry it beyond

    # One step of Algorithm 1.

    def _step_seed(self) -> int:
        return int(np.random.SeedSequence([self.settings["seed"], len(self.history)]).generate_state(1)[0])

    def _fit(self) -> MixtureRegressor:
        """Train f_MoE on (X_nk, Y_nk), its inducing points drawn from sqrt(p_k LFC_k-1) and, on request, few."""
        X, y, _ = self.labelled
        weight, spread = self.importance_weights(), self._state.inducing_weights()

        def fitted(numbers: dict[str, int]) -> MixtureRegressor:
            model: MixtureRegressor = clone(self._template).set_params(
                random_state=self._step_seed(),
                smoothness=self.settings["smoothness"],
                intrinsic_dimension=self.settings["intrinsic_dimension"],
                **numbers,
            )
            return model.fit(X, y, sample_weight=weight, inducing_weight=spread, validation=self.validation)

        numbers = self.history.inducing_numbers
        model = fitted(numbers)
        is_due = self.settings["shrink_inducing"] and not numbers and spread is not None
        return shrunk(model, fitted, X, y, self.validation) if is_due else model

    def _following(self, complexity: Float[Tensor, " N"], n: int) -> NextDensity:
        """p_k+1 for n more points, and the density to draw them from."""
        target = with_exploration(
            self._superior(complexity), self.candidates.test_density, self.settings["exploration"]
        )
        return next_density(
            self._state.density, target, self.candidates.pool_density, n=self._state.ledger.n_drawn, b=n
        )

    def _scored_complexity(self) -> Float[Tensor, " N"]:
        return self._scores.complexity(self._known_model(), self._state.density)

    def _superior(self, complexity: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        return self._scores.superior(complexity, self._scores.noise(self._known_model()))

    def _findings(self, complexity: Float[Tensor, " N"] | None) -> dict[str, Any]:
        """What the model of this step says about itself and about the candidates, for the record."""
        model = self._model
        if model is None or complexity is None:
            return {"validation_error": None, "noise": None, "attainable": None}
        attainable = self._scores.attainable(complexity, self._scores.noise(model))
        return {
            "validation_error": model.validation_error_,
            "noise": model.noise_,
            "attainable": attainable,
            "decisions": tuple(json.loads(decisions_as_json(model.tuning_))),
            **(self.history.inducing_numbers or numbers_found(model)),
        }

    def _known_model(self) -> MixtureRegressor:
        model = self.model
        if model is None:
            raise ValueError(
                f"the complexity is known from {SMALLEST_TRAINING_SET} labels on, there are "
                f"{self._state.ledger.n_labels}; ask, and tell the labels"
            )
        return model

    # Labels.

    def _answer(self, oracle: Oracle, executor: Executor | None, points_per_call: int, show: Show) -> None:
        """Label all pending points, each label on disk as soon as it is there."""
        ledger = self._state.ledger
        numbers = ledger.pending
        calls = [numbers[i : i + points_per_call] for i in range(0, len(numbers), points_per_call)]
        show(self._standing("waiting for labels"))
        for call, labels in labels_as_they_come(oracle, [ledger.inputs(call) for call in calls], executor):
            self.tell(self._state.points(calls[call]), labels)
            show(self._standing("waiting for labels"))

    def _standing(self, doing: str) -> Standing:
        known = self.history.steps[-1].validation_error if self.history.steps else None
        error = known if self._model is None else self._model.validation_error_
        return Standing(doing=doing, step=len(self.history), labels=self._state.ledger.n_labels, error=error)

    # Keeping it.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the campaign to a folder, which `load` reads and which is kept up to date from then on.

        Everything that was asked and told is in it. Densities and model are those of the last step and of all that
        follow: those of earlier steps are not held in memory. Give a `path` from the start to keep them too.
        """
        self._state.save(checked_path(path))

    def close(self) -> None:
        """Let go of the campaign's folder, so that another process may open it."""
        self._state.close()

    def __enter__(self) -> "ActiveLearner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, noise: NoiseFunction | None = None, pool: Pool | None = None
    ) -> "ActiveLearner":
        """The campaign of that folder as it was at its last event; it goes on there.

        Args:
            path: the folder.
            noise: the function that the model was given as its `noise`, if it was: functions cannot be kept.
            pool: the pool, if it was a memory-mapped file that is somewhere else now.
        """
        campaign = Campaign.open(path)
        try:
            begun = begun_with(campaign, pool)
            return cls._opened(campaign, begun, restored_model(begun.settings, noise))
        except BaseException:
            campaign.close()
            raise

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], *, noise: NoiseFunction | None = None, pool: Pool | None = None
    ) -> "ActiveLearner":
        """The same without taking hold of it: for a look at a campaign that another process is running.

        Where the noise was a function that is not given again, the model learns a constant noise, said in the log.
        """
        campaign = Campaign.read(path)
        begun = begun_with(campaign, pool)
        return cls._opened(campaign, begun, restored_model(begun.settings, noise, is_needed=False))

    @classmethod
    def _opened(cls, campaign: Campaign, begun: Stored, template: MixtureRegressor) -> "ActiveLearner":
        learner = cls.__new__(cls)
        learner._set_up(State.kept_in(campaign, begun), template)
        learner._model = model_of_last_step(campaign, template)
        return learner


def _dimension(candidates: Candidates, seed: int) -> float:
    """The intrinsic dimension of a sample of the pool; of a box, the number of its columns."""
    if candidates.cell is not None:
        return float(candidates.X.shape[1])
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(candidates.X), generator=generator)[:LARGEST_SAMPLE].sort().values
    return estimated_dimension(torch.from_numpy(rows_at(candidates.X, rows.numpy())), generator=generator)
