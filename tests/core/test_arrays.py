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

at_least_zero = st.floats(0.0, allow_infinity=False)


def test_a_wrong_shape_is_an_error_at_run_time() -> None:
    with pytest.raises(TypeCheckError, match="squared_distances"):
        squared_distances(torch.zeros(3, 2), torch.zeros(4, 5))


def test_a_wrong_field_of_a_dataclass_is_an_error_at_run_time() -> None:
    one, points = torch.ones(()), torch.zeros(4, 2)
    with pytest.raises(TypeCheckError, match="WhitenedFeatures"):
        WhitenedFeatures(
            points=points, bandwidths=torch.ones(3), shared_bandwidth=one, kernel=gaussian, factor=torch.ones(2, 4, 4)
        )


@given(values=npst.arrays(np.float64, st.integers(0, 20), elements=at_least_zero))
def test_valid_columns_come_back_unchanged(values: np.ndarray) -> None:
    column = as_column(values, name="noise", length=len(values))
    assert column.dtype == np.float64
    np.testing.assert_array_equal(column, values)


@given(value=at_least_zero, length=st.integers(0, 20))
def test_a_scalar_stands_for_a_constant_column(value: float, length: int) -> None:
    np.testing.assert_array_equal(as_column(value, name="noise", length=length), np.full(length, value))


@given(values=npst.arrays(npst.integer_dtypes() | npst.floating_dtypes() | npst.boolean_dtypes(), 3, fill=st.just(1)))
def test_a_column_is_finite_and_at_least_zero_or_refused(values: np.ndarray) -> None:
    valid = bool(np.all(np.isfinite(values.astype(np.float64)) & (values >= 0)))
    if valid:
        assert as_column(values, name="weight", length=3).dtype == np.float64
    else:
        with pytest.raises(ValueError, match="weight must be finite and at least zero"):
            as_column(values, name="weight", length=3)


@given(values=st.lists(st.floats(1e-300, 1e300), min_size=1), row=st.integers(0), bad=st.sampled_from([0.0, -1.0]))
def test_an_error_names_the_first_row_that_is_not_positive(values: list[float], row: int, bad: float) -> None:
    row %= len(values)
    values[row] = bad
    with pytest.raises(ValueError, match=re.escape(f"density must be finite and above zero, got {bad} at row {row}")):
        as_column(values, name="density", length=len(values), positive=True)


@given(
    shape=npst.array_shapes(min_dims=1, max_dims=3, max_side=4),
    length=st.integers(0, 5),
)
def test_any_other_shape_is_refused_and_shown(shape: tuple[int, ...], length: int) -> None:
    if shape == (length,):
        shape = (length + 1,)
    expected = f"noise must be a number or have shape ({length},), got shape {shape}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        as_column(np.ones(shape), name="noise", length=length)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match=f"noise must be finite and at least zero, got {bad} at row 1"):
        as_column([1.0, bad], name="noise", length=2)


def test_zero_is_at_least_zero_but_not_positive() -> None:
    assert as_column(0.0, name="noise", length=2).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match=r"above zero, got 0\.0 at row 0"):
        as_column(0.0, name="noise", length=2, positive=True)


@pytest.mark.parametrize("values", ["loud", [1.0, "loud"], [[1.0], [1.0, 2.0]], 1j])
def test_what_is_no_number_is_refused_by_name(values: object) -> None:
    with pytest.raises(ValueError, match="noise must be numbers"):
        as_column(values, name="noise", length=2)


def test_the_device_is_the_cpu_unless_asked_otherwise() -> None:
    assert resolve_device(None) == torch.device("cpu")
    assert resolve_device(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize("available", [True, False])
def test_auto_takes_a_gpu_where_there_is_one(available: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert resolve_device("auto").type == ("cuda" if available else "cpu")


def test_a_gpu_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="'cuda:1' was asked for, but no GPU is available; use device='auto' or 'cpu'"):
        resolve_device("cuda:1")


def test_an_unknown_device_is_an_error_that_shows_it() -> None:
    with pytest.raises(ValueError, match="device must be 'cpu', 'cuda', 'cuda:N' or 'auto', got 'abacus'"):
        resolve_device("abacus")


@given(n=st.integers(0, 50), columns=st.integers(1, 30))
def test_slices_cover_every_row_once_and_are_not_too_large(n: int, columns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "SLICE_ENTRIES", 20)
        slices = list(row_slices(n, columns))
    assert [row for rows in slices for row in range(n)[rows]] == list(range(n))
    assert all(rows.stop - rows.start <= max(1, 20 // columns) for rows in slices)


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float32, np.float64])
def test_a_matrix_keeps_its_type(dtype: type) -> None:
    assert as_matrix(np.ones((3, 2), dtype=dtype), name="X").dtype == dtype


@pytest.mark.parametrize("values", [[[True, False]], np.array([[1, 2.5]], dtype=object)])
def test_truth_values_and_objects_become_numbers(values: object) -> None:
    matrix = as_matrix(values, name="X")
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, np.asarray(values, dtype=np.float64))


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


def test_rows_and_columns_of_a_mapped_array_are_copied_to_memory(mapped: np.memmap) -> None:
    for copied, expected in (
        (rows_at(mapped, np.array([5, 2])), mapped[[5, 2]]),
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
