"""Reads README.md and the other pages for those who run what they say, so that pages, tests and `.ci/run` cannot drift.

`python3 tests/support/readme.py test-command` prints the command that stands in the README's first fenced block after
the comment `<!-- test-command -->`. Knows the standard library only: `.ci/run` calls it before anything is installed.

A block that begins with ```` ```python ```` shares its names with the other such blocks, in the order of the page; one
that begins with ```` ```python alone ```` is a program of its own.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
ROOMS = ("actors", "trees", "tests", "examples")
_FENCE = re.compile(r"^```(?P<info>.*?)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)]+)\)")


def pages() -> list[Path]:
    """Every page of the repository: the README, and those of the folders."""
    return [README, *sorted(page for room in ROOMS for page in (ROOT / room).rglob("*.md"))]


def links(page: str) -> list[str]:
    """The targets of all links of a page, without code blocks."""
    return [found["target"] for found in _LINK.finditer(_FENCE.sub("", page))]


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    info: str
    """What follows the opening fence: ``python``, ``python alone``, ``sh`` ..."""
    code: str
    """The lines between the fences."""
    line: int
    """The number of the code's first line on the page, from 1."""

    def padded(self) -> str:
        """The code moved down to its line of the page, so that a traceback names the page's own lines."""
        return "\n" * (self.line - 1) + self.code


def blocks(page: str) -> list[Block]:
    """Every fenced block of a page, in order."""
    return [
        Block(found["info"].strip(), found["code"], page.count("\n", 0, found.start("code")) + 1)
        for found in _FENCE.finditer(page)
    ]


def command(page: str, marker: str) -> str:
    """The first fenced block after the comment ``<!-- marker -->``.

    Raises:
        LookupError: the page has no such comment, or no block after it.
    """
    _, found, rest = page.partition(f"<!-- {marker} -->")
    following = blocks(rest)
    if not found or not following:
        text = f"README.md: no comment '<!-- {marker} -->' with a fenced block after it"
        raise LookupError(text)
    return following[0].code.strip()


def programs(page: str) -> list[str]:
    """The page's Python as programs to run: all shared blocks as one, then each block that stands alone.

    Raises:
        ValueError: a Python block says something else than ``alone``.
    """
    shared, alone = "", []
    for block in blocks(page):
        if block.info == "python":
            # Blank lines up to the block's own place: the program has the same line numbers as the page.
            shared += "\n" * (block.line - 1 - shared.count("\n")) + block.code
        elif block.info == "python alone":
            alone.append(block.padded())
        elif block.info.startswith(("python", "py ")) and block.info != "python killed":
            text = f"line {block.line - 1}: a block is 'python', 'python alone' or 'python killed', not {block.info!r}"
            raise ValueError(text)
    return ([shared] if shared else []) + alone


if __name__ == "__main__":
    print(command(README.read_text(encoding="utf-8"), sys.argv[1]))
