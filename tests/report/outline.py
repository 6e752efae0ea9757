"""The outline of a page, for the tests."""

from html.parser import HTMLParser


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
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
