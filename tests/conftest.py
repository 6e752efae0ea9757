"""Setup of all tests: shapes checked at run time, one thread, seeded randomness."""

from pathlib import Path

import jaxtyping

# Installed before any import of lobal, for the whole session: annotations are checked at every call. The estimator and
# the options of its engines are left out: they accept values of any kind and check them themselves, which is tested.
_TOP = Path(__file__).parents[1]
_FILES = [
    file.relative_to(root)
    for root, package in ((_TOP / "src", "lobal"), (_TOP, "experiments"), (_TOP, "benchmarks"))
    for file in (root / package).rglob("*.py")
    if file.name not in ("__init__.py", "__main__.py", "estimator.py", "engine.py")
]
_MODULES = [".".join(file.with_suffix("").parts) for file in _FILES]
jaxtyping.install_import_hook(_MODULES, "beartype.beartype")

import signal  # noqa: E402 - the hook comes first

import hypothesis  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)
signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # which is not there if a shell runs the tests in the background
hypothesis.settings.register_profile("lobal", deadline=None)  # no test asserts a wall time
hypothesis.settings.load_profile("lobal")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
