from dataclasses import replace

import numpy as np
import pytest

from lobal.active.draws import design
from lobal.active.mixture_surrogate import FittedMixtureSurrogate
from tests.baselines.setting import line, task

x = np.linspace(0.0, 1.0, 81)


@pytest.mark.parametrize("name", ["gp_variance", "mogpu"])
def test_the_largest_gap_is_filled_first_and_pending_points_close_it(name: str) -> None:
    labelled = np.r_[0:20, 61:81]
    y = np.sin(20.0 * x)
    assert design(name)(line(x, y, labelled, b=1)).item() in range(35, 46)
    assert design(name)(line(x, y, labelled, pending=tuple(range(30, 50)), b=1)).item() not in range(28, 52)


def test_an_irrelevant_column_hardly_counts() -> None:
    given = task(b=10)
    y = np.sin(12.0 * given.labelled.X[:, 0])
    rows = design("gp_variance")(replace(given, labelled=given.labelled._replace(y=y))).numpy()
    known = given.drawn[1][:, 0]
    gaps = np.abs(given.candidates.X[35:100, :1] - known).min(axis=1)
    assert np.abs(given.candidates.X[rows[0], 0] - known).min() > np.quantile(gaps, 0.75)


def test_mogpu_takes_more_points_where_the_bandwidth_is_small() -> None:
    places = np.linspace(0.0, 1.0, 401)
    y, labelled = np.sin(3.0 / (places + 0.05)), np.arange(0, 401, 4)
    given = line(places, y, labelled, b=60, kernel="gaussian")  # as that of the single process
    mixture, single = (places[design(name)(given).numpy()] for name in ("mogpu", "gp_variance"))
    assert (mixture < 0.3).mean() > 0.2 + (single < 0.3).mean()


def test_mogpu_refuses_models_that_are_no_mixture() -> None:
    fitted = object.__new__(FittedMixtureSurrogate)
    fitted.model = "a force field"
    with pytest.raises(ValueError, match=r"needs a lobal.MixtureRegressor as the model, got str"):
        design("mogpu")(replace(task(), fitted=fitted))
