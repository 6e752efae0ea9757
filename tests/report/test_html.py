import re
from pathlib import Path

import numpy as np
import pytest

from lobal import ActiveLearner, MixtureRegressor, Pool
from lobal.active.knowledge import TRUSTS, Knowledge
from lobal.active.mixture_surrogate import FittedMixtureSurrogate
from lobal.report import html as page_module
from lobal.report.html import EVEN_CAPTION, MAP_CAPTION, campaign_report
from lobal.report.overview import EVEN, PRACTICE
from lobal.report.savings import relative_sample_sizes
from lobal.report.variables import Variable
from tests.report.outline import Outline
from tests.report.setting import MODEL, campaign


def report_of(dimension: int, path: Path, labels: int = 30) -> str:
    campaign_report(campaign(dimension, labels), path / "report.html")
    return (path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("dimension", "pictures"), [(1, 7), (2, 9), (3, 16)])
def test_a_report_has_the_figures_of_its_dimension(dimension: int, pictures: int, tmp_path: Path) -> None:
    page = report_of(dimension, tmp_path)
    outline = Outline(page)
    assert outline.open == []
    assert len(outline.sources) == pictures
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings[:3] == ["Where the campaign stands", "What to label next", "Error over the rounds"]
    assert headings[-1] == "History, settings and versions"
    assert ("What prediction and complexity depend on" in headings) == (dimension > 1)


def test_the_first_screen_is_in_plain_words(tmp_path: Path) -> None:
    first = report_of(2, tmp_path).partition("What to label next")[0]
    assert "Predictions of target are off by" in first
    assert "gamma" not in first
    assert "Nothing speaks for stopping yet." in first


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
    history = page.partition("<summary>History</summary>")[2].partition("</details>")[0]
    assert history.count("<tr>") == 3  # the header and two steps
    last = dict(zip(*(re.findall("<t[hd]>(.*?)</t[hd]>", row) for row in history.split("<tr>")[1::2]), strict=True))
    assert (float(last["trust"]), int(last["check points"])) == (learner.history[-1].trust, learner.history[-1].check)
    assert float(last["standard error"]) == pytest.approx(learner.history[-1].standard_error, rel=1e-3)


def test_a_category_is_one_variable_of_the_page(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(80), np.eye(3)[rng.integers(3, size=80)]])
    learner = ActiveLearner(Pool(X), seed=0, model=MODEL)
    learner.tell(np.arange(30), np.sin(9.0 * X[:30, 0]) + X[:30, 2])
    learner.ask(5)
    levels = ("steel", "copper", "<b>")
    variables = [Variable(name="speed", columns=(0,)), Variable(name="metal", columns=(1, 2, 3), levels=levels)]
    campaign_report(learner, tmp_path / "report.html", variables=variables, target="heat / W")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'alt="dependence on metal"' in page
    assert "<th>heat / W, predicted (95% interval)</th>" in page
    assert {*re.findall("<td>(steel|copper|&lt;b&gt;)</td>", page)} <= {"steel", "copper", "&lt;b&gt;"}


def test_a_report_shows_where_labels_failed(tmp_path: Path) -> None:
    learner = campaign(2)
    learner.tell(learner.pending[:2], [np.nan, np.nan])
    campaign_report(learner, tmp_path / "report.html", identifiers=[f"sample {n}" for n in range(80)])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    failures = page.partition("<h2>Failures</h2>")[2].partition("</section>")[0]
    assert "2 of 32 labels failed (6%)" in failures
    assert {f"sample {n}" for n in learner.failed} == {*re.findall("<td>(sample \\d+)</td>", failures)}


def test_what_is_expected_comes_before_what_was_measured_and_with_a_caution(tmp_path: Path) -> None:
    savings = relative_sample_sizes([[0.3], [0.31]], [[0.5], [0.5]], smoothness=2.0, dimension=1.0)
    path = tmp_path / "folder" / "report.html"
    campaign_report(campaign(1), path, title="Mine", savings=savings, notes=["Something was left out."])
    page = path.read_text(encoding="utf-8")
    assert "<h1>Mine</h1>" in page
    parts = ("Expected savings", "Measured against random labels: active learning saved", "not to plan a budget")
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "<p>Something was left out.</p>" in page


def test_what_is_not_known_yet_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Knowledge, "savings", None)
    assert "What following the local complexity saves is not known yet." in report_of(1, tmp_path)


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
    assert EVEN not in page


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_complexity_that_hardly_varies_is_said_to_be_so(
    trust: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Knowledge, "trust", trust)
    monkeypatch.setattr(page_module, "is_even", lambda _: True)
    page = report_of(2, tmp_path)
    assert (EVEN in page) == (trust > 0.0)
    assert EVEN_CAPTION in page
    assert MAP_CAPTION not in page


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
    lead = page.partition('<p class="lead">')[2].partition("</p>")[0]
    assert lead.startswith("30 labels, 3 pending since ")
    assert lead.endswith(", 2 failed. 80 candidates with one input.")


def test_settings_are_those_that_are_not_by_default_and_functions_are_called_so(tmp_path: Path) -> None:
    learner = ActiveLearner(Pool(np.linspace(0, 1, 20)[:, None]), model=MixtureRegressor(noise=np.sum, n_inducing=33))
    campaign_report(learner, tmp_path / "report.html")
    settings = (tmp_path / "report.html").read_text(encoding="utf-8").partition("<summary>Settings</summary>")[2]
    rows = dict(re.findall("<tr><td>(.*?)</td><td>(.*?)</td></tr>", settings.partition("</details>")[0]))
    assert rows.keys() - {"model.noise", "model.n_inducing"} == {*learner.settings.to_fields()}
    assert (rows["model.noise"], rows["model.n_inducing"]) == ("a function", "33")
