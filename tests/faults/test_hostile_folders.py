"""Folders made by somebody who means harm: hashes are right, and what they lead to is not opened or believed."""

import io
import json
import math
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from lobal import ActiveLearner, MixtureRegressor, Pool
from lobal.active.campaign.folder import HASH, Campaign, _hash
from lobal.cli import app
from lobal.core.files import load_record, save_record
from lobal.core.tables import read_table
from lobal.molecules.space import MoleculePool
from tests.faults.counting import counted, is_long
from tests.faults.mutations import spoilt_json
from tests.faults.test_mutated_files import FIXTURES, WATER, pool_of_water, refused_properly

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign over a memory-mapped pool."""
    folder = tmp_path_factory.mktemp("whole")
    np.save(folder / "X.npy", np.random.default_rng(0).random((60, 2)))
    with ActiveLearner(Pool.from_npy(folder / "X.npy", density=np.ones(60)), path=folder / "campaign") as active:
        active.tell(active.ask(4), np.arange(4.0))
    return folder / "campaign"


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "campaign")
    return tmp_path / "campaign"


def write_header(folder: Path, change: Change) -> None:
    header = json.loads((folder / "header.json").read_text())
    changed = change(header)
    header = header if changed is None else changed
    if isinstance(header, dict):
        header[HASH] = _hash(header)
    (folder / "header.json").write_text(json.dumps(header))


def replaced(*path: str, by: Any) -> Change:
    """The change that puts something in the place of one entry."""

    def change(header: dict[str, Any]) -> None:
        inner: Any = header
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = by

    return change


def without(*path: str) -> Change:
    def change(header: dict[str, Any]) -> None:
        inner: Any = header
        for key in path[:-1]:
            inner = inner[key]
        del inner[path[-1]]

    return change


MAPPED = ("candidates", "memory_mapped")
HEADERS: dict[str, Change] = {
    "a list": lambda _: [1, 2],
    "nothing but the format": lambda header: {"format": header["format"]},
    "no settings": without("settings"),
    "settings that are a list": replaced("settings", by=[]),
    "a seed below zero": replaced("settings", "seed", by=-1),
    "a huge seed": replaced("settings", "seed", by=2**70),
    "a huge whole number": replaced("settings", "exploration", by=10**400),
    "NaN": replaced("settings", "smoothness", by=math.nan),
    "an unknown draw": replaced("settings", "draw", by="lots"),
    "a draw that is a list": replaced("settings", "draw", by=["spread"]),
    "no candidates": without("candidates"),
    "candidates that are a number": replaced("candidates", by=7),
    "candidates without a kind": without("candidates", "kind"),
    "an unknown kind": replaced("candidates", "kind", by="os:system"),
    "a kind that is a table": replaced("candidates", "kind", by={"array": 1}),
    "a kind that does not fit": replaced("candidates", "kind", by="molecules"),
    "no place": without("candidates", "memory_mapped"),
    "a place that is a list": replaced(*MAPPED, by=[]),
    "a place without a file": without(*MAPPED, "file"),
    "pointers in place of numbers": replaced(*MAPPED, "dtype", by="|O"),
    "a type of two fields": replaced(*MAPPED, "dtype", by="f8,O"),
    "a type that is a list": replaced(*MAPPED, "dtype", by=["f8"]),
    "no columns": replaced(*MAPPED, "shape", by=[60, 0]),
    "three sizes": replaced(*MAPPED, "shape", by=[60, 2, 1]),
    "a size that is text": replaced(*MAPPED, "shape", by=["60", 2]),
    "strides that are none": replaced(*MAPPED, "strides", by=None),
    "no surrogate": without("surrogate"),
    "an unknown surrogate": replaced("surrogate", "kind", by="pickle"),
    "a surrogate that does not fit": replaced("surrogate", "kind", by="force_field"),
    "no options": without("surrogate", "options"),
    "options that are a list": replaced("surrogate", "options", by=[1]),
    "an unknown option": replaced("surrogate", "options", "colour", by="red"),
    "an option of the wrong kind": replaced("surrogate", "options", "bandwidths", by="wide"),
    "an unknown engine": replaced("surrogate", "options", "engine", by={"kind": "steam", "options": {}}),
    "an engine without options": replaced("surrogate", "options", "engine", by={"kind": "adam"}),
    "noise below zero": replaced("surrogate", "options", "noise", by=-1.0),
    "a list of functions that is none": replaced("surrogate", "functions", by="noise"),
}


@pytest.mark.parametrize("change", HEADERS.values(), ids=HEADERS.keys())
def test_a_header_made_by_hand_is_refused_with_its_name_and_what_was_expected(change: Change, folder: Path) -> None:
    write_header(folder, change)
    for opened in (ActiveLearner.load, ActiveLearner.read):
        with pytest.raises(
            ValueError, match=r"(?s)header\.json.*(must|expected|list|options of Adam are).*restore it from a copy"
        ):
            opened(folder)
    counted("headers made by hand", 2)


PLACES: dict[str, dict[str, Any]] = {
    "beyond the end": {"offset": 10**6},
    "before the start": {"strides": [-16, 8]},
    "far strides": {"strides": [2**61, 8]},
    "repeated numbers": {"shape": [60, 2**40], "strides": [0, 0]},
    "a device": {"file": "/dev/zero"},
    "a folder": {"file": "/"},
    "other densities": {"shape": [59, 2]},
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_pool_that_the_file_cannot_hold_is_not_looked_at(place: dict[str, Any], folder: Path) -> None:
    write_header(folder, lambda header: header["candidates"]["memory_mapped"].update(place))
    with pytest.raises(ValueError, match=r"too short|not a file|has changed|rows"):
        ActiveLearner.read(folder)
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 2
    counted("headers made by hand", 2)


def test_no_file_outside_of_the_folder_is_named_by_the_header(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "candidates.lobal", tmp_path / "elsewhere.lobal")
    (folder / "candidates.lobal").unlink()
    write_header(folder, replaced("candidates_file", by="../elsewhere.lobal"))
    with pytest.raises(ValueError, match=r"campaign/candidates\.lobal.*cannot be read"):
        ActiveLearner.read(folder)


def test_spoilt_headers_of_the_present_format_are_refused_by_name(folder: Path) -> None:
    header, rng = json.loads((folder / "header.json").read_text()), np.random.default_rng(0)
    shutil.rmtree(folder / "steps")
    for _ in range(1500 if is_long() else 25):
        spoilt = spoilt_json(header, rng)
        write_header(folder, lambda _, spoilt=spoilt: spoilt)
        with refused_properly(*folder.iterdir(), Path("X.npy"), Path("the campaign's pool")):
            assert np.isfinite(ActiveLearner.read(folder).labelled.y).all()
        counted("mutated headers")


@pytest.fixture(scope="module")
def molecules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("molecules") / "campaign"
    with ActiveLearner(MoleculePool(pool_of_water().trajectory), path=folder) as active:
        active.ask(4)
    return folder


def test_spoilt_headers_of_molecules_are_refused_by_name(molecules: Path, tmp_path: Path) -> None:
    folder, rng = tmp_path / "campaign", np.random.default_rng(0)
    shutil.copytree(molecules, folder)
    header = json.loads((folder / "header.json").read_text())
    for _ in range(600 if is_long() else 15):
        spoilt = spoilt_json(header, rng)
        write_header(folder, lambda _, spoilt=spoilt: spoilt)
        with refused_properly(*folder.iterdir(), WATER):
            assert np.isfinite(ActiveLearner.read(folder).training_density()).all()
        counted("mutated headers")


# What is no file.

NEEDED = ("header.json", "journal.jsonl", "candidates.lobal")
IN_PLACE: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("made", IN_PLACE.values(), ids=IN_PLACE.keys())
@pytest.mark.parametrize("name", NEEDED)
def test_what_is_no_file_is_refused_at_once(name: str, made: Callable[[Path], None], folder: Path) -> None:
    (folder / name).unlink()
    made(folder / name)
    for opened in (ActiveLearner.load, ActiveLearner.read):
        with refused_properly(folder / name):
            opened(folder)
            pytest.fail("it was opened")
    counted("files that are none", 2)


@pytest.mark.parametrize("made", IN_PLACE.values(), ids=IN_PLACE.keys())
def test_a_lock_that_is_no_file_is_refused_at_once(made: Callable[[Path], None], folder: Path) -> None:
    (folder / "lock").unlink()
    made(folder / "lock")
    with refused_properly(folder / "lock"):
        ActiveLearner.load(folder)
        pytest.fail("it was opened")
    assert len(ActiveLearner.read(folder).labelled.y) == 4  # which needs none
    counted("files that are none", 2)


@pytest.mark.parametrize("name", ["lock", "journal.jsonl", "header.json"])
def test_links_are_not_followed(name: str, folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    shutil.move(folder / name, victim)
    before = victim.read_bytes()
    (folder / name).symlink_to(victim)
    with pytest.raises(ValueError, match=rf"{name} is a link; put the file itself in its place"):
        ActiveLearner.load(folder)
    assert victim.read_bytes() == before


def test_nothing_is_written_or_removed_where_a_link_in_place_of_the_steps_leads(folder: Path, tmp_path: Path) -> None:
    kept, new = tmp_path / "elsewhere" / ".notes.0123456789abcdef", tmp_path / "new"
    for path in (kept.parent, new):
        path.mkdir()
    kept.touch()
    shutil.rmtree(folder / "steps", ignore_errors=True)
    for path in (folder, new):
        (path / "steps").symlink_to(kept.parent)
    for opened in (ActiveLearner.load, ActiveLearner.read, lambda _: Campaign.create(new, {})):
        with pytest.raises(ValueError, match="steps is a link; put the folder itself in its place"):
            opened(folder)
    assert [*(tmp_path / "elsewhere").iterdir()] == [kept]


def test_a_file_in_place_of_the_steps_is_refused(folder: Path) -> None:
    shutil.rmtree(folder / "steps")
    (folder / "steps").touch()
    for opened in (ActiveLearner.load, ActiveLearner.read):
        with pytest.raises(ValueError, match="steps is not a folder; restore it from a copy, or remove it"):
            opened(folder)
    (folder / "steps").unlink()
    assert len(ActiveLearner.read(folder).labelled.y) == 4


@pytest.mark.parametrize("made", IN_PLACE.values(), ids=IN_PLACE.keys())
@pytest.mark.parametrize("name", ["0001.model", "0001.lobal"])
def test_a_step_that_is_no_file_is_done_without(name: str, made: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    shutil.copytree(FIXTURES / "campaigns" / "box", folder)
    expected = ActiveLearner.read(folder).labelled.y
    (folder / "steps" / name).unlink()
    made(folder / "steps" / name)
    assert ActiveLearner.read(folder).labelled.y.tolist() == expected.tolist()
    counted("files that are none")


@pytest.mark.parametrize("made", IN_PLACE.values(), ids=IN_PLACE.keys())
@pytest.mark.parametrize("name", ["pool.csv", "pool.parquet", "pool.xlsx", "X.npy", "md.npz", "md.xyz", "model.lobal"])
def test_a_users_file_that_is_none_is_refused_at_once(name: str, made: Callable[[Path], None], tmp_path: Path) -> None:
    from lobal.molecules.geometry.trajectory import read_trajectory

    readers = {".npy": Pool.from_npy, ".npz": read_trajectory, ".xyz": read_trajectory, ".lobal": MixtureRegressor.load}
    path = tmp_path / name
    made(path)
    with pytest.raises((ValueError, OSError), match=name):
        readers.get(path.suffix, read_table)(path)
    counted("files that are none")


# Sizes that are only declared.


@pytest.mark.parametrize("name", ["experts.inputs", "gate.features.points", "experts.labels", "gate.whitened_mean"])
def test_a_small_file_does_not_make_a_large_matrix(name: str, tmp_path: Path) -> None:
    tensors, fields = load_record(FIXTURES / "models" / "analytic_exact.lobal")
    fields.pop("format")
    for shape in ((10**6, 0), (10**6, 2, 0), (0,)):
        save_record(tmp_path / "model.lobal", tensors | {name: torch.zeros(shape, dtype=torch.float64)}, fields)
        with pytest.raises(ValueError, match=rf"model\.lobal.*{name} must have shape .*restore it from a copy"):
            MixtureRegressor.load(tmp_path / "model.lobal")
        counted("declared sizes")


def test_triangles_must_be_those_of_the_points(tmp_path: Path) -> None:
    tensors, fields = load_record(FIXTURES / "models" / "analytic_sparse.lobal")
    fields.pop("format")
    tensors["experts.covariance.root"] = tensors["experts.covariance.root"][:, 0, :1].contiguous()
    save_record(tmp_path / "model.lobal", tensors, fields)
    with pytest.raises(ValueError, match=r"root must have shape \(8, 136\) or \(8, 16, 16\), got \(8, 1\)"):
        MixtureRegressor.load(tmp_path / "model.lobal")


def test_one_long_cell_does_not_make_all_cells_long(tmp_path: Path) -> None:
    path = tmp_path / "pool.csv"
    path.write_text("x,name\n" + "1,a\n" * 50_000 + f"2,{'b' * 100_000}\n")
    table = read_table(path)
    assert table.columns["name"].nbytes < 2**20
    assert table.is_text("name")
    assert table.numbers("x")[-1] == 2.0


def test_a_cell_that_is_too_long_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "pool.csv"
    path.write_text(f"x,name\n2,{'b' * 200_000}\n")
    with pytest.raises(ValueError, match=r"pool\.csv cannot be read as a CSV file: field larger.*; correct it"):
        read_table(path)


def test_an_array_larger_than_its_archive_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    from lobal.molecules.geometry.trajectory import read_trajectory

    content = io.BytesIO()
    np.save(content, np.zeros((1, 3, 3)))
    declared = content.getvalue().replace(b"(1, 3, 3), }         ", b"(999999999, 3, 3), } ")
    assert declared != content.getvalue()
    with zipfile.ZipFile(tmp_path / "md.npz", "w") as archive:  # whose check sums are right
        archive.writestr("R.npy", declared)
    with pytest.raises(
        ValueError, match=r"md\.npz .*'R' has 200 bytes, which do not hold an array of shape \(999999999"
    ):
        read_trajectory(tmp_path / "md.npz", labelled=False)
