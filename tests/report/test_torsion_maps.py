import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.patches import StepPatch

from lobal.report.torsion_maps import (
    RoundColours,
    TorsionView,
    complexity_line,
    complexity_map,
    labels_histogram,
    labels_map,
    torsion_figures,
    window_start,
)
from tests.report.grown_setting import chain, grown_campaign

ROUND_OF = np.array([0, 0, 1, 1, 1])
PLANE = TorsionView(
    names=("C0-C1-C2-C3", "C1-C2-C3-C4"),
    pool=np.column_stack([np.linspace(-90.0, 90.0, 50), np.linspace(100.0, 250.0, 50)]),
    labelled=np.array([[-80.0, 110.0], [-10.0, 200.0], [0.0, 150.0], [5.0, 160.0], [70.0, 190.0]]),
    failed=np.array([[10.0, 170.0]]),
)
LINE = TorsionView(
    names=PLANE.names[:1], pool=PLANE.pool[:, :1], labelled=PLANE.labelled[:, :1], failed=PLANE.failed[:, :1]
)


@pytest.mark.parametrize(
    ("angles", "start"),
    [([], -180.0), ([30.0], -150.0), ([-60.0, 60.0], -180.0), ([170.0, -170.0, 100.0], -35.0), ([0.0, 90.0], -135.0)],
)
def test_a_turn_begins_in_the_middle_of_the_widest_gap(angles: list[float], start: float) -> None:
    assert window_start(np.array(angles)) == pytest.approx(start)


@pytest.mark.parametrize("middle", [0.0, 90.0, 180.0, -179.0])
def test_no_group_of_configurations_is_cut_in_two(middle: float) -> None:
    degrees = middle + np.linspace(-20.0, 20.0, 9)
    view = TorsionView.of(grown_campaign(chain(degrees[:5, None]), chain(degrees[5:, None])))
    shown = np.concatenate([view.labelled, view.pool])[:, 0]
    assert np.ptp(shown) == pytest.approx(40.0)
    np.testing.assert_allclose((shown - degrees + 180.0) % 360.0, 180.0)


def test_the_two_slowest_torsions_are_shown(rng: np.random.Generator) -> None:
    wide, narrow = rng.uniform(-180.0, 180.0, 40), rng.normal(60.0, 15.0, 40)
    stiff = np.full(40, 180.0)
    straight = chain(np.full((5, 3), 180.0))
    view = TorsionView.of(grown_campaign(straight, chain(np.column_stack([narrow, stiff, wide]))))
    assert view.names == ("C2-C3-C4-C5", "C0-C1-C2-C3")
    assert view.pool.shape == (40, 2)
    assert TorsionView.of(grown_campaign(chain(np.zeros((5, 0))))).names == ()


@pytest.mark.parametrize(
    ("torsions", "figures"), [(1, ["histogram", "line"]), (2, ["map", "map"]), (3, ["map", "map"])]
)
def test_maps_are_over_two_torsions_and_lines_over_one(
    torsions: int, figures: list[str], rng: np.random.Generator
) -> None:
    pool = chain(rng.uniform(-180.0, 180.0, (20, torsions)))
    campaign = grown_campaign(pool[:5], pool, pool_complexity=np.linspace(0.5, 2.0, 20))
    view = TorsionView.of(campaign)
    found = torsion_figures(campaign, view)
    assert [name.split(" over ")[1] for name in found] == [" and ".join(view.names)] * 2
    kinds = [[*figure.axes[0].get_children()] for figure in found.values()]
    assert [any(isinstance(part, StepPatch) for part in parts) for parts in kinds[1:]] == [figures[1] == "line"]
    assert [bool(figure.axes[0].get_ylabel().startswith("torsion")) for figure in found.values()] == [torsions > 1] * 2


