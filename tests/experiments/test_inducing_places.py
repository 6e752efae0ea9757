from pathlib import Path

from experiments.inducing_places import CHOICES, run
from tests.experiments.setting import invoke


def test_points_by_complexity_lie_where_the_function_is_fast() -> None:
    result = run(400, 0, m=32, n_inducing=64)
    assert result["optimised_near"] > 0.15 + result["random_near"]
    assert all(len(result[f"{name}_points"]) == 32 for name in CHOICES)


def test_the_command_draws_both_choices(tmp_path: Path) -> None:
    paths = ("--output", tmp_path / "record.json", "--figure", tmp_path / "places.png")
    result = invoke("inducing_places", "--n", 64, "--m", 8, "--n-inducing", 16, *paths)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "places.png").exists()
