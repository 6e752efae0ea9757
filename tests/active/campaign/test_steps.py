import re

import pytest

from lobal.active.campaign.steps import resolved


@pytest.mark.parametrize("kind", ["c", None, ["a"]])
def test_a_header_that_names_no_known_kind_is_refused(kind: object) -> None:
    with pytest.raises(ValueError, match=re.escape(f"kind must be one of ['a', 'b'], got {kind!r}")):
        resolved({"b": "module:name", "a": "module:name"}, kind)
