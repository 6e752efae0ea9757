import inspect
import re
from pathlib import Path

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from jaxtyping import TypeCheckError

from lobal.core import arrays
from lobal.core.arrays import (
    as_column,
    as_matrix,
    column_of,
    give_back_pages,
    mapped_file,
    resolve_device,
    row_parts,
    row_slices,
    rows_at,
)
from lobal.core.kernels import WhitenedFeatures, gaussian, squared_distances


def test_a_wrong_shape_is_an_error_at_run_time() -> None:
    points = torch.zeros(4, 2)
    with pytest.raises(TypeCheckError, match="squared_distances"):
        squared_distances(points, torch.zeros(4, 5))
    columns = {"points": points, "bandwidths": torch.ones(3), "shared_bandwidth": torch.ones(()), "kernel": gaussian}
    with pytest.raises(TypeCheckError, match="WhitenedFeatures"):
        WhitenedFeatures(**columns, factor=torch.ones(2, 4, 4))
    assert WhitenedFeatures(**columns, factor=torch.ones(3, 4, 4)).points is points


@given(values=npst.arrays(npst.integer_dtypes() | npst.floating_dtypes() | npst.boolean_dtypes(), st.integers(0, 9)))
def test_a_column_is_finite_and_at_least_zero_or_refused(values: np.ndarray) -> None:
    numbers = values.astype(np.float64)
    if np.all(np.isfinite(numbers) & (numbers >= 0)):
        column = as_column(values, name="weight", length=len(values))
        assert column.dtype == np.float64
        np.testing.assert_array_equal(column, values)
    else:
        with pytest.raises(ValueError, match="weight must be finite and at least zero"):
            as_column(values, name="weight", length=len(values))


@given(value=st.floats(0.0, allow_infinity=False), length=st.integers(0, 20))
def test_a_scalar_stands_for_a_constant_column(value: float, length: int) -> None:
    np.testing.assert_array_equal(as_column(value, name="noise", length=length), np.full(length, value))


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, -np.inf])
def test_an_error_names_the_first_row_that_is_wrong(bad: float, positive: bool) -> None:
    value, row = (bad, 1) if positive or bad != 0.0 else (-3.0, 3)
    bound = "above zero" if positive else "at least zero"
    with pytest.raises(ValueError, match=re.escape(f"noise must be finite and {bound}, got {value} at row {row}")):
        as_column([1.0, bad, 2.0, -3.0], name="noise", length=4, positive=positive)


@pytest.mark.parametrize("shape", [(3,), (5,), (4, 1), (1, 4), (2, 2, 1)])
def test_a_column_of_any_other_shape_is_refused_and_shown(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=re.escape(f"noise must be a number or have shape (4,), got shape {shape}")):
        as_column(np.ones(shape), name="noise", length=4)


@pytest.mark.parametrize("values", ["loud", [1.0, "loud"], [[1.0], [1.0, 2.0]], 1j])
def test_what_is_no_number_is_refused_by_name(values: object) -> None:
    with pytest.raises(ValueError, match=r"noise must be (real )?numbers"):
        as_column(values, name="noise", length=2)


@pytest.mark.parametrize("available", [True, False])
def test_the_device_is_the_cpu_unless_asked_otherwise(available: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert resolve_device(None) == resolve_device(torch.device("cpu")) == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if available else "cpu")
    if available:
        assert resolve_device("cuda:1") == torch.device("cuda:1")


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda:1", "'cuda:1' was asked for, but no GPU is available; use device='auto' or 'cpu'"),
        ("abacus", "device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got 'abacus'"),
    ],
)
def test_a_device_that_is_not_there_is_an_error(device: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=message):
        resolve_device(device)


def test_a_number_is_no_device() -> None:
    with pytest.raises(TypeError, match="device must be the name of one, such as 'cpu' or 'cuda:0', got 0"):
        inspect.unwrap(resolve_device)(0)  # whose types are not checked elsewhere


