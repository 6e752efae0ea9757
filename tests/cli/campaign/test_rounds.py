"""What is known after several rounds of a campaign, in words and on the page."""

import html
import math
import re
from pathlib import Path

import pytest

from lobal import ActiveLearner
from lobal.report.error_curve import error_rounds
from tests.cli.campaign.setting import done, rows_of

N = 60


@pytest.fixture(autouse=True)
def three_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rounds of a campaign `p`, in the second of which a sample cracks, and a fourth that is pending."""
    monkeypatch.chdir(tmp_path)
    Path("pool.csv").write_text("\n".join(["id,u,v", *(f"P{k},{k / N:.3f},{k * 7 % N}" for k in range(N))]))
    done("campaign", "new", "p", "--pool", "pool.csv", "--target", "y", "--id", "id")
    for number in range(4):
        table = f"round{number}.csv"
        done("campaign", "ask", "p", 12 if number == 0 else 6, "--output", table)
        if number < 3:
            texts = {
                row["id"]: f"{300.0 + 50.0 * math.sin(6.0 * int(row['id'][1:]) / N):.2f}" for row in rows_of(table)
            }
            texts |= {next(iter(texts)): "cracked"} if number == 1 else {}
            rows = [f"{name},{text}" for name, text in texts.items()]
            Path("told.csv").write_text("\n".join(["id,y", *rows]))
            done("campaign", "tell", "p", "told.csv", "--failed", "cracked")


def test_status_says_error_trend_savings_and_advice_in_words() -> None:
    found = done("campaign", "status", "p")
    assert re.match(r"23 labels, 6 pending since \d{4}-\d\d-\d\d \d\d:\d\d UTC, 1 failed\. ", found)
    assert re.search(r"Predictions of y are off by \S+ ± \S+ \(root mean square, leave-one-out\)\.", found)
    assert re.search(r"The error (is falling: \S+ ± \S+ is expected with 46 labels|has not changed|is growing)", found)
    assert re.search(r"following the local complexity (saves is not known yet|is expected to save \S+)", found, re.I)
    assert re.search(r"(Nothing speaks for stopping yet|consider stopping|would do about as well)\.$", found)


def test_the_page_has_all_of_it_with_batch_curve_and_failures() -> None:
    done("campaign", "report", "p")
    page = html.unescape(Path("p/report.html").read_text())
    first, batch, *rest = page.split("<h2>")[1:]
    assert "gamma" not in first + batch
    assert "set aside" not in page
    assert {row["id"] for row in rows_of("round3.csv")} == {*re.findall("<td>(P\\d+)</td>", batch)}
    assert re.search("(spread|variance): (it fills a gap between|a label there lowers)", batch)
    figures = {
        "Error over the rounds": "error of y",
        "Prediction against measurement": "y",
        "Where labels are worth most": "local complexity of the candidates over",
        "What prediction and complexity depend on": "dependence on v",
        "Failures": "<td>P",
        "Calibration of the intervals": "lie within their 95% intervals",
    }
    for (heading, words), section in zip(figures.items(), rest, strict=False):
        assert section.startswith(heading)
        assert words in section
    with ActiveLearner.read("p") as learner:
        topics = learner.summary().topics("y")
        (rounds,) = error_rounds(learner, "y").values()
    assert [*topics] == ["Error", "Trend", "Noise", "Expected savings", "Go on or stop?"]
    assert all(sentence in first for sentences in topics.values() for sentence in sentences)
    assert [each.labels for each in rounds] == [12, 17, 23]
    assert all(each.standard_error is not None for each in rounds)
