import numpy as np
import pytest

from experiments.peers import simulators
from experiments.peers.problems import FUNCTIONS, SIMULATORS, sampled


@pytest.mark.parametrize("name", SIMULATORS)
def test_values_are_finite_and_vary(name: str) -> None:
    case = sampled(FUNCTIONS[name], 0)
    assert np.isfinite(case.truth).all()
    assert case.truth.std() > 0.0


def test_values_at_points_that_are_known() -> None:
    assert simulators.ishigami(np.array([[0.75, 0.75, 0.5]]), 0) == pytest.approx(8.0)
    assert simulators.friedman(np.array([[1.0, 0.5, 0.5, 1.0, 1.0]]), 0) == pytest.approx(25.0)
    assert simulators.robot(np.array([[0.0, 1.0, 0.0, 0.0, 0.1, 0.2, 0.3, 0.4]]), 0) == pytest.approx(1.0)
