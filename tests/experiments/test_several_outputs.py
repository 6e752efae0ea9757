import json
from pathlib import Path

import numpy as np
import pytest

from experiments import several_outputs

ROOT = Path(__file__).parents[2]


def test_outputs_are_complex_in_different_places() -> None:
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 200)] * 2), axis=-1).reshape(-1, 2)
    values = several_outputs.outputs(grid).reshape(200, 200, 2)
    first, second = (np.abs(np.diff(values[..., output], axis=1)) for output in (0, 1))
    assert first[:60, :60].mean() > 4.0 * first[120:, 120:].mean()
    assert second[120:, 120:].mean() > 4.0 * second[:60, :60].mean()


@pytest.mark.filterwarnings("ignore::lobal.OutlierWarning")
def test_errors_of_every_design_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_outputs, "N_CANDIDATES", 256)
    monkeypatch.setattr(several_outputs, "sizes_up_to", lambda n: [n])
    several_outputs.main(tmp_path / "record.json", n=50, seeds=1)
    text = (tmp_path / "record.json").read_text()
    assert all(f'"{design}_design_worse"' in text for design in several_outputs.DESIGNS)


def test_the_common_design_beats_random_points_for_both_outputs_and_single_designs_for_the_worse() -> None:
    (record,) = json.loads((ROOT / "docs/results/several_outputs.json").read_text())["summary"]
    error = {name: each["mean"] for name, each in record.items() if isinstance(each, dict)}
    assert all(error[f"common_design_{output}"] < error[f"random_design_{output}"] for output in ("first", "second"))
    others = (error[f"{design}_design_worse"] for design in ("first", "second"))
    assert error["common_design_worse"] < min(others)
