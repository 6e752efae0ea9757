"""The page of spaces of named variables, and of several outputs."""

import re
from pathlib import Path

import numpy as np
import pytest

from lobal import ActiveLearner, Box, Curve, Real, SearchSpace
from lobal.report.html import campaign_report
from tests.report.outline import Outline
from tests.report.setting import MODEL
from tests.report.spaces import FLOW, mixed, simulated


def page_of(learner: ActiveLearner, path: Path) -> str:
    campaign_report(learner, path / "report.html")
    page = (path / "report.html").read_text(encoding="utf-8")
    assert Outline(page).open == []
    return page


def section(page: str, heading: str) -> str:
    return page.partition(f"<h2>{heading}</h2>")[2].partition("</section>")[0]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(simulated(), tmp_path_factory.mktemp("page"))


def test_variables_have_their_units_and_values(page: str) -> None:
    batch = section(page, "What to label next")
    header, *rows = (re.findall("<t[hd]>(.*?)</t[hd]>", row) for row in batch.split("<tr>")[1:])
    assert header[:3] == ["flow (l/h)", "fins", "metal"]
    assert all(0.01 <= float(row[0]) <= 1000.0 and int(row[1]) in range(1, 13) for row in rows)
    assert {row[2] for row in rows} <= {"steel", "copper"}


@pytest.mark.parametrize("heading", ["Prediction against measurement", "Calibration of the intervals"])
def test_every_output_has_its_own_part(heading: str, page: str) -> None:
    assert re.findall("<h3>(.*?)</h3>", section(page, heading)) == ["temperature (K)", "pressure"]


def test_every_output_has_its_own_error(page: str) -> None:
    curves = section(page, "Error over the rounds")
    assert re.findall('alt="(.*?)"', curves) == ["error of temperature (K)", "error of pressure"]
    assert re.search(r"Predictions of temperature are off by [\d.e-]+ ± [\d.e-]+ K ", page)


def test_labels_that_an_output_lacks_are_left_out(page: str) -> None:
    counted = re.findall(r"Of the (\d+) labels", section(page, "Calibration of the intervals"))
    assert counted == ["30", "24"]


def test_parts_of_a_sum_are_said_to_be_bound(tmp_path: Path) -> None:
    assert "None of" in (found := section(page_of(mixed(), tmp_path), "What prediction and complexity depend on"))
    assert "can change alone, as a constraint binds them together" in found


def test_rows_of_a_table_are_called_by_their_labels(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    x = np.linspace(0.1, 1.0, 40)
    table = pandas.DataFrame({"x": x, "z": x[::-1] ** 2}, index=[f"L{n:02d}" for n in range(40)])
    learner = ActiveLearner(SearchSpace([Real("x", 0.0, 1.0), Real("z", 0.0, 1.0)], pool=table), model=MODEL)
    points = learner.ask(20)
    learner.tell(points, np.sin(9.0 * points["x"]))
    learner.ask(3)
    batch = section(page_of(learner, tmp_path), "What to label next")
    assert len(re.findall(r"<td>L\d\d</td>", batch)) == 3
    assert re.search(r"<td>-?[\d.e-]+ \(L\d\d\)</td>", batch)


@pytest.mark.parametrize("variable", [FLOW, Real("x", -1.0, 1.0)])
def test_one_variable_is_drawn_along_its_values(variable: Real, tmp_path: Path) -> None:
    learner = ActiveLearner(SearchSpace([variable], n_candidates=128), model=MODEL)
    points = learner.ask(20)
    learner.tell(points, np.sin(variable.inputs(np.asarray(points[variable.name]))[:, 0]))
    places = section(page_of(learner, tmp_path), "Where labels are worth most")
    scale = "log" if variable.log else "linear"
    assert re.findall('alt="prediction and local bandwidth, (.*?) axis"', places) == [scale]


def test_curves_have_an_error_and_no_figures_of_single_numbers(tmp_path: Path) -> None:
    learner = ActiveLearner(
        Box([0.0] * 2, [1.0] * 2, n_candidates=128, outputs=Curve("spectrum", 9, unit="W")), model=MODEL
    )
    x = learner.ask(20)
    learner.tell(x, np.sin(x[:, :1] * np.linspace(1.0, 5.0, 9)) + x[:, 1:])
    learner.ask(2)
    page = page_of(learner, tmp_path)
    assert "Labels are curves" in section(page, "Prediction against measurement")
    assert re.search(r"Predictions of spectrum are off by [\d.e-]+ W", page)
    assert "<h2>Calibration of the intervals</h2>" not in page
