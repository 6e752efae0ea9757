from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.baselines import deep_gp_sampling
from lobal.baselines.deep_gp_sampling import Chains
from tests.core.setting import seeded

X = torch.linspace(-0.5, 0.5, 30, dtype=torch.float64)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_every_step_of_a_sweep_starts_from_the_likelihood_of_the_state_then(
    layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps keep the posterior as it is if the likelihood that they are given is that of what they move."""
    moved = list[bool]()

    def watched(step: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, Tensor]]:
        def watching(current: Tensor, level: Tensor, log_likelihood: Any, *rest: Any, **options: Any) -> Any:
            torch.testing.assert_close(level, log_likelihood(current), rtol=1e-8, atol=1e-6)
            new, reached = step(current, level, log_likelihood, *rest, **options)
            torch.testing.assert_close(reached, log_likelihood(new), rtol=1e-8, atol=1e-6)
            moved.append(not torch.equal(new, current))
            return new, reached

        return watching

    for name in ("elliptical_slice", "metropolis"):
        monkeypatch.setattr(deep_gp_sampling, name, watched(getattr(deep_gp_sampling, name)))
    chains, generator = Chains(X, (8.0 * X).sin(), layers), seeded(0)
    state = chains.start(4, generator)
    for _ in range(5):
        state = chains.sweep(state, generator)
    assert len(moved) == 5 * (2 * (layers - 1) + layers + 1)  # all and some weights of hidden layers; scales
    assert sum(moved) > 0.5 * len(moved)
