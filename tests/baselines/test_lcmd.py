import numpy as np

from lobal.baselines.lcmd import lcmd
from tests.baselines.setting import line, task, with_its_package

x = np.linspace(0.0, 1.0, 81)


def test_points_go_where_there_are_no_labels() -> None:
    with_its_package("lcmd")
    chosen = lcmd(line(x, np.sin(20.0 * x), np.arange(0, 40), b=6), steps=64).numpy()
    assert np.median(x[chosen]) > 0.6


def test_pending_points_count_as_chosen() -> None:
    with_its_package("lcmd")
    given = line(x, np.sin(20.0 * x), np.arange(0, 40), pending=tuple(range(41, 81, 2)), b=6)
    apart = lcmd(line(x, np.sin(20.0 * x), np.arange(0, 40), b=1), steps=64).item()
    assert apart > 60
    assert np.median(x[lcmd(given, steps=64).numpy()]) < x[apart]


def test_the_training_of_the_network_is_an_argument() -> None:
    with_its_package("lcmd")
    assert lcmd(task(), steps=1).tolist() != lcmd(task(), steps=64).tolist()


def test_numpy_is_left_as_it_was() -> None:
    with_its_package("lcmd")
    lcmd(task(), steps=1)
    assert not hasattr(np, "Inf")
