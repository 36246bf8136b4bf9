"""The workers, of every kind: each does what a message says, and its traits say how it starts and stops.

What they do is the same for all: ``Acting`` holds it for one incarnation. Bodies take no messages; they take orders
from ``Ground.orders``.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pykka

import actors
from actors import ActorsError, Failed, Ignore, Worker
from actors.messaging.envelope import CURRENT
from tests.faults.chaos.ledger import Ledger, Note, Sender

HANG_S = 0.15
"""Longer than most stops may take, so that who hangs is killed when it is stopped."""
LONG_S = 60.0
"""The timeout of an ask that must be answered: the audit notices long before when it is not."""
FRIEND_S = 1.0
"""The timeout of a worker's own asks: one whose stop has no limit may wait for one that was stopped before it."""
DEEDS = (
    *("work",) * 60,
    *("ask",) * 8,
    *("tell",) * 6,
    *("crash",) * 6,
    *("stop",) * 2,
    *("nap", "fail", "exit", "interrupt", "hang", "self", "meddle", "deaf"),
)
"""What a message may say."""


class BoomError(Exception):
    """What a worker dies of."""


@dataclass(frozen=True)
class Traits:
    """How one child behaves when it starts and stops."""

    start_s: float = 0.0
    stop_s: float = 0.0
    fails: float = 0.0
    """How often a start raises."""
    hangs: float = 0.0
    """How often a start takes longer than it may."""
    ignores: float = 0.0
    stop_fails: float = 0.0


@dataclass
class Ground:
    """What all workers of a round share."""

    seed: str
    ledger: Ledger = field(default_factory=Ledger)
    armed: bool = False
    """False while the tree starts and while it is audited: then every start succeeds."""
    paths: list[str] = field(default_factory=list)
    """All workers of the shape; one asks and tells only those further on, so that no two wait for each other."""
    orders: dict[str, deque[str]] = field(default_factory=dict)
    """For bodies."""
    obeying: dict[str, Any] = field(default_factory=dict)
    """Bodies that have taken an order: the tree is not at rest until they have carried it out, or have ended of it and
    their supervisor has heard of that."""
    lock: Any = field(default_factory=threading.Lock)
    """Guards ``armed``, ``orders`` and ``obeying`` where they must agree."""
    tree: Any = None
    acting: dict[int, Acting] = field(default_factory=dict)

    def __deepcopy__(self, _: object) -> Ground:
        return self

    def act(self) -> Acting:
        """What the incarnation that runs here does."""
        incarnation = life_here()
        found = self.acting.get(id(incarnation))
        if found is None or found.incarnation is not incarnation:
            found = self.acting[id(incarnation)] = Acting(self, incarnation)
        return found

    def arm(self, *, armed: bool) -> None:
        """From now on starts may fail and bodies may take orders; or not."""
        with self.lock:
            self.armed = armed
            self.orders.clear()

    def take_order(self, path: str, incarnation: Any) -> str:
        """The next order for a body; none while the tree is audited."""
        with self.lock:
            orders = self.orders.setdefault(path, deque())
            if not self.armed or not orders:
                return ""
            self.obeying[path] = incarnation
            return orders.popleft()

    def give_order(self, path: str, order: str) -> None:
        """For the body at this path, if there is one."""
        with self.lock:
            if path in self.orders:
                self.orders[path].append(order)

    def dice(self, whose: str) -> random.Random:
        """Dice of one's own."""
        return random.Random(f"{self.seed} {whose}")  # noqa: S311 - for faults, not for secrets


def life_here() -> Any:
    """The incarnation whose code this is."""
    current = CURRENT.get()
    assert current is not None
    return current.incarnation


