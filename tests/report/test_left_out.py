import numpy as np
import pytest
from scipy.stats import norm

from lobal import MixtureRegressor
from lobal.report.left_out import LeftOut, agreement_figure, coverage_figure, coverage_sentence, left_out, ranks_figure
from tests.report.setting import MODEL, campaign


def invented(n: int = 400, width: float = 1.0, outliers: tuple[int, ...] = ()) -> LeftOut:
    """Labels from normal distributions whose standard deviations are said to be `width` times what they are."""
    mean, error = np.linspace(0.0, 9.0, n), norm.ppf((np.random.default_rng(0).permutation(n) + 0.5) / n)
    return LeftOut(
        measured=mean + error,
        mean=mean,
        std=np.full(n, width),
        outliers=np.array(outliers, dtype=np.int64),
        half_width=lambda level: float(norm.ppf(0.5 + 0.5 * level)),
    )


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_right_intervals_cover_what_they_promise(level: float) -> None:
    assert invented().coverage(level) == pytest.approx(level, abs=0.01)
    np.testing.assert_allclose(np.sort(invented().ranks), (np.arange(400) + 0.5) / 400)


@pytest.mark.parametrize(
    ("width", "words"), [(1.0, "as promised, within chance"), (0.5, "too narrow"), (2.0, "on the safe side")]
)
def test_the_sentence_judges_the_intervals(width: float, words: str) -> None:
    sentence = coverage_sentence(invented(width=width))
    assert sentence.startswith("Of the 400 labels, each predicted from all others, ")
    assert words in sentence


def test_left_out_labels_are_those_of_the_model() -> None:
    learner = campaign(2)
    found = left_out(learner.model, *learner.labelled[:2])
    assert found is not None
    np.testing.assert_array_equal(found.mean, learner.model.leave_one_out(*learner.labelled[:2])[0])


def test_the_intervals_are_those_of_the_model() -> None:
    learner = campaign(1)
    X, y = learner.labelled[:2]
    found = left_out(learner.model, X, y)
    assert found is not None
    mean, _, upper = learner.model.predict(X, return_interval=0.8)
    np.testing.assert_allclose(upper - mean, found.half_width(0.8) * learner.model.predict(X, return_std=True)[1])


def test_labels_that_a_model_has_not_seen_are_not_left_out() -> None:
    X = np.linspace(0.0, 1.0, 30)[:, None]
    model = MixtureRegressor(**{**MODEL.get_params(deep=False), "experts": "exact"})
    model.fit(X[:20], np.sin(X[:20, 0]))
    assert left_out(model, X, np.sin(X[:, 0])) is None


def test_outliers_are_named_apart_from_each_other() -> None:
    labels = invented(outliers=(200, 201, 202))
    axes = agreement_figure(labels, {200: "A$", 201: "B"}, "y").axes[0]
    assert {text.get_text() for text in axes.texts} == {r"A\$", "B", "label 202"}
    heights = sorted(text.xy[1] for text in axes.texts)  # type: ignore[attr-defined]
    assert np.diff(heights).min() > 0.4


def test_the_figures_of_calibration_count_every_label() -> None:
    bars = ranks_figure(invented()).axes[0].patches
    assert sum(bar.get_height() for bar in bars) == 400  # type: ignore[attr-defined]
    found = next(line for line in coverage_figure(invented()).axes[0].lines if line.get_label() == "found")
    np.testing.assert_allclose(found.get_xdata(), found.get_ydata(), atol=0.02)
