"""A tree whose hooks can be held one by one, so that any two things that a supervisor does can be made to overlap.

A script is a list of steps, such as ``["hold x.on_stop", "terminate x", "crash a", "free x.on_stop", "delete x"]``.
After each step ``Stage.play`` waits until nothing moves: every worker is idle, or stands at a gate. Nothing waits for a
call; its answer is looked at later. So the order of events is that of the script, whatever the machine does.

The tree is the root ``t``, the supervisor ``s`` in it, and the workers ``a``, ``x`` and ``z`` in that. Time is by hand.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from actors import ActorsError, ActorStoppedError, ChildError, Event, Reply, Worker
from actors.concurrency.thread_state import stack_of
from actors.execution.incarnation import Incarnation
from actors.messaging.envelope import CURRENT
from actors.model.clock import monotonic
from actors.supervision.child_calls import DeleteChild, RestartChild, StartChild, TerminateChild
from actors.supervision.supervisor_incarnation import Ping, ReplaceChild
from actors.testing import ManualClock
from trees import Backoff, SupervisorSpec, Tree, WorkerSpec, start
from trees.declaration.build import build

LONG_S = 60.0
HOME = "t/s"


class BoomError(Exception):
    """What a worker dies of."""


class Gate:
    """Holds the first hook that comes to it."""

    def __init__(self) -> None:
        self.free = Reply()
        self.taken = False


class Run:
    """One incarnation that user code has seen: from its ``on_start`` to its end."""

    def __init__(self, incarnation: Incarnation) -> None:
        self.incarnation = incarnation
        self.path = incarnation.mailbox.path

    @property
    def lives(self) -> bool:
        return not self.incarnation.is_over


class World:
    """What the workers have noted, and the gates that they may have to wait at."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.gates: dict[tuple[str, str], Gate] = {}
        self.held: dict[Incarnation, Gate] = {}
        self.runs: list[Run] = []
        self.overlaps: list[str] = []
        self.open = False
        """True: nothing is held any more."""

    def __deepcopy__(self, _: object) -> World:
        return self

    def begins(self, incarnation: Incarnation) -> None:
        """An object of this path starts to run."""
        with self.lock:
            self.runs = [run for run in self.runs if run.lives]
            if any(run.path == incarnation.mailbox.path for run in self.runs):
                self.overlaps.append(incarnation.mailbox.path)
            self.runs.append(Run(incarnation))

    def gate_at(self, incarnation: Incarnation, hook: str) -> Gate | None:
        """Where this hook has to wait now."""
        id_ = incarnation.mailbox.path.rpartition("/")[2]
        with self.lock:
            gate = self.gates.get((id_, hook))
            if gate is None or gate.taken or self.open:
                return None
            gate.taken = True
            self.held[incarnation] = gate
        return gate

    def passes(self, incarnation: Incarnation) -> None:
        with self.lock:
            self.held.pop(incarnation, None)

    def stands(self, incarnation: Incarnation) -> bool:
        """True where it waits at a gate that is closed: it is as quiet as one that has nothing to do."""
        with self.lock:
            gate = self.held.get(incarnation)
        return gate is not None and not gate.free.done


def here() -> Incarnation:
    current = CURRENT.get()
    assert current is not None
    return current.incarnation


