"""One browser for all of these tests, a server and a window for each of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.shop import Shop
from tests.browser.stand_in import serve

TOKEN = "of-the-tests"  # noqa: S105 - it opens nothing but the server of one test
WIDE = {"width": 1280, "height": 800}
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str | None:
    """Return the program of the browser, where there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Headless Chromium with a new profile; who has none is told which package has it."""
    found = chromium()
    if found is None:
        pytest.skip("no Chromium: install Debian's package chromium (.ci/run does, as root)")
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
    """Address of its page."""
    with serve(shop, TOKEN) as url:
        yield url


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """Window on the page, opened by its link; what its scripts log as an error fails the test."""
    opened = browser.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda said: errors.append(said.text) if "Content Security Policy" in said.text else None)
    opened.goto(f"{address}?token={TOKEN}")
    opened.wait_for_selector("tr[data-path]")
    yield opened
    opened.close()
    assert errors == []


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the screenshots, which pytest keeps for three runs."""
    return tmp_path_factory.mktemp("pictures")
