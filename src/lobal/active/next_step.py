"""One pass through the loop of Algorithm 1: from what is known to the next points."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from lobal.active.campaign.history import Step
from lobal.active.campaign.state import CampaignState
from lobal.active.campaign.steps import StepState
from lobal.active.draws import ADAPTIVE, EVEN, DrawTask, design
from lobal.active.integrated_variance import suitable_design
from lobal.active.knowledge import Knowledge

ROUNDING = 1e-9  # by which sums of costs may exceed a budget that they reach exactly


class NextStep(NamedTuple):
    """The next points, and what the step leaves to the one after it."""

    step: Step
    candidates: Int[ndarray, " n"]
    inputs: Float[ndarray, "n d"]
    leaves: StepState


def next_step(state: CampaignState, known: Knowledge, n: int, target: int | None) -> NextStep:
    """The step that draws n points; `target` is the number of labels that a run aims at with it."""
    settings, candidates = state.setup.settings, state.candidates
    generator = candidates.generator(settings.seed, len(state.history))
    density = known.next_density(n)
    draw = settings.draw
    if draw == ADAPTIVE:
        draw = suitable_design(known.fitted, n=state.ledger.n_drawn + n, dimension=settings.dimension)
    task = DrawTask(
        candidates=candidates,
        weights=state.weights(density.proposal, n),
        superior=known.superior,
        check=known.check_points(n),
        drawn=state.points(range(state.ledger.n_drawn)),
        labelled=state.observations(),
        fitted=known.fitted,
        trust=known.trust,
        dimension=settings.dimension,
        b=n,
        generator=generator,
    )
    indices = design(draw)(task)
    taken = task.drawn[0] if draw in EVEN else None  # even points keep the place of their candidate
    inputs = candidates.place(indices, generator=generator, taken=taken)
    step = Step(
        number=len(state.history),
        size=state.ledger.size,
        batch=n,
        check=task.check,
        indices=tuple(indices.tolist()),
        gamma_1=density.gamma_1,
        gamma_2=density.gamma_2,
        target=target,
        draw=draw,
        **known.findings(),
    )
    leaves = StepState(
        number=step.number,
        density=density.density,
        complexity=None if known.fitted is None else known.scores.complexity,
        kept={**state.last.kept, **({} if known.fitted is None else known.fitted.kept())},
        fitted=known.fitted,
    )
    return NextStep(step, indices.numpy(), inputs, leaves)


def next_step_within(state: CampaignState, known: Knowledge, n: int, target: int, budget: float) -> NextStep | None:
    """The step that draws n points, or the first of them that the budget pays; none if it pays no more.

    The budget is that of the whole campaign. A batch that was cut does not reach its target, and has none: with a
    larger budget the rest is asked for.
    """
    left = budget - state.cost_of(range(state.ledger.n_drawn))
    wanted = n
    while n > 0:
        found = next_step(state, known, n, target if n == wanted else None)
        costs = np.cumsum([state.candidates.cost_of([candidate]) for candidate in found.candidates.tolist()])
        affordable = int((costs <= left * (1.0 + ROUNDING)).sum())
        if affordable == n:
            return found
        n = affordable
    return None