class Player(Worker):
    """Goes through the gates of its world; dies when it is told to."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def _pass(self, hook: str) -> None:
        incarnation = here()
        gate = self.world.gate_at(incarnation, hook)
        if gate is not None:
            gate.free.wait(None)
            self.world.passes(incarnation)

    def on_start(self) -> None:
        self.world.begins(here())
        self._pass("on_start")

    def on_receive(self, message: Any) -> Any:
        self._pass("on_receive")
        if message == "die":
            raise BoomError
        return message

    def on_stop(self) -> None:
        self._pass("on_stop")

    def on_failure(self, *_: Any) -> None:
        self._pass("on_failure")


class AsyncPlayer(Player):
    """The same on the loop. Deaf: it is cancelled in vain while it stands at a gate."""

    async def _pass(self, hook: str) -> None:  # type: ignore[override]
        incarnation = here()
        gate = self.world.gate_at(incarnation, hook)
        if gate is not None:
            while not gate.free.done:
                with suppress(asyncio.CancelledError):
                    await gate.free
            self.world.passes(incarnation)

    async def on_start(self) -> None:  # type: ignore[override]
        self.world.begins(here())
        await self._pass("on_start")

    async def on_receive(self, message: Any) -> Any:
        await self._pass("on_receive")
        if message == "die":
            raise BoomError
        return message

    async def on_stop(self) -> None:  # type: ignore[override]
        await self._pass("on_stop")

    async def on_failure(self, *_: Any) -> None:  # type: ignore[override]
        await self._pass("on_failure")


class Stage:
    """One tree, and what is done to it."""

    def __init__(self, tree: Tree, clock: ManualClock, world: World, spec: Callable[[str], Any]) -> None:
        self.tree = tree
        self.clock = clock
        self.world = world
        self.spec = spec
        self.calls: list[tuple[str, Reply]] = []
        """Every call that a script has made, and what became of it."""
        self.sent: list[tuple[str, Reply]] = []
        """Every ask, and its answer."""
        self.events: list[Event] = []
        tree.subscribe(self.events.append)  # before anything of it runs
        self.log: list[str] = []

    # -- steps ---------------------------------------------------------------------------------------------

    def play(self, steps: Iterator[str] | list[str], check: Callable[[Stage], None]) -> None:
        """Do one step after the other, and have all looked at whenever nothing moves."""
        for step in steps:
            self.log.append(step)
            verb, _, what = step.partition(" ")
            getattr(self, f"do_{verb}")(what)
            self.settle()
            check(self)

    def do_hold(self, what: str) -> None:
        """The next hook of this name waits."""
        id_, _, hook = what.partition(".")
        self.world.gates.setdefault((id_, hook), Gate())

    def do_free(self, what: str) -> None:
        """It goes on."""
        id_, _, hook = what.partition(".")
        gate = self.world.gates.pop((id_, hook), None)
        if gate is not None:
            gate.free.complete()

    def do_free_all(self, _: str = "") -> None:
        """Nothing is held any more."""
        self.world.open = True
        for key in list(self.world.gates):
            self.do_free(".".join(key))

    def do_crash(self, id_: str) -> None:
        self._send(id_, "die")

    def do_note(self, id_: str) -> None:
        self._send(id_, "note")

    def do_refstop(self, id_: str) -> None:
        path = path_of(id_)
        box = self.tree._system.boxes.get(path)
        if box is not None:
            self.tree.ref(path).stop(block=False)

    def do_add(self, id_: str) -> None:
        self._call(f"add {id_}", StartChild(build(self.spec(id_))))

    def do_terminate(self, id_: str) -> None:
        self._call(f"terminate {id_}", TerminateChild(id_))

    def do_restart(self, id_: str) -> None:
        self._call(f"restart {id_}", RestartChild(id_))

    def do_delete(self, id_: str) -> None:
        self._call(f"delete {id_}", DeleteChild(id_))

    def do_replace(self, id_: str) -> None:
        self._replace(id_, 1000)

    def do_park(self, id_: str) -> None:
        self._replace(id_, 0)

    def do_wait(self, seconds: str) -> None:
        self.clock.advance(float(seconds))

    def do_stop(self, _: str) -> None:
        self._order("stop")

    def do_kill(self, _: str) -> None:
        self._order("kill")

    def _order(self, what: str) -> None:
        """To the root, at once: ``Tree.stop`` does it on a thread of its own."""
        incarnation = self.tree._system.root.incarnation
        if incarnation is not None:
            getattr(incarnation, what)()

    def _replace(self, id_: str, max_abandoned: int) -> None:
        child = self.tree._system.children.get(path_of(id_))
        if child is not None and child.incarnation is not None:
            box: Any = self.tree._system.boxes[HOME]
            box.post(ReplaceChild(child.incarnation, max_abandoned))

    def _send(self, id_: str, body: str) -> None:
        path = path_of(id_)
        if path in self.tree._system.boxes:
            self.sent.append((path, self.tree.ref(path).ask(body, timeout=None, block=False)))

    def _call(self, name: str, message: Any) -> None:
        """As ``Tree`` does it, but for the wait."""
        reply = Reply()
        box: Any = self.tree._system.boxes.get(path_of(name.partition(" ")[2]).rpartition("/")[0])
        if box is None or not box.post(message, reply):
            reply.fail(ActorStoppedError(HOME, "is down"))
        self.calls.append((name, reply))

    # -- waiting -------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Return when every worker is idle or held, and every supervisor has nothing to do."""
        end = monotonic() + LONG_S
        quiet, before, pause = 0, -1, threading.Event()
        while quiet < 2:
            self._ping_all()
            now = self.tree._system.activity()
            quiet = quiet + 1 if now == before and not self._moving() else 0
            before = now
            if not quiet:
                pause.wait(0.0005)
            assert monotonic() < end, f"it does not come to rest: {self._moving()} after {self.log}"

    def _ping_all(self) -> None:
        system = self.tree._system
        for supervisor in list(system.supervisors.values()):
            pong = Reply()
            if not supervisor.incarnation.is_over and supervisor.incarnation.mailbox.post(Ping(), pong):
                supervisor.incarnation.when_over().when_done(pong.complete)
                assert pong.wait(LONG_S), self._silence(supervisor, pong)

    def _silence(self, supervisor: Any, pong: Reply) -> str:
        """All that says why a supervisor does not answer: an order that is lost, a thread that hangs, or neither."""
        incarnation = supervisor.incarnation
        box, pool = incarnation.mailbox, self.tree._system.pool
        late = pong.wait(LONG_S)
        stacks = [f"{thread.name}:\n{stack_of(thread.ident or 0)}" for thread in threading.enumerate()]
        return "\n".join(
            (
                f"{supervisor.path} {'answers late' if late else 'does not answer'} after {self.log}",
                f"{incarnation} order={incarnation.order} held={incarnation.held} running_on={incarnation.running_on}",
                f"{box} attached={box.attached} idle={box.idle} runs={box.runs} roused={box.roused}",
                f"urgent={list(pool._urgent)} parked={list(pool._parked)} fresh={pool._fresh} closed={pool.closed}",
                *stacks,
            )
        )

    def _moving(self) -> list[str]:
        system = self.tree._system
        if system.is_down:
            return [] if system.ended.done else ["the end of the tree"]
        return [path for path, child in list(system.children.items()) if self._moves(child)]

    def _moves(self, child: Any) -> bool:
        incarnation = child.incarnation
        if incarnation is None:
            return False
        if incarnation.is_over:
            return True
        if child.spec.is_supervisor or self.world.stands(incarnation):
            return False
        return incarnation.mailbox.idle is not incarnation or not incarnation.mailbox.when_quiet().done

    def results(self) -> list[str]:
        """What became of the calls, all of which must have been answered: ok, a code, or the name of an error."""
        return [f"{name}: {outcome(reply)}" for name, reply in self.calls]


