"""The active learner: Algorithm 1, asked and told.

Everything random at step k is seeded by the campaign's seed and k, and every event is on disk before it counts, so a
campaign that dies at any instant goes on where it stopped and asks for the same points.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias, final

from jaxtyping import Float
from numpy import ndarray

from lobal.active.campaign.exclusive import exclusive
from lobal.active.campaign.folder import Campaign
from lobal.active.campaign.history import History
from lobal.active.campaign.ledger import GROWN, Ledger, Observations
from lobal.active.campaign.state import SMALLEST_TRAINING_SET, CampaignState
from lobal.active.campaign.steps import Setup, opened_setup
from lobal.active.candidates import Batch, Candidates, Points, UserInput
from lobal.active.expected_savings import ExpectedSavings
from lobal.active.frames import n_rows
from lobal.active.knowledge import Knowledge
from lobal.active.labelling import Labelling
from lobal.active.next_step import NextStep, next_step, next_step_within
from lobal.active.oracles import Oracle
from lobal.active.reasons import Reason, reasons_for
from lobal.active.running import Run
from lobal.active.settings import (
    PRESETS,
    LearnerSettings,
    checked_path,
    checked_sizes,
    checked_space,
    checked_surrogate,
)
from lobal.active.spaces import SavedSpace, Space
from lobal.active.summary import Summary, summary_of
from lobal.active.surrogate import FittedSurrogate, NoiseFunction, Surrogate
from lobal.core.checks import real_number, whole_number
from lobal.core.presets import takes_preset
from lobal.core.status import status_line

StoppingRule: TypeAlias = Callable[["ActiveLearner"], bool]
Callback: TypeAlias = Callable[["ActiveLearner"], None]


@final
@takes_preset(PRESETS)
class ActiveLearner:
    """Decides which points to label next, so that the whole training set follows the superior training density.

    Threads may share a learner: calls wait for each other, also for the fit of another's `ask`. Ctrl-C leaves no event
    half done: it is there as a whole, or not at all.

    Args:
        space: where labels can be asked for: a `Pool` of candidates, a `Box`, a `SearchSpace` of named variables, or a
            pool of molecules.
        preset: "paper" for Algorithm 1 as the paper has it: `draw="random"`, `exploration=0`, and the model by its own
            `preset="paper"`, unless one is given. Options beside it take the place of its own. The paper's validation
            set is `validation`, and it doubles the number of labels with every batch, from 512 on.
        seed: seed of everything random.
        path: folder to save the campaign in, event by event; without it nothing is written until `save`.
        model: an unfitted `MixtureRegressor` whose options every fit uses, or another `Surrogate`; by default the
            space's own, `MixtureRegressor()` for arrays.
        validation: inputs and labels to validate the fits with, used for nothing else.
        smoothness: alpha of the target, by default infinity, or what the model is made for; change it for targets that
            are known to be rough.
        intrinsic_dimension: delta of the inputs; by default estimated from a pool, the number of columns of a box.
        exploration: share of the points that follow the test density, between 0 and 1. It keeps a region from
            starving on the evidence of a handful of labels, and tells what the others gain; 0 is the paper's scheme.
        draw: "adaptive", the default for arrays: "integrated_variance", points whose labels lower the variance of
            predictions most, where the model's errors are as it expects, otherwise "spread", points that follow the
            density evenly in the metric of the model; "random" for independent draws as in the paper, the default for
            molecules; "low_dispersion" for systematic draws along a curve; or a competitor such as "gsx" (see
            `lobal.baselines`).
        complexity: "local" or, to spread points as if the function were equally complex everywhere, "constant".
        shrink_inducing: find out once how few inducing points are enough; may cost accuracy in very long campaigns.
        keep_models: keep the models of all steps in the folder; by default those of the last two.

    Raises:
        TypeError, ValueError: an option is of the wrong kind or out of range; nothing has been computed then.

    Example:
        >>> import numpy as np, lobal
        >>> X = np.random.default_rng(0).random((200, 1))
        >>> learner = lobal.ActiveLearner(lobal.Pool(X), seed=0)
        >>> batch = learner.ask(20)
        >>> learner.tell(batch, np.sin(9 * X[batch, 0]))
        >>> len(learner.labelled.y)
        20
    """

    def __init__(
        self,
        space: Space,
        *,
        preset: str | None = None,
        seed: int = 0,
        path: str | os.PathLike[str] | None = None,
        model: Any = None,  # noqa: ANN401 - a surrogate, or what is made one
        validation: Any = None,  # noqa: ANN401 - pairs of array-likes, or what the space takes
        smoothness: float | None = None,
        intrinsic_dimension: float | None = None,
        exploration: float = 0.1,
        draw: str | None = None,
        complexity: str = "local",
        shrink_inducing: bool = False,
        keep_models: bool = False,
    ) -> None:
        design_name = checked_space(space).default_draw if draw is None else draw
        surrogate = checked_surrogate(model, shrink_inducing, space, preset=preset)
        alpha = surrogate.default_smoothness if smoothness is None else smoothness
        given = {"smoothness": alpha, "intrinsic_dimension": intrinsic_dimension, "exploration": exploration}
        named = {"draw": design_name, "complexity": complexity, "keep_models": keep_models, "preset": preset}
        settings = LearnerSettings.checked(seed=seed, **given, **named)
        folder = None if path is None else checked_path(path)
        checked = None if validation is None else space.checked_validation(validation)
        candidates = space.candidates(settings.seed)
        if settings.intrinsic_dimension is None:
            settings = replace(settings, intrinsic_dimension=candidates.intrinsic_dimension(settings.seed))
        self._state = CampaignState(Setup(settings, surrogate, candidates, checked))
        self._knowledge = Knowledge(self._state)
        if folder is not None:
            try:
                self.save(folder)
            except BaseException:
                self.close()
                raise

    # Asking and telling.

    def ask(self, n: int) -> Batch:
        """The next n points to label: row numbers of a pool, inputs in a box, a data frame for a `SearchSpace`.

        One pass through the loop of Algorithm 1. The points are pending until they are told. A second `ask` before
        that returns different points, chosen as if the pending ones were labelled.

        Raises:
            ValueError: n is not a whole number of at least 1, or the pool has fewer points left.
        """
        return self._ask(n)

    @exclusive
    def _ask(self, n: int, target: int | None = None) -> Batch:
        self._state.check_left(whole_number("the number of points to ask for", n, least=1))
        return self._take(next_step(self._state, self._known, n, target))

    @exclusive
    def _ask_within(self, n: int, target: int, budget: float) -> int:
        """Ask for n points, or for as many as the budget pays; returns how many."""
        self._state.check_left(n)
        found = next_step_within(self._state, self._known, n, target, budget)
        return 0 if found is None else n_rows(self._take(found))

    def _take(self, found: NextStep) -> Batch:
        self._state.add_step(found.step, found.inputs, found.leaves)
        return self.candidates.batch(found.candidates, found.inputs)

    @exclusive
    def tell(self, batch: UserInput, labels: UserInput) -> None:
        """Record labels of points: row numbers of a pool, or inputs in a box, in any order and number.

        Args:
            batch: the points, as `ask` returns them; points nobody asked for are welcome. Inputs that are rounded, to
                float32 or a few digits, are the pending points they nearly equal, with a note in the log.
            labels: one label for each. NaN or infinite labels are failures: the point is neither learned from nor
                asked for again. A point may be told more than once. With several outputs, one row for each; outputs
                that are NaN failed, and the point itself only if all are.

        Raises:
            ValueError: points are not of the space, or labels do not fit them.
        """
        points = self._state.locate(batch)
        values = self.candidates.labels(labels, len(points[0]), name="labels")
        if points[0]:
            self._state.tell_points(points, values)

    @exclusive
    def expect(self, batch: UserInput) -> None:
        """Record points that are being labelled already, though nobody asked for them here: they are pending."""
        points = self._state.locate(batch)
        if points[0]:
            self._state.enter(points)

    @exclusive
    def give_up(self, batch: UserInput | None = None) -> None:
        """Record that pending points have no label and will have none; by default all that are pending."""
        state, before = self._state, self._state.ledger.n_drawn
        numbers = state.ledger.pending if batch is None else state.enter(state.locate(batch))
        state.fail(numbers, continues=state.ledger.n_drawn > before)

    @exclusive
    def undo(self) -> str:
        """Take back the last `ask`, `tell`, `expect` or `give_up`; called again, the one before it.

        All is as it was before that call. Nothing is deleted: the journal keeps the event, and one that takes it back.
        An `ask` can be undone once all that came after it is, so never while its points have labels. The next `ask`
        after an `ask` that was undone returns the same points, unless something has changed.

        Returns:
            What was undone, in words.

        Raises:
            ValueError: there is nothing to undo, or it is too long ago: what the last 32 steps left is kept, of large
                pools less.
        """
        undone = self._state.undo()
        self._knowledge = Knowledge(self._state, self._state.model_of_last_step())
        return undone

    @exclusive
    def grow(self, space: Space, *, about: Mapping[str, Any] | None = None) -> None:
        """Let the candidates of another space take the place of those nobody has asked for.

        The points so far stay, with their labels, and are the first candidates: their new row numbers are their places
        in the order in which they entered. Pool and test density are those of the new space, and the density that the
        points follow is estimated from them. Only a `MoleculePool` that `grows` has such candidates.

        Args:
            space: the new candidates, of the same molecule.
            about: how they were made, as JSON can hold it; kept in the journal, see `growths`.

        Raises:
            ValueError: the candidates of the campaign are fixed, the new ones do not fit, or points are pending.
        """
        if pending := len(self._state.ledger.pending):
            raise ValueError(f"candidates cannot change while points are pending, got {pending}; tell or give them up")
        drawn = self._state.ledger.inputs(range(self._state.ledger.n_drawn))
        self._state.grow(self.candidates.grown(drawn, checked_space(space)), about or {})

    @property
    @exclusive
    def growths(self) -> list[dict[str, Any]]:
        """What `grow` was told `about` its candidates, each time."""
        return [dict(event.get("about", {})) for event in self._state.events_in_force if event["event"] == GROWN]

    def run(
        self,
        oracle: Oracle,
        *,
        sizes: Sequence[int],
        budget: float | None = None,
        executor: Executor | None = None,
        points_per_call: int | None = None,
        timeout: float | None = None,
        stop: Sequence[StoppingRule] = (),
        callbacks: Sequence[Callback] = (),
        progress: bool = False,
    ) -> History:
        """Ask the oracle until there are sizes[-1] labels, fitting the model anew at each of the sizes.

        Ctrl-C, like any error, first records the labels of calls that have been made: calls that are running are waited
        for, until Ctrl-C is pressed again. Run it again to go on.

        Args:
            oracle: returns labels (m,) of inputs (m, d), or of the table of a `SearchSpace`. If it raises, the points
                it was called with failed; if it returns NaN, those points did. If no point of a batch gets a label, the
                run ends with an error and the points stay pending.
            sizes: numbers of labels n_0 < n_1 < ... at which the model is fitted anew; those already reached, or
                asked for, are skipped, so the same call continues a campaign that was interrupted. Failures are made
                up for by the next size, those of the last by further points, until three rounds of them fail in vain.
            budget: the most that all points of the campaign may cost together, pending and failed ones included; in
                units of the space's `cost`, without which every point costs 1. The last batch is cut to what it pays.
            executor: runs calls in parallel; any `concurrent.futures.Executor`. If a process dies, its calls failed.
            points_per_call: by default 1 with an executor or a path, so that each label is saved as soon as it
                arrives, and else the whole batch.
            timeout: seconds without any answer from the executor after which the calls that are running have failed.
                Processes that still hang when the run ends are killed, with all others of their executor.
            stop: rules that end the run early, checked after every size (see `lobal.stopping`).
            callbacks: functions of the learner, called after every size.
            progress: show a status line on the terminal.

        Returns:
            The history of all steps.

        Raises:
            RuntimeError: the oracle failed at all points of a batch, or the executor is broken.
            ValueError: the oracle returned labels of the wrong shape, or sizes are not ascending.
        """
        options: dict[str, Any] = {"executor": executor, "points_per_call": points_per_call, "timeout": timeout}
        labelling = Labelling(self._state, oracle, **options)
        targets = checked_sizes(sizes, None if self.is_box else len(self.candidates))
        limit = math.inf if budget is None else real_number("budget", budget, above=0.0, hint="leave it out for none")
        with status_line(progress, targets[-1]) as show, labelling:
            ask = partial(self._ask_within, budget=limit)
            run = Run(self._state, ask, labelling, lambda activity: show(*self._status(activity)))
            show(*self._status("beginning"))
            for size in targets:
                if run.reach(size, is_exact=size == targets[-1]):
                    for callback in callbacks:
                        callback(self)
                if run.is_spent or any(rule(self) for rule in stop):
                    break
        return self.history

    # What is known.

    @property
    def ledger(self) -> Ledger:
        """All points of the campaign by number, in the order they entered it, and what became of them."""
        return self._state.ledger

    @exclusive
    def located(self, batch: UserInput) -> Points:
        """Candidate numbers and recorded inputs of points as a user gives them; rounded ones may be pending points."""
        return self._state.locate(batch)

    @property
    def settings(self) -> LearnerSettings:
        """How points are chosen."""
        return self._state.setup.settings

    @property
    def surrogate(self) -> Surrogate:
        """What fits the models."""
        return self._state.setup.surrogate

    @property
    def candidates(self) -> Candidates:
        """The points to choose from."""
        return self._state.candidates

    @property
    def is_box(self) -> bool:
        """Whether points are inputs in a box."""
        return self.candidates.is_box

    @property
    def has_validation(self) -> bool:
        """Whether models are validated with inputs and labels of their own."""
        return self._state.setup.validation is not None

    @property
    def history(self) -> History:
        """The steps so far."""
        return self._state.history

    @property
    @exclusive
    def labelled(self) -> Observations:
        """All labels and their inputs, as models see them, in the order they were asked for."""
        return self._state.observations()

    @property
    @exclusive
    def labelled_points(self) -> Batch:
        """The points of all labels, in the same order, as `ask` returns them."""
        return self._state.batch(self._state.ledger.labelled()[0])

    @property
    @exclusive
    def pending(self) -> Batch:
        """Points asked for, or expected, whose label is still to come."""
        return self._state.batch(self._state.ledger.pending)

    @exclusive
    def pending_since(self) -> list[datetime | None]:
        """When each of the `pending` points was asked for, or expected; none where an earlier version recorded it."""
        times = (self._state.ledger.entries[number].since for number in self._state.ledger.pending)
        return [None if since is None else datetime.fromtimestamp(since, UTC) for since in times]

    @property
    @exclusive
    def failed(self) -> Batch:
        """Points that have no label and will have none."""
        return self._state.batch(self._state.ledger.failed)

    @property
    @exclusive
    def spent(self) -> float:
        """What labelled and failed points have cost together; without costs, their number."""
        return self._state.cost_of(self._state.ledger.answered)

    @property
    @exclusive
    def fitted(self) -> FittedSurrogate | None:
        """The surrogate fitted to all labels so far; none while there are fewer than ten."""
        return self._known.fitted

    @property
    @exclusive
    def model(self) -> Any:  # noqa: ANN401 - what the surrogate fits
        """The model fitted to all labels so far, such as a `MixtureRegressor`; none while there are fewer than ten.

        With several outputs it has one model for each, `model.models`, by name.
        """
        return None if self.fitted is None else self.fitted.model

    @exclusive
    def predict(self, /, points: UserInput, **options: Any) -> Any:  # noqa: ANN401 - as MixtureRegressor.predict
        """Predictions of the model fitted to all labels so far, at any points.

        Args:
            points: inputs (n, d) or, in a `SearchSpace`, a table of raw values.
            **options: of the model, such as `return_std` and `return_interval` of `MixtureRegressor.predict`.

        Raises:
            ValueError: there are too few labels, or points are none of the space.
        """
        return self._model_to_use().predict(self.candidates.encoded(points), **options)

    @exclusive
    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the model fitted to all labels so far to one file.

        That of a `SearchSpace` has the variables with it: `lobal.SpaceModel.load(path).predict(table)`. Others are read
        by their own class, such as `lobal.MixtureRegressor.load(path)`.

        Raises:
            ValueError: there are too few labels.
        """
        self.candidates.save_model(self._model_to_use(), path)

    def _model_to_use(self) -> Any:  # noqa: ANN401 - what the surrogate fits
        if self.fitted is None:
            n, least = self._state.ledger.n_labels, SMALLEST_TRAINING_SET
            raise ValueError(f"need {least} labels to fit a model, have {n}; call ask() and tell()")
        return self.fitted.model

    @exclusive
    def local_bandwidth(self) -> Float[ndarray, " N"]:
        """LOB at every candidate, Eq. (eq:gprLOB)."""
        return self._known.scores.bandwidth.numpy()

    @exclusive
    def local_complexity(self) -> Float[ndarray, " N"]:
        """LFC at every candidate, Eq. (eq:approxLFC), up to a constant factor."""
        return self._known.scores.complexity.numpy()

    @exclusive
    def superior_density(self) -> Float[ndarray, " N"]:
        """The superior training density at every candidate, Eq. (eq:approxPOpt), at equal norm with the pool's."""
        return self._known.scores.superior.numpy()

    @exclusive
    def training_density(self) -> Float[ndarray, " N"]:
        """p_k at every candidate: what the points drawn so far follow, labelled, pending or failed.

        Without failed ones, regions where labels cannot be had would look empty, and draw ever more points.
        """
        return self._state.density.numpy().copy()

    @exclusive
    def importance_weights(self) -> Float[ndarray, " n"]:
        """q / p_k at the labelled points: `sample_weight` for any model that is to serve under the test density.

        Corrected, from ten failures on, for how often labels fail nearby.
        """
        return self._known.importance_weights

    @exclusive
    def attainable(self) -> float:
        """The relative sample size that the superior density reaches if the complexity is right (def:relSampleSize)."""
        return self._known.scores.attainable

    @exclusive
    def expected_savings(self) -> ExpectedSavings | None:
        """The share of labels that local complexity saves, with its standard error; none if it is not known yet."""
        return self._known.savings

    @exclusive
    def summary(self) -> Summary:
        """Labels, pending and failed points, error and its trend, expected savings and whether to stop."""
        return summary_of(self._state, self._known, self.pending_since())

    @exclusive
    def reasons(self, batch: UserInput | None = None) -> list[Reason]:
        """Why each of these points is worth a label, as the model knows now; by default those of the last `ask`."""
        last = self._state.batch(self._state.ledger.last_batch)
        return reasons_for(self._state, self._known, self.candidates.locate(last if batch is None else batch))

    @property
    def _known(self) -> Knowledge:
        """What follows from the labels so far; recomputed, as far as need be, after every event."""
        self._knowledge = self._knowledge.now()
        return self._knowledge

    @exclusive
    def _status(self, activity: str) -> tuple[int, str]:
        return self._known.status(activity)

    # The folder.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the campaign to a folder, which `load` reads and which is kept up to date from then on.

        Models of earlier steps than the last are not in it; give `path` and `keep_models` from the start to keep them.
        """
        folder = checked_path(path)
        with self._state.lock:
            self._state.save(folder)

    def close(self) -> None:
        """Release the campaign's folder, so that another process may open it."""
        with self._state.lock:
            self._state.close()

    def __enter__(self) -> "ActiveLearner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        noise: NoiseFunction | None = None,
        pool: Space | None = None,
        device: str | None = None,
    ) -> "ActiveLearner":
        """The campaign of that folder, which goes on where it was.

        Args:
            path: the folder.
            noise: the function that the model was given as its `noise`, if it was: functions cannot be saved.
            pool: the pool, if it was a memory-mapped file that has moved, or if the campaign's folder lacks it; the
                `SearchSpace`, if a constraint is a function.
            device: where models are fitted from now on, "cpu" or "cuda"; by default where they were.

        Raises:
            FileNotFoundError, ValueError: there is no campaign, or it is damaged, or `noise` or `pool` is missing.
            BlockingIOError: another process has it open; see `read`.
        """
        campaign = Campaign.open(path)
        try:
            return cls._opened(campaign, pool, noise, device)
        except BaseException:
            campaign.close()
            raise

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        noise: NoiseFunction | None = None,
        pool: Space | None = None,
        device: str | None = None,
    ) -> "ActiveLearner":
        """The same without locking it, to look at a campaign that another process is running.

        Where the noise was a function that is not given again, the model learns a constant noise, with a warning.
        """
        return cls._opened(Campaign.read(path), pool, noise, device)

    @classmethod
    def _opened(
        cls, campaign: Campaign, pool: Space | None, noise: NoiseFunction | None, device: str | None
    ) -> "ActiveLearner":
        setup, events = opened_setup(campaign, pool, noise, device)
        space = SavedSpace(setup.candidates, setup.surrogate)
        learner = cls(space, validation=setup.validation, **setup.settings.to_fields())
        learner._state = CampaignState.opened(campaign, setup, events)
        learner._knowledge = Knowledge(learner._state, learner._state.model_of_last_step())
        return learner
