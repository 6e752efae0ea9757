import numpy as np

from lobal.report.line import line_figures
from lobal.report.variables import variables_of
from tests.report.setting import campaign


def test_inputs_across_a_decade_get_a_logarithmic_axis_too() -> None:
    learner = campaign(1)
    X, y = (np.asarray(values) for values in learner.labelled[:2])
    figures = line_figures(learner.model, X, y, variable=variables_of(1, ["speed"])[0], target="heat")
    assert [figure.axes[1].get_xlabel() for figure in figures.values()] == ["speed", "speed (logarithmic)"]
    assert {figure.axes[0].get_ylabel() for figure in figures.values()} == {"heat"}
