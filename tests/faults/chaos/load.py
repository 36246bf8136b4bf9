"""What is done to a tree: senders, meddlers and watchers, each a thread that repeats its job until it is told to end.

All stop at a gate between two acts, so that the tree can come to rest and be audited. Each says what it is doing since
when, so that an act that does not end is noticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from actors import ActorsError, ChildError, Failed, ReplyTimeoutError, StartError
from tests.faults.chaos.ledger import Sender
from tests.faults.chaos.shape import Shape
from tests.faults.chaos.workers import DEEDS, LONG_S, BoomError, Ground

KINDS = ("send", "send", "send", "send_async", "meddle", "meddle", "meddle", "strike", "heal", "watch")
"""The jobs of the threads of a round."""
ANSWERS = (ActorsError, BoomError, Failed, asyncio.CancelledError)
"""What an ask of theirs may end with, besides a reply."""


class Gate:
    """Between two acts every thread comes here; while it is shut they wait, and are counted."""

    def __init__(self, threads: int) -> None:
        self._condition = threading.Condition()
        self._open = True
        self._waiting = 0
        self._threads = threads
        self.over = False

    def passes(self) -> bool:
        """Wait while it is shut; False once all is over."""
        with self._condition:
            self._waiting += 1
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._open or self.over)
            self._waiting -= 1
        return not self.over

    def left(self) -> None:
        """A thread has ended and will not come any more."""
        with self._condition:
            self._threads -= 1
            self._condition.notify_all()

    def shut(self, patience_s: float) -> bool:
        """Nobody does anything now; False where somebody did not come."""
        with self._condition:
            self._open = False
            return self._condition.wait_for(lambda: self._waiting >= self._threads, patience_s)

    def open(self) -> None:
        """Go on."""
        with self._condition:
            self._open = True
            self._condition.notify_all()

    def end(self) -> None:
        """Nobody goes on."""
        with self._condition:
            self.over = True
            self._condition.notify_all()


class Load:
    """The threads of one round."""

    def __init__(self, ground: Ground, tree: Any, shape: Shape, dice: random.Random) -> None:
        self._ground = ground
        self._ledger = ground.ledger
        self._tree = tree
        self._shape = shape
        self.gate = Gate(len(KINDS))
        self.doing: dict[str, tuple[float, str]] = {}
        """What each thread does, and since when."""
        self.calls = 0
        self.supervisors = sorted(shape.ends)
        self._hot = dice.choice(self.supervisors)
        """Where most things happen in this round."""
        self._refs: deque[Any] = deque(maxlen=40)
        """Old ones: of children that may be gone, or replaced by a namesake."""
        self.threads = [
            threading.Thread(
                target=self._repeat,
                args=(kind, random.Random(f"{ground.seed} load {n}")),  # noqa: S311 - not for secrets
                name=f"chaos-{kind}-{n}",
                daemon=True,
            )
            for n, kind in enumerate(KINDS)
        ]

    def start(self) -> None:
        """All at once."""
        for thread in self.threads:
            thread.start()

    def _repeat(self, kind: str, dice: random.Random) -> None:
        name = threading.current_thread().name
        job: Callable[[random.Random, Sender], None] = getattr(self, f"_{kind}")
        sender = Sender(name)
        try:
            while self._tree.is_alive and self.gate.passes():
                job(dice, sender)
                self.doing.pop(name, None)
        except BaseException as error:
            self._ledger.broken(f"{name} met {error!r} in {self.doing.get(name, (0, 'its job'))[1]}")
            raise
        finally:
            self.doing.pop(name, None)
            self.gate.left()

    def _does(self, what: str) -> None:
        self.doing[threading.current_thread().name] = (time.monotonic(), what)

    # -- whom ----------------------------------------------------------------------------------------------

    def _path(self, dice: random.Random) -> str:
        """Some worker: most often one under the hot supervisor."""
        paths = self._ground.paths
        if dice.random() < 0.6:
            hot = [path for path in paths if path.rpartition("/")[0] == self._hot]
            paths = hot or paths
        return dice.choice(paths)

    def _ref(self, dice: random.Random) -> Any:
        """The address of a worker, new or old; None where it is not listed."""
        if self._refs and dice.random() < 0.2:
            return dice.choice(list(self._refs))
        try:
            ref = self._tree.ref(self._path(dice))
        except ActorsError:
            return None
        if dice.random() < 0.05:
            self._refs.append(ref)
        return ref

    # -- senders -------------------------------------------------------------------------------------------

    def _send(self, dice: random.Random, sender: Sender) -> None:
        """A message or a few, told or asked."""
        ref, deed, ledger = self._ref(dice), dice.choice(DEEDS), self._ledger
        if ref is None:
            return
        self._does(f"sending to {ref.path}")
        chance = dice.random()
        if chance < 0.5:
            for _ in range(dice.randint(1, 5)):
                ledger.tell(sender, ref, deed)
                deed = "work"
        elif chance < 0.75:
            ledger.ask_later(sender, ref, deed, dice.choice((None, LONG_S)))
        else:
            patience_s = 0.005 if dice.random() < 0.1 else LONG_S
            self._does(f"asking {ref.path}")
            try:
                ledger.ask(sender, ref, deed, patience_s)
            except ReplyTimeoutError as late:
                if late.path == ref.path and late.asker is None and patience_s == LONG_S:
                    raise  # else it is what its handler's own ask ended with
            except ANSWERS:
                pass

    def _send_async(self, dice: random.Random, sender: Sender) -> None:
        """Several tasks of a loop of their own, of which some lose their patience."""
        self._does("asking on a loop")
        asyncio.run(self._ask_many(dice, sender))

    async def _ask_many(self, dice: random.Random, sender: Sender) -> None:
        async def one(number: int) -> None:
            ref = self._ref(dice)
            own = Sender(f"{sender.name} {number} {dice.random()}")
            if ref is None:
                return
            if dice.random() < 0.3:
                await self._ledger.tell_async(own, ref, dice.choice(DEEDS))
            timeout_s = 0.005 if dice.random() < 0.1 else LONG_S
            with contextlib.suppress(*ANSWERS):
                await self._ledger.ask_async(own, ref, dice.choice(DEEDS), timeout_s)

        tasks = [asyncio.ensure_future(one(number)) for number in range(8)]
        await asyncio.sleep(0)
        for task in tasks[:: dice.choice((3, 9))] if dice.random() < 0.5 else ():
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if ended is not None and not isinstance(ended, asyncio.CancelledError):
                raise ended

    # -- meddlers ------------------------------------------------------------------------------------------

    def _meddle(self, dice: random.Random, _: Sender) -> None:
        """A few child calls to one child."""
        path = self._path(dice) if dice.random() < 0.85 else dice.choice(self.supervisors[1:])
        tree = self._tree
        for act in dice.choice(_SERIES):
            if act == "add":
                self._call(f"start_child {path}", lambda: self._add(dice, path))
            else:
                self._call(f"{act} {path}", lambda act=act: getattr(tree, act)(path))

    def _add(self, dice: random.Random, path: str) -> None:
        parent, _, id_ = path.rpartition("/")
        if path in self.supervisors:
            spec: Any = self._shape.supervisor(id_)
        else:
            legal = self._shape.ends.get(parent, "never") != "never"
            spec = self._shape.worker(id_, significant=legal and dice.random() < 0.3)
        self._tree.start_child(parent, spec)

    def _call(self, what: str, call: Callable[[], Any]) -> None:
        self._does(what)
        self.calls += 1
        with contextlib.suppress(ChildError, StartError, *ANSWERS):  # refused: an answer, too
            call()

    def _strike(self, dice: random.Random, sender: Sender) -> None:
        """What ends a worker: a crash, a stop through its Ref, an order to a body."""
        path = self._path(dice)
        self._ground.give_order(path, dice.choice(("crash", "return", "hang", "stop", "exit")))
        ref = self._ref(dice)
        if ref is None:
            return
        if dice.random() < 0.3:
            block = dice.random() < 0.5
            self._call(f"stop of {ref.path}", lambda: ref.stop(block=block, timeout=LONG_S))
        else:
            self._does(f"crashing {ref.path}")
            self._ledger.tell(sender, ref, dice.choice(("crash", "crash", "stop", "exit", "hang")))
        time.sleep(dice.random() * 0.02)  # or nothing would ever be up

    def _heal(self, dice: random.Random, _: Sender) -> None:
        """Whoever is down or gone comes back: else most messages would be refused after a second."""
        for path in [path for path in self.supervisors[1:] + self._ground.paths if dice.random() < 0.5]:
            try:
                down = self._tree.child(path).state in {"stopped", "parked"}
            except ActorsError:
                self._call(f"start_child {path}", lambda path=path: self._add(dice, path))
            else:
                if down:
                    self._call(f"restart_child {path}", lambda path=path: self._tree.restart_child(path))
        time.sleep(dice.random() * 0.02)

    # -- watchers ------------------------------------------------------------------------------------------

    def _watch(self, dice: random.Random, _: Sender) -> None:
        """Look at the tree, and have each supervisor answer a child call."""
        tree = self._tree
        path = dice.choice(self.supervisors)
        self._call(f"a call that {path} must refuse", lambda: tree.delete_child(f"{path}/nobody"))
        look = dice.choice((tree.which_children, tree.count_children, tree.child, tree.snapshot, tree.dump))
        self._call(f"{look.__name__} {path}", lambda: look(path))
        time.sleep(dice.random() * 0.01)


_SERIES = (
    *(("terminate_child", "delete_child", "add"),) * 4,
    *(("terminate_child", "restart_child"),) * 2,
    ("terminate_child", "delete_child"),
    ("delete_child", "add"),
    ("restart_child",),
    ("add", "restart_child"),
    *(("add",),) * 2,
)
