import pytest
from matplotlib.figure import Figure

from lobal.report.axes import logarithmic_ticks, name_axis
from lobal.report.variables import Variable


@pytest.mark.parametrize(
    ("lower", "upper", "ticks"),
    [
        (0.9, 60.0, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]),
        (0.9, 2000.0, [1.0, 10.0, 100.0, 1000.0]),
        (0.0023, 0.7, [0.003, 0.01, 0.03, 0.1, 0.3]),
        (0.5, 1.4, [0.6, 0.8, 1.0, 1.2, 1.4]),
    ],
)
def test_a_logarithmic_scale_has_ticks_to_read_it_by(lower: float, upper: float, ticks: list[float]) -> None:
    assert logarithmic_ticks(lower, upper) == pytest.approx(ticks)


def test_an_axis_names_the_levels_of_a_category() -> None:
    axes = Figure().subplots()
    name_axis(axes, "x", Variable(name="metal", columns=(0, 1), levels=("steel", "copper$")))
    assert [text.get_text() for text in axes.get_xticklabels()] == ["steel", r"copper\$"]


def test_whole_numbers_have_whole_ticks() -> None:
    axes = Figure().subplots()
    axes.set_xlim(1.0, 4.0)
    name_axis(axes, "x", Variable(name="fins", columns=(0,), is_whole=True))
    assert all(tick == round(tick) for tick in axes.get_xticks())


def test_a_logarithmic_variable_has_a_logarithmic_axis() -> None:
    axes = Figure().subplots()
    axes.set_ylim(1.0, 1e4)
    name_axis(axes, "y", Variable(name="rate", columns=(0,), logarithmic=True))
    assert (axes.get_yscale(), axes.get_ylabel()) == ("log", "rate")
