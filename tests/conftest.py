"""What every test shares: shapes checked at run time, one thread, seeded randomness."""

import importlib.util
import pkgutil

import jaxtyping

# Kept installed for the whole session and ahead of every import of lobal: annotations are then checked at each call.
# The estimator is left out: it takes arrays of any kind and checks them itself, and the checks are what is tested.
_SPEC = importlib.util.find_spec("lobal")
_ROOMS = [room.name for room in pkgutil.iter_modules(_SPEC.submodule_search_locations if _SPEC else None)]
jaxtyping.install_import_hook([f"lobal.{room}" for room in _ROOMS if room != "estimator"], "beartype.beartype")

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
