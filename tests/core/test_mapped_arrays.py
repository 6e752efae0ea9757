from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from lobal.core.arrays import MappedArray, fingerprint, mapped_file

ROWS = np.arange(120.0).reshape(30, 4)
VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "all": lambda X: X,
    "some rows": lambda X: X[3:20:2],
    "some columns": lambda X: X[:, 1:3],
    "backwards": lambda X: X[::-1],
    "transposed": lambda X: X.T,
    "a plain array": np.asarray,
}


def mapped(path: Path, rows: np.ndarray = ROWS, mode: Literal["r", "c"] = "r") -> np.ndarray:
    np.save(path, rows)
    return np.asanyarray(np.load(path, mmap_mode=mode))


def location(X: np.ndarray) -> MappedArray:
    found = MappedArray.of(X)
    assert found is not None
    return found


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("rows", [ROWS, ROWS.astype(np.float32), np.asfortranarray(ROWS)], ids=["C", "float32", "F"])
def test_an_array_is_found_again_in_its_file(
    view: Callable[[np.ndarray], np.ndarray], rows: np.ndarray, tmp_path: Path
) -> None:
    place = location(view(mapped(tmp_path / "X.npy", rows)))
    again = place.open()
    assert mapped_file(again) is not None
    assert again.dtype == rows.dtype
    np.testing.assert_array_equal(again, view(rows))
    assert MappedArray.of(again) == place


def test_a_file_without_a_header_is_found_again(tmp_path: Path) -> None:
    ROWS.tofile(tmp_path / "X.raw")
    X = np.memmap(tmp_path / "X.raw", dtype=np.float64, mode="r", offset=32, shape=(20, 4))
    np.testing.assert_array_equal(location(X[2:]).open(), ROWS[3:21])


def test_what_is_in_memory_has_no_file(tmp_path: Path) -> None:
    X = mapped(tmp_path / "X.npy")
    for array in (ROWS, X[[1, 2, 3]], 2.0 * X, mapped(tmp_path / "changed.npy", mode="c")):
        assert MappedArray.of(array) is None


def test_a_file_that_is_gone_is_asked_for_by_name(tmp_path: Path) -> None:
    place = location(mapped(tmp_path / "X.npy"))
    (tmp_path / "X.npy").rename(tmp_path / "elsewhere.npy")
    with pytest.raises(FileNotFoundError, match=r"X\.npy, which is gone; put it back, or say where it is: pool="):
        place.open()
    elsewhere = np.load(tmp_path / "elsewhere.npy", mmap_mode="r")
    assert place.open(elsewhere) is elsewhere


@pytest.mark.parametrize(
    ("other", "message"),
    [(ROWS + 1.0, "which has changed"), (ROWS[:20], "too short"), (np.zeros((0, 4)), "too short")],
    ids=["other numbers", "fewer rows", "no rows"],
)
def test_a_file_that_has_changed_is_refused(other: np.ndarray, message: str, tmp_path: Path) -> None:
    place = location(mapped(tmp_path / "X.npy"))
    (tmp_path / "X.npy").unlink()
    np.save(tmp_path / "X.npy", other)
    with pytest.raises(ValueError, match=rf"X\.npy, .*{message}"):
        place.open()
    if len(other):
        with pytest.raises(ValueError, match=rf"another, not this of shape \({len(other)}, 4\)"):
            place.open(other)


def test_a_fingerprint_is_of_shape_and_numbers_and_not_of_their_type() -> None:
    assert fingerprint(ROWS) == fingerprint(ROWS.astype(np.int32)) == fingerprint(np.asfortranarray(ROWS))
    others = [ROWS[:-1], ROWS + 1e-9, ROWS.reshape(60, 2), ROWS[::-1]]
    assert len({fingerprint(X) for X in [ROWS, *others]}) == 5


def test_a_fingerprint_is_that_of_earlier_versions_of_which_campaigns_are_kept() -> None:
    X = np.arange(10_000.0).reshape(5000, 2)  # more rows than it covers
    assert fingerprint(X) == "18df4c2ed0e4fef1eadc0b1a6ea17e9654b65926ea7bc94d1bb35d5c9186087c"
