"""What every test shares: shapes checked at run time, one thread, seeded randomness."""

from pathlib import Path

import jaxtyping

# Kept installed for the whole session and ahead of every import of lobal: annotations are then checked at each call.
# The estimator is left out: it takes arrays of any kind and checks them itself, and the checks are what is tested.
_ROOT = Path(__file__).parents[1] / "src"
_FILES = [file for file in (_ROOT / "lobal").rglob("*.py") if file.name not in ("__init__.py", "estimator.py")]
_MODULES = [".".join(file.relative_to(_ROOT).with_suffix("").parts) for file in _FILES]
jaxtyping.install_import_hook(_MODULES, "beartype.beartype")

import hypothesis  # noqa: E402 - the hook comes first
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)
hypothesis.settings.register_profile("lobal", deadline=None)  # no test asserts a wall time
hypothesis.settings.load_profile("lobal")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
