"""What all tests share: one seed, and hypothesis without a clock (the machine may be busy)."""

import signal

import pytest
import torch
from hypothesis import settings

settings.register_profile("punn", deadline=None)
settings.load_profile("punn")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def listening():
    """For a child process: hear Ctrl-C, even where the tests themselves run in the background and ignore it."""
    return {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
