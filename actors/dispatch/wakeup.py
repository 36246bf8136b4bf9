"""One thread's sleep, and how others end it; and a turnstile that nobody waits at.

A wake-up is remembered until the thread looks, may be given twice, and never waits for a lock: so it may be given by a
finalizer that the garbage collector runs anywhere, and by a signal handler. (``threading.Event``, ``Condition`` and
``Semaphore`` take a lock that the interrupted code below may hold.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Wakeup:
    """A gate that one thread sleeps at."""

    __slots__ = ("_gate", "_given", "_periods")

    def __init__(self) -> None:
        self._gate = threading.Lock()  # a semaphore would be 10 us slower: it is made of Python code
        self._gate.acquire()
        self._periods = 0
        """Sleeps that have ended. Written by the thread that sleeps."""
        self._given = -1
        """The period in which the last wake-up was given: written after that was done."""

    def give(self) -> None:
        """End the present sleep, or the next one if the thread is awake and has not looked since."""
        period = self._periods
        if self._given == period:
            return  # it has not looked since: it will find what this one is for
        try:
            self._gate.release()
        except RuntimeError:
            return  # open already: another gave one at the same moment
        self._given = period

    @property
    def is_given(self) -> bool:
        """True when the thread was woken and has not looked yet."""
        return self._given == self._periods

    def sleep(self, timeout_s: float = -1) -> bool:
        """Wait for a wake-up; False when there was none in time. Look for work *after* this."""
        woken = self._gate.acquire(timeout=timeout_s)
        self._periods += 1
        return woken


class Turnstile:
    """Lets one caller at a time do something; nobody waits, and nobody's reason to come is lost.

    Whoever comes while another is inside goes away again: the one inside looks once more after it has left. There is no
    lock that an exception of a signal handler could leave behind: a ticket is known to its owner before it is given.
    """

    __slots__ = ("_inside",)

    def __init__(self) -> None:
        self._inside: list[object] = []

    def enter(self, act: Callable[[], bool]) -> None:
        """Call ``act()`` while it returns True, unless another does so already."""
        more = True
        while more:
            ticket, leads = object(), False
            try:
                self._inside.append(ticket)
                leads = self._inside[0] is ticket
                more = leads and act()
            finally:
                if ticket in self._inside:
                    self._inside.remove(ticket)
            if not leads:
                more = not self._inside  # whoever is there now looks again after leaving
