"""The documentation and its code blocks."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).parents[2]
PAGES = {
    str(page.relative_to(TOP)): page
    for page in sorted({*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md")})
    if page.name != "CHANGELOG.md"
}
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its info string, content, and the line it begins at."""

    info: str
    content: str
    line: int


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    text = page.read_text()
    return [Block(found[1].strip(), found[2], text[: found.start()].count("\n") + 2) for found in FENCE.finditer(text)]


def commands(page: Path) -> list[list[str]]:
    """The words of every command in the `sh` blocks of a page; comments and continued lines are understood."""
    joined = [block.content.replace("\\\n", " ") for block in blocks(page) if block.info == "sh"]
    lines = [re.sub(r"\s+#.*", "", line).strip() for content in joined for line in content.splitlines()]
    return [shlex.split(line) for line in lines if line]
