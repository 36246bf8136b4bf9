"""Ctrl-C, or the SIGTERM of ``regrow run``, at any moment of a start: it ends, and nothing of it is left."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.execution.timers import Timers
from actors.messaging.reply import Reply
from actors.runtime.system import System
from actors.supervision.supervisor_incarnation import SupervisorIncarnation
from tests.support.asking import LONG_S
from trees import SupervisorSpec, WorkerSpec, start
from trees.host import start as start_module

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


@contextmanager
def pressed_in(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool = False) -> Iterator[list[str]]:
    """Have Ctrl-C pressed at a call, the first time; gives the names of the calls that were made."""
    real, made = getattr(owner, name), list[str]()

    def call(*args: Any, **words: Any) -> Any:
        made.append(name)
        if not after and len(made) == 1:
            press()
        found = real(*args, **words)
        if after and len(made) == 1:
            press()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, call)
        yield made


MOMENTS: dict[str, tuple[Any, str, bool]] = {
    "before it begins": (System, "start", False),
    "when half of it has begun": (Timers, "open", True),
    "before its root is woken": (SupervisorIncarnation, "start", False),
    "once it has begun": (System, "start", True),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_start_that_is_interrupted_ends_and_leaves_nothing_behind(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, after = MOMENTS[moment]
    with pressed_in(monkeypatch, owner, name, after=after) as made, pytest.raises(KeyboardInterrupt):
        start(SPEC)
    assert made
    with start(SPEC) as tree:
        assert tree.ref("shop/w").ask(7, timeout=LONG_S) == "7"


def test_a_start_that_is_interrupted_before_its_thread_runs_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the other order: who undoes it is first."""
    waiting: list[Callable[[], object]] = []

    def later(_: str, function: Callable[[], object]) -> None:
        waiting.append(function)
        raise KeyboardInterrupt

    begun: list[System] = []

    def begin(system: System) -> Reply:
        begun.append(system)
        return system.started

    with monkeypatch.context() as patched:
        patched.setattr(start_module, "in_background", later)
        patched.setattr(System, "start", begin)
        with pytest.raises(KeyboardInterrupt):
            start(SPEC)
        for function in waiting:
            function()
    assert (len(waiting), begun) == (1, [])
