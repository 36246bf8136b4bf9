"""The soak's workers, of every kind, and the books in which they note what they do.

A message is ``(number, deed)``. A worker notes its number when its handler begins: from then on the message counts as
handled, whatever becomes of the handler.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from typing import Any

import pykka

import actors
from actors import ActorsError, Failed, Worker
from actors.messaging.envelope import AbandonedThreadExit

HANG_S = 0.15
"""Longer than any stop or start may take here, so that who hangs is killed when it is stopped."""
DEEDS = ("work",) * 80 + ("ask",) * 8 + ("tell",) * 4 + ("crash",) * 3 + ("fail", "exit", "interrupt", "stop", "hang")


class Books:
    """What was sent, what was handled, and what must not be."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.armed = threading.Event()
        """Set once the tree is up: from then on starts fail, too."""
        self.numbers = itertools.count()
        self.throws = itertools.count()
        # list.append and next(count) are atomic; a lock here would order what is to race.
        self.told: list[int] = []
        self.asked: list[int] = []
        self.begun: list[int] = []
        self.finished: list[int] = []
        self.asks_ended: list[int] = []
        self.asks_refused: list[int] = []
        """Numbers of asks that ended with an error of the library, so that their handler need not have begun."""
        self.violations: list[str] = []
        self._inside: dict[str, set[Any]] = {}
        self._lock = threading.Lock()

    def __deepcopy__(self, _: object) -> Books:
        return self

    def dice(self, whose: str) -> random.Random:
        """Dice of one's own, the same in each run with this seed as far as threads allow."""
        return random.Random(f"{self.seed} {whose} {next(self.throws)}")  # noqa: S311 - for faults, not for secrets

    def enter(self, path: str, worker: Any) -> None:
        """A worker's own code begins to run."""
        with self._lock:
            inside = self._inside.setdefault(path, set())
            for other in inside:
                # An abandoned thread is left to itself, and may be anywhere in its last piece of code.
                if (
                    other is not worker
                    and not other._regrow_incarnation.abandoned
                    and not worker._regrow_incarnation.abandoned
                ):
                    self.violations.append(f"{path}: two incarnations at once")
            inside.add(worker)

    def leave(self, path: str, worker: Any) -> None:
        """It has returned."""
        with self._lock:
            self._inside[path].discard(worker)

    def tell(self, ref: Any, deed: str) -> None:
        """Send a message and go on."""
        number = next(self.numbers)
        self.told.append(number)
        try:
            ref.tell((number, deed))
        except AbandonedThreadExit:  # it was given up before, or while it waited for room: nothing was sent
            self.told.remove(number)
            raise
        except BaseException as error:
            self.violations.append(f"tell to {ref.path} raised {error!r}")
            raise

    def ask(self, ref: Any, deed: str, timeout: float) -> Any:
        """Send a message and wait for the reply; whatever it is, the ask has ended."""
        number = next(self.numbers)
        self.asked.append(number)
        try:
            return ref.ask((number, deed), timeout=timeout)
        except BaseException as error:
            self._note_failure(number, error)
            raise
        finally:
            self.asks_ended.append(number)

    async def ask_async(self, ref: Any, deed: str, timeout: float) -> Any:  # noqa: ASYNC109 - ours, passed on
        """The same on an event loop."""
        number = next(self.numbers)
        self.asked.append(number)
        try:
            return await ref.ask_async((number, deed), timeout=timeout)
        except BaseException as error:
            self._note_failure(number, error)
            raise
        finally:
            self.asks_ended.append(number)

    def _note_failure(self, number: int, error: BaseException) -> None:
        if isinstance(error, (ActorsError, AbandonedThreadExit, asyncio.CancelledError)):
            self.asks_refused.append(number)


