"""What holds for every page of the documentation."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, TOP

CONFLICT = re.compile(r"^(?:<{7}|>{7}|\|{7}|={7}$)", re.MULTILINE)


@pytest.mark.parametrize("page", [*PAGES.values(), TOP / "CHANGELOG.md"], ids=lambda page: page.name)
def test_no_merge_is_left_half_done(page: Path) -> None:
    assert CONFLICT.search(page.read_text()) is None
