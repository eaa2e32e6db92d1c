"""What all tests share: one seed, and hypothesis without a clock (the machine may be busy)."""

import signal

import pytest
import torch
from hypothesis import settings

from browser import chromium, quiet_page

settings.register_profile("punn", deadline=None)
settings.load_profile("punn")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture
def listening():
    """For a child process: hear Ctrl-C, even where the tests themselves run in the background and ignore it."""
    return {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}


@pytest.fixture(scope="session")
def browser():
    """One chromium for all tests that need a real browser."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser):
    """A fresh page of 1280 by 900; the test fails if it complains or asks another machine for anything."""
    with quiet_page(browser) as page:
        yield page
