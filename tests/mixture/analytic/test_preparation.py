import torch

from lobal.mixture.analytic.preparation import first_plan
from lobal.mixture.analytic.settings import AnalyticSettings
from lobal.mixture.data import TrainingData
from lobal.mixture.settings import MixtureSettings
from lobal.mixture.start import global_start
from tests.mixture.test_fit import BANDWIDTHS, sample


def test_candidate_gates_are_wider_than_the_global_expert_and_the_middle_one_is_planned() -> None:
    points = sample(60, 1)
    settings = MixtureSettings(
        bandwidths=BANDWIDTHS, n_inducing=10, n_gate_inducing=5, training=AnalyticSettings(), gate_bandwidth=None
    )
    start = global_start(points, settings, torch.Generator().manual_seed(0))
    plan, gates = first_plan(TrainingData(points=points), start)
    widths = torch.cat([gate.shared_bandwidth for gate in gates])
    torch.testing.assert_close(widths, torch.tensor([30.0, 10.0, 3.0]).double() * start.global_bandwidth)
    assert plan.gate is gates[1]
