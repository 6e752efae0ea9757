import numpy as np
import pytest
from scipy.integrate import trapezoid

from lobal.core.doppler import Doppler


def grid(n: int = 400_001) -> np.ndarray:
    return np.linspace(0.0, 1.0, n)


@pytest.mark.parametrize(("epsilon", "norm"), [(0.05, 7.0), (0.01, 1.0), (0.3, 20.0)])
def test_the_function_has_the_norm_it_was_given(epsilon: float, norm: float) -> None:
    f = Doppler(epsilon=epsilon, norm=norm)
    assert np.sqrt(trapezoid(f(grid()) ** 2, grid())) == pytest.approx(norm, rel=1e-6)


def test_the_function_is_that_of_the_paper() -> None:
    f, x = Doppler(), grid(101)
    shape = np.sqrt(x * (1.0 - x)) * np.sin(2.0 * np.pi * 1.05 / (x + 0.05))
    np.testing.assert_allclose(f(x), f.amplitude * shape, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(f(x[[0, -1]]), 0.0, atol=1e-12)


def test_the_function_oscillates_faster_towards_the_left() -> None:
    crossings = grid()[1:][np.diff(np.sign(Doppler()(grid()))) != 0]
    gaps = np.diff(crossings[(crossings > 0.001) & (crossings < 0.999)])
    assert len(gaps) > 10
    assert (np.diff(gaps) > 0).all()


def test_heteroscedastic_noise_is_that_of_the_paper() -> None:
    x = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(Doppler(heteroscedastic=True).noise_variance(x), [1.0, 4.0, 9.0, 4.0, 1.0])
    np.testing.assert_array_equal(Doppler(noise=0.25).noise_variance(x), 0.25)


@pytest.mark.parametrize("f", [Doppler(noise=4.0), Doppler(noise=0.0), Doppler(heteroscedastic=True)])
def test_labels_are_the_function_and_normal_noise_from_the_generator(f: Doppler) -> None:
    x, (rng, same) = grid(12).reshape(3, 4), (np.random.default_rng(4) for _ in range(2))
    expected = f(x) + np.sqrt(f.noise_variance(x)) * same.standard_normal((3, 4))
    np.testing.assert_array_equal(f.labels(x, rng), expected)


@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"norm": -1.0}, {"noise": -0.1}, {"norm": float("nan")}])
def test_impossible_settings_are_refused_and_shown(bad: dict[str, float]) -> None:
    [(name, value)] = bad.items()
    with pytest.raises(ValueError, match=f"noise be at least zero, got .*{name}={value}"):
        Doppler(**bad)
