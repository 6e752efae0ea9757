import numpy as np

from experiments.simulator import simulated
from experiments.simulator_told import REACH, conclude, from_transition, placed


def test_the_temperature_changes_fastest_where_the_transition_is_said_to_be() -> None:
    flow = np.geomspace(1.0, 1000.0, 3001)
    same = {"power": 2.0, "angle": 45.0, "fins": 4, "material": "copper"}
    table = {"flow": flow, **{name: np.full(len(flow), value) for name, value in same.items()}}
    slope = np.abs(np.diff(simulated(table, ["temperature"])[:, 0]))
    assert abs(from_transition(table)[slope.argmax()]) < 0.01


def test_a_share_of_the_labels_lies_within_reach_and_none_is_drawn_twice() -> None:
    distance = np.linspace(-2.0, 2.0, 1000)
    rows = placed(distance, 40, 0.3, np.random.default_rng(0))
    assert (np.abs(distance[rows]) < REACH).sum() == 12
    assert len(np.unique(rows)) == 40


def test_ratios_are_geometric_means_over_seeds() -> None:
    errors = {"share_0.1": 0.1, "share_0.2": 0.2, "share_0.3": 0.3, "share_0.5": 0.4}
    results = [{"random": 0.2, **errors}, {"random": 0.8, **errors}]
    assert abs(conclude(results)["ratios"]["share_0.5"]["mean"] - 1.0) < 1e-12
