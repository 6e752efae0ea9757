import pytest
import torch

from lobal.mixture.data import TrainingData, split_labels
from lobal.mixture.fit import validation_error
from lobal.mixture.progress import Epoch
from tests.mixture.test_fit import ANALYTIC, data, fit, sample


@pytest.mark.parametrize("validation", [None, 7])
def test_every_label_has_one_use(validation: int | None) -> None:
    labelled = sample(40, 0)
    split = split_labels(labelled, n_gate=5, validation=validation, generator=torch.Generator())
    assert split.gate_set is not None
    assert (len(split.gate_set), split.validation and len(split.validation)) == (5, validation)
    assert torch.equal(split.for_final_fit().y.sort().values, labelled.y.sort().values)


def test_labels_given_for_validation_have_no_other_use() -> None:
    labelled, given = sample(40, 0), sample(10, 1)
    split = split_labels(labelled, n_gate=0, validation=given, generator=torch.Generator())
    assert split.validation is given
    assert torch.equal(split.for_final_fit().y.sort().values, labelled.y.sort().values)


def test_too_few_labels_for_the_experts_are_refused_with_all_numbers() -> None:
    with pytest.raises(
        ValueError,
        match="need at least 5 of 20 labels for the experts, got 4: 10 are for validation and 6 for the gate",
    ):
        split_labels(sample(20, 0), n_gate=6, validation=10, generator=torch.Generator())


def test_the_error_is_that_of_the_validation_labels_in_units_of_the_labels() -> None:
    labelled = data()
    fitted, validation = fit(labelled, training=ANALYTIC), labelled.validation
    assert validation is not None
    error = (validation.y - fitted.mixture.mean(validation.X)).square().mean().sqrt().item()
    assert validation_error(labelled, fitted, [], scale=3.0) == pytest.approx(3.0 * error)


def test_without_validation_labels_the_error_is_leave_one_out() -> None:
    labelled = TrainingData(points=sample(80, 1))
    fitted = fit(labelled, training=ANALYTIC)
    assert fitted.residual is not None
    error = fitted.residual.square().mean().sqrt().item()
    assert validation_error(labelled, fitted, [], scale=1.0) == pytest.approx(error)


def test_adams_error_is_the_least_at_the_terminal_kappa() -> None:
    history = [
        Epoch(number, kappa=kappa, rate=1.0, objective=0.0, validation_error=error)
        for number, (kappa, error) in enumerate([(3, 0.1), (2, 0.4), (2, 0.3)])
    ]
    assert validation_error(data(), fit(data()), history, scale=5.0) == 0.3
