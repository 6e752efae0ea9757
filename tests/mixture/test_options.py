import numpy as np
import pytest

from lobal.mixture.adam.engine import default_penalty
from lobal.mixture.options import default_bandwidths


def test_default_bandwidths_are_those_of_algorithm_2() -> None:
    assert np.allclose(default_bandwidths(2.0), [2 ** ((i - 4) / 2) for i in range(1, 8)])


def test_default_penalty_falls_with_the_number_of_labels() -> None:
    assert default_penalty(100, "elbo") == default_penalty(1024, "elbo") == 0.5
    assert default_penalty(4096, "elbo") == pytest.approx(0.25)
    assert default_penalty(4096, "mse") == pytest.approx(0.5e-4)