def test_without_a_pool_there_is_no_map_of_its_complexity(rng: np.random.Generator) -> None:
    campaign = grown_campaign(chain(rng.uniform(-180.0, 180.0, (20, 2))))
    (figure,) = torsion_figures(campaign, TorsionView.of(campaign)).values()
    figure.draw_without_rendering()


def test_labels_are_shown_in_the_colours_of_their_rounds_and_failed_ones_as_crosses() -> None:
    axes, bar = labels_map(PLANE, ROUND_OF).axes
    (dots,) = axes.collections
    assert isinstance(dots, PathCollection)
    np.testing.assert_array_equal(dots.get_offsets(), PLANE.labelled)
    np.testing.assert_array_equal(dots.get_array(), ROUND_OF)
    pool, failed = axes.lines
    np.testing.assert_array_equal(pool.get_xydata(), PLANE.pool)
    np.testing.assert_array_equal(failed.get_xydata(), PLANE.failed)
    assert failed.get_label() == "1 failed"
    assert bar.get_ylabel() == "round"


@pytest.mark.parametrize("draw", [labels_map, labels_histogram])
def test_labels_of_one_round_need_no_key_to_their_colour(draw: object) -> None:
    assert callable(draw)
    figure = draw(PLANE if draw is labels_map else LINE, np.zeros(5, dtype=int))
    assert len(figure.axes) == 1
    assert figure.axes[0].get_title() == "labels"


def test_a_histogram_has_every_label_and_a_pool_of_the_same_size() -> None:
    axes = labels_histogram(LINE, ROUND_OF).axes[0]
    bars = axes.containers
    assert [sum(bar.get_height() for bar in each) for each in bars] == [2.0, 3.0]  # of rounds 0 and 1
    (outline,) = [part for part in axes.patches if part.get_label() == "pool, scaled"]
    assert np.asarray(outline.get_path().vertices)[:, 1].max() == pytest.approx(
        5 / 50 * 2
    )  # two of the pool in the fullest slice


def test_a_line_of_complexity_is_the_mean_in_slices_of_the_torsion() -> None:
    (steps,) = complexity_line(LINE, np.exp(LINE.pool[:, 0] / 90.0)).axes[0].patches
    assert isinstance(steps, StepPatch)
    means, edges, _ = steps.get_data()
    inside = (LINE.pool[:, 0] >= edges[3]) & (LINE.pool[:, 0] < edges[4])
    assert means[3] == pytest.approx(np.exp(LINE.pool[inside, 0] / 90.0).mean())


def test_a_map_of_complexity_has_the_mean_of_every_cell() -> None:
    view = TorsionView(
        names=PLANE.names, pool=np.repeat(PLANE.pool[::10], 2, 0), labelled=PLANE.labelled, failed=PLANE.failed
    )
    cells = complexity_map(view, np.tile([1.0, 3.0], 5)).axes[0].collections[0]
    np.testing.assert_allclose(np.asarray(cells.get_array()), 2.0)


def test_ticks_are_angles_from_minus_180_to_180() -> None:
    for axis in (labels_map(PLANE, ROUND_OF).axes[0].xaxis, complexity_map(PLANE, np.ones(50)).axes[0].yaxis):
        name = axis.get_major_formatter()
        assert [name(angle) for angle in (-180.0, -170.0, 0.0, 180.0, 190.0, 360.0)] == [
            "180",
            "-170",
            "0",
            "180",
            "-170",
            "0",
        ]


def test_every_round_has_a_colour_of_its_own() -> None:
    colours = RoundColours.of(np.array([0, 3, 1]))
    assert len({colours.colour(number) for number in range(4)}) == colours.colours.N == 4


def test_configurations_that_are_all_alike_can_be_shown() -> None:
    R = chain(np.full((6, 1), 60.0))
    campaign = grown_campaign(R, R, pool_complexity=np.ones(6))
    for figure in torsion_figures(campaign, TorsionView.of(campaign)).values():
        figure.draw_without_rendering()
