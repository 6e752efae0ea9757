import pytest
import torch

from lobal.inducing.svgd import RELATIVE_BANDWIDTH, bandwidth, movement, svgd_points
from lobal.inducing.target import Bounds, Surrogate, TargetDensity
from tests.inducing.setting import uniform


def box(d: int = 2) -> Bounds:
    return Bounds(lower=torch.zeros(d, dtype=torch.float64), upper=torch.ones(d, dtype=torch.float64))


def test_what_leaves_the_box_is_reflected_back() -> None:
    outside = torch.tensor([[-0.2, 0.5], [1.1, 1.3], [0.4, 0.6], [7.0, -9.0]], dtype=torch.float64)
    expected = torch.tensor([[0.2, 0.5], [0.9, 0.7], [0.4, 0.6], [0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(box().reflected(outside), expected)


def test_mirror_images_lie_behind_the_faces_within_reach() -> None:
    X = torch.tensor([[0.1, 0.5], [0.95, 0.9]], dtype=torch.float64)
    mirrored = box().with_images(X, torch.full((2,), 0.2, dtype=torch.float64))
    expected = torch.tensor([[-0.1, 0.5], [1.05, 0.9], [0.95, 1.1]], dtype=torch.float64)
    torch.testing.assert_close(mirrored.points[2:], expected)
    assert mirrored.row.tolist() == [0, 1, 0, 1, 1]
    assert mirrored.sign[2:].tolist() == [[-1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]]


def test_particles_stay_in_bounds_that_are_given(generator: torch.Generator) -> None:
    X = uniform(generator, 300)
    bounds = torch.tensor([[-0.5, 0.0], [1.5, 1.0]], dtype=torch.float64)
    points = svgd_points(X, 30, generator=generator, bounds=bounds)
    assert (points >= bounds[0]).all()
    assert (points <= bounds[1]).all()


def test_particles_do_not_gather_at_the_bounds(generator: torch.Generator) -> None:
    """Mirror images push from outside, where no particles are."""
    points = svgd_points(uniform(generator, 2000), 64, generator=generator)
    assert (torch.minimum(points, 1.0 - points).min(1).values < 1 / 64).sum() < 8


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_target_is_normalised_up_to_the_bounds(d: int, generator: torch.Generator) -> None:
    """The density of a uniform sample is one, near the faces too, whatever the sum of the weights."""
    X = uniform(generator, 20_000, d)
    target = TargetDensity.of(X, torch.full((20_000,), 7.0, dtype=torch.float64), box(d), neighbours=200)
    inner, edge = uniform(generator, 500, d), uniform(generator, 500, d)
    edge[:, 0] = 0.001
    assert abs(target(inner).mean() - 1.0) < 0.05
    assert abs(target(edge).mean() - 1.0) < 0.1


def test_the_target_follows_the_weights(generator: torch.Generator) -> None:
    X = uniform(generator, 20_000)
    target = TargetDensity.of(X, 2.0 * X[:, 0], box(), neighbours=100)
    points = 0.1 + 0.8 * uniform(generator, 300)
    torch.testing.assert_close(target(points), 2.0 * points[:, 0], rtol=0.4, atol=0.0)


def test_the_score_of_the_surrogate_is_the_gradient_of_its_logarithm(generator: torch.Generator) -> None:
    X = uniform(generator, 200)
    surrogate = Surrogate.of(X, X[:, 0], box(), generator=generator)
    points = uniform(generator, 20).requires_grad_()
    log_density, score = surrogate.log_density_and_score(points)
    (gradient,) = torch.autograd.grad(log_density.sum(), points)
    torch.testing.assert_close(score, gradient)


def test_bandwidths_shrink_with_the_root_of_the_target() -> None:
    h = bandwidth(torch.tensor([1.0, 4.0, 9.0, 16.0], dtype=torch.float64), 2)
    torch.testing.assert_close(h, RELATIVE_BANDWIDTH / torch.tensor([2.0, 4.0, 6.0, 8.0], dtype=torch.float64))


def test_a_grid_is_almost_at_rest_and_a_particle_out_of_place_driven_back(generator: torch.Generator) -> None:
    """For a uniform target on the unit square."""
    X, ticks = uniform(generator, 20_000), (torch.arange(8, dtype=torch.float64) + 0.5) / 8
    target = TargetDensity.of(X, torch.ones_like(X[:, 0]), box(), neighbours=256)
    surrogate = Surrogate.of(X, torch.ones_like(X[:, 0]), box(), generator=generator)
    particles = torch.cartesian_prod(ticks, ticks)
    assert movement(particles, target, surrogate, box()).norm(dim=1).max() < 0.15 / 8
    particles[27, 0] += 0.05
    moved = movement(particles, target, surrogate, box())
    assert moved[27, 0] < -0.01
    assert moved[27, 1].abs() < 0.005


def test_repeated_inputs_give_distinct_particles(generator: torch.Generator) -> None:
    X = uniform(generator, 20).repeat(30, 1)
    points = svgd_points(X, 15, generator=generator)
    assert torch.pdist(points).min() > 0.01
