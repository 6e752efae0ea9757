"""The sections of the page of a force field that simulated its own pools."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from lobal.active.learner import ActiveLearner
from lobal.active.summary import Summary, with_standard_error
from lobal.core.table_shape import counted
from lobal.report import overview
from lobal.report.blocks import details_block, facts_block, figures_block, lead_block, text_block
from lobal.report.constant_energy import energy_blocks
from lobal.report.error_curve import error_rounds
from lobal.report.grown_campaign import GrownCampaign
from lobal.report.growth_rounds import rounds_blocks, thousandths
from lobal.report.labelled_molecules import viewer_block
from lobal.report.maps import hardly_varies
from lobal.report.record import record_blocks
from lobal.report.savings import Savings
from lobal.report.torsion_maps import TorsionView, torsion_figures

FORCES, UNIT = "forces", "meV/Å"
NO_TORSION = (
    "This molecule has no bond that parts of it could turn about, so that there is no map of where labels went. The "
    "view above shows the labelled configurations."
)
POOL_DOTS = "Grey: the last pool, configurations that were simulated to choose labels from."
POOL_LINE = (
    "Black line: the last pool, configurations that were simulated to choose labels from, scaled to as many as there "
    "are labels."
)
BY_ROUND = "Colours: labelled configurations, by the round that chose them; round 0 has the first labels."
ONE_COLOUR = "Coloured: labelled configurations."
COMPLEXITY_CAPTION = (
    "Complexity: how quickly the energy surface changes its shape, as the force field sees it, in units of its median; "
    "the mean over the configurations of the pool in each place. Where it is large, labels are worth most."
)
EVEN = "It hardly varies so far: no place is favoured."
TORSIONS = (
    "A torsion is the angle by which two ends of the molecule are turned against each other about the bond between "
    "them: 0° on the same side, 180° on opposite sides. The names are those of the four atoms, as in the view above. "
    "Of all torsions, those are shown that tell the simulated configurations apart most."
)


def grown_sections(
    learner: ActiveLearner, *, savings: Savings | None, notes: Sequence[str]
) -> Mapping[str, Iterator[str]]:
    """Blocks by the headings of their sections."""
    page = GrownPage(learner)
    return {
        "Where the campaign stands": page.standing(savings, notes),
        "The molecule": page.molecule(),
        "Error over the rounds": page.rounds(),
        "Where labels went": page.torsions(),
        "Energy conservation": page.energy(),
        "Failures": page.failures(),
        "History, settings and versions": record_blocks(learner),
    }


@final
@dataclass(frozen=True, eq=False)
class GrownPage:
    """The sections, each as its blocks; without a force field there are only the first and the last ones."""

    learner: ActiveLearner

    @cached_property
    def campaign(self) -> GrownCampaign | None:
        """What is shown; none before there is a force field."""
        return None if self.learner.fitted is None else GrownCampaign.of(self.learner)

    def standing(self, savings: Savings | None, notes: Sequence[str]) -> Iterator[str]:
        """What there is, the errors, and whether to go on."""
        summary, campaign = self.learner.summary(), self.campaign
        if campaign is None:
            yield lead_block(summary.counts())
            yield text_block(overview.NO_MODEL)
            return
        yield lead_block(_counts(campaign, summary))
        yield facts_block(_facts(campaign, summary))
        if savings is not None:
            yield lead_block(f"measured against random labels: {savings.verdict()}")
        yield from map(text_block, notes)
        yield details_block("How the expected savings are estimated", [text_block(overview.caution(self.learner))])

    def molecule(self) -> Iterator[str]:
        """The view of the labelled configurations."""
        if self.campaign is not None:
            yield viewer_block(self.campaign)

    def rounds(self) -> Iterator[str]:
        """The table of the rounds, and the learning curve."""
        if self.campaign is not None:
            curve = error_rounds(self.learner, FORCES).get(FORCES, ())
            yield from rounds_blocks(self.campaign.rounds, curve)

    def torsions(self) -> Iterator[str]:
        """Labels and complexity over the slowest torsions."""
        campaign = self.campaign
        if campaign is None:
            return
        view = TorsionView.of(campaign)
        if not view.names:
            yield text_block(NO_TORSION)
            return
        yield figures_block(torsion_figures(campaign, view), " ".join(_captions(campaign, view)))
        yield details_block("What torsions are", [text_block(TORSIONS)])

    def energy(self) -> Iterator[str]:
        """A run at constant energy."""
        if self.campaign is not None:
            yield from energy_blocks(self.campaign)

    def failures(self) -> Iterator[str]:
        """How many labels failed."""
        failed, labels = len(self.learner.failed), self.learner.ledger.n_labels
        if failed:
            yield text_block(
                f"{failed} of {failed + labels} labels failed ({failed / (failed + labels):.0%}). They are not learned "
                "from and not asked for again."
            )


def _counts(campaign: GrownCampaign, summary: Summary) -> str:
    """The molecule, and how many labels there are."""
    atoms, n = len(campaign.species), summary.labels
    others = [f"{each} {what}" for each, what in ((summary.pending, "to come"), (summary.failed, "failed")) if each]
    rest = f", {' and '.join(others)}" if others else ""
    return (
        f"{campaign.formula}, {counted(atoms, 'atom')}: a force field learned from {counted(n, 'label')}{rest}. A "
        "label is the energy and the forces of one configuration."
    )


def _facts(campaign: GrownCampaign, summary: Summary) -> dict[str, str]:
    """Sentences by what they are about."""
    facts = {"Error": _error(campaign, summary.error)}
    if summary.error is not None:
        facts["With more labels"] = _later(summary.error, summary)
    if summary.savings is not None:
        share = f"{summary.savings.share:.0%}"
        gain = "is not expected to save labels" if share == "0%" else f"is expected to save {share} of the labels"
        facts["Where to label"] = (
            f"Choosing configurations where the energy surface is complex {gain}, against random ones."
        )
    return facts | {"Go on or stop?": " ".join(summary.advice())}


def _error(campaign: GrownCampaign, error: float | None) -> str:
    if error is None:
        return "Not known: no configurations were kept apart to compare with."
    about = campaign.model.about
    energy = (about.get("errors") or {}).get("energy_rmse")
    known = "" if energy is None else f" and energies by {thousandths(energy)} meV"
    n = about.get("validation")
    where = "configurations kept apart" if n is None else f"{counted(n, 'configuration')} kept apart"
    return f"Forces are off by {thousandths(error)} {UNIT}{known} (root mean square, at {where})."


def _later(error: float, summary: Summary) -> str:
    """The error of forces with twice as many labels; they have no noise to speak of."""
    if summary.trend is None:
        return "How the error falls is known after three rounds."
    later = 1e3 * error * 2.0**summary.trend.slope
    known = with_standard_error(later, later * math.log(2.0) * summary.trend.standard_error)
    return f"With {2 * summary.labels} labels, twice as many, forces are expected to be off by {known} {UNIT}."


def _captions(campaign: GrownCampaign, view: TorsionView) -> Iterator[str]:
    if len(view.pool):
        yield POOL_LINE if len(view.names) == 1 else POOL_DOTS
    yield BY_ROUND if campaign.round_of.any() else ONE_COLOUR
    if len(view.pool):
        yield COMPLEXITY_CAPTION
        if hardly_varies(campaign.pool_complexity):
            yield EVEN
