import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gpytorch", reason="the stock SVGP is GPyTorch's: pip install 'lobal[bench]'")

from benchmarks.regression import main


def test_all_methods_learn_and_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((200, 2))
    np.savez(tmp_path / "waves.npz", X=X, y=np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=200))
    main([tmp_path / "waves.npz"], output=tmp_path / "out", n=120, seeds=2, m=12, subset=60, max_epochs=250)
    assert "mixture_error" in capsys.readouterr().out
    (summary,) = json.loads((tmp_path / "out" / "waves.json").read_text())["summary"]
    assert all(0.0 < summary[f"{method}_error"]["mean"] < 0.7 for method in ("mixture", "svgp", "exact"))
