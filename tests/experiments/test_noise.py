import json
from pathlib import Path

import numpy as np
import pytest

from experiments.noise import attainable_rank, correlation, density_parts, load, rank_correlation, share_of_variance
from tests.estimator_setting import quick, wave
from tests.experiments.setting import invoke


def replicated(path: Path, *, n: int = 300, k: int = 8) -> Path:
    """Labels whose noise variance grows a hundredfold from left to right."""
    rng = np.random.default_rng(0)
    X = rng.random((n, 1))
    Z = np.sin(5.0 * X) + 0.05 * 10.0**X * rng.standard_normal((n, k))
    np.savez(path, X=X, y=Z.mean(axis=1), Z=Z)
    return path


def test_the_noise_of_a_simple_function_is_ranked_as_well_as_can_be(tmp_path: Path) -> None:
    file, output = replicated(tmp_path / "data.npz"), tmp_path / "noise.json"
    arguments = (file, "--output", output, "--n", 150, "--seeds", 1, "--replicates", "1,2", "--n-inducing", 32)
    done = invoke("noise", *arguments)
    assert done.exit_code == 0, done.output
    (result,) = json.loads(output.read_text())["results"]
    assert result["rank_1"] > result["attainable_rank"] - 0.1
    assert result["rank_2"] > result["attainable_rank"] - 0.1
    assert result["ratio_2"] == pytest.approx(1.0, abs=0.4)
    assert result["follows_2"] > 0.8
    assert 0.5 < result["share_2"] < 1.5


def test_the_noises_part_of_the_superior_density_is_its_root() -> None:
    X, y = wave()
    model = quick(noise=lambda X: 0.01 + X[:, 0]).fit(X, y)
    parts = density_parts(model, X, seed=0)
    expected = 0.5 * np.log(model.noise_variance(X))
    np.testing.assert_allclose(parts.noise - parts.noise.mean(), expected - expected.mean(), atol=1e-9)


def test_shares_of_the_variance_add_up_to_one() -> None:
    first, second = np.random.default_rng(0).standard_normal((2, 50))
    assert share_of_variance(first, second) + share_of_variance(second, first) == pytest.approx(1.0)
    assert share_of_variance(first, np.zeros(50)) == pytest.approx(1.0)
    assert share_of_variance(np.zeros(50), np.zeros(50)) == 0.0


def test_a_constant_has_no_correlation() -> None:
    assert correlation(np.ones(5), np.arange(5.0)) == 0.0
    assert rank_correlation(np.ones(5), np.arange(5.0)) == 0.0
    assert rank_correlation(np.arange(5.0), np.arange(5.0)) == pytest.approx(1.0)


def test_the_attainable_rank_correlation_is_that_of_the_truth() -> None:
    rng = np.random.default_rng(1)
    variance = np.exp(rng.standard_normal(4000))
    Z = np.sqrt(variance)[:, None] * rng.standard_normal((4000, 10))
    reached = rank_correlation(variance, Z.var(axis=1, ddof=1))
    assert attainable_rank(Z) == pytest.approx(reached, abs=0.05)


def test_a_file_without_replicates_or_with_fewer_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", X=np.zeros((3, 1)), y=np.zeros(3))
    with pytest.raises(ValueError, match="'Z'"):
        load(str(tmp_path / "plain.npz"), (1,))
    with pytest.raises(ValueError, match="between 1 and 8"):
        load(str(replicated(tmp_path / "data.npz")), (1, 9))
