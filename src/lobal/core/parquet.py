"""Parquet files, with pandas and pyarrow, which are extras."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from lobal.core.files import read_plain


def read_parquet(path: Path) -> list[tuple[str, ndarray]]:
    """Names and columns of a file, with its index if that has a name; dates become text."""
    pandas = _pandas()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    content = read_plain(path)
    try:
        frame = pandas.read_parquet(io.BytesIO(content))
        if frame.index.name is not None:
            frame = frame.reset_index()
        names = [str(name) for name in frame.columns]
        values = [frame.iloc[:, j].to_numpy() for j in range(len(names))]
    except Exception as error:  # classes of pyarrow, which is optional
        raise ValueError(
            f"{path} cannot be read as a parquet file: {error or type(error).__name__}; restore it or save it anew"
        ) from error
    return [(name, _dates_as_text(column)) for name, column in zip(names, values, strict=True)]


def _dates_as_text(column: ndarray) -> ndarray:
    if column.dtype.kind != "M":
        return column
    texts = np.datetime_as_string(column.astype("datetime64[s]"))
    return np.array(["" if text == "NaT" else text.removesuffix("T00:00:00") for text in texts.tolist()], dtype=object)


def parquet_content(columns: Mapping[str, ndarray]) -> bytes:
    """A file with these columns."""
    content: bytes = _pandas().DataFrame(dict(columns)).to_parquet(index=False)
    return content


def _pandas() -> Any:  # noqa: ANN401 - an optional module
    try:
        import pandas
        import pyarrow  # noqa: F401 - pandas reads parquet with it
    except ImportError as error:
        raise ValueError("parquet files need pandas and pyarrow: pip install 'lobal[tables]', or use CSV") from error
    return pandas
