"""The parts of a web page: no links, figures inside."""

import base64
import io
from collections.abc import Iterable, Mapping
from html import escape

from matplotlib.figure import Figure

RESOLUTION = 110  # dots per inch: sharp on a page, small in a file

STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --quiet: #5c5c5c; --page: #fff; --line: #d9d9d9; --lead: #eef4f8; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --quiet: #a9a9a9; --page: #17191c; --line: #3a3d42; --lead: #202a31; }
  img { filter: brightness(.92); }
}
body { margin: 2rem auto; max-width: 72rem; padding: 0 1.2rem; color: var(--text); background: var(--page);
       font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
p { max-width: 46rem; }
.lead { background: var(--lead); padding: .8rem 1rem; border-radius: .4rem; font-size: 1.1rem; max-width: none; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: .8rem; margin: 0; }
.facts div { border: 1px solid var(--line); border-radius: .4rem; padding: .7rem 1rem; }
.facts dt { color: var(--quiet); font-size: .85rem; } .facts dd { margin: 0; }
.table { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .86rem; }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap;
         vertical-align: top; }
th { white-space: normal; min-width: 3.5rem; vertical-align: bottom; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 1rem;
           align-items: start; }
figure { margin: 1rem 0; } figcaption { margin-top: .5rem; color: var(--quiet); font-size: .9rem; max-width: 46rem; }
img { max-width: 100%; height: auto; background: #ffffff; border-radius: .4rem; }
details { border-top: 1px solid var(--line); padding: .5rem 0; } summary { cursor: pointer; }
.facts + details, .table + details { margin-top: .9rem; }
@media (max-width: 40rem) { body { margin: 1rem auto; padding: 0 .8rem; } h1 { font-size: 1.4rem; } }
"""


def campaign_page(title: str, sections: Mapping[str, Iterable[str]], *, style: str = "") -> str:
    """One self-contained HTML page: the blocks of every section under its heading; empty sections are left out.

    `style` is added to that of all pages.
    """
    parts = {escape(heading): "\n".join(blocks) for heading, blocks in sections.items()}
    body = "\n".join(f"<section>\n<h2>{name}</h2>\n{part}\n</section>" for name, part in parts.items() if part)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="generator" content="lobal">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def text_block(text: str) -> str:
    """A paragraph."""
    return f"<p>{escape(text)}</p>"


def heading_block(text: str) -> str:
    """A heading within a section."""
    return f"<h3>{escape(text)}</h3>"


def lead_block(text: str) -> str:
    """The main statement of a section."""
    return f'<p class="lead">{escape(text[:1].upper() + text[1:])}</p>'


def facts_block(facts: Mapping[str, str]) -> str:
    """Short answers side by side, each under its name."""
    parts = (f"<div><dt>{escape(name)}</dt><dd>{escape(fact)}</dd></div>" for name, fact in facts.items())
    return '<dl class="facts">\n' + "\n".join(parts) + "\n</dl>"


def table_block(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table, which scrolls by itself where it is wider than the screen."""
    lines = [_line("th", header), *(_line("td", row) for row in rows)]
    return '<div class="table" tabindex="0"><table>\n' + "\n".join(lines) + "\n</table></div>"


def figure_block(figure: Figure, caption: str) -> str:
    """A figure and its caption, which stands for it where it cannot be seen."""
    return f"<figure>{_image(figure, caption)}{_caption(caption)}</figure>"


def figures_block(figures: Mapping[str, Figure], caption: str = "") -> str:
    """Figures side by side, as far as there is room; their names stand for them where they cannot be seen."""
    images = "\n".join(_image(figure, name) for name, figure in figures.items())
    return f'<figure><div class="figures">\n{images}\n</div>{_caption(caption)}</figure>'


def _image(figure: Figure, words: str) -> str:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=RESOLUTION)
    return f'<img alt="{escape(words)}" src="data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}">'


def _caption(words: str) -> str:
    return f"<figcaption>{escape(words)}</figcaption>" if words else ""


def details_block(summary: str, blocks: Iterable[str]) -> str:
    """Blocks that are shown on a click."""
    return f"<details>\n<summary>{escape(summary)}</summary>\n" + "\n".join(blocks) + "\n</details>"


def cell_text(value: object) -> str:
    """A value as tables show it: numbers with four digits, a dash for nothing."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash, as nothing was measured
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _line(tag: str, cells: Iterable[object]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell_text(cell))}</{tag}>" for cell in cells) + "</tr>"
