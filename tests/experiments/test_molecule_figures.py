import io

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from experiments.figures.molecules import (
    RotorMap,
    are_bonded,
    bandwidth_figure,
    importance,
    plane_view,
    rotor_maps,
)

# Methanol: a carbon, an oxygen, three hydrogens on the first and one on the second (Angstrom).
SPECIES = np.array([6, 8, 1, 1, 1, 1])
POSITIONS = np.array(
    [
        [-0.05, 0.67, 0.0],
        [-0.05, -0.76, 0.0],
        [-1.09, 0.98, 0.0],
        [0.44, 1.07, 0.89],
        [0.44, 1.07, -0.89],
        [0.86, -1.06, 0.0],
    ]
)
PAIRS = np.stack(np.triu_indices(6, k=1), axis=1)
SIGMA = np.geomspace(0.1, 3.0, 15)
ANGLES = np.arange(-180.0, 180.0, 30.0)
PLANE = np.cos(np.deg2rad(ANGLES))[:, None] + np.sin(np.deg2rad(ANGLES))[None, :]


def drawn(figure: Figure) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=50)
    return content.getvalue()


def test_importance_is_one_at_the_smallest_bandwidth_and_zero_at_the_largest() -> None:
    np.testing.assert_allclose(importance(np.array([1.0, 10.0, 100.0])), [1.0, 0.25, 0.0])
    np.testing.assert_array_equal(importance(np.full(3, 2.0)), np.ones(3))


def test_atoms_at_the_distance_of_their_radii_are_bonded() -> None:
    bonded = {tuple(pair) for pair in PAIRS[are_bonded(SPECIES, POSITIONS, PAIRS)].tolist()}
    assert bonded == {(0, 1), (0, 2), (0, 3), (0, 4), (1, 5)}


def test_every_pair_is_a_red_line_and_every_bond_a_black_one() -> None:
    axes = bandwidth_figure(SPECIES, POSITIONS, SIGMA).axes[0]
    red, black = (part for part in axes.collections if isinstance(part, LineCollection))
    assert (len(red.get_segments()), len(black.get_segments())) == (15, 5)
    saturation = 1.0 - np.asarray(red.get_colors())[:, 1]  # the green that is missing
    np.testing.assert_allclose(saturation, np.sort(importance(SIGMA)), atol=0.01)


def test_atoms_are_named_by_element_and_number() -> None:
    names = [text.get_text() for text in bandwidth_figure(SPECIES, POSITIONS, SIGMA).axes[0].texts]
    assert names == [rf"$\mathrm{{{symbol}}}_{{{number}}}$" for number, symbol in enumerate("COHHHH")]


def test_atoms_above_each_other_are_drawn_apart() -> None:
    """Hydrogens 3 and 4 are mirror images of each other in the plane of the others."""
    view = plane_view(SPECIES, POSITIONS)
    assert np.linalg.norm(view[PAIRS[:, 0]] - view[PAIRS[:, 1]], axis=1).min() > 0.4


def test_maps_are_closed_around_the_circle() -> None:
    maps = {"plane": RotorMap(PLANE), "density": RotorMap(np.exp(PLANE), "per degree", log=True)}
    figure = rotor_maps(ANGLES, ANGLES, maps, {"stable": np.array([[0.0, 90.0], [60.0, 30.0]])})
    assert [axes.get_title() for axes in figure.axes] == ["plane", "density"]
    for axes in figure.axes:
        assert axes.get_xlim() == axes.get_ylim() == (-180.0, 180.0)
        (marks,) = axes.get_lines()
        assert marks.get_xydata().tolist() == [[0.0, 90.0], [60.0, 30.0]]  # type: ignore[union-attr]
    assert drawn(figure)


def test_rows_of_a_map_are_values_of_the_first_angle() -> None:
    """A ridge at phi_1 = 90 is a vertical line in the figure."""
    values = np.zeros((12, 12))
    values[9] = 1.0
    surface = rotor_maps(ANGLES, ANGLES, {"ridge": RotorMap(values)}).axes[0].collections[0]
    top = [path for path in surface.get_paths() if np.size(path.vertices)][-1]
    x, y = np.ptp(np.asarray(top.vertices), axis=0)
    assert (x < 60.0, y) == (True, 360.0)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("values", [np.ones((12, 12)), np.eye(12), np.exp(-20.0 * (PLANE + 2.0))])
def test_even_empty_and_steep_maps_are_drawn(values: np.ndarray, log: bool) -> None:
    assert drawn(rotor_maps(ANGLES, ANGLES, {"a": RotorMap(values, log=log)}))
