import re

from matplotlib.figure import Figure

from lobal.report.blocks import (
    campaign_page,
    details_block,
    facts_block,
    figure_block,
    figures_block,
    lead_block,
    table_block,
    text_block,
)
from tests.report.outline import Outline


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


def test_figures_side_by_side_have_a_name_each() -> None:
    block = figures_block({"one": Figure(), "two <": Figure()}, "both")
    assert re.findall('alt="(.*?)"', block) == ["one", "two &lt;"]
    assert Outline(block).open == []


def test_facts_and_details_are_escaped_and_closed() -> None:
    block = facts_block({"<a>": "<b>"}) + details_block("<c>", [text_block("d")])
    assert Outline(block).open == []
    assert not Outline(block).tags & {"a", "b", "c"}
