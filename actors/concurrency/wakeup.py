"""One thread's sleep, and how others end it; a flag; a turnstile that nobody waits at; a job that runs one at a time.

A wake-up is remembered until the thread looks, may be given twice, and never waits for a lock: so it may be given by a
finalizer that the garbage collector runs anywhere, and by a signal handler. (``threading.Event``, ``Condition`` and
``Semaphore`` take a lock that the interrupted code below may hold.)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

_SIGNAL_S = 1.0
"""Seconds after which the main thread looks for signals while it waits."""


def pass_gate(gate: threading.Lock, limit_s: float) -> None:
    """Wait for the gate for at most ``limit_s`` seconds, -1 for ever; on the main thread with looks for signals.

    Python runs a signal handler on the main thread, between two of its instructions. A signal that comes just before
    that thread falls asleep, or on another thread, does not wake it: its handler would not run as long as it waits.
    """
    is_main = threading.current_thread() is threading.main_thread()
    while is_main and not 0 <= limit_s <= _SIGNAL_S:
        if gate.acquire(True, _SIGNAL_S):  # noqa: FBT003 - by position in half the time
            return
        if limit_s > 0:
            limit_s -= _SIGNAL_S
    gate.acquire(True, limit_s)  # noqa: FBT003 - as above


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

    def sleep(self, timeout_s: float = -1) -> bool:
        """Wait for a wake-up; False when there was none in time. Look for work *after* this."""
        woken = self._gate.acquire(timeout=timeout_s)
        self._periods += 1
        return woken


class Flag:
    """Flag that one thread waits for: ``threading.Event`` for code that a finalizer may come in between.

    The flag is raised before the wake-up is given, and looked at after each sleep. A wake-up that is left from before
    ends a sleep early, and the flag is looked at once more.
    """

    __slots__ = ("_is_set", "_wakeup")

    def __init__(self) -> None:
        self._is_set = False
        self._wakeup = Wakeup()

    def is_set(self) -> bool:
        """True while it is raised."""
        return self._is_set

    def set(self) -> None:
        """Raise it; on any thread."""
        self._is_set = True
        self._wakeup.give()

    def clear(self) -> None:
        """Lower it; the thread that waits looks for work *after* this."""
        self._is_set = False

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is raised; True if it is. Of one thread only."""
        limit_s = -1 if timeout_s is None else max(0.0, timeout_s)
        while not self._is_set and self._wakeup.sleep(limit_s):
            continue
        return self._is_set


class Turnstile:
    """Lets one caller at a time do something; nobody waits, and nobody's reason to come is lost.

    Whoever comes while another is inside notes that, and goes away again; the one inside looks at the note after it has
    left, and goes in once more. Who goes away looks, after the note, whether somebody is there still: the last one to
    leave finds the note, or finds that it is the last. There is no lock that an exception of a signal handler could
    leave behind: a ticket is known to its owner before it is given.
    """

    __slots__ = ("_came", "_inside")

    def __init__(self) -> None:
        self._inside: list[object] = []
        self._came = False
        """True where a caller came while another was inside, and no one has gone in for that yet."""

    def enter(self, act: Callable[[], bool]) -> None:
        """Call ``act()`` while it returns True, unless another does so already."""
        more = True
        while more:
            ticket, leads = object(), False
            try:
                self._inside.append(ticket)
                leads = self._inside[0] is ticket
                if leads:
                    self._came = False
                    more = act()
                else:
                    self._came = True
            finally:
                if ticket in self._inside:
                    self._inside.remove(ticket)
            more = (more or self._came) if leads else not self._inside


class SingleJob:
    """Sets off a job that empties a queue, as often as needed, and lets one run of it work at a time.

    Whoever appends to the queue calls ``rouse`` afterwards. A run calls ``enter``, and leaves at once where that is
    False; it empties the queue, calls ``leave``, and then looks at the queue once more.

    ``rouse`` notes that a run is on its way only after it was set off, so an exception of a signal handler in the
    middle leaves a job too many, never one too few. The note names the period in which it was made. A period ends when
    a run leaves, which only one run can do at a time.

    *A rouse that finds its period noted, against the run that leaves*: the run ends the period, then lets others in,
    then looks at the queue. If the note was made in the old period, a rouse in the new one sets off another run. If it
    was made in the new period, its message was appended before that look, or a run that came later has it. So nothing
    stays behind.
    """

    __slots__ = ("_set_off", "_token", "noted", "period")

    def __init__(self, set_off: Callable[[], object]) -> None:
        self._set_off = set_off
        self.period = 0
        """Runs that have left. Written only by the run that holds the token."""
        self.noted = -1
        """The period in which a run was last set off: written after that was done."""
        self._token: deque[None] = deque((None,))
        """Holds one item unless a run works. Each operation of a deque is one step of C."""

    def rouse(self) -> None:
        """See to it that the queue is looked at after this."""
        period = self.period
        if self.noted != period:
            self._set_off()
            self.noted = period

    def enter(self) -> bool:
        """Begin to work; False where another run does."""
        try:
            self._token.pop()
        except IndexError:
            return False
        return True

    def leave(self) -> None:
        """Let others in. The caller looks at its queue after this."""
        self.period += 1
        self._token.append(None)
