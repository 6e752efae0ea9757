import ast
from pathlib import Path

import pytest

from tests.docs.pages import TOP

ROOMS = sorted(
    path.parent
    for package in ("src/lobal", "experiments", "benchmarks")
    for path in (TOP / package).rglob("__init__.py")
    if path.parent != TOP / "src" / "lobal"
)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(TOP)))
def test_the_docstring_of_a_room_names_all_its_files(room: Path) -> None:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    files = {path.name for path in room.glob("*.py")} - {"__init__.py", "__main__.py"}
    assert [name for name in sorted(files) if f"`{name}`" not in text] == []
