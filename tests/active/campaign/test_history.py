import dataclasses
import json

import pandas as pd
import pytest

from lobal.active.campaign.history import History, Step

FIRST = Step(
    number=0,
    size=0,
    batch=2,
    indices=(4, 1),
    gamma_1=None,
    gamma_2=None,
    validation_error=None,
    noise=None,
    attainable=None,
)
SECOND = Step(
    number=1,
    size=2,
    batch=3,
    indices=(0, 7, 2),
    gamma_1=2.5,
    gamma_2=0.1 + 0.2,
    validation_error=0.5,
    noise=5e-324,
    attainable=0.75,
)


@pytest.mark.parametrize("step", [FIRST, SECOND])
def test_a_step_comes_back_from_json_as_it_was(step: Step) -> None:
    assert Step.from_fields(json.loads(json.dumps(step.to_fields()))) == step


def test_the_fields_of_a_step_are_what_json_gives_back() -> None:
    assert json.loads(json.dumps(SECOND.to_fields())) == SECOND.to_fields()


def test_entries_that_are_no_fields_are_passed_over() -> None:
    assert Step.from_fields({"event": "asked", **SECOND.to_fields()}) == SECOND


def test_missing_fields_are_named() -> None:
    fields = {name: value for name, value in SECOND.to_fields().items() if name not in ("noise", "size")}
    with pytest.raises(ValueError, match=r"a step needs the fields \['size', 'noise'\], got only \['attainable'"):
        Step.from_fields(fields)


@pytest.mark.parametrize("name", ["number", "size", "batch"])
def test_a_step_counts_from_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} of a step must be at least zero, got -1"):
        dataclasses.replace(SECOND, **{name: -1})


def test_a_history_is_the_sequence_of_its_steps() -> None:
    history = History((FIRST, SECOND))
    assert len(history) == 2
    assert list(history) == [FIRST, SECOND]
    assert (history[0], history[-1]) == (FIRST, SECOND)
    with pytest.raises(IndexError):
        history[2]


def test_sizes_are_those_before_each_batch() -> None:
    assert History((FIRST, SECOND)).sizes == (0, 2)


def test_a_history_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        History((FIRST,)).steps = ()  # type: ignore[misc]


def test_the_table_has_a_column_for_each_field_and_a_row_for_each_step() -> None:
    table = pd.DataFrame(History((FIRST, SECOND)).as_table())
    assert list(table.columns) == [field.name for field in dataclasses.fields(Step)]
    assert table["batch"].tolist() == [2, 3]
    assert table["indices"].tolist() == [(4, 1), (0, 7, 2)]


def test_the_table_of_no_steps_has_the_same_columns() -> None:
    assert History().as_table() == {field.name: [] for field in dataclasses.fields(Step)}
