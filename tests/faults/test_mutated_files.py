"""Files changed by somebody who knows their format: refused by name and with advice, or they predict numbers."""

import contextlib
import functools
import json
import logging
import math
import re
import resource
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy import ndarray

from lobal import ActiveLearner, MixtureRegressor, Pool
from lobal.active.campaign.folder import HASH, _hash
from lobal.core.tables import read_table, table_content
from lobal.molecules.field.forcefield import ForceField
from lobal.molecules.geometry.trajectory import read_trajectory
from lobal.molecules.space import MoleculePool
from tests.faults.counting import counted, is_long
from tests.faults.mutations import spoilt_bytes, spoilt_json, spoilt_record

FIXTURES = Path(__file__).parents[1] / "fixtures"
WATER = FIXTURES / "forcefield_campaign" / "pool.npz"
ADVICE = re.compile(
    r"restore|remove|leave|correct|write it anew|save it|give|put it back|install|fill|needs a name|has to name"
    r"|load models|one file per molecule|put the (file|folder) itself"
)
MOST_MEMORY = 2**20  # KiB that mutated files of at most 50 KiB may make us take


@contextlib.contextmanager
def refused_properly(*paths: Path) -> Iterator[None]:
    """Errors that name the file, or one that does not fit to it, and say what to do are as they should be."""
    message = None
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            yield
    except (ValueError, FileNotFoundError) as error:
        message = str(error)
    assert message is None or any(path.name in message for path in paths), message
    assert message is None or ADVICE.search(message), message


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """What a file makes us take is bounded by its bytes, whatever it declares."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY


def finite(*values: ndarray) -> None:
    assert all(np.isfinite(value).all() for value in values)


def use_model(path: Path) -> None:
    model = MixtureRegressor.load(path)
    X = np.random.default_rng(0).random((5, model.n_features_in_))
    finite(*model.predict(X, return_std=True), model.local_bandwidth(X), model.gate(X), model.noise_variance(X))


def use_force_field(path: Path) -> None:
    force_field = ForceField.load(path)
    finite(*force_field.predict(force_field.positions[:3] * 1.01))


@pytest.mark.parametrize("name", sorted(file.stem for file in (FIXTURES / "models").glob("*.lobal")))
def test_a_mutated_model_is_refused_or_predicts_numbers(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(name))
    for _ in range(700 if is_long() else 15):
        spoilt_record(FIXTURES / "models" / f"{name}.lobal", tmp_path / "model.lobal", rng)
        with refused_properly(tmp_path / "model.lobal"):
            use_model(tmp_path / "model.lobal")
        counted("mutated models")


@pytest.mark.parametrize("name", ["mixture", "single_bandwidth", "sparse"])
def test_a_mutated_force_field_is_refused_or_predicts_numbers(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(len(name))
    for _ in range(700 if is_long() else 15):
        spoilt_record(FIXTURES / "forcefields" / f"{name}.lobal", tmp_path / "field.lobal", rng)
        with refused_properly(tmp_path / "field.lobal"):
            use_force_field(tmp_path / "field.lobal")
        counted("mutated force fields")


CAMPAIGNS = ["campaigns/box", "campaigns/pool", "campaigns/pool_format_2", "forcefield_campaign/campaign"]


def read(folder: Path) -> ActiveLearner:
    return ActiveLearner.read(folder, pool=pool_of_water() if (folder / "pool.lobal").exists() else None)


@functools.cache
def pool_of_water() -> MoleculePool:
    return MoleculePool(read_trajectory(WATER, energy_unit="eV"))


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_mutated_header_is_refused_by_name(name: str, tmp_path: Path) -> None:
    rng, folder = np.random.default_rng(len(name)), tmp_path / "campaign"
    shutil.copytree(FIXTURES / name, folder)
    shutil.rmtree(folder / "steps")
    header = json.loads((folder / "header.json").read_text())
    for _ in range(500 if is_long() else 12):
        spoilt = spoilt_json(header, rng)
        if isinstance(spoilt, dict) and spoilt.get("format") in (3, 4):
            spoilt[HASH] = _hash(spoilt)
        (folder / "header.json").write_text(json.dumps(spoilt))
        with refused_properly(*folder.iterdir(), WATER):
            finite(read(folder).labelled.y)
        counted("mutated headers")


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_mutated_candidates_are_refused_by_name(name: str, tmp_path: Path) -> None:
    rng, folder = np.random.default_rng(len(name)), tmp_path / "campaign"
    shutil.copytree(FIXTURES / name, folder)
    shutil.rmtree(folder / "steps")
    file = "pool.lobal" if (folder / "pool.lobal").exists() else "candidates.lobal"
    for _ in range(400 if is_long() else 10):
        spoilt_record(FIXTURES / name / file, folder / file, rng)
        with refused_properly(*folder.iterdir()):
            active = read(folder)
            finite(active.labelled.y, active.training_density())
        counted("mutated candidates")


@pytest.mark.parametrize("name", CAMPAIGNS[:3])
def test_a_mutated_step_or_model_of_a_campaign_is_computed_anew_or_predicts_numbers(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rng, folder = np.random.default_rng(len(name)), tmp_path / "campaign"
    shutil.copytree(FIXTURES / name, folder)
    expected = read(folder).labelled.y
    last = max((folder / "steps").glob("*.lobal"))
    for file in (last, last.with_suffix(".model")):
        for _ in range(150 if is_long() else 4):
            spoilt_record(FIXTURES / name / "steps" / file.name, file, rng)
            with caplog.at_level(logging.ERROR):
                active = read(folder)
            assert active.labelled.y.tolist() == expected.tolist()
            finite(active.training_density())
            counted("mutated steps")
        shutil.copy(FIXTURES / name / "steps" / file.name, file)


def mutants(content: bytes, n: int) -> Iterator[bytes]:
    rng = np.random.default_rng(n)
    for _ in range(n):
        yield spoilt_bytes(spoilt_bytes(content, rng) or b"1", rng)


def test_a_mutated_npz_file_is_refused_or_holds_numbers(tmp_path: Path) -> None:
    arrays, rng, file = dict(np.load(WATER)), np.random.default_rng(0), tmp_path / "md.npz"
    plain: list[Callable[[ndarray], ndarray]] = [
        lambda a: a[:-1] if a.ndim else a,
        lambda a: a.astype(object),
        lambda a: a.astype(str),
        lambda a: a.astype(complex) if a.dtype.kind in "fiu" else a,
        lambda a: a[None],
        lambda a: np.zeros((0, *a.shape[1:])),
        lambda a: a * float(rng.choice([math.nan, math.inf, 0.0, 1e300, -1.0, 1e-300])) if a.dtype.kind in "fiu" else a,
        lambda _: np.array("kcal"),
        lambda a: a.astype("datetime64[s]") if a.dtype.kind in "iu" else a,
    ]
    for _ in range(500 if is_long() else 20):
        name = str(rng.choice(sorted(arrays)))
        np.savez(file, **arrays | {name: plain[rng.integers(len(plain))](arrays[name])})
        with refused_properly(file), np.errstate(all="ignore"):
            finite(read_trajectory(file, energy_unit="eV").R.numpy())
        counted("mutated npz files")
    for content in mutants(WATER.read_bytes(), 800 if is_long() else 30):
        file.write_bytes(content)
        with refused_properly(file):
            finite(read_trajectory(file, energy_unit="eV").R.numpy())
        counted("mutated npz files")


def test_a_mutated_csv_file_is_refused_or_holds_numbers(tmp_path: Path) -> None:
    rows = "\n".join(f'{x},"a {x}",{x * x:.3f}' for x in range(30))
    file = tmp_path / "pool.csv"
    for content in mutants(f"x,name,y\n{rows}\n".encode(), 2000 if is_long() else 60):
        file.write_bytes(content)
        with refused_properly(file):
            table = read_table(file)
            finite(*(table.numbers(name) for name in table.columns if not table.is_text(name)))
        counted("mutated CSV files")


def test_a_mutated_parquet_file_is_refused_or_holds_numbers(tmp_path: Path) -> None:
    pandas, file = pytest.importorskip("pandas"), tmp_path / "pool.parquet"
    content = pandas.DataFrame({"x": np.arange(30.0), "name": ["a"] * 30}).to_parquet()
    for mutant in mutants(content, 200 if is_long() else 10):
        file.write_bytes(mutant)
        with refused_properly(file):
            table = read_table(file)
            finite(*(table.numbers(name) for name in table.columns if not table.is_text(name)))
        counted("mutated parquet files")


def test_a_mutated_workbook_is_refused_or_holds_numbers(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    file = tmp_path / "pool.xlsx"
    content = table_content({"x": np.arange(30.0), "name": np.array(["a"] * 30)}, file)
    for mutant in mutants(content, 400 if is_long() else 20):
        file.write_bytes(mutant)
        with refused_properly(file):
            table = read_table(file)
            finite(*(table.numbers(name) for name in table.columns if not table.is_text(name)))
        counted("mutated workbooks")


def test_a_mutated_xyz_file_is_refused_or_holds_numbers(tmp_path: Path) -> None:
    pytest.importorskip("ase")
    frame = (
        '3\nProperties=species:S:1:pos:R:3:forces:R:3 energy={0} pbc="F F F"\n'
        "O 0.0 0.0 0.{0} 0.1 0.2 0.3\nH 0.0 0.76 0.59 0.1 0.2 0.3\nH 0.0 -0.76 0.59 0.1 0.2 0.3\n"
    )
    file = tmp_path / "md.xyz"
    for content in mutants("".join(frame.format(n) for n in range(1, 5)).encode(), 1500 if is_long() else 30):
        file.write_bytes(content)
        with refused_properly(file):
            trajectory = read_trajectory(file)
            finite(trajectory.R.numpy())
        counted("mutated xyz files")


def test_a_mutated_npy_pool_is_refused_or_holds_numbers(tmp_path: Path) -> None:
    file = tmp_path / "X.npy"
    np.save(file, np.random.default_rng(0).random((20, 2)))
    for content in mutants(file.read_bytes(), 500 if is_long() else 20):
        (tmp_path / "X.npy").unlink()
        file.write_bytes(content)
        with refused_properly(file):
            finite(Pool.from_npy(file).X)
        counted("mutated npy files")
