"""Counting what a thread does, in operations of the interpreter: a cost that a busy machine does not change.

No garbage is collected meanwhile: the finalizers of what earlier tests have left would be counted.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from actors import Reply
from tests.support.crew import LONG_S
from trees import Tree


class Operations:
    """So many of them so far, in the thread that is traced."""

    def __init__(self) -> None:
        self.count = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """What ``sys.settrace`` takes."""
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += event == "opcode"
        return self.trace


@contextmanager
def counted_on_loop(tree: Tree) -> Iterator[Operations]:
    """What the tree's event loop does in the block."""
    operations = Operations()
    with _no_garbage():
        _on_loop(tree, operations.trace)
        try:
            yield operations
        finally:
            _on_loop(tree, None)


@contextmanager
def _no_garbage() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _on_loop(tree: Tree, trace: Any) -> None:
    done = Reply()

    def install() -> None:
        sys.settrace(trace)
        done.complete()

    tree._system.loop.call(install)
    assert done.wait(LONG_S)
