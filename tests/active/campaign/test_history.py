import dataclasses
import json

import pandas as pd
import pytest

from lobal.active.campaign.history import History, Step

UNKNOWN = dict.fromkeys(("gamma_1", "gamma_2", "validation_error", "noise", "attainable"))
KNOWN = {"gamma_1": 2.5, "gamma_2": 0.1 + 0.2, "validation_error": 0.5, "noise": 5e-324, "attainable": 0.75}
FIRST = Step(number=0, size=0, batch=2, indices=(4, 1), **UNKNOWN)
SECOND = Step(number=1, size=2, batch=3, indices=(0, 7, 2), **KNOWN)


@pytest.mark.parametrize("step", [FIRST, SECOND, dataclasses.replace(SECOND, outliers=(3,))])
def test_a_step_comes_back_from_json_as_it_was(step: Step) -> None:
    fields = json.loads(json.dumps(step.to_fields()))
    assert fields == step.to_fields()
    assert Step.from_fields(fields) == step
    assert Step.from_fields({"event": "asked", **fields}) == step  # entries that are no fields are passed over


def test_missing_fields_are_named() -> None:
    fields = {name: value for name, value in SECOND.to_fields().items() if name not in ("noise", "size")}
    with pytest.raises(ValueError, match=r"a step needs the fields \['size', 'noise'\], got only \['attainable'"):
        Step.from_fields(fields)


def test_a_history_is_the_sequence_of_its_steps() -> None:
    history = History((FIRST, SECOND))
    assert (len(history), list(history), history.sizes) == (2, [FIRST, SECOND], (0, 2))
    assert (history[0], history[-1]) == (FIRST, SECOND)
    with pytest.raises(IndexError):
        history[2]


def test_the_table_has_a_column_for_each_field_and_a_row_for_each_step() -> None:
    table, columns = pd.DataFrame(History((FIRST, SECOND)).as_table()), [each.name for each in dataclasses.fields(Step)]
    assert list(table.columns) == columns
    assert table["batch"].tolist() == [2, 3]
    assert table["indices"].tolist() == [(4, 1), (0, 7, 2)]
    assert History().as_table() == {name: [] for name in columns}


def test_the_outliers_are_those_of_all_steps() -> None:
    steps = dataclasses.replace(FIRST, outliers=(4,)), dataclasses.replace(SECOND, outliers=(4, 7))
    assert History(steps).outliers == {4, 7}
    assert History().outliers == frozenset()


def test_the_inducing_numbers_are_those_of_the_last_step() -> None:
    found = dataclasses.replace(SECOND, n_inducing=32, n_gate_inducing=16)
    assert History((FIRST, found)).inducing_numbers == {"n_inducing": 32, "n_gate_inducing": 16}
    assert History((found, FIRST)).inducing_numbers == History().inducing_numbers == {}