def outcome(reply: Reply) -> str:
    """What an answer says."""
    if not reply.done:
        return "no answer"
    try:
        reply.get(timeout=0)
    except ChildError as error:
        return error.code
    except (ActorsError, BoomError) as error:
        return type(error).__name__
    return "ok"


def path_of(id_: str) -> str:
    """The root and its supervisor by their ids, and the workers of that."""
    return {"t": "t", "s": HOME}.get(id_, f"{HOME}/{id_}")


@contextmanager
def stage(
    strategy: str = "one_for_one",
    *,
    ids: str = "axz",
    place: str = "pool",
    restart: str = "permanent",
    pool: int | None = None,
    backoff: bool = False,
    begun: bool = True,
) -> Iterator[Stage]:
    """A tree in which ``x`` has this restart type, may be a pool, and may wait before it is started again."""
    world, clock = World(), ManualClock()

    def spec(id_: str) -> Any:
        if id_ == "s":
            return SupervisorSpec(id="s", strategy=strategy, max_restarts=1000, children=[spec(each) for each in ids])
        words: dict[str, Any] = {}
        if id_ == "x":
            words = {"restart": restart, "pool": pool or 1}
        if id_ == "x" and backoff:
            words["backoff"] = Backoff(initial_s=5.0, jitter=0.0)
        actor = AsyncPlayer if place == "loop" else Player
        return WorkerSpec(id=id_, actor=actor, args=(world,), dispatch=place, shutdown="infinity", **words)

    tree = start(SupervisorSpec(id="t", max_restarts=1000), clock=clock)
    played = Stage(tree, clock, world, spec)
    if begun:
        tree.start_child("t", spec("s"))
    try:
        yield played
    finally:
        played.do_free_all()
        tree.stop(timeout=LONG_S)
