"""The ordinal gate: its objective, its gradient, and profiles it has to find."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lobal.core.kernels import WhitenedFeatures, gaussian
from lobal.mixture.analytic.gate_fit import (
    TEMPERATURES,
    NewtonSearch,
    cross_fitted_channels,
    fit_ordinal_gate,
    interpolated,
)
from lobal.mixture.gate import OrdinalGate, interpolation_weights

L, N = 6, 300
X = torch.linspace(0, 1, N, dtype=torch.float64)[:, None]
every_temperature = pytest.mark.parametrize("temperature", TEMPERATURES)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def features(points: int = 20, width: float = 0.15) -> WhitenedFeatures:
    return WhitenedFeatures.at(
        torch.linspace(0, 1, points, dtype=torch.float64)[:, None],
        bandwidths=torch.ones(1).double(),
        shared_bandwidth=torch.tensor(width).double(),
        kernel=gaussian,
    )


def fit(utility: Tensor, *, weight: Tensor | None = None, inputs: Tensor = X, **changes: Any) -> OrdinalGate:
    weight = torch.ones(len(inputs)).double() if weight is None else weight
    phi = features()(inputs)[0]
    return fit_ordinal_gate(features(), phi, utility, weight, **{"scale": 4.0, **changes})


def position(gate: OrdinalGate, inputs: Tensor = X) -> Tensor:
    return gate(inputs) @ torch.arange(gate.n_experts).double()


def peaked(profile: Tensor, *, noise: float = 0.0, n_experts: int = L) -> Tensor:
    """Utilities that fall off on both sides of the profile, one expert a row."""
    steps = torch.arange(n_experts).double()[:, None]
    return -(steps - profile).square() + noise * random(n_experts, len(profile))


def linear(x: Tensor) -> Tensor:
    return 0.5 + 4.0 * x[:, 0]


def step(x: Tensor) -> Tensor:
    return torch.where(x[:, 0] < 0.5, 1.0, 4.0).double()


@every_temperature
def test_slope_and_curvature_are_derivatives_in_the_position(temperature: float) -> None:
    table, places = random(50, L), (L + 3) * torch.linspace(0.0031, 0.9973, 50).double() - 2.0
    _, slope, curvature = interpolated(table, places, temperature)
    h = 1e-6
    above, below = (interpolated(table, places + sign * h, temperature) for sign in (1, -1))
    torch.testing.assert_close(slope, (above.value - below.value) / (2 * h), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(curvature, (above.slope - below.slope) / (2 * h), rtol=1e-6, atol=1e-7)


def test_at_a_low_temperature_the_interpolation_is_that_of_the_gate() -> None:
    table, places = random(50, L), torch.arange(50).double() % L
    value, _, _ = interpolated(table, places, 0.01)
    torch.testing.assert_close(value, (interpolation_weights(places, L) * table).sum(1))


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_equal_utilities_have_no_slope(temperature: float) -> None:
    table, places = torch.full((9, L), 2.5).double(), torch.linspace(-1, L, 9).double()
    value, slope, curvature = interpolated(table, places, temperature)
    torch.testing.assert_close(value, torch.full((9,), 2.5).double())
    assert slope.abs().max() < 1e-12
    assert curvature.abs().max() < 1e-12


def search(utility: Tensor, weight: Tensor) -> NewtonSearch:
    return NewtonSearch(features()(X)[0], utility, weight, torch.tensor(2.0).double())


@every_temperature
def test_the_gradient_and_the_hessian_are_those_of_the_objective(temperature: float) -> None:
    path = search(random(L, N), random(N).exp())
    place = path.at(torch.cat([torch.tensor([2.3]).double(), 0.5 * random(20, seed=1)]), temperature)
    gradient, hessian = path.gradient(place), path.hessian(place)
    h = 1e-6
    for i, direction in enumerate(torch.eye(21, dtype=torch.float64)):
        above, below = (path.at(place.parameters + sign * h * direction, temperature) for sign in (1, -1))
        assert gradient[i].item() == pytest.approx(((above.loss - below.loss) / (2 * h)).item(), rel=1e-4, abs=1e-4)
        change = (path.gradient(above) - path.gradient(below)) / (2 * h)
        torch.testing.assert_close(hessian[i], change, rtol=1e-4, atol=1e-4 * hessian.abs().max().item())


def test_the_objective_is_prior_and_weighted_utility() -> None:
    utility, weight = random(L, N), random(N).exp()
    parameters = torch.cat([torch.tensor([2.3]).double(), 0.1 * random(20, seed=1)])
    places = parameters[0] + 2.0 * features()(X)[0] @ parameters[1:]
    assert places.min() > 0
    assert places.max() < L - 1
    loss = search(utility, weight).at(parameters, TEMPERATURES[-1]).loss
    expected = 0.5 * parameters[1:].square().sum() - weight @ interpolated(utility.mT, places, TEMPERATURES[-1]).value
    assert loss.item() == pytest.approx(expected.item())


def test_a_terrible_expert_does_not_drive_the_gate_off_the_ladder() -> None:
    utility = torch.tensor([-0.1, 0.0, -30.0]).double()[:, None].expand(-1, N)
    assert position(fit(utility)).mean().item() == pytest.approx(1.0, abs=0.5)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_linear_profile_is_recovered(noise: float) -> None:
    deviation = position(fit(peaked(linear(X), noise=noise))) - linear(X)
    assert deviation.abs().mean() < 0.25
    assert deviation.abs().max() < 0.75


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_step_in_the_profile_is_recovered(noise: float) -> None:
    deviation = position(fit(peaked(step(X), noise=noise))) - step(X)
    away = (X[:, 0] - 0.5).abs() > 0.1
    assert deviation[away].abs().max() < 0.3


@pytest.mark.parametrize("expert", range(L))
def test_one_expert_that_is_best_everywhere_gives_a_constant_gate(expert: int) -> None:
    gate = fit(peaked(torch.full((N,), float(expert)).double(), noise=0.3))
    assert gate(X)[:, expert].min() > 0.9


def test_utilities_that_rise_along_the_ladder_lead_to_its_end() -> None:
    rising = torch.arange(L).double()[:, None].expand(-1, N)
    assert fit(rising)(X)[:, -1].min() > 0.99
    assert fit(-rising)(X)[:, 0].min() > 0.99


def test_two_maxima_are_decided_by_the_greater() -> None:
    utility = torch.tensor([2.0, 0.0, 0.0, 0.0, 0.0, 3.0]).double()[:, None].expand(-1, N)
    assert fit(utility)(X)[:, -1].min() > 0.99


def test_a_single_expert_answers_alone() -> None:
    gate = fit(random(1, N))
    assert gate.n_experts == 1
    assert torch.equal(gate(X), torch.ones(N, 1).double())


def test_two_experts_are_a_ladder() -> None:
    profile = torch.where(X[:, 0] < 0.5, 0.0, 1.0).double()
    deviation = position(fit(5.0 * peaked(profile, n_experts=2))) - profile
    assert deviation[(X[:, 0] - 0.5).abs() > 0.1].abs().max() < 0.1


@pytest.mark.parametrize("profile", [linear, step])
def test_a_start_leads_to_the_same_optimum(profile: Callable[[Tensor], Tensor]) -> None:
    utility = peaked(profile(X), noise=0.5)
    first = fit(utility)
    again, from_afar = (fit(utility, start=start) for start in (first, fit(peaked(linear(X) - 0.5))))
    assert (position(again) - position(first)).abs().max() < 0.1
    assert (position(from_afar) - position(first)).abs().mean() < 0.1


def test_the_search_begins_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    first = fit(peaked(linear(X)))
    starts: list[Tensor] = []

    def run(self: NewtonSearch, start: Tensor, temperature: float, tolerance: float) -> Tensor:
        starts.append(start)
        return start

    monkeypatch.setattr(NewtonSearch, "run", run)
    fit(peaked(step(X)), start=first)
    fit(peaked(torch.full((N,), 2.0).double()))
    assert torch.equal(starts[0], torch.cat([first.mean[None], first.whitened_mean]))
    assert starts[-1].tolist() == [2.0] + [0.0] * 20  # the single best expert, everywhere


@pytest.mark.parametrize("noise", [0.5, 3.0])
def test_the_search_ends_where_the_objective_is_flat_and_convex(noise: float) -> None:
    utility, weight = peaked(linear(X), noise=noise), torch.ones(N).double()
    gate = fit(utility, weight=weight)
    path = search(utility, weight)
    place = path.at(torch.cat([gate.mean[None], gate.whitened_mean]), TEMPERATURES[-1])
    assert path.gradient(place).abs().max() < 1e-4
    assert torch.linalg.eigvalsh(path.hessian(place)).min() > 0


def test_the_fit_is_repeatable() -> None:
    utility = peaked(linear(X), noise=0.5)
    assert torch.equal(fit(utility).whitened_mean, fit(utility).whitened_mean)


def test_a_weight_of_two_is_a_point_twice() -> None:
    utility = peaked(step(X), noise=0.5)
    weight = torch.where(X[:, 0] < 0.3, 2.0, 1.0).double()
    rows = torch.cat([torch.arange(N), torch.arange(N)[weight == 2.0]])
    weighted, repeated = fit(utility, weight=weight), fit(utility[:, rows], inputs=X[rows])
    assert (position(weighted) - position(repeated)).abs().max() < 0.05


def test_a_small_scale_allows_one_position_only() -> None:
    places = position(fit(peaked(linear(X)), scale=1e-6))
    assert places.max() - places.min() < 0.1


def test_few_points_move_the_gate_less_than_many() -> None:
    """The prior counts once, the points each: a handful of lucky utilities does not bend the gate."""
    spans = []
    for n in (3, 3000):
        inputs = torch.linspace(0, 1, n, dtype=torch.float64)[:, None]
        places = position(fit(0.02 * peaked(linear(inputs)), inputs=inputs))
        spans.append((places.max() - places.min()).item())
    assert spans[0] < 0.5 * spans[1]


def test_a_step_moves_no_position_by_more_than_one() -> None:
    path = search(peaked(linear(X)), torch.ones(N).double())
    place = path.at(torch.zeros(21).double(), TEMPERATURES[0])
    gradient = path.gradient(place)
    further = path._line_search(place, -1e3 * gradient, 1e3 * (gradient @ gradient).item(), TEMPERATURES[0])
    assert further is not None
    positions = [each.parameters[0] + 2.0 * features()(X)[0] @ each.parameters[1:] for each in (place, further)]
    assert (positions[1] - positions[0]).abs().max().item() <= 1.0 + 1e-12


@pytest.mark.parametrize(("height", "share"), [(5.0, 0.05), (20.0, 0.2)])
def test_where_the_loss_is_concave_a_step_leaves_out_a_small_share_of_that(height: float, share: float) -> None:
    weight = random(N, seed=2).exp()
    path = search(height * random(L, N), weight)
    place = path.at(torch.tensor([2.0] + [0.0] * 20).double(), TEMPERATURES[0])
    gradient, hessian = path.gradient(place), path.hessian(place)
    assert torch.linalg.eigvalsh(hessian).min() < 0
    design = torch.cat([torch.ones(N, 1).double(), 2.0 * features()(X)[0]], dim=1)
    concave = design.mT @ torch.diag(weight * place.curvature.clamp_min(0.0)) @ design
    step = path._newton_step(place, gradient)
    torch.testing.assert_close((hessian + share * concave) @ step, -gradient, rtol=1e-6, atol=1e-6)


def test_every_point_is_held_out_in_one_of_four_folds() -> None:
    phi, weight = features()(X)[0], torch.ones(N).double()
    folds = [held_out for held_out, _ in cross_fitted_channels(phi, peaked(linear(X)), weight, scale=4.0)]
    assert torch.stack(folds).sum(1).tolist() == [N // 4] * 4
    assert torch.stack(folds).sum(0).tolist() == [1] * N