@given(n=st.integers(0, 50), columns=st.integers(0, 30))
def test_slices_cover_every_row_once_and_are_as_large_as_allowed(n: int, columns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "SLICE_ENTRIES", 20)
        slices = list(row_slices(n, columns))
    assert [row for rows in slices for row in range(n)[rows]] == list(range(n))
    largest = max(1, 20 // max(1, columns))
    assert all(rows.stop - rows.start == largest for rows in slices[:-1])
    assert all(0 < rows.stop - rows.start <= largest for rows in slices[-1:])


def test_slices_take_four_mebibytes_in_float64() -> None:
    assert next(row_slices(10**9, 4)) == slice(0, 2**22 // 8 // 4)


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float32, np.float64])
def test_a_matrix_keeps_its_type(dtype: type) -> None:
    assert as_matrix(np.ones((3, 2), dtype=dtype), name="X").dtype == dtype


@pytest.mark.parametrize("values", [[[True, False]], np.array([[1, 2.5]], dtype=object)])
def test_truth_values_and_objects_become_numbers(values: object) -> None:
    matrix = as_matrix(values, name="X")
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, np.asarray(values, dtype=np.float64))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([["a"]], "X must be real numbers, got dtype <U1"),
        (np.array([["a", 1]], dtype=object), "X must be numbers, got could not convert"),
        ([1.0, 2.0], r"X must have shape \(n, d\), got shape \(2,\); use X.reshape\(-1, 1\) for a single column"),
        (np.ones((2, 0)), r"X must have shape \(n, d\) with n and d at least 1, got shape \(2, 0\)"),
        (np.ones((1, 2, 3)), r"X must have shape \(n, d\) with n and d at least 1, got shape \(1, 2, 3\)"),
        (np.diag([0.0] * 8 + [np.inf]), "X must be finite, got inf at row 8, column 8"),
    ],
)
def test_what_is_no_matrix_is_refused_and_shown(values: object, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "SLICE_ENTRIES", 27)  # three rows of nine
    with pytest.raises(ValueError, match=message):
        as_matrix(values, name="X")


@pytest.fixture
def mapped(tmp_path: Path) -> np.memmap:
    np.save(tmp_path / "X.npy", np.arange(60, dtype=np.float32).reshape(20, 3))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert isinstance(X, np.memmap)
    return X


def test_parts_of_rows_cover_a_mapped_array_in_memory(mapped: np.memmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "SLICE_ENTRIES", 21)
    parts = list(row_parts(mapped))
    assert [rows for rows, _ in parts] == [slice(0, 7), slice(7, 14), slice(14, 20)]
    assert all(part.dtype == np.float64 and mapped_file(part) is None for _, part in parts)
    np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), mapped)


def test_a_copy_of_a_mapped_array_is_in_memory_and_a_view_is_not(mapped: np.memmap) -> None:
    assert mapped_file(mapped.copy()) is None
    assert mapped_file(mapped[2:5]) is mapped


def test_rows_and_columns_of_a_mapped_array_are_copied_to_memory(mapped: np.memmap) -> None:
    for copied, expected in (
        (rows_at(mapped, np.array([5, 2])), mapped[[5, 2]]),
        (rows_at(mapped, np.tile([5, 2, 3], 50)), np.tile(mapped[[5, 2, 3]], (50, 1))),
        (rows_at(mapped, np.empty(0, dtype=np.int64)), mapped[:0]),
        (rows_at(mapped, slice(3, 9)), mapped[3:9]),
        (column_of(mapped, 1), mapped[:, 1]),
    ):
        assert mapped_file(copied) is None
        np.testing.assert_array_equal(copied, expected)


def resident_kilobytes(name: str) -> int:
    """Memory of this process that pages of a mapped file take."""
    entries = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
    return sum(int(re.findall(r"Rss: +(\d+)", entry)[0]) for entry in entries if name in entry.partition("\n")[0])


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux to count pages")
def test_pages_that_were_read_are_given_back(tmp_path: Path) -> None:
    np.save(tmp_path / "pages.npy", np.ones((2**17, 8)))
    X = np.load(tmp_path / "pages.npy", mmap_mode="r")
    assert X.sum() == 2**20
    assert resident_kilobytes("pages.npy") > 8000
    give_back_pages(X[5:10])
    assert resident_kilobytes("pages.npy") < 100
    column_of(as_matrix(X, name="X"), 3)
    assert sum(len(part) for _, part in row_parts(X)) == 2**17
    assert resident_kilobytes("pages.npy") < 100


def test_changes_in_memory_survive_that_pages_are_given_back(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.zeros((1000, 4)))
    X = np.load(tmp_path / "X.npy", mmap_mode="c")
    X[7] = 1.0
    give_back_pages(X)
    assert X.sum() == 4.0
