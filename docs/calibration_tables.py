"""Tables of intervals and likelihoods, and of how well complexity is found."""

from collections.abc import Callable
from functools import partial

from benchmarks.calibration_tables import CHANGE_HEADER, HEADER, RANKS_HEADER, change_rows, rank_rows, read_record, rows
from docs.records import RESULTS, markdown, record
from experiments import complexity_truth, patch_size


def _calibration(design: str) -> str:
    """Means over problems, without the column of the design."""
    found = rows(read_record(RESULTS / "calibration.jsonl"), design)
    return markdown(HEADER[1:], [row[1:] for row in found])


def _ranks() -> str:
    return markdown(RANKS_HEADER, rank_rows(read_record(RESULTS / "calibration.jsonl")))


def _change() -> str:
    now, before = (read_record(RESULTS / f"{name}.jsonl") for name in ("calibration", "calibration_before"))
    return markdown(CHANGE_HEADER, change_rows(now, before))


def _complexity_truth() -> str:
    content = record("complexity_truth")
    return markdown(["function", *(str(entry["n"]) for entry in content["summary"])], complexity_truth.rows(content))


def _patch_size() -> str:
    content = record("patch_size")
    return markdown(["width", *(str(entry["n"]) for entry in content["summary"])], patch_size.map_rows(content))


def _patches(name: str) -> str:
    return markdown(patch_size.NAMED_HEADER, patch_size.named_rows(record(name)))


# By the file that each is made of.
SOURCES: dict[str, dict[str, Callable[[], str]]] = {
    "calibration.jsonl": {
        "calibration random": partial(_calibration, "random"),
        "calibration active": partial(_calibration, "active"),
        "calibration ranks": _ranks,
    },
    "calibration_before.jsonl": {"calibration before": _change},
    "complexity_truth.json": {"complexity truth": _complexity_truth},
    "patch_size.json": {"patch size": _patch_size},
    "patches.json": {"patches": partial(_patches, "patches")},
    "patches_active.json": {"patches active": partial(_patches, "patches_active")},
}
# A table whose record is not there is left out.
CALIBRATION = {name: table for file in SOURCES if (RESULTS / file).exists() for name, table in SOURCES[file].items()}
