"""The lowest versions that are tested are those that pyproject.toml allows."""

import tomllib
from collections.abc import Iterable

import pytest
from packaging.requirements import Requirement

from tests.docs.pages import TOP

PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def bounds(requirements: Iterable[str]) -> dict[str, str]:
    """Names and lower bounds; a requirement has no other bound."""
    parsed = [Requirement(text) for text in requirements]
    assert [str(one) for one in parsed if [part.operator for part in one.specifier] != [">="]] == []
    return {one.name: next(iter(one.specifier)).version for one in parsed}


TESTED = bounds(PROJECT["dependencies"]) | bounds(EXTRAS["test"])


def test_the_lowest_constraints_are_the_bounds() -> None:
    lines = (TOP / "constraints-lowest.txt").read_text().partition("# Lowest versions:\n")[2].splitlines()
    assert lines == sorted(f"{name}=={version}" for name, version in TESTED.items())


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_an_extra_has_the_bounds_that_are_tested(extra: str) -> None:
    own = bounds(EXTRAS[extra])
    assert own == {name: TESTED.get(name, version) for name, version in own.items()}
