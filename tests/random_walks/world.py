"""The real side of a random walk: workers that do as they are told and note what happens to them."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from actors import Ignore, Worker
from tests.random_walks.model import Decl
from trees import Backoff, SupervisorSpec, WorkerSpec
from trees.declaration.specs import Spec


class BoomError(Exception):
    """What a worker dies of."""


class Message:
    """Each one has a type of its own, so that a dead letter, which shows the type only, tells which it was."""

    def __init__(self, deed: str) -> None:
        self.deed = deed


def message(number: int, deed: str = "note") -> Message:
    """A message whose type is called ``m<number>``."""
    return type(f"m{number}", (Message,), {})(deed)  # type: ignore[no-any-return]


class World:
    """What the workers of one tree have noted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.faults: dict[str, list[str]] = {}
        """Per path, how its next starts go."""
        self.log: list[tuple[str, str]] = []
        """Hooks that ran, in order."""
        self.alive: Counter[str] = Counter()
        """Incarnations per path that have come up and not ended."""
        self.overlaps: list[str] = []
        self.handled: Counter[str] = Counter()
        """Handlers that began, per type of message."""

    def __deepcopy__(self, _: object) -> World:
        return self

    def start(self, path: str) -> None:
        with self._lock:
            faults = self.faults.get(path)
            fault = faults.pop(0) if faults else "start"
            self.log.append((fault, path))
            if fault == "start":
                self.alive[path] += 1
                if self.alive[path] > 1:
                    self.overlaps.append(path)
        if fault == "ignore":
            raise Ignore
        if fault == "fail":
            raise BoomError(path)

    def end(self, hook: str, path: str) -> None:
        with self._lock:
            if self.alive[path]:
                self.alive[path] -= 1
                self.log.append((hook, path))

    def handle(self, worker: Worker, body: Message) -> str:
        with self._lock:
            self.handled[type(body).__name__] += 1
        if body.deed == "crash":
            raise BoomError
        if body.deed == "stop":
            worker.stop()
        return worker.actor_ref.path  # type: ignore[no-any-return, attr-defined]


class Walker(Worker):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def on_start(self) -> None:
        self.world.start(self.actor_ref.path)

    def on_receive(self, message: Any) -> Any:
        return self.world.handle(self, message)

    def on_stop(self) -> None:
        self.world.end("stop", self.actor_ref.path)

    def on_failure(self, *_: Any) -> None:
        self.world.end("failure", self.actor_ref.path)


class AsyncWalker(Walker):
    async def on_start(self) -> None:  # type: ignore[override]
        super().on_start()

    async def on_receive(self, message: Any) -> Any:
        return super().on_receive(message)

    async def on_stop(self) -> None:  # type: ignore[override]
        super().on_stop()

    async def on_failure(self, *_: Any) -> None:  # type: ignore[override]
        super().on_failure()


def spec_of(decl: Decl, world: World) -> Spec:
    """The declaration that the model's picture stands for."""
    common: dict[str, Any] = {
        "id": decl.id,
        "restart": decl.restart,
        "on_exhausted": "park" if decl.park else "escalate",
        "significant": decl.significant,
    }
    if decl.backoff is not None:
        initial_s, factor, max_s, reset_after_s = decl.backoff
        common["backoff"] = Backoff(
            initial_s=initial_s, factor=factor, max_s=max_s, reset_after_s=reset_after_s, jitter=0.0
        )
    if decl.children is None:
        kind = AsyncWalker if decl.place == "loop" else Walker
        return WorkerSpec(actor=kind, args=(world,), dispatch=decl.place, **common)
    return SupervisorSpec(
        strategy=decl.strategy,
        max_restarts=decl.max_restarts,
        period_s=decl.period_s,
        auto_shutdown=decl.auto_shutdown,
        children=[spec_of(child, world) for child in decl.children],
        **common,
    )
