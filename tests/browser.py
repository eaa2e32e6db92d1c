"""A real browser for tests: Debian's chromium, which reports every complaint and every request."""

import shutil
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-extensions", "--no-first-run"),
    "--force-color-profile=srgb",
)
#: Requests that stay on this machine, or are none.
LOCAL_SCHEMES = {"file", "data", "blob", "about"}
LOCAL_HOSTS = {"127.0.0.1", "localhost"}


@contextmanager
def chromium():
    """The browser, for as long as it is needed; tests without it are skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install punn[dev]")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@contextmanager
def quiet_page(browser, **options):
    """A page that must neither complain nor ask another machine for anything.

    Arguments:
        browser: What `chromium` gives.
        options: Those of a browser context: viewport, color_scheme, ...
    """
    complaints, requests = [], []
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    assert complaints == []
    assert [url for url in requests if not stays_here(url)] == []


def stays_here(url):
    parts = urlsplit(url)
    return parts.scheme in LOCAL_SCHEMES or parts.hostname in LOCAL_HOSTS
