"""A table whose record may not be there yet, from one made up here."""

import json
from pathlib import Path

import pytest

from docs import records
from docs.reproduction_tables import deep_gp
from experiments.deep_gp import ARMS, conclusion


def test_a_deep_gaussian_process_has_a_row_for_every_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = {
        f"{arm}_{name}_{size}": value / size
        for arm, value in zip(ARMS, (8.0, 6.0, 2.0, 4.0), strict=True)
        for name in ("rmse", "max_error")
        for size in (1, 2)
    }
    results = [{"n": 2, "seed": seed, **errors} for seed in (0, 1)]
    (tmp_path / "deep_gp.json").write_text(json.dumps({"results": results, **conclusion(results)}))
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    records.record.cache_clear()
    header, _, *rows = (line.strip("| ").split(" | ") for line in deep_gp().splitlines())
    records.record.cache_clear()
    assert [len(row) for row in rows] == 2 * [len(header)]
    found = dict(zip(header, rows[1], strict=True))
    assert found["RMSE, superior"] == "2.000 ± 0.000"
    assert found["RMSE, superior / random"] == found["RMSE, ALC / superior"] == "0.50 ± 0.00"
    assert found["largest error, random"] == "4.00 ± 0.00"
