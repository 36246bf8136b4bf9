"""One browser for all of these tests and a window for most, a server for each of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.browser.shop import Shop
from trees import Web
from trees.observe.source import Source
from trees.observe.web.opening import open_page

TOKEN = "of-the-tests-and-nothing-else"  # noqa: S105 - it opens the server of one test
WIDE = {"width": 1280, "height": 800}
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",  # what draws without one needs no process of its own
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str | None:
    """Return the program of the browser, where there is one. The first has no window at all, and half of the work."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def serve(source: Source) -> Iterator[str]:
    """Serve the page of a source; gives the link to it."""
    failures: list[BaseException] = []
    server = open_page(source, Web(port=0, token=TOKEN), lambda error, _: failures.append(error))
    try:
        yield server.url
    finally:
        server.stop()
    assert failures == []


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium with a new profile; who has none is told which package has it."""
    found = chromium()
    if found is None:
        pytest.skip("no Chromium: install Debian's package chromium-headless-shell or chromium (.ci/run does, as root)")
    api = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install '.[dev]'")
    profile = tmp_path_factory.mktemp("profile")
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch_persistent_context(
            profile, executable_path=found, headless=True, args=FLAGS, viewport=WIDE, chromium_sandbox=False
        )
        opened.set_default_timeout(30_000)
        yield opened
        opened.close()


@pytest.fixture
def shop() -> Shop:
    """Source that the test moves."""
    return Shop()


@pytest.fixture
def address(shop: Shop) -> Iterator[str]:
    """Link to its page."""
    with serve(shop) as url:
        yield url


@pytest.fixture(scope="module")
def window(browser: Any) -> Any:
    """Window of the tests, one after the other. A new one is a new process, which takes as long as to draw the page."""
    return browser.new_page()


@pytest.fixture
def page(window: Any, address: str) -> Iterator[Any]:
    """Window on the page, opened by its link; what its scripts log as an error fails the test.

    Each server has a port of its own, so what the page of another test has kept is not there.
    """
    errors: list[str] = []
    listeners: dict[str, Callable[[Any], None]] = {
        "pageerror": lambda error: errors.append(str(error)),
        "console": lambda said: errors.append(said.text) if "Content Security Policy" in said.text else None,
    }
    for what, listener in listeners.items():
        window.on(what, listener)
    window.goto(address)
    window.wait_for_selector("tr[data-path]")
    window.wait_for_selector("#live[data-live=live]")  # from here on it is told of every event
    yield window
    window.goto(urljoin(address, "/static/icon.svg"))  # the page has ended, and its process goes on
    for what, listener in listeners.items():
        window.remove_listener(what, listener)
    window.emulate_media(color_scheme="null")
    window.set_viewport_size(WIDE)
    assert errors == []


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the screenshots, which pytest keeps for three runs."""
    return tmp_path_factory.mktemp("pictures")
