"""What all tests share: one seed, and hypothesis without a clock (the machine may be busy)."""

import pytest
import torch
from hypothesis import settings

settings.register_profile("punn", deadline=None)
settings.load_profile("punn")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)
