"""Axes and colour scales that figures of the report share."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator
from numpy import ndarray

from lobal.report.variables import Variable

FEWEST_TICKS = 3  # a readable scale has at least so many
LONGEST_LEVEL = 14  # characters of a category's name on an axis
MOST_CHARACTERS = 24  # of all names side by side


def relative(values: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Values in units of their median."""
    positive = values[values > 0.0]
    return np.asarray(values / np.median(positive) if len(positive) else values)


def number_logarithmic(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis."""
    axis.set_major_locator(FixedLocator(logarithmic_ticks(*axis.get_view_interval())))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def logarithmic_ticks(lower: float, upper: float) -> list[float]:
    """1, 2 and 5 of every decade; over more than two decades only 1; evenly spaced within a small part of a decade."""
    decades = LogLocator().tick_values(lower, upper)
    logarithmic = [np.outer(decades, subs).ravel() for subs in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0))]
    even = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(lower, upper)
    for values in (*logarithmic[0 if upper > 100.0 * lower else 2 :], even):
        ticks = [float(tick) for tick in values if lower <= tick <= upper]
        if len(ticks) >= FEWEST_TICKS:
            break
    return ticks


def slope_name(rate: float) -> str:
    """What a line of the learning rate is called in a legend."""
    return rf"slope $n^{{-{'1/2' if rate == 0.5 else f'{rate:.2g}'}}}$"


def logarithmic_scale(values: Float[ndarray, " n"]) -> LogNorm:
    """A logarithmic scale without the outermost percents, which would take up most of it.

    It spans at least a factor of two, so that values which hardly vary look even.
    """
    positive = values[values > 0.0]
    lower, upper = np.quantile(positive, [0.01, 0.99]) if len(positive) else (1.0, 1.0)
    middle, factor = np.sqrt(lower * upper), max(np.sqrt(upper / lower), np.sqrt(2.0))
    return LogNorm(middle / factor, middle * factor, clip=True)


def name_axis(axes: Axes, which: str, variable: Variable) -> None:
    """The name of the variable on axis "x" or "y", and its levels or a logarithmic scale where it has them."""
    axis, set_scale = (axes.xaxis, axes.set_xscale) if which == "x" else (axes.yaxis, axes.set_yscale)
    set_limits = axes.set_xlim if which == "x" else axes.set_ylim
    axis.set_label_text(variable.label)
    if variable.levels:
        names = [level[:LONGEST_LEVEL].replace("$", r"\$") for level in variable.levels]
        axis.set_ticks(list(range(len(names))), labels=names)
        set_limits(-0.5, len(names) - 0.5)
        if which == "x" and sum(map(len, names)) > MOST_CHARACTERS:
            axis.set_tick_params(rotation=30.0)
    elif variable.logarithmic:
        set_scale("log")
        number_logarithmic(axis)
    elif variable.is_whole:
        axis.set_major_locator(MaxNLocator("auto", integer=True))
