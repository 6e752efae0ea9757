import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from lobal import ActiveLearner, MixtureRegressor, Pool
from lobal.active.knowledge import TRUSTS, Knowledge
from lobal.active.mixture_surrogate import FittedMixtureSurrogate
from lobal.report.html import (
    PRACTICE,
    campaign_page,
    campaign_report,
    figure_block,
    lead_block,
    table_block,
    text_block,
)
from lobal.report.savings import relative_sample_sizes
from tests.report.setting import MODEL, campaign


class Outline(HTMLParser):
    """Checks that tags close in order, and keeps what the page would load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def report_of(dimension: int, path: Path, labels: int = 30) -> str:
    campaign_report(campaign(dimension, labels), path / "report.html")
    return (path / "report.html").read_text(encoding="utf-8")


def test_a_page_is_whole_and_loads_nothing() -> None:
    blocks = [text_block("text"), lead_block("lead"), table_block("ab", [(1, None)]), figure_block(Figure(), "caption")]
    outline = Outline(campaign_page("title", {"heading": blocks}))
    assert outline.open == []
    assert all(source.startswith("data:image/png;base64,") for source in outline.sources)
    assert not outline.tags & {"script", "link", "iframe"}


def test_text_is_escaped_everywhere() -> None:
    text, escaped = '"<b>&', "&quot;&lt;b&gt;&amp;"
    blocks = [text_block(text), lead_block(text), table_block([text], [[text]])]
    page = campaign_page(text, {text: [*blocks, figure_block(Figure(), text)]})
    assert "<b>" not in page
    assert page.count(escaped) == 9  # titles, heading, paragraphs, cells, and the caption as text and attribute


def test_cells_show_four_digits_and_a_dash_for_nothing() -> None:
    assert re.findall("<td>(.*?)</td>", table_block("abc", [(1 / 3, None, 12345)])) == [
        "0.3333",
        "\N{EN DASH}",
        "12345",
    ]


@pytest.mark.parametrize(("dimension", "pictures"), [(1, 2), (2, 1), (3, 1)])
def test_a_report_has_the_figures_of_its_dimension(dimension: int, pictures: int, tmp_path: Path) -> None:
    page = report_of(dimension, tmp_path)
    outline = Outline(page)
    assert outline.open == []
    assert len(outline.sources) == pictures
    for heading in ("What there is to gain", "Where labels are worth most", "History", "Settings", "Versions"):
        assert f"<h2>{heading}</h2>" in page


def test_a_report_without_a_model_says_so_and_has_no_figures(tmp_path: Path) -> None:
    page = report_of(2, tmp_path, labels=0)
    assert "Too few labels for a model yet" in page
    assert Outline(page).sources == []


def test_the_history_shows_every_step_and_its_error(tmp_path: Path) -> None:
    learner = campaign(1)
    learner.tell(learner.pending, np.zeros(5))
    learner.ask(4)
    campaign_report(learner, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    history = page.partition("<h2>History</h2>")[2].partition("</section>")[0]
    assert history.count("<tr>") == 3  # the header and two steps
    assert history.count("<img") == 1
    last = dict(zip(*(re.findall("<t[hd]>(.*?)</t[hd]>", row) for row in history.split("<tr>")[1::2]), strict=True))
    assert (float(last["trust"]), int(last["check points"])) == (learner.history[-1].trust, learner.history[-1].check)


def test_what_is_expected_comes_with_a_caution_before_what_was_measured(tmp_path: Path) -> None:
    savings = relative_sample_sizes([[0.3], [0.31]], [[0.5], [0.5]], smoothness=2.0, dimension=1.0)
    path = tmp_path / "folder" / "report.html"
    campaign_report(campaign(1), path, title="Mine", savings=savings, notes=["Something was left out."])
    page = path.read_text(encoding="utf-8")
    assert "<h1>Mine</h1>" in page
    parts = ("Expected: ", "not to plan a budget", "Measured against random labels: active learning saved")
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "<p>Something was left out.</p>" in page


def test_what_is_not_known_yet_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ActiveLearner, "expected_savings", lambda _: None)
    assert "Expected: not known yet" in report_of(1, tmp_path)


def test_an_expectation_without_errors_is_said_to_be_the_formula(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "errors of the labels are not known" not in report_of(1, tmp_path)
    monkeypatch.setattr(FittedMixtureSurrogate, "squared_errors", lambda *_: None)
    assert "errors of the labels are not known" in report_of(1, tmp_path)


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_report_says_how_far_the_local_complexity_is_followed(
    trust: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Knowledge, "trust", trust)
    page = report_of(1, tmp_path)
    assert [each for each, sentence in PRACTICE.items() if sentence in page] == [trust]


def test_a_report_blames_no_errors_for_what_was_set(tmp_path: Path) -> None:
    learner = ActiveLearner(Pool(np.linspace(0, 1, 40)[:, None]), model=MODEL, complexity="constant")
    learner.run(lambda X: np.sin(9.0 * X[:, 0]), sizes=[15])
    for step in range(2):  # the first was asked for without a model
        campaign_report(learner, tmp_path / "report.html")
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert ("as the settings say" in page) == (step == 1)
        assert not any(sentence in page for sentence in PRACTICE.values())
        learner.ask(5)


def test_a_report_counts_labels_and_what_became_of_other_points(tmp_path: Path) -> None:
    learner = campaign(1)
    learner.tell(learner.pending[:2], [np.nan, np.nan])
    campaign_report(learner, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<p>30 labels so far, 3 to come, 2 failed; 80 candidates with one input column.</p>" in page


def test_settings_are_those_that_are_not_by_default_and_functions_are_called_so(tmp_path: Path) -> None:
    learner = ActiveLearner(Pool(np.linspace(0, 1, 20)[:, None]), model=MixtureRegressor(noise=np.sum, n_inducing=33))
    campaign_report(learner, tmp_path / "report.html")
    settings = (tmp_path / "report.html").read_text(encoding="utf-8").partition("<h2>Settings</h2>")[2]
    rows = dict(re.findall("<tr><td>(.*?)</td><td>(.*?)</td></tr>", settings.partition("</section>")[0]))
    assert rows.keys() - {"model.noise", "model.n_inducing"} == {*learner.settings.to_fields()}
    assert (rows["model.noise"], rows["model.n_inducing"]) == ("a function", "33")
