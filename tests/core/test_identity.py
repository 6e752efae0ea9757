import numpy as np
import pytest

from lobal.core.identity import matched_identifiers
from lobal.core.tables import Table


def identifiers(*values: str) -> Table:
    return Table(source="b.csv", columns={"id": np.array(values, dtype=object)}, lines=np.arange(2, len(values) + 2))


def test_case_and_spaces_do_not_matter_where_one_is_meant() -> None:
    rows, notes = matched_identifiers(["A1", "b 2", "c"], identifiers("a1", " B  2", "c", "d"), "id")
    assert rows == [0, 1, 2, None]
    assert notes == [
        "Identifiers of b.csv that were matched in spite of case or spaces: 'a1' as 'A1'; ' B  2' as 'b 2'."
    ]


def test_identifiers_that_are_equal_are_never_others() -> None:
    assert matched_identifiers(["A1", "a1"], identifiers("a1", "A1"), "id") == ([1, 0], [])


def test_several_that_may_be_meant_are_refused() -> None:
    message = r"id 'a1 ' in line 2 of b\.csv may be any of 'A1', 'a1', which differ only in case or spaces; correct it"
    with pytest.raises(ValueError, match=message):
        matched_identifiers(["A1", "a1"], identifiers("a1 "), "id")
