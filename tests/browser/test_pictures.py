"""Pictures of the pages: each can be drawn anew, is kept, is small, and stands on a page."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pictures import EXAMPLES, MOST_BYTES, PICTURES, draw, screen
from tests.browser.shop import Shop

ROOT = EXAMPLES.parent


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height, as the head of a PNG has them."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_pages_is_drawn_by_the_tests_in_the_size_of_the_one_that_is_kept(
    name: str, browser: Any, pictures: Path
) -> None:
    drawn, kept = draw(browser, name), (EXAMPLES / f"{name}.png").read_bytes()
    (pictures / f"{name}.png").write_bytes(drawn)

    assert size_of(drawn) == size_of(kept)
    assert max(len(drawn), len(kept)) <= MOST_BYTES


def test_every_picture_that_is_kept_can_be_drawn_anew_and_stands_on_a_page() -> None:
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "trees/README.md")]

    assert {each.stem for each in EXAMPLES.glob("*.png")} == set(PICTURES)
    assert [name for name in PICTURES if not any(f"examples/{name}.png)" in page for page in pages)] == []


@pytest.mark.slow
def test_the_picture_of_the_terminal_has_its_children_and_asks_no_other_host() -> None:
    drawn = screen(Shop())

    assert 'url("http' not in drawn
    for text in ("poller", "parked", "ledger", "half"):
        assert text in drawn
