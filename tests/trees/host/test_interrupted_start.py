"""Ctrl-C, or the SIGTERM of ``regrow run``, at any moment of a start: it ends, and nothing of it is left."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from tests.support.hardening import LONG_S
from trees import SupervisorSpec, WorkerSpec, start

SPEC = SupervisorSpec(id="shop", children=[WorkerSpec(id="w", handle=str)])


@pytest.fixture(autouse=True)
def _ctrl_c() -> Iterator[None]:
    """SIGINT is a KeyboardInterrupt of the main thread; a test that hangs fails."""

    def hangs(*_: object) -> None:
        raise AssertionError("the start does not end")

    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, LONG_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGALRM, before[1])


def press() -> None:
    """Press Ctrl-C: the main thread is interrupted, wherever it is."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_start_that_is_interrupted_while_its_store_opens_leaves_that_free(number: int, tmp_path: Path) -> None:
    """A connection that is interrupted between a statement and what comes of it keeps the database locked."""
    url, made = f"sqlite:///{tmp_path}/shop.db", list[object]()
    start(SPEC, store=url).stop()  # from now on it is opened, and not made

    def press_once(*_: object) -> None:
        made.append(None)
        if len(made) == number:
            press()

    event.listen(Engine, "after_cursor_execute", press_once)
    try:
        with pytest.raises(KeyboardInterrupt):
            start(SPEC, store=url)
    finally:
        event.remove(Engine, "after_cursor_execute", press_once)
    with start(SPEC, store=url) as tree:
        assert tree.ref("shop/w").ask(7, timeout=LONG_S) == "7"
