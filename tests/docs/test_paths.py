"""Modules, functions, files and tests that the documentation names exist."""

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import FENCE, PAGES, TOP

ROOMS = "core|experts|inducing|mixture|active|baselines|molecules|report|cli"
# `lobal.core.density`, `core.density.norm`, `experiments.pools`, without or with a call or an attribute at the end.
DOTTED = re.compile(rf"`((?:lobal\.|(?:{ROOMS}|experiments|benchmarks)\.)\w[\w.]*)[`(]")
TEST = re.compile(r"`((?:tests/)?(?:\w+/)*test_\w+\.py)(?:::(\w+))?`")
FILE = re.compile(
    r"`((?:docs|tests|experiments|benchmarks|src)/(?!test_)[\w/.*-]+)`|\]\((?!https?:)([\w/.-]+\.(?:md|png))"
)


@cache
def resolved(name: str) -> Any:
    """The module, class, function or attribute of this dotted name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = _member(found, part)
        return found
    raise ModuleNotFoundError(name)


def _member(owner: Any, name: str) -> Any:
    fields = getattr(owner, "__annotations__", {}) | getattr(owner, "__dataclass_fields__", {})
    return fields[name] if name in fields and not hasattr(owner, name) else getattr(owner, name)


def exists(name: str) -> bool:
    try:
        resolved(name if name.startswith(("lobal.", "experiments.", "benchmarks.")) else f"lobal.{name}")
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", PAGES)
def test_every_module_and_function_exists(page: str) -> None:
    names = {found[1].rstrip(".") for found in DOTTED.finditer(FENCE.sub("", PAGES[page].read_text()))}
    assert [name for name in sorted(names) if not exists(name) and not (TOP / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_test_exists(page: str) -> None:
    missing = []
    for found in TEST.finditer(PAGES[page].read_text()):
        path = TOP / "tests" / found[1].removeprefix("tests/")
        if not path.exists() or (found[2] and f"def {found[2]}(" not in path.read_text()):
            missing.append(found[0])
    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_file_exists(page: str) -> None:
    named = [Path(found[1] or found[2]) for found in FILE.finditer(PAGES[page].read_text())]
    folders = (TOP, PAGES[page].parent)
    assert [str(path) for path in named if not any([*folder.glob(str(path))] for folder in folders)] == []
