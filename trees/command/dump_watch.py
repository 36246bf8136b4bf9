"""``regrow dump --watch``: a dump again and again, until it is interrupted or there is nothing left to dump."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from trees.host.console import ConsoleGoneError
from trees.observe.source import SourceError

EVERY_S: Final = 1.0
EMPTIED: Final = "\x1b[2J\x1b[H"
"""Makes a terminal empty, and begins at its top."""


def watch(look: Callable[[], Sequence[str]], show: Callable[[str], object], pause: Callable[[], object]) -> None:
    """Show what ``look`` finds, with a pause after each look; returns when the trees have ended, or at Ctrl-C.

    What cannot be had just now (its process is stopped or busy, a part of the tree is not there) is said in its place.

    Raises:
        SourceError: there is nothing to show from the start.
    """
    show("\n\n".join(look()))
    try:
        while True:
            pause()
            show(_found(look))
    except KeyboardInterrupt:
        return
    except ConsoleGoneError:
        show("The tree has ended.")


def _found(look: Callable[[], Sequence[str]]) -> str:
    try:
        return "\n\n".join(look())
    except ConsoleGoneError:
        raise
    except SourceError as error:
        return str(error)
