"""What was sent, what was handled, which incarnations ran, and what the tree said of it.

Every message has a number and a type of its own, because a dead letter shows the type only. Each append and each change
of a dict is one step of C, so what is counted needs no lock. ``_lock`` guards ``_inside``, ``_newest`` and ``_order``;
it is reentrant because a finalizer may send while it is held.
"""

from __future__ import annotations

import itertools
import threading
import traceback
from collections import Counter, deque
from dataclasses import dataclass, field, fields
from typing import Any

from actors import (
    ChildExited,
    ChildStarted,
    DeadLetter,
    Event,
    EventsLost,
    InternalError,
    SubscriberDropped,
)
from actors.messaging.envelope import AbandonedThreadExit
from actors.model.spec import Reason

LAST = 80
"""Events that are shown where an invariant is broken."""


class Note:
    """A message."""

    __slots__ = ("deed", "number", "sender", "seq")

    def __init__(self, number: int, deed: str, sender: str, seq: int) -> None:
        self.number = number
        self.deed = deed
        self.sender = sender
        self.seq = seq
        """Grows with each message of this sender to this path."""


class Sender:
    """One thread, task or incarnation that sends: what it sends to one worker must arrive in this order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._seqs: Counter[str] = Counter()

    def next(self, path: str) -> int:
        """The number of its next message to this path."""
        self._seqs[path] += 1
        return self._seqs[path]


def base(path: str) -> str:
    """A pool stands for its members: what is sent to it is handled, lost or refused by one of them."""
    return path.partition("#")[0]


@dataclass
class Record:
    """What the events have said of one path."""

    up: int | None = None
    """The incarnation that is up; None: none is."""
    started: int = 0
    exits: int = 0
    dead: int = 0
    killed_and_lost: int = 0
    """Exits that took a message with them whose handler need not have begun."""


@dataclass
class Ledger:
    """One round."""

    violations: list[str] = field(default_factory=list)
    numbers: Any = field(default_factory=itertools.count)
    told: dict[int, str] = field(default_factory=dict)
    telling: dict[int, None] = field(default_factory=dict)
    """Tells that have not returned yet."""
    unsure: dict[int, None] = field(default_factory=dict)
    """Tells that were cut off by an exception of somebody else's: they arrived, or they did not."""
    asked: dict[int, str] = field(default_factory=dict)
    asking: dict[int, Any] = field(default_factory=dict)
    """Asks that have not ended yet, with their replies where they are to be fetched later."""
    answered: list[int] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    events_lost: int = 0
    records: dict[str, Record] = field(default_factory=dict)
    """By the exact path."""
    last: deque[str] = field(default_factory=lambda: deque(maxlen=LAST))
    ends: Counter[str] = field(default_factory=Counter)
    lives: dict[int, Any] = field(default_factory=dict)
    """Every incarnation whose code has run, by the id of its life. They are kept, so that no id is used twice."""

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._inside: dict[str, list[Any]] = {}
        self._newest: dict[str, Any] = {}
        self._order: dict[tuple[str, str], int] = {}

    def broken(self, what: str) -> None:
        """An invariant is broken."""
        self.violations.append(what)

    # -- sending -------------------------------------------------------------------------------------------

    def note(self, sender: Sender, path: str, deed: str) -> Note:
        """A new message, of a type of its own."""
        number = next(self.numbers)
        kind = type(f"m{number}", (Note,), {"__slots__": ()})
        return kind(number, deed, sender.name, sender.next(base(path)))

    def tell(self, sender: Sender, ref: Any, deed: str) -> None:
        """Send a message and go on."""
        note = self._told(sender, ref, deed)
        try:
            ref.tell(note)
        except AbandonedThreadExit:
            del self.told[note.number]  # it was given up before, or while it waited for room: nothing was sent
            raise
        except Exception as error:
            self.broken(f"{ref.path}: a tell raised {error!r}")
            raise
        finally:
            del self.telling[note.number]

    async def tell_async(self, sender: Sender, ref: Any, deed: str) -> None:
        """The same from a loop, where it may be cancelled while it waits for room."""
        note = self._told(sender, ref, deed)
        try:
            await ref.tell_async(note)
        except BaseException:
            self.unsure[note.number] = None
            raise
        finally:
            del self.telling[note.number]

    def _told(self, sender: Sender, ref: Any, deed: str) -> Note:
        note = self.note(sender, ref.path, deed)
        self.telling[note.number] = None
        self.told[note.number] = base(ref.path)
        return note

    def ask(self, sender: Sender, ref: Any, deed: str, timeout_s: float) -> Any:
        """Send a message and wait for the reply."""
        note = self._asked(sender, ref, deed)
        try:
            return self._right(note, ref.ask(note, timeout=timeout_s))
        finally:
            del self.asking[note.number]

    def ask_later(self, sender: Sender, ref: Any, deed: str, timeout_s: float | None) -> Any:
        """Send a message; the reply is looked at by the audit."""
        note = self._asked(sender, ref, deed)
        try:
            reply = self.asking[note.number] = ref.ask(note, timeout=timeout_s, block=False)
        except BaseException:
            del self.asking[note.number]
            raise
        return reply

    async def ask_async(self, sender: Sender, ref: Any, deed: str, timeout_s: float) -> Any:
        """The same on an event loop."""
        note = self._asked(sender, ref, deed)
        try:
            return self._right(note, await ref.ask_async(note, timeout=timeout_s))
        finally:
            del self.asking[note.number]

    def _asked(self, sender: Sender, ref: Any, deed: str) -> Note:
        note = self.note(sender, ref.path, deed)
        self.asking[note.number] = None
        self.asked[note.number] = ref.path
        return note

    def _right(self, note: Note, reply: Any) -> Any:
        self.fetched(note.number, reply)
        return reply

    def fetched(self, number: int, reply: Any) -> None:
        """A reply has come: the number of its own message."""
        self.answered.append(number)
        if reply != number:
            self.broken(f"{self.asked[number]}: the reply to m{number} is {reply!r}")

    # -- running -------------------------------------------------------------------------------------------

    def begin(self, incarnation: Any, note: Note) -> None:
        """A handler begins: from here on the message counts as handled, whatever becomes of the handler."""
        self.begun.append(note.number)
        path = incarnation.mailbox.path
        if "#" in path:
            return
        with self._lock:
            key = (note.sender, path)
            before = self._order.get(key, 0)
            if incarnation.abandoned:
                return  # it is left to itself, and its successor may have gone on long ago
            self._order[key] = note.seq
            if before >= note.seq:
                self.broken(f"{path}: m{note.number}, number {note.seq} of {note.sender}, came after number {before}")

    def enter(self, incarnation: Any) -> None:
        """The code of an incarnation begins to run."""
        path = incarnation.mailbox.path
        with self._lock:
            inside = self._inside.setdefault(path, [])
            for other in inside:
                if other is incarnation:
                    self.broken(f"{path}: one incarnation does two things at once")
                elif not other.abandoned and not incarnation.abandoned:
                    self.broken(f"{path}: two incarnations at once")
            inside.append(incarnation)
            if id(incarnation) not in self.lives:
                self.lives[id(incarnation)] = incarnation
                if (
                    not incarnation.abandoned
                ):  # else it was killed before its first line, and its successor may be here already
                    self._newest[path] = incarnation
            elif self._newest.get(path) is not incarnation and not incarnation.abandoned:
                self.broken(f"{path}: an old incarnation runs though a newer one has begun: {incarnation!r}")

    def leave(self, incarnation: Any) -> None:
        """It has returned."""
        with self._lock:
            self._inside[incarnation.mailbox.path].remove(incarnation)

    # -- events --------------------------------------------------------------------------------------------

    def record(self, path: str) -> Record:
        """What the events have said of a path so far."""
        found = self.records.get(path)
        if found is None:
            found = self.records[path] = Record()
        return found

    def hear(self, event: Event) -> None:
        """The subscriber."""
        self.last.append(_line(event))
        record = self.record(event.path)
        if isinstance(event, ChildStarted):
            record.started += 1
            if record.up is not None:
                self.broken(f"{event.path}: incarnation {event.incarnation} started, {record.up} has not exited")
            record.up = event.incarnation
        elif isinstance(event, ChildExited):
            self._exited(event, record)
        elif isinstance(event, DeadLetter):
            self.reasons[event.reason] += 1
            record.dead += 1
            if event.message_type[1:].isdecimal():
                self.dead.append(int(event.message_type[1:]))
        elif isinstance(event, EventsLost):
            self.events_lost += event.count
        elif isinstance(event, (InternalError, SubscriberDropped)):
            stack = "".join(traceback.format_exception(event.error)).rstrip()
            self.broken(f"{event.path}: {type(event).__name__} {event.error!r}\n{stack}")

    def _exited(self, event: ChildExited, record: Record) -> None:
        self.ends[str(event.reason)] += 1
        record.exits += 1
        if event.reason is Reason.KILLED:
            record.killed_and_lost += event.lost
        if event.started and record.up != event.incarnation:
            self.broken(f"{event.path}: incarnation {event.incarnation} exited, {record.up} was up")
        elif not event.started and record.up is not None:
            self.broken(f"{event.path}: a start failed while incarnation {record.up} was up")
        record.up = None


def _line(event: Event) -> str:
    facts = " ".join(
        f"{each.name}={type(value).__name__ if isinstance(value, BaseException) else value}"
        for each in fields(event)[1:]
        if each.name not in {"frames", "stack"} and (value := getattr(event, each.name)) not in (None, "")
    )
    return f"{event.path}: {type(event).__name__} {facts}"
