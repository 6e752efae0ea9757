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
    row = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert row[0] == "| waves"
    assert all(0.0 < float(cell.split(" ± ")[0]) < 0.7 for cell in row[2:5])
    assert (tmp_path / "out" / "waves.json").exists()
