"""Draw the two pictures of README.md anew: ``python -m tests.browser.pictures``.

They show what the walk of ``test_page.py`` sees, in a window as small as a page of text.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.browser.conftest import FLAGS, chromium, serve
from tests.browser.shop import BEGAN, Shop

EXAMPLES = Path(__file__).parents[2] / "examples"
MOST_BYTES = 80_000


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


def main() -> int:
    """Draw both."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only who draws them needs it

    executable = chromium()
    if executable is None:
        print("no Chromium: install Debian's package chromium")
        return 1
    with TemporaryDirectory() as profile, sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=executable, headless=True, args=FLAGS, color_scheme="light"
        )
        for draw in (tree, timeline):
            shop = Shop()
            with serve(shop) as address:
                page = browser.new_page()
                page.goto(address)
                page.wait_for_selector("tr[data-path]")
                drawn = draw(page, shop)
                page.close()
            place = EXAMPLES / f"{draw.__name__}.png"
            place.write_bytes(drawn)
            print(f"{place.relative_to(EXAMPLES.parent)}: {len(drawn):,} bytes")
            if len(drawn) > MOST_BYTES:
                return 1
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
