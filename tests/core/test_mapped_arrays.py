import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from lobal.core.arrays import FINGERPRINT_ENTRIES, MappedArray, earlier_fingerprint, fingerprint, mapped_file

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


def test_fingerprints_of_earlier_versions_are_still_known() -> None:
    X = np.arange(10_000.0).reshape(5000, 2)  # more rows than it covers
    assert earlier_fingerprint(X) == "18df4c2ed0e4fef1eadc0b1a6ea17e9654b65926ea7bc94d1bb35d5c9186087c"


def test_a_file_is_recognised_by_an_earlier_fingerprint(tmp_path: Path) -> None:
    place = location(mapped(tmp_path / "X.npy"))._replace(fingerprint=earlier_fingerprint(ROWS))
    np.testing.assert_array_equal(place.open(), ROWS)
    with pytest.raises(ValueError, match="another, not this"):
        place.open(ROWS + 1.0)


def test_a_change_of_any_number_of_an_array_of_moderate_size_is_noticed() -> None:
    X = np.zeros((40_000, 3))  # more rows than earlier versions looked at
    before = fingerprint(X)
    for row in (0, 1, 777, 20_003, 39_998, 39_999):
        X[row, 1] = 1.0
        assert fingerprint(X) != before
        X[row, 1] = 0.0


def test_blocks_all_over_a_large_array_are_noticed() -> None:
    n = 4 * FINGERPRINT_ENTRIES
    X = np.zeros((n, 1), dtype=np.int8)
    before = fingerprint(X)
    for start in range(0, n, n // 7):
        X[start : start + n // 500] = 1
        assert fingerprint(X) != before
        X[start : start + n // 500] = 0


def test_a_view_that_repeats_numbers_is_kept_in_memory(tmp_path: Path) -> None:
    assert MappedArray.of(np.broadcast_to(mapped(tmp_path / "X.npy")[:1], (1000, 4))) is None


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "|O"},
        {"dtype": "O8"},
        {"dtype": "<c16"},
        {"dtype": "<M8[s]"},
        {"dtype": "f8,f8"},
        {"dtype": 8},
        {"shape": [30]},
        {"shape": [30, 4, 1]},
        {"shape": [30, 0]},
        {"shape": [-30, 4]},
        {"shape": [30, True]},
        {"shape": [30, 4.0]},
        {"shape": "30"},
        {"shape": [31, 4]},
        {"shape": [2**40, 4], "strides": [0, 8]},
        {"strides": [8, 32 * 30]},
        {"strides": [-32, 8]},
        {"strides": [2**61, 8]},
        {"strides": None},
        {"offset": 10**6},
        {"offset": -8},
        {"offset": 2**70},
        {"offset": float("nan")},
        {"file": None},
        {"file": ["X.npy"]},
        {"file": "."},
        {"file": "/dev/zero"},
        {"fingerprint": 7},
    ],
    ids=str,
)
def test_a_place_that_cannot_be_is_refused_before_it_is_looked_at(change: dict[str, object], tmp_path: Path) -> None:
    place = location(mapped(tmp_path / "X.npy"))._asdict()
    with pytest.raises(ValueError, match=r"must be|expected|too short|not a file"):
        MappedArray.from_fields(place | change).open()


def test_a_pipe_in_place_of_the_file_is_refused_at_once(tmp_path: Path) -> None:
    place = location(mapped(tmp_path / "X.npy"))
    (tmp_path / "X.npy").unlink()
    os.mkfifo(tmp_path / "X.npy")
    with pytest.raises(ValueError, match=r"X\.npy is a folder, a pipe or a device"):
        place.open()
