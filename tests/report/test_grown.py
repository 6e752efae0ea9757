import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from lobal import ActiveLearner
from lobal.cli import app
from lobal.molecules.space import MoleculePool
from lobal.report import constant_energy
from lobal.report.grown import (
    BY_ROUND,
    COMPLEXITY_CAPTION,
    EVEN,
    NO_TORSION,
    ONE_COLOUR,
    POOL_DOTS,
    POOL_LINE,
    GrownPage,
)
from lobal.report.grown_campaign import GrownCampaign
from lobal.report.html import campaign_report
from lobal.report.overview import NO_MODEL
from lobal.report.savings import relative_sample_sizes
from tests.molecules.dynamics.test_growth import grow
from tests.molecules.setting import water
from tests.molecules.test_growing import begun, labels, pool
from tests.report.grown_setting import chain, grown_campaign
from tests.report.outline import Outline

HEADINGS = [
    "Where the campaign stands",
    "The molecule",
    "Error over the rounds",
    "Where labels went",
    "Energy conservation",
    "History, settings and versions",
]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign of 12, 18 and 24 labels."""
    folder: Path = tmp_path_factory.mktemp("grown") / "campaign"
    grow(folder)
    return folder


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_energy, "PICOSECONDS", 0.05)


def page_of(learner: ActiveLearner, path: Path, **options: Any) -> str:
    campaign_report(learner, path / "report.html", **options)
    return (path / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(campaign: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constant_energy, "PICOSECONDS", 0.05)
        return page_of(ActiveLearner.read(campaign), tmp_path_factory.mktemp("page"))


def headings(page: str) -> list[str]:
    return re.findall("<h2>(.*?)</h2>", page)


def shown(found: GrownCampaign, monkeypatch: pytest.MonkeyPatch) -> str:
    """The section of torsions of a campaign that was put together by hand."""
    monkeypatch.setattr(GrownPage, "campaign", found)
    return "".join(GrownPage(begun()).torsions())


def test_a_page_has_its_sections_and_closes_its_tags(page: str) -> None:
    assert headings(page) == HEADINGS
    assert Outline(page).open == []


def test_a_page_needs_no_network(page: str) -> None:
    sources = Outline(page).sources
    assert len(sources) == 2  # learning curve and energies: water has no torsions
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    words = re.sub('src="data:[^"]*"', "", page)
    assert [way for way in ("http:", "https:", "url(", "@import", "<link", "<iframe", "srcset") if way in words] == []


def test_the_only_script_is_that_of_the_view(page: str) -> None:
    data, script = re.findall("<script.*?</script>", page, flags=re.DOTALL)
    assert data.startswith('<script type="application/json">{"symbols":["O","H","H"]')
    assert "A molecule as balls and sticks" in script
    assert re.findall(r"<[^>]* on[a-z]+=", page) == []


def test_the_first_screen_is_in_the_units_of_chemists_and_in_plain_words(page: str) -> None:
    first = page.partition("<h2>The molecule</h2>")[0].partition("<body>")[2]
    assert "H₂O, 3 atoms: a force field learned from 24 labels." in first
    assert re.search(r"Forces are off by \S+ meV/Å and energies by \S+ meV \(root mean square, at 12 conf", first)
    assert "With 48 labels, twice as many, forces are expected to be off by " in first
    assert "gamma" not in first


def test_there_is_a_line_for_every_round(page: str) -> None:
    table = page.partition("Error over the rounds")[2].partition("</table>")[0]
    rows = [re.findall("<td>(.*?)</td>", row) for row in table.split("<tr>")[2:]]
    assert [row[:2] for row in rows] == [["1", "12"], ["2", "18"], ["3", "24"]]
    assert [row[4] for row in rows] == ["60", "60", "–"]  # noqa: RUF001 - a dash


def test_a_molecule_without_torsions_has_no_map(page: str) -> None:
    section = page.partition("Where labels went")[2].partition("</section>")[0]
    assert NO_TORSION in section
    assert "<img" not in section


def test_the_run_at_constant_energy_is_at_the_temperature_of_the_pool(page: str) -> None:
    assert "with velocities of 300 K" in page


def test_without_labels_there_is_no_force_field_and_no_view(tmp_path: Path) -> None:
    page = page_of(ActiveLearner(MoleculePool(water(12), grows=True)), tmp_path)
    assert headings(page) == [HEADINGS[0], HEADINGS[-1]]
    assert NO_MODEL in page
    assert "<script" not in page


def test_before_the_first_round_the_page_is_that_of_a_molecule(tmp_path: Path) -> None:
    page = page_of(begun(), tmp_path)
    assert headings(page) == HEADINGS
    assert "Not known: no configurations were kept apart to compare with." in page
    assert '<script type="application/json">' in page


def test_a_pool_that_stays_has_the_page_of_all_pools(tmp_path: Path) -> None:
    page = page_of(ActiveLearner(MoleculePool(water(12))), tmp_path)
    assert "12 candidates with 3 inputs" in page


def test_failed_labels_are_counted(tmp_path: Path) -> None:
    learner = begun()
    learner.grow(pool(40, 5))
    rows = learner.ask(4)
    energies, forces = labels(learner.candidates.inputs_at(torch.from_numpy(rows)))
    energies[1:] = np.nan
    learner.tell(rows, (energies, forces))
    page = page_of(learner, tmp_path)
    assert "3 of 16 labels failed (19%)" in page
    assert "a force field learned from 13 labels, 3 failed." in page


def test_notes_and_measured_savings_are_in_the_first_section(campaign: Path, tmp_path: Path) -> None:
    savings = relative_sample_sizes([[0.3], [0.31]], [[0.5], [0.5]], smoothness=2.0, dimension=1.0)
    learner = ActiveLearner.read(campaign)
    first = page_of(learner, tmp_path, savings=savings, notes=["Left <out>."], title="<My> molecule")
    first = first.partition("The molecule")[0]
    assert "<h1>&lt;My&gt; molecule</h1>" in first
    assert "<p>Left &lt;out&gt;.</p>" in first
    assert "Measured against random labels: " in first


@pytest.mark.parametrize(("torsions", "of_pool"), [(1, POOL_LINE), (2, POOL_DOTS)])
def test_captions_say_what_figures_of_their_kind_show(
    torsions: int, of_pool: str, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    R = chain(rng.uniform(-180.0, 180.0, (30, torsions)))
    section = shown(grown_campaign(R[:6], R, pool_complexity=np.geomspace(0.5, 2.0, 30)), monkeypatch)
    assert section.count("<img") == 2
    assert [words in section for words in (of_pool, BY_ROUND, COMPLEXITY_CAPTION, EVEN)] == [True, True, True, False]
    assert "Of all torsions, those are shown that tell" in section


def test_a_complexity_that_hardly_varies_favours_no_place(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    R = chain(rng.uniform(-180.0, 180.0, (30, 2)))
    assert EVEN in shown(grown_campaign(R[:6], R), monkeypatch)


def test_without_pool_and_rounds_captions_name_neither(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    R = chain(rng.uniform(-180.0, 180.0, (6, 2)))
    section = shown(grown_campaign(R, round_of=np.zeros(6, dtype=int), rounds=()), monkeypatch)
    assert ONE_COLOUR in section
    assert not any(words in section for words in (POOL_DOTS, BY_ROUND, COMPLEXITY_CAPTION, EVEN))
    assert section.count("<img") == 1


def test_the_page_of_a_folder_is_written_by_lobal_report(campaign: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(campaign), "--output", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.output
    assert headings((tmp_path / "page.html").read_text(encoding="utf-8")) == HEADINGS
