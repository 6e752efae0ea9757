"""What every test shares: shapes checked at run time, one thread, seeded randomness."""

import jaxtyping

# Kept installed for the whole session and ahead of every import of lobal: annotations are then checked at each call.
jaxtyping.install_import_hook("lobal", "beartype.beartype")

import numpy as np  # noqa: E402 - the hook comes first
import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
