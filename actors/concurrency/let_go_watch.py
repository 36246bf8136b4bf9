"""Acts when a thing is let go of, on a thread of its own: no code runs where that happens.

A ``__del__``, and a callback of a weak reference, runs wherever the last hold on a thing goes, often on the main
thread. Python prints an exception that is raised in it, and goes on: a Ctrl-C of that moment would be lost. Here the
callback is a function of C, ``SimpleQueue.put``, in which no signal handler runs. A thread waits at that queue as long
as anything is watched.

No lock. Each change of the table is one step of C. One caller at a time starts the thread (``_starting``); a Ctrl-C in
the middle leaves none, and whoever comes next starts one. The race: *the thread finds nothing to watch, and a thing
comes*. The thread says that it leaves, then looks once more; who comes enters the thing, then looks for the thread. So
one of the two finds the other, and sees to a new thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any
from weakref import ref

from actors.concurrency.thread_state import after_fork, start_thread
from actors.concurrency.wakeup import Turnstile


class LetGoThread(threading.Thread):
    """Waits as long as anything is watched. It keeps no process from its end."""

    def __init__(self, name: str, run: Callable[[], None]) -> None:
        super().__init__(target=run, name=name, daemon=True)


class LetGoWatch:
    """Things that are watched, and what is to be done when each is gone."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._acts: dict[int, tuple[ref[Any], Callable[[], object]]] = {}
        """By the identity of the reference, which is held here."""
        self._gone: SimpleQueue[ref[Any]] = SimpleQueue()
        self._starting = Turnstile()
        self._thread: LetGoThread | None = None
        """Waits for the next thing that goes, if it is alive. None: it leaves, or nothing was watched yet."""

    def forked(self) -> None:
        """Forget all of it: in the child of a fork the thread is gone."""
        self._acts, self._gone = {}, SimpleQueue()
        self._starting, self._thread = Turnstile(), None

    def watch(self, thing: Any, act: Callable[[], object]) -> ref[Any]:
        """Have ``act()`` called once the thing is gone, on another thread; returns what ``forget`` takes.

        Args:
            thing: is held weakly.
            act: must not hold the thing, and must not wait. What it raises is told to ``threading.excepthook``.
        """
        after_fork(self)
        found = ref(thing, self._gone.put)
        self._acts[id(found)] = (found, act)
        self._starting.enter(self._start)
        return found

    def forget(self, found: ref[Any]) -> None:
        """Do nothing when this one is gone."""
        if self._acts.pop(id(found), None) is not None:
            self._gone.put(found)  # the thread looks whether it is needed

    def _start(self) -> bool:
        """Inside the turnstile: see to it that a thread waits. False: no need to look again."""
        thread = self._thread
        if self._acts and (thread is None or not thread.is_alive()):
            self._thread = thread = LetGoThread(self._name, self._run)
            with suppress(RuntimeError):  # there are no more threads: whoever comes next tries again
                start_thread(thread)
        return False

    def _run(self) -> None:
        while True:
            gone = self._gone.get()  # held until it is looked up, so that its identity is that of no newer one
            _, act = self._acts.pop(id(gone), (None, None))
            if act is not None:
                _call(act)
            if not self._acts:
                self._thread = None
                if self._acts:
                    self._starting.enter(self._start)
                return


def _call(act: Callable[[], object]) -> None:
    try:
        act()
    except BaseException:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
