from typing import Any

import numpy as np
import pytest

from experiments import deep_gp
from experiments.deep_gp import (
    ARMS,
    INPUTS,
    Task,
    conclusion,
    equidistant_inputs,
    errors_by_size,
    random_inputs,
    ratios,
    superior_inputs,
)
from experiments.figures.mogpu import BINS, sampling_figure
from lobal.core.doppler import Doppler

SHORT = {"chains": 1, "ascent": 2, "burn_in": 0, "sweeps": 2, "thinning": 1}


class Gate:
    """Stands for a mixture: the superior density is twice as large left of 1/2 as right of it."""

    def local_bandwidth(self, X: np.ndarray) -> np.ndarray:
        return np.where(X[:, 0] < 0.5, 1.0, 4.0)


def task(**changes: Any) -> Task:
    fields = {"seed": 0, "n": 64, "start": 32, "sizes": (32, 64), "gate": Gate(), "options": SHORT}
    return Task(**{**fields, **changes})


def test_equidistant_inputs_are_nested_and_leave_equal_gaps() -> None:
    x = equidistant_inputs(task())
    for size in (32, 64):
        np.testing.assert_allclose(np.diff(np.sort(x[:size])), 1.0 / size)


def test_superior_inputs_follow_the_density_together_with_the_first_ones() -> None:
    x = superior_inputs(task(n=8192, start=2048, sizes=(2048, 4096, 8192)))
    np.testing.assert_array_equal(x[:2048], equidistant_inputs(task(n=2048)))
    for size in (4096, 8192):
        assert np.mean(x[:size] < 0.5) == pytest.approx(2.0 / 3.0, abs=0.02)


def test_no_inputs_are_drawn_where_there_are_more_than_the_density_asks_for() -> None:
    x = superior_inputs(task(n=300, start=256, sizes=(256, 300)))
    assert (x[256:] < 0.5).all()


def test_arms_share_the_first_labels_and_the_noise() -> None:
    given = task()
    x, other = random_inputs(given), equidistant_inputs(given)
    np.testing.assert_array_equal(x[:32], other[:32])
    noise = [given.labels(inputs) - Doppler()(inputs) for inputs in (x, other)]
    np.testing.assert_allclose(*noise)
    np.testing.assert_array_equal(given.labels(x)[:40], given.labels(x[:40]))


def test_errors_that_are_known_are_not_computed_again() -> None:
    known = {32: {"rmse": -1.0, "max_error": -2.0}}
    found = errors_by_size(task(), equidistant_inputs(task()), known)
    assert found[32] == known[32]
    assert 0.0 < found[64]["rmse"] < found[64]["max_error"]


def test_ratios_are_geometric_means_over_seeds() -> None:
    rows = [{"n": 8, "seed": k, "a_rmse": value, "b_rmse": 1.0} for k, value in enumerate((0.5, 2.0))]
    found = ratios(rows, "a", "b", "rmse")["8"]
    assert found["ratio"] == pytest.approx(1.0)
    assert found["standard_error"] == pytest.approx(np.log(2.0))
    assert ratios(rows[:1], "a", "b", "rmse")["8"] == {"ratio": 0.5, "standard_error": None}


def test_a_run_has_errors_counts_and_seconds_of_every_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_gp, "gate_model", lambda *_, **__: Gate())
    monkeypatch.setattr(deep_gp, "UPDATE", {"burn_in": 0, "sweeps": 1, "thinning": 1})
    options = {"sizes": (32, 48), "start": 32, "gate_labels": 1, "n_inducing": 1}
    result = deep_gp.run(48, 0, **options, **SHORT)
    for arm in ARMS:
        assert 0.0 < result[f"{arm}_rmse_48"] < result[f"{arm}_max_error_48"]
        assert result[f"{arm}_rmse_32"] == result["random_rmse_32"]
        assert sum(result[f"{arm}_counts"]) == 48
        assert len(result[f"{arm}_counts"]) == BINS
    assert {*ARMS} == {*INPUTS}
    found = conclusion([result])["ratios"]
    assert found["rmse"]["superior/random"]["32"]["ratio"] == 1.0
    assert found["max_error"].keys() == {"superior/random", "superior/equidistant", "alc/superior"}
    figure = sampling_figure([result], ARMS)
    assert [axes.get_title() for axes in figure.axes[:4]] == [f"{title}, $n = 48$" for title in ARMS.values()]
    assert [len(axes.containers) for axes in figure.axes[4:]] == [4, 4]
    assert conclusion([]) == {"ratios": {}}
