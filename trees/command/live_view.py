"""The live view of a tree on a terminal: its dump, again and again, with log lines and prints above it."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

from loguru import logger
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from actors.model.clock import monotonic
from trees.host.tree import Tree

PER_SECOND = 4
SHARE = 10
"""A look at a large tree takes time: after one there is a pause of so many times what it took."""

_STYLES = {
    r"\b(running|succeeded)\b": "green",
    r"\b(restarting|retrying|waiting)\b|\bretry in [\d.]+ s": "yellow",
    r"\bstopped\b": "bright_black",
    r"\bparked\b|\babandoned \d+|\bcrashed \w+|\bkilled\b|\bfailed\b|^gave up.*": "red",
    r"\b\d+ % .*?(?=   |$)": "cyan",
    r"[├└│─◦]+": "bright_black",
}


class LiveView:
    """Shows a tree from ``with`` to the end of its block, then disappears."""

    def __init__(self, tree: Tree, console: Console | None = None) -> None:
        self._tree = tree
        self._due = 0.0
        self._shown: RenderableType = Text()
        self._live = Live(
            get_renderable=self.look,
            console=console,
            refresh_per_second=PER_SECOND,
            transient=True,
            vertical_overflow="ellipsis",
        )

    def look(self) -> RenderableType:
        """Return what to show now; the last picture again where a new one would come too soon."""
        began = monotonic()
        if began >= self._due:
            text = Text(self._tree.dump(verbose=True, streams=True), no_wrap=True, overflow="ellipsis")
            for pattern, style in _STYLES.items():
                text.highlight_regex(pattern, style)
            self._shown = Group(Text(), text)
            ended = monotonic()
            self._due = ended + SHARE * (ended - began)
        return self._shown

    def __enter__(self) -> Self:
        try:
            self._live.start(refresh=True)
            _log_above()
        except BaseException:  # Ctrl-C: the terminal gets its cursor back
            self._live.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self._live.stop()


def _log_above() -> None:
    """Loguru's own sink holds on to the real stderr and would write into the picture: use the one there is now."""
    try:
        logger.remove(0)
    except ValueError:  # the program has sinks of its own
        return
    logger.add(_write, level="INFO", colorize=False)


def _write(line: str) -> None:
    sys.stderr.write(line)
