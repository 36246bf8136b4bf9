"""Draw the pictures of the pages anew: ``python -m tests.browser.pictures``.

Two are for README.md. They show what the walk of ``test_page.py`` sees, in a window as small as a page of text. That of
trees/README.md is ``regrow top``: textual draws it as SVG, and the browser makes a PNG of it, with a font that is here.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.browser.conftest import FLAGS, chromium, serve
from tests.browser.shop import BEGAN, Shop
from trees.command.top.app import Top

EXAMPLES = Path(__file__).parents[2] / "examples"
MOST_BYTES = 80_000
CELLS = (118, 17)
"""Columns and lines of the terminal."""
_FONT_FACES = re.compile(r"@font-face \{.*?\}", re.DOTALL)


def tree(page: Any, shop: Shop) -> bytes:
    """Draw the tree while a child of it crashes."""
    page.set_viewport_size({"width": 1120, "height": 356})
    page.wait_for_selector("[data-live=live]")
    shop.at -= 35  # what the sparklines have of it
    for path in ("shop/feed", "shop/feed", "shop/feed", "shop/billing/ledger"):
        shop.tell("child_restarting", path, attempt=1, delay_s=0.0)
        shop.at += 7
    shop.tell("child_parked", "shop/feed", restarts=3)
    page.wait_for_selector(".flash")
    page.wait_for_selector(".flash", state="detached")
    shop.at = BEGAN + 10.0
    shop.crash("shop/billing/ledger", "no number")
    page.wait_for_selector("tr.flash [data-state=restarting]")
    return bytes(page.screenshot(animations="allow"))


def timeline(page: Any, shop: Shop) -> bytes:
    """Draw the timeline and the graph of a task, one attempt of which has failed."""
    page.set_viewport_size({"width": 1120, "height": 512})
    page.evaluate("location.hash = '#/tasks/t-1'")
    page.wait_for_selector(".dag .node")
    return bytes(page.screenshot())


def terminal(page: Any, shop: Shop) -> bytes:
    """Draw ``regrow top`` of a tree, one child of which is parked."""
    page.set_viewport_size({"width": 1120, "height": 460})
    page.goto("about:blank")  # the policy of the page forbids styles in an SVG
    page.set_content(f"<style>body {{ margin: 0 }} svg {{ width: 100vw }}</style>{screen(shop)}")
    return bytes(page.locator("svg").first.screenshot())


def screen(shop: Shop) -> str:
    """Return what ``regrow top`` shows of a source, as SVG that asks no other host for its font."""
    app = Top(shop, every_s=None)

    async def shown() -> str:
        async with app.run_test(size=CELLS) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            await app.workers.wait_for_complete()  # the table may have asked for more as it was laid out
            await pilot.pause()
            return app.export_screenshot(title="regrow top")

    with ThreadPoolExecutor(1) as other:  # this thread may have the loop of the browser
        drawn = other.submit(asyncio.run, shown()).result()
    return _FONT_FACES.sub("", drawn).replace("Fira Code", "DejaVu Sans Mono")


PICTURES: dict[str, Callable[[Any, Shop], bytes]] = {"tree": tree, "timeline": timeline, "terminal": terminal}
"""Files below ``examples/``, each with what draws it on a page that is opened."""


def draw(browser: Any, name: str) -> bytes:
    """Draw one of them, as PNG."""
    shop = Shop()
    with serve(shop) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("tr[data-path]")
        drawn = PICTURES[name](page, shop)
        page.close()
    return drawn


def main() -> int:
    """Draw all."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only who draws them needs it

    executable = chromium()
    if executable is None:
        print("no Chromium: install Debian's package chromium-headless-shell or chromium")
        return 1
    with TemporaryDirectory() as profile, sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=executable, headless=True, args=FLAGS, color_scheme="light"
        )
        for name in PICTURES:
            drawn, place = draw(browser, name), EXAMPLES / f"{name}.png"
            place.write_bytes(drawn)
            print(f"{place.relative_to(EXAMPLES.parent)}: {len(drawn):,} bytes")
            if len(drawn) > MOST_BYTES:
                return 1
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
