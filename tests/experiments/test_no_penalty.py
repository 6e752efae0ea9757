import numpy as np
import pytest

from experiments.figures.no_penalty import ARMS, FLAT, PLACES, without_penalty_figure
from experiments.no_penalty import described, run, worst
from experiments.repetitions import Result


@pytest.fixture(scope="module")
def result() -> Result:
    return run(64, 0, start=32, n_inducing=16, max_epochs=3, device="cpu")


def test_both_campaigns_are_measured_and_described(result: Result) -> None:
    for arm in ARMS:
        assert 0.0 < result[f"{arm}_rmse_64"] < result[f"{arm}_max_error_64"]
        assert len(result[f"{arm}_inputs"]) == len(result[f"{arm}_labels"]) == 16
        assert result[f"{arm}_least_flat_bandwidth"] == pytest.approx(
            min(np.array(result[f"{arm}_local_bandwidth"])[PLACES > FLAT]), rel=1e-4
        )


def test_campaigns_start_from_the_same_labels(result: Result) -> None:
    assert result["with_inputs"][:8] == result["without_inputs"][:8]


def test_the_share_of_labels_is_that_of_the_flat_part() -> None:
    class Model:
        def local_bandwidth(self, X: np.ndarray) -> np.ndarray:
            return X[:, 0]

        predict = local_bandwidth

    found = described(Model(), np.array([[0.2], [0.6], [0.7], [0.9]]), np.zeros(4))
    assert found["flat_share"] == 0.75
    assert found["least_flat_bandwidth"] == pytest.approx(FLAT, abs=1e-3)


def test_the_figure_shows_the_worst_repetition(result: Result) -> None:
    better = result | {"without_least_flat_bandwidth": 1e9}
    assert worst([better, result]) is result
    figure = without_penalty_figure(result)
    assert [axes.get_title() for axes in figure.axes[:2]] == list(ARMS.values())
    np.testing.assert_array_equal(figure.axes[2].get_lines()[0].get_ydata(), result["without_local_bandwidth"])
    (legend,) = figure.legends  # outside of the panels, whose curves it would cover
    assert [text.get_text() for text in legend.get_texts()][1:] == ["truth", "prediction"]
    assert all(axes.get_legend() is None for axes in figure.axes)