class Crew:
    """What every kind of worker does; mixed into a sync, an async and a stock class."""

    books: Books
    friends: tuple[str, ...]
    actor_ref: Any

    def begin(self, books: Books, friends: tuple[str, ...]) -> None:
        self.books = books
        self.path = self.actor_ref.path
        # Only those further on: two that ask each other, each for a message of its own, wait until they time out.
        own = self.path.partition("#")[0]
        self.friends = friends[friends.index(own) + 1 :] if own in friends else ()
        self.dice = books.dice(self.path)
        self.busy = False

    def start_badly(self) -> float:
        """Raise, or how long to hang, once in a while."""
        chance = self.dice.random() if self.books.armed.is_set() else 1.0
        if chance < 0.02:
            raise OSError("no start")
        return HANG_S if chance < 0.03 else 0.0

    def enter(self) -> None:
        if self.busy:
            self.books.violations.append(f"{self.path}: two messages at once")
        self.busy = True
        self.books.enter(self.path, self)

    def leave(self) -> None:
        self.busy = False
        self.books.leave(self.path, self)

    def misbehave(self, deed: str) -> None:
        """The deeds that are the same everywhere."""
        if deed == "crash":
            raise ValueError("crash")
        if deed == "fail":
            raise Failed("not today")
        if deed == "exit":
            raise SystemExit(3)
        if deed == "interrupt":
            raise self.dice.choice([KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
        if deed == "stop":
            self.stop()  # type: ignore[attr-defined]

    def friend(self) -> Any:
        """Some other worker; None while nobody of that path is listed."""
        try:
            return actors.ref(self.dice.choice(self.friends)) if self.friends else None
        except ActorsError:
            return None


class SyncCrew(Crew):
    """Sync hooks, for our own workers and for stock actors."""

    def on_start(self) -> None:
        self.enter()
        try:
            time.sleep(self.start_badly())
        finally:
            self.leave()

    def on_receive(self, message: tuple[int, str]) -> int:
        number, deed = message
        self.books.begun.append(number)
        self.enter()
        try:
            self.misbehave(deed)
            friend = self.friend() if deed in {"ask", "tell"} else None
            if deed == "hang":
                time.sleep(HANG_S)
            elif deed == "ask" and friend is not None:
                self.books.ask(friend, "work", 20.0)
            elif deed == "tell" and friend is not None:
                self.books.tell(friend, "work")
        finally:
            self.leave()
        self.books.finished.append(number)
        return number

    def on_stop(self) -> None:
        self.enter()
        self.leave()


class Sync(SyncCrew, Worker):
    def __init__(self, books: Books, friends: tuple[str, ...]) -> None:
        super().__init__()
        self.begin(books, friends)


class Stock(SyncCrew, pykka.ThreadingActor):
    """An actor that was written for Pykka and knows nothing of us."""

    def __init__(self, books: Books, friends: tuple[str, ...]) -> None:
        super().__init__()
        self.begin(books, friends)


class Async(Crew, Worker):
    def __init__(self, books: Books, friends: tuple[str, ...]) -> None:
        super().__init__()
        self.begin(books, friends)

    async def on_start(self) -> None:
        self.enter()
        try:
            await asyncio.sleep(self.start_badly())
        finally:
            self.leave()

    async def on_receive(self, message: tuple[int, str]) -> int:
        number, deed = message
        self.books.begun.append(number)
        self.enter()
        try:
            self.misbehave(deed)
            friend = self.friend() if deed in {"ask", "tell"} else None
            if deed == "hang":
                await asyncio.sleep(HANG_S)
            elif deed == "ask" and friend is not None:
                await self.books.ask_async(friend, "work", 20.0)
            elif deed == "tell" and friend is not None:
                self.books.tell(friend, "work")
        finally:
            self.leave()
        self.books.finished.append(number)
        return number

    async def on_stop(self) -> None:
        self.enter()
        self.leave()


def body(books: Books) -> None:
    """A sync life of its own: it works, crashes, returns or hangs, until it is stopped."""
    dice = books.dice("body")
    while not actors.sleep(0.02):
        chance = dice.random()
        if chance < 0.05:
            raise ValueError("a body crashes")
        if chance < 0.08:
            return
        if chance < 0.1:
            time.sleep(HANG_S)


async def async_body(books: Books) -> None:
    """The same on the loop."""
    dice = books.dice("async body")
    while True:
        await asyncio.sleep(0.02)
        chance = dice.random()
        if chance < 0.05:
            raise ValueError("a body crashes")
        if chance < 0.08:
            return
