import pytest
import torch

from tests.experts.setting import Setting


@pytest.fixture
def setting(generator: torch.Generator) -> Setting:
    return Setting.draw(generator)
