from dataclasses import replace

import pytest
import torch

from lobal.mixture.analytic.held_out import held_out_predictions
from lobal.mixture.data import TrainingData, split_labels
from lobal.mixture.fit import held_out_errors
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
    assert held_out_errors(labelled, fitted, None, [], scale=3.0).error == pytest.approx(3.0 * error)


def test_without_validation_labels_the_error_is_that_of_labels_held_out() -> None:
    labelled = TrainingData(points=sample(80, 1))
    fitted = fit(labelled, training=ANALYTIC)
    residual = labelled.points.y - held_out_predictions(fitted, labelled.points).mean
    error = held_out_errors(labelled, fitted, None, [], scale=2.0).error
    assert error == pytest.approx(2.0 * residual.square().mean().sqrt().item())


@pytest.mark.parametrize("keeps_validation", [False, True], ids=["held out", "validation labels"])
def test_the_standard_error_is_that_of_the_jackknife(keeps_validation: bool) -> None:
    points, validation = sample(80, 1), sample(60, 2) if keeps_validation else None
    labelled = TrainingData(points=points, validation=validation, keep_validation=keeps_validation)
    fitted = fit(labelled, training=ANALYTIC)
    compared = points if validation is None else validation
    mean = held_out_predictions(fitted, points).mean if validation is None else fitted.mixture.mean(validation.X)
    squares, n = (compared.y - mean).square(), len(compared)
    without_one = ((squares.sum() - squares) / (n - 1)).sqrt()
    jackknife = (n - 1) / n**0.5 * without_one.std(correction=0).item()
    assert held_out_errors(labelled, fitted, None, [], scale=1.0).standard_error == pytest.approx(jackknife, rel=0.1)


def test_weights_count_in_the_error_and_in_the_calibration() -> None:
    points = sample(80, 1)
    fitted = fit(TrainingData(points=points), training=ANALYTIC)
    doubled = TrainingData(points=replace(points, weight=torch.where(points.X[:, 0] < 0.5, 2.0, 1.0).double()))
    error, _, calibration = held_out_errors(doubled, fitted, None, [], scale=1.0)
    residual = points.y - held_out_predictions(fitted, points).mean
    weight = doubled.points.weight
    assert error == pytest.approx(((weight @ residual.square()) / weight.sum()).sqrt().item())
    assert (calibration.weights.max() / calibration.weights.min()).item() == pytest.approx(2.0)


def test_adams_error_is_the_least_at_the_terminal_kappa() -> None:
    history = [
        Epoch(number, kappa=kappa, rate=1.0, objective=0.0, validation_error=error)
        for number, (kappa, error) in enumerate([(3, 0.1), (2, 0.4), (2, 0.3)])
    ]
    error, standard_error, calibration = held_out_errors(data(), fit(data()), None, history, scale=5.0)
    assert (error, standard_error) == (0.3, None)
    assert len(calibration.scores) == 80 + 30  # training labels and those for validation