class Acting:
    """One incarnation: its dice, its place among the others, and its name as a sender."""

    def __init__(self, ground: Ground, incarnation: Any) -> None:
        self.ground = ground
        self.ledger = ground.ledger
        self.incarnation = incarnation
        self.path = incarnation.mailbox.path
        number = next(ground.ledger.numbers)
        self.sender = Sender(f"{self.path} ({number})")
        self.dice = ground.dice(f"{self.path} {number}")

    def __enter__(self) -> None:
        self.ledger.enter(self.incarnation)

    def __exit__(self, *_: object) -> None:
        self.ledger.leave(self.incarnation)

    def start_s(self, traits: Traits) -> float:
        """How long its start takes; or it raises."""
        if not self.ground.armed:
            return 0.0
        chance = self.dice.random()
        if chance < traits.fails:
            raise BoomError(self.path)
        if chance < traits.fails + traits.ignores:
            raise Ignore
        return HANG_S if chance > 1 - traits.hangs else traits.start_s

    def stop_s(self, traits: Traits) -> float:
        """How long its last hook takes; or it raises."""
        if self.ground.armed and self.dice.random() < traits.stop_fails:
            raise BoomError(self.path)
        return traits.stop_s

    def friend(self) -> Any:
        """Some worker further on; None while nobody of that path is listed."""
        paths, own = self.ground.paths, self.path.partition("#")[0]
        after = paths[paths.index(own) + 1 :] if own in paths else ()
        try:
            return actors.ref(self.dice.choice(after)) if after else None
        except ActorsError:
            return None

    def misbehave(self, deed: str) -> None:
        """The deeds that are the same everywhere."""
        if deed == "crash":
            raise BoomError(self.path)
        if deed == "fail":
            raise Failed("not today")
        if deed == "exit":
            raise SystemExit(3)
        if deed == "interrupt":
            raise self.dice.choice([KeyboardInterrupt, GeneratorExit, asyncio.CancelledError])
        if deed == "stop":
            actors.ref(self.path).stop(block=False)
        elif deed == "self":
            self.ledger.tell(self.sender, actors.ref(self.path), "work")

    def receive(self, note: Note) -> int:
        """Handle a message on a thread."""
        self.ledger.begin(self.incarnation, note)
        with self:
            self.misbehave(note.deed)
            if note.deed in {"hang", "deaf"}:
                time.sleep(HANG_S)
            elif note.deed == "nap":
                time.sleep(self.dice.random() * 0.01)
            elif note.deed == "meddle":
                self._meddle()
            elif note.deed in {"ask", "tell"}:
                friend = self.friend()
                if friend is not None and note.deed == "ask":
                    self.ledger.ask(self.sender, friend, "work", FRIEND_S)
                elif friend is not None:
                    self.ledger.tell(self.sender, friend, "work")
        return note.number

    def _meddle(self) -> None:
        """A worker may stop another one, and waits for that."""
        friend = self.friend()
        if friend is not None:
            self.ground.tree.terminate_child(friend.path)

    async def receive_async(self, note: Note) -> int:
        """Handle a message on the loop."""
        self.ledger.begin(self.incarnation, note)
        with self:
            self.misbehave(note.deed)
            if note.deed == "hang":
                await asyncio.sleep(HANG_S)
            elif note.deed == "deaf":
                await deaf(HANG_S)
            elif note.deed == "nap":
                await asyncio.sleep(self.dice.random() * 0.01)
            elif note.deed in {"ask", "tell"}:
                friend = self.friend()
                if friend is not None and note.deed == "ask":
                    await self.ledger.ask_async(self.sender, friend, "work", FRIEND_S)
                elif friend is not None:
                    await self.ledger.tell_async(self.sender, friend, "work")
        return note.number


async def deaf(seconds: float) -> None:
    """Sleep, and pay no attention to being cancelled."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            continue


class SyncCrew:
    """Sync hooks, for our own workers and for stock actors."""

    acting: Acting
    traits: Traits

    def on_start(self) -> None:
        with self.acting:
            time.sleep(self.acting.start_s(self.traits))

    def on_receive(self, message: Note) -> int:
        return self.acting.receive(message)

    def on_stop(self) -> None:
        with self.acting:
            time.sleep(self.acting.stop_s(self.traits))

    def on_failure(self, *_: Any) -> None:
        with self.acting:
            time.sleep(self.acting.stop_s(self.traits))


class Sync(SyncCrew, Worker):
    def __init__(self, ground: Ground, traits: Traits) -> None:
        super().__init__()
        self.acting, self.traits = ground.act(), traits


class Stock(SyncCrew, pykka.ThreadingActor):
    """An actor that was written for Pykka and knows nothing of us."""

    def __init__(self, ground: Ground, traits: Traits) -> None:
        super().__init__()
        self.acting, self.traits = ground.act(), traits


class Async(Worker):
    def __init__(self, ground: Ground, traits: Traits) -> None:
        super().__init__()
        self.acting, self.traits = ground.act(), traits

    async def on_start(self) -> None:
        with self.acting:
            await asyncio.sleep(self.acting.start_s(self.traits))

    async def on_receive(self, message: Note) -> int:
        return await self.acting.receive_async(message)

    async def on_stop(self) -> None:
        with self.acting:
            await asyncio.sleep(self.acting.stop_s(self.traits))

    async def on_failure(self, *_: Any) -> None:
        with self.acting:
            await asyncio.sleep(self.acting.stop_s(self.traits))


def handle(note: Note, ground: Ground, _: Traits) -> int:
    """A plain worker: building, starting and stopping it runs no code of a user's."""
    return ground.act().receive(note)


async def handle_async(note: Note, ground: Ground, _: Traits) -> int:
    """The same on the loop."""
    return await ground.act().receive_async(note)


def body(ground: Ground, traits: Traits) -> None:
    """A sync life of its own, until it is stopped or given an order."""
    acting = ground.act()
    with acting:
        time.sleep(acting.start_s(traits))
        while not actors.sleep(0.01):
            order = ground.take_order(acting.path, acting.incarnation)
            if order == "return":
                return
            acting.misbehave(order)
            time.sleep(HANG_S if order == "hang" else 0)
            ground.obeying.pop(acting.path, None)
        time.sleep(acting.stop_s(traits))


async def body_async(ground: Ground, traits: Traits) -> None:
    """The same on the loop."""
    acting = ground.act()
    with acting:
        await asyncio.sleep(acting.start_s(traits))
        while True:
            await asyncio.sleep(0.01)
            order = ground.take_order(acting.path, acting.incarnation)
            if order == "return":
                return
            acting.misbehave(order)
            if order == "hang":
                await deaf(HANG_S)
                if actors.stopping():  # it was cancelled meanwhile, and nobody cancels it again
                    return
            ground.obeying.pop(acting.path, None)
