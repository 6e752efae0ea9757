import math
from pathlib import Path

import numpy as np
import pytest

from experiments.doppler_curves import Arm
from experiments.sample_size_estimators import READINGS, estimates, jackknifed, over_sizes, paired_errors
from tests.experiments.setting import invoke
from tests.experiments.test_doppler_curves import results

SIZES = [1024, 2048, 4096, 8192, 16384]


def curves(rho: float, rate: float = 0.5) -> list[np.ndarray]:
    """Errors of both arms that are exact power laws, with a few percent of noise from seed to seed."""
    noise = np.exp(0.02 * np.random.default_rng(0).standard_normal((12, 1)))
    law = np.array(SIZES, dtype=float) ** -rate
    return [noise * rho**rate * law, noise * law]


@pytest.mark.parametrize("name", READINGS)
def test_every_estimator_finds_the_ratio_of_two_power_laws(name: str) -> None:
    assert READINGS[name].rho(*curves(0.6), SIZES) == pytest.approx(0.6)


def test_with_another_rate_only_those_that_do_not_assume_it_are_right() -> None:
    found = estimates(*curves(0.6, rate=0.4), SIZES)
    assert [found[name].value for name in ("fitted_rate", "equal_errors")] == pytest.approx([0.6, 0.6])
    assert found["largest"].value == pytest.approx(0.6**0.8)


def test_an_advantage_that_fades_is_larger_on_average_than_at_the_end() -> None:
    active, random = curves(1.0)
    found = estimates(active * np.array([0.6, 0.7, 0.8, 0.85, 0.85]), random, SIZES)
    assert found["all_sizes"].value == pytest.approx(np.prod([0.6, 0.7, 0.8, 0.85, 0.85]) ** 0.4)
    assert [found[name].value for name in ("largest", "large_sizes")] == pytest.approx([0.85**2, 0.85**2])


def test_the_standard_error_is_that_of_pairs() -> None:
    active, random = curves(0.6)
    assert jackknifed(over_sizes, active, random, SIZES).standard_error == pytest.approx(0.0, abs=1e-12)
    shuffled = jackknifed(over_sizes, active, random[::-1], SIZES)
    assert shuffled.standard_error is not None
    assert 0.005 < shuffled.standard_error < 0.02
    assert jackknifed(over_sizes, active[:1], random[:1], SIZES).standard_error is None
    assert math.isnan(estimates(active[:, :2], random[:, :2], SIZES[:2])["large_sizes"].value)


def test_arms_are_compared_at_the_sizes_and_seeds_that_both_have(tmp_path: Path) -> None:
    arms = [Arm.read(results(tmp_path / f"{seeds}.json", 1.0, seeds=seeds)) for seeds in (2, 3)]
    active, random, sizes = paired_errors(*arms)
    assert active.shape == random.shape == (2, 2)
    assert sizes == [32, 64]


def test_all_estimates_are_printed(tmp_path: Path) -> None:
    files = results(tmp_path / "active.json", 0.5), results(tmp_path / "random.json", 1.0)
    printed = invoke("sample_size_estimators", *files).output
    assert "3 pairs of seeds, 32 to 64 labels" in printed
    assert all(reading.words in printed for reading in READINGS.values())
