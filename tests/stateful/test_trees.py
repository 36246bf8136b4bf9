"""A real tree and the model of it do the same, and must look the same after every step.

``python -m tests.stateful.test_trees --minutes 20 [--seed N]`` does it for long. A failing example is printed as steps.
Times are on a clock that is moved by hand. A handler, or an ``on_start``, that stands still at a gate holds the tree in
the middle of what it does: so calls, messages and crashes come at that moment, and no test has to be quick.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from actors import (
    ActorsError,
    ChildError,
    ChildExited,
    ChildParked,
    ChildRestarting,
    ChildStarted,
    ChildStopAbnormal,
    DeadLetter,
    DepthError,
    Event,
    Ignore,
    InternalError,
    Reply,
    RestartLimitError,
    SupervisorGaveUp,
    TreeDownError,
    Worker,
    sleep,
    stopping,
)
from actors.testing import ManualClock, leaving_nothing_behind, settle
from tests.stateful import run
from tests.stateful.tree_model import Child, Model, Sent, Sup
from trees import Backoff, Mailbox, SupervisorSpec, Tree, WorkerSpec, start

STALL_S = 60.0
START_S = 30.0
FOR_EVER_S = 1e9
PATIENCE_S = 30.0
"""How long is waited for what must come; nothing waits that long unless it fails."""
PICK = st.integers(0, 11)


class BoomError(Exception):
    """What a worker dies of."""


class Gate:
    """Where a worker stands still until it is told how to go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.verdict: Future[str] = Future()

    def release(self, verdict: str) -> None:
        if not self.verdict.done():
            self.verdict.set_result(verdict)

    def stand_still(self) -> str:
        self.entered.set()
        return self.verdict.result()

    async def stand_still_async(self) -> str:
        self.entered.set()
        return await asyncio.shield(asyncio.wrap_future(self.verdict))


class Message:
    """Each has a type of its own, so that a dead letter, which shows only the type, tells which one it was."""

    def __init__(self, address: str, deed: str, gate: Gate | None) -> None:
        self.address, self.deed, self.gate = address, deed, gate


class World:
    """What the workers of one tree do, and note."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.faults: dict[str, list[str]] = {}
        self.hooks: list[tuple[str, str]] = []
        self.begun: defaultdict[str, list[str]] = defaultdict(list)
        self.living: dict[str, Walker] = {}
        self.wrong: list[str] = []
        self.gate = Gate()
        """Where the fault "hold" of a start stands still."""

    def __deepcopy__(self, _: object) -> World:
        return self


class Walker(Worker):
    """Does as it is told."""

    def __init__(self, world: World, *, brutal: bool) -> None:
        super().__init__()
        self.world, self.may_be_killed, self.came_up = world, brutal, False

    def on_start(self) -> None:
        if (fault := self.fault()) == "hold":
            self.may_be_killed = True
            fault = self.world.gate.stand_still()
        self.fail(fault)

    def on_receive(self, message: Message) -> str:
        deed = self.begin(message)
        if message.gate is not None:
            deed = message.gate.stand_still()
        if deed == "till it is to stop":
            assert sleep(FOR_EVER_S)
        return self.finish(deed)

    def on_stop(self) -> None:
        self.end("stop")

    def on_failure(self, *_: object) -> None:
        self.end("failure")

    @property
    def path(self) -> str:
        return str(self.actor_ref)

    def fault(self) -> str:
        with self.world.lock:
            faults = self.world.faults.get(self.path)
            self.world.hooks.append(("start", self.path))
            before = self.world.living.get(self.path)
            if before is not None and not before.may_be_killed:
                self.world.wrong.append(f"two incarnations of {self.path} at a time")
            return faults.pop(0) if faults else "up"

    def fail(self, fault: str) -> None:
        if fault == "ignore":
            raise Ignore
        if fault == "fail":
            raise BoomError
        with self.world.lock:
            self.world.living[self.path], self.came_up = self, True

    def begin(self, message: Message) -> str:
        with self.world.lock:
            self.world.begun[message.address].append(type(message).__name__)
            if self.world.living.get(self.path) is not self:
                self.world.wrong.append(f"{self.path}: not the living one handles a message")
        self.may_be_killed = self.may_be_killed or message.gate is not None
        return message.deed

    def finish(self, deed: str) -> str:
        if deed == "crash":
            raise BoomError
        if deed == "stop":
            self.stop()
        return self.path

    def end(self, hook: str) -> None:
        with self.world.lock:
            if self.world.living.get(self.path) is self:
                del self.world.living[self.path]
                self.world.hooks.append((hook, self.path))
            elif self.came_up:
                self.world.wrong.append(f"{self.path}: {hook} of one that was not up")


class AsyncWalker(Walker):
    """The same on the event loop."""

    async def on_start(self) -> None:  # type: ignore[override]
        if (fault := self.fault()) == "hold":
            self.may_be_killed = True
            fault = await self.world.gate.stand_still_async()
        self.fail(fault)

    async def on_receive(self, message: Message) -> str:  # type: ignore[override]
        deed = self.begin(message)
        if message.gate is not None:
            deed = await message.gate.stand_still_async()
        while deed == "till it is to stop" and not stopping():  # noqa: ASYNC110 - the library has no event for it
            await asyncio.sleep(0.0005)
        return self.finish(deed)

    async def on_stop(self) -> None:  # type: ignore[override]
        self.end("stop")

    async def on_failure(self, *_: object) -> None:  # type: ignore[override]
        self.end("failure")


# -- declarations ------------------------------------------------------------------------------------------

RESTARTS = st.sampled_from(["permanent", "permanent", "transient", "temporary"])
PLACES = st.sampled_from(["pool", "loop", "thread"])
FIRST_DELAYS = {"a": 1.013, "b": 1.127, "c": 1.239, "n": 0.917, "x": 1.331, "y": 1.451, "z": 1.573, "d": 1.679}
"""No two backoffs end at the same moment: what then goes on at once would be in no order."""


def one_in(number: int) -> st.SearchStrategy[bool]:
    return st.integers(1, number).map(lambda drawn: drawn == number)


@st.composite
def backoffs(draw: st.DrawFn, id_: str) -> Backoff | None:
    factor = draw(st.sampled_from([1.0, 2.0]))
    delay = Backoff(initial_s=FIRST_DELAYS[id_], factor=factor, max_s=5.0, reset_after_s=7.0, jitter=0.0)
    return delay if draw(one_in(3)) else None


@st.composite
def workers(draw: st.DrawFn, world: World, id_: str, auto_shutdown: str = "never") -> WorkerSpec:
    place, brutal, pool = draw(PLACES), draw(one_in(4)), draw(one_in(4))
    restart = draw(RESTARTS if auto_shutdown == "never" else st.sampled_from(["permanent", "transient", "transient"]))
    return WorkerSpec(
        id=id_,
        actor=AsyncWalker if place == "loop" else Walker,
        args=(world,),
        kwargs={"brutal": brutal},
        dispatch=place,
        restart=restart,
        shutdown="brutal_kill" if brutal else 5.0,
        pool=2 if pool else 1,
        backoff=None if pool else draw(backoffs(id_)),
        on_exhausted="park" if draw(one_in(4)) else "escalate",
        significant=auto_shutdown != "never" and restart != "permanent" and not draw(one_in(3)),
        mailbox=draw(st.sampled_from([Mailbox(), Mailbox(2, "reject"), Mailbox(2, "drop_oldest")])),
        start_timeout_s=START_S,
        stall_s=STALL_S,
    )


@st.composite
def supervisors(draw: st.DrawFn, world: World, id_: str, ids: str, max_restarts: int, nested: str = "") -> Any:
    auto_shutdown = draw(st.sampled_from(["never", "never", "never", "any_significant", "all_significant"]))
    children: list[WorkerSpec | SupervisorSpec] = [draw(workers(world, each, auto_shutdown)) for each in ids]
    own: dict[str, Any] = {"restart": draw(RESTARTS), "backoff": draw(backoffs(id_))} if id_ in FIRST_DELAYS else {}
    if nested:
        children.insert(draw(st.integers(0, len(children))), draw(supervisors(world, "n", nested, 4)))
    return SupervisorSpec(
        id=id_,
        children=children,
        strategy=draw(st.sampled_from(["one_for_one", "one_for_all", "rest_for_one"])),
        max_restarts=draw(st.integers(0, max_restarts)),
        period_s=draw(st.sampled_from([3.0, 10.0])),
        auto_shutdown=auto_shutdown,
        on_exhausted="park" if own and draw(one_in(4)) else "escalate",
        **own,
    )


# -- the machine -------------------------------------------------------------------------------------------


def while_it_runs(*rules: Any, **values: st.SearchStrategy[Any]) -> Callable[[Any], Any]:
    """A step of a tree that has not ended."""
    return lambda step: precondition(lambda self: not self.model.down)(rule(*rules, **values)(step))


class TreeMachine(RuleBasedStateMachine):
    """One tree, one model."""

    tree: Tree | None = None
    differs = True
    """False while the tree was seen to be as the model."""

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.around = ExitStack()
        self.around.enter_context(leaving_nothing_behind())
        self.world, self.clock = World(), ManualClock()
        self.number = self.dead = 0
        self.open: list[tuple[Sent, Reply | None]] = []
        """Messages not yet accounted for."""
        self.begun = Counter[str]()
        self.unsure = set[str]()
        """Messages that an incarnation may have handled, or left when it was stopped as soon as it was up."""
        self.gates: list[Gate] = []
        self.told: list[Event] = []
        self.news = threading.Condition()
        root = data.draw(supervisors(self.world, "r", "abc", 6, "xyz"))
        for spec in root.children:
            note(f"  {spec!r}")
            for inner in getattr(spec, "children", ()):
                note(f"    {inner!r}")
        self.model = Model(root, self.clock.now())
        self.model.events.clear()
        self.tree = start(root, clock=self.clock)
        self.tree.subscribe(self._hear)
        self.some_ref = self.tree.ref("r/a")
        self._compare()

    def teardown(self) -> None:
        tree, self.tree = self.tree, None
        if tree is None:
            return
        for gate in self.gates:
            gate.release("fail")
        if self.differs:
            tree.stop(timeout=0.0)
            return
        self.tree = tree
        if self.model.root_gave_up:
            with pytest.raises(RestartLimitError):
                tree.wait(PATIENCE_S)
        elif not self.model.down:
            self.model.stop()
            assert tree.stop(timeout=PATIENCE_S)
            self._compare()
        assert self.world.living == {path: each for path, each in self.world.living.items() if each.may_be_killed}
        assert tree.stop()
        self.around.close()

    # -- rules: what workers do ----------------------------------------------------------------------------

    @while_it_runs(
        pick=PICK,
        asked=st.booleans(),
        deeds=st.lists(st.sampled_from(["crash", "crash", "stop"]), min_size=1, max_size=4),
    )
    def crash_or_end_itself(self, pick: int, asked: bool, deeds: list[str]) -> None:
        """One after the other, as long as it comes up again."""
        sup, child = self._running(pick)
        for deed in deeds:
            self._have_it(sup, child, deed, asked=asked)

    @while_it_runs(pick=PICK)
    def end_all_that_is_significant(self, pick: int) -> None:
        """One crashes, and may come back later; the others end."""
        sups = [sup for sup in self.model.supervisors() if sup.spec.auto_shutdown != "never"]
        if sups:
            sup = sups[pick % len(sups)]
            for number, child in enumerate([child for child in sup.children if child.spec.significant]):
                self._have_it(sup, child, "stop" if number else "crash", asked=False)

    def _have_it(self, sup: Sup, child: Child | None, deed: str, *, asked: bool) -> None:
        """A worker, if it runs, crashes or ends itself."""
        if child is not None and child.state == "running" and (sup, child) in self.model.listed():
            sent, _ = self._post(child.path, deed, asked=asked)
            self.model.hold(child, sent)
            self._verdict(sup, child, deed)
            self._compare()

    @while_it_runs(
        pick=PICK,
        queue=st.lists(st.booleans(), max_size=4),
        to_pool=st.booleans(),
        meanwhile=st.sampled_from(["", "", "crash", "crash", "terminate_child"]),
        other=PICK,
        verdict=st.sampled_from(["up", "crash", "crash", "stop", "hang", "terminate_child", "stop_by_ref"]),
    )
    def hold_a_handler(
        self, pick: int, queue: list[bool], to_pool: bool, meanwhile: str, other: int, verdict: str
    ) -> None:
        """It stands still in a message; others wait behind that, and a sibling may crash; then it goes on, or not."""
        sup, child = self._running(pick)
        if child is None:
            return
        gate = Gate()
        self.gates.append(gate)
        sent, _ = self._post(child.path, "note", asked=other % 2 == 0, gate=gate)
        assert gate.entered.wait(PATIENCE_S), "the handler was not entered"
        self.model.hold(child, sent)
        for asked in queue:
            self._send(child.path, asked=asked)
        if to_pool and not meanwhile:
            self._send(child.pool or child.path, asked=False)
        self._meanwhile(child, meanwhile, other)
        if child.held is not None:
            self._go_on(sup, child, gate, verdict)
        elif not child.brutal:
            gate.release("till it is to stop")
        if sent.error in {"StalledError", "ActorStoppedError"}:  # what comes back in time is not given up
            self._until(lambda: any(type(each) is ChildExited and each.path == child.path for each in self.told))
        gate.release("up")
        self._compare()

    def _go_on(self, sup: Sup, child: Child, gate: Gate, verdict: str) -> None:
        """What becomes of a handler that stands still."""
        if verdict == "hang":
            self._hang(sup, child)
        elif verdict == "terminate_child" and not child.brutal:
            call = self._aside(lambda tree: tree.terminate_child(child.path))
            gate.release("till it is to stop")
            assert call.result(PATIENCE_S) == self.model.terminate_child(sup, [child])
        elif verdict == "terminate_child":
            self._same(lambda tree: tree.terminate_child(child.path), self.model.terminate_child(sup, [child]))
        elif verdict == "stop_by_ref":
            self._tree.ref(child.path).stop(block=False)
            gate.release("up")
            child.held = None
            self.model.end(sup, child, "shutdown")
        else:
            gate.release(verdict)
            self._verdict(sup, child, verdict)

    def _meanwhile(self, child: Child, what: str, pick: int) -> None:
        sup, other = self._pick([each for each in self.model.workers() if each[1].state == "running"], pick)
        if other is child or other is None or not what:
            return
        if what == "terminate_child":
            self._same(lambda tree: tree.terminate_child(other.path), self.model.terminate_child(sup, [other]))
        else:
            sent, _ = self._post(other.path, "crash", asked=False)
            self.model.hold(other, sent)
            self.model.crash(sup, other)
        if child.held is not None:
            self._until(self._is_shown)

    def _hang(self, sup: Sup, child: Child) -> None:
        """Let it stand still for too long, if nothing else is due until then."""
        due = self.model.next_due()
        if due is None or due > self.clock.now() + STALL_S + 1:
            self.clock.advance(STALL_S + 1)
            self.model.time_is(self.clock.now())
            self.model.crash(sup, child, hook="", error="StalledError")
        else:
            self._verdict(sup, child, "up")

    def _verdict(self, sup: Sup, child: Child, verdict: str) -> None:
        if verdict == "crash":
            self.model.crash(sup, child)
            return
        child.held = None
        if verdict == "stop":
            self.model.end(sup, child, "normal")

    @while_it_runs(
        pick=PICK,
        calls=st.lists(st.sampled_from(["start", "again", "restart", "delete", "other", "tell", "ask"]), max_size=4),
        result=st.sampled_from(["up", "up", "fail", "timeout", "terminate_child"]),
        other=PICK,
    )
    def hold_a_restart(self, pick: int, calls: list[str], result: str, other: int) -> None:
        """A restart stands still in an on_start. Its supervisor does what it is asked meanwhile."""
        sup, child = self._pick([each for each in self.model.workers() if self._restarts_at_once(*each)], pick)
        if child is None:
            return
        gate = self.world.gate = Gate()
        self.gates.append(gate)
        self._set_faults(child.path, ["hold"])
        sent, _ = self._post(child.path, "crash", asked=False)
        assert gate.entered.wait(PATIENCE_S), "the restart has not begun"
        self.model.hold(child, sent)
        self.model.crash(sup, child)
        self._until(self._is_shown)
        for call in calls:
            self._call_meanwhile(call, sup, child, other)
            self._until(self._is_shown)
        if result == "timeout" and self.model.next_due() is not None:
            result = "up"
        is_last = any(each.pending == [child] for each in sup.tries)  # others would go on while it ends
        if result == "terminate_child" and child.brutal and is_last:
            self._same(lambda tree: tree.terminate_child(child.path), self.model.terminate_child(sup, [child]))
        elif result == "timeout":
            self.clock.advance(START_S + 1)
            self.model.now = self.clock.now()
            self.model.release(sup, result)
        else:
            result = "up" if result == "terminate_child" else result
            gate.release(result)
            self.model.release(sup, result)
        self._compare()
        gate.release("fail")

    def _call_meanwhile(self, call: str, sup: Sup, child: Child, other: int) -> None:
        model, path = self.model, child.pool or child.path
        if call == "start":
            spec = WorkerSpec(id="d", actor=Walker, args=(self.world,), kwargs={"brutal": False}, stall_s=STALL_S)
            self._same(lambda tree: tree.start_child(sup.path, spec), model.start_child(sup, spec))
        elif call == "again":
            expected = model.start_child(sup, child.spec)
            self._same(lambda tree: tree.start_child(sup.path, child.spec), expected)
        elif call == "restart":
            self._same(lambda tree: tree.restart_child(child.path), model.restart_child(sup, [child]))
        elif call == "delete":
            self._same(lambda tree: tree.delete_child(child.path), model.delete_child(sup, [child]))
        elif call == "other":
            siblings = [each for each in sup.children if each is not child]
            if siblings:
                sibling = siblings[other % len(siblings)]
                expected = model.terminate_child(sup, [sibling])
                self._same(lambda tree: tree.terminate_child(sibling.path), expected)
        elif all(each.state != "running" for each in model.takers(path)):
            self._send(path, asked=call == "ask")

    def _restarts_at_once(self, sup: Sup, child: Child) -> bool:
        """True where its crash leads to a start of it that comes first to its turn, with nothing in between."""
        window = child.window if child.spec.on_exhausted == "park" else sup.window
        return (
            child.state == "running"
            and child.spec.restart != "temporary"
            and child.spec.backoff is None
            and self.model.count(window, sup) < sup.spec.max_restarts
            and not sup.tries
            and not any(faults and path.startswith(f"{sup.path}/") for path, faults in self.model.faults.items())
        )

    # -- rules: what others do -----------------------------------------------------------------------------

    @while_it_runs(pick=PICK)
    def stop_by_ref(self, pick: int) -> None:
        sup, child = self._pick([each for each in self.model.listed() if each[1].state != "restarting"], pick)
        if child is not None:
            was_running = child.state == "running"
            assert self._tree.ref(child.path).stop(timeout=PATIENCE_S) is was_running
            if was_running:
                self.model.end(sup, child, "shutdown")
            self._compare()

    @while_it_runs(
        pick=PICK, faults=st.lists(st.sampled_from(["fail", "fail", "fail", "ignore"]), min_size=1, max_size=3)
    )
    def make_starts_fail(self, pick: int, faults: list[str]) -> None:
        _, child = self._pick(self.model.workers(), pick)
        if child is not None:
            self._set_faults(child.path, ["fail" if child.spec.significant else each for each in faults])

    @while_it_runs(seconds=st.sampled_from([1.0, 1.0, 3.0, 10.0, 20.0]))
    def advance(self, seconds: float) -> None:
        target = self.clock.now() + seconds
        while (due := self.model.next_due()) is not None and due <= target:
            self._advance_to(due)
        self._advance_to(target)

    @while_it_runs(data=st.data(), pick=PICK, fault=st.sampled_from(["", "", "fail", "ignore"]), is_team=one_in(4))
    def start_child(self, data: st.DataObject, pick: int, fault: str, is_team: bool) -> None:
        sups = self.model.supervisors()
        sup = sups[pick % len(sups)]
        make = supervisors(self.world, "d", "xy", 3) if is_team else workers(self.world, "d")
        spec = data.draw(make)
        if is_team and sup is not self.model.root:
            with pytest.raises(DepthError):
                self._tree.start_child(sup.path, spec)
            return
        if fault and self.model.named(f"{sup.path}/d") is None:
            self._set_faults(f"{sup.path}/d/y" if is_team else f"{sup.path}/d", [fault])
        self._same(lambda tree: tree.start_child(sup.path, spec), self.model.start_child(sup, spec))
        self._compare()

    @while_it_runs(pick=PICK, call=st.sampled_from(["terminate_child", "restart_child", "delete_child", "start_child"]))
    def call_about_a_child(self, pick: int, call: str) -> None:
        """A pool is called by its own name, or one of its members is."""
        among = self.model.listed()
        if call == "restart_child":
            among = [each for each in among if each[1].state in {"stopped", "parked"}] or among
        sup, child = self._pick(among, pick)
        if child is None:
            return
        path = child.pool if child.pool is not None and pick % 2 else child.path
        if call == "start_child":
            expected = self.model.start_child(sup, child.spec)
            self._same(lambda tree: tree.start_child(sup.path, child.spec), expected)
        else:
            found = [each for each in sup.children if path in {each.path, each.pool}]
            self._same(lambda tree: getattr(tree, call)(path), getattr(self.model, call)(sup, found))
        self._compare()

    @while_it_runs()
    def call_about_nobody(self) -> None:
        for call in ("terminate_child", "restart_child", "delete_child"):
            self._same(lambda tree, call=call: getattr(tree, call)("r/nobody"), "not_found")

    @while_it_runs(pick=PICK, to_pool=st.booleans(), asked=st.booleans(), times=st.integers(1, 3))
    def send(self, pick: int, to_pool: bool, asked: bool, times: int) -> None:
        _, child = self._pick(self.model.workers(), pick)
        if child is not None:
            address = child.pool if child.pool is not None and to_pool else child.path
            for _ in range(times):
                self._send(address, asked=asked)
                if any(each.state == "running" for each in self.model.takers(address)):
                    break  # how many wait, and so whether a bounded mailbox is full, is a matter of timing
            self._compare()

    @while_it_runs(pick=PICK)
    def ask_and_lose_patience(self, pick: int) -> None:
        """One that is to be restarted does not answer in time; it never handles that."""
        waiting = [each for each in self.model.workers() if each[1].state == "restarting"]
        _, child = self._pick(waiting, pick)
        if child is not None and not any(sent.exposed for sent in self.model.boxes[child.path]):
            sent, message = self._message(child.path, "note", asked=False)
            self.model.send(sent)
            expected = sent.error or "ReplyTimeoutError"
            sent.outcome = "late"
            self.open.append((sent, None))
            assert self._outcome(lambda tree: tree.ref(child.path).ask(message, timeout=0.002)) == expected
            self._compare()

    @precondition(lambda self: self.model.down)
    @rule()
    def use_a_tree_that_is_down(self) -> None:
        with pytest.raises(TreeDownError):
            self._tree.start_child("r", self.model.root.spec.children[0])
        with pytest.raises(TreeDownError):
            self.some_ref.ask("anything")
        before = sum(self._tree.snapshot().dead_letters.values())
        self.some_ref.tell("anything")
        settle(self._tree)
        assert sum(self._tree.snapshot().dead_letters.values()) == before + 1

    # -- doing ---------------------------------------------------------------------------------------------

    @property
    def _tree(self) -> Tree:
        assert self.tree is not None
        return self.tree

    @staticmethod
    def _pick(among: list[tuple[Sup, Child]], pick: int) -> tuple[Any, Any]:
        return among[pick % len(among)] if among else (None, None)

    def _running(self, pick: int) -> tuple[Any, Any]:
        return self._pick([each for each in self.model.workers() if each[1].state == "running"], pick)

    def _set_faults(self, path: str, faults: list[str]) -> None:
        self.model.faults[path], self.world.faults[path] = list(faults), list(faults)

    def _message(self, address: str, deed: str, *, asked: bool, gate: Gate | None = None) -> tuple[Sent, Message]:
        self.differs = True
        self.number += 1
        kind = type(f"m{self.number}", (Message,), {})
        return Sent(self.number, address, asked), kind(address, deed, gate)

    def _post(self, address: str, deed: str, *, asked: bool, gate: Gate | None = None) -> tuple[Sent, Reply | None]:
        sent, message = self._message(address, deed, asked=asked, gate=gate)
        ref, reply = self._tree.ref(address), None
        if asked:
            reply = ref.ask(message, timeout=None, block=False)
        else:
            ref.tell(message)
        self.open.append((sent, reply))
        return self.open[-1]

    def _send(self, address: str, *, asked: bool) -> None:
        if any(sent.exposed for sent in self.model.boxes[address]):
            return  # how much room a bounded mailbox has is a matter of timing
        sent, _ = self._post(address, "note", asked=asked)
        self.model.send(sent)
        if sent.outcome == "handled":  # by one that is free: it may not have come to it when the next step ends it
            self._until(lambda: f"m{sent.number}" in self.world.begun[address])

    def _outcome(self, call: Callable[[Tree], Any]) -> str:
        self.differs = True
        try:
            call(self._tree)
        except ChildError as refused:
            return refused.code
        except ActorsError as error:
            return type(error).__name__
        return "ok"

    def _same(self, call: Callable[[Tree], Any], expected: str) -> None:
        """The call has the outcome that the model says."""
        outcome = self._outcome(call)
        if expected != outcome and self.model.down and outcome == "TreeDownError":
            return  # the tree may be quicker than the call
        same("outcome of the call", outcome, expected)

    def _aside(self, call: Callable[[Tree], Any]) -> Future[str]:
        done: Future[str] = Future()
        threading.Thread(target=lambda: done.set_result(self._outcome(call)), daemon=True).start()
        return done

    def _advance_to(self, then: float) -> None:
        while self.clock.now() < then:
            self.clock.advance(max(then - self.clock.now(), 1e-6))
        self.model.time_is(self.clock.now())
        self._compare()

    # -- waiting -------------------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        with self.news:
            self.told.append(event)
            self.news.notify_all()

    def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until it is so: it is looked at with each event, and now and then."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > end:
                same("children, while one stands still", self._shown(), self._expected())
                raise TimeoutError
            with self.news:
                self.news.wait(0.002)

    # -- comparing -----------------------------------------------------------------------------------------

    def _compare(self) -> None:
        tree, model, world = self._tree, self.model, self.world
        self.differs = True
        model.drain()
        settle(tree, PATIENCE_S)
        assert tree.is_alive is not model.down
        same("what the workers saw", world.wrong, [])
        same("hooks", in_order(world.hooks), in_order(model.hooks))
        same("starts that are to fail", world.faults, model.faults)
        if not model.down:
            same("children", self._shown(), self._expected())
            self._compare_figures(tree)
        same("events", self._seen(), in_order(model.events))
        self._account_for_messages()
        self.differs = False

    def _is_shown(self) -> bool:
        return self._shown() == self._expected() and len(self._seen()) == len(self.model.events)

    def _shown(self) -> list[tuple[object, ...]]:
        return [
            (info.path, info.state, info.incarnation, info.restarts, info.last_exit and str(info.last_exit.reason))
            for sup in self.model.supervisors()
            for info in self._tree.which_children(sup.path)
        ]

    def _expected(self) -> list[tuple[object, ...]]:
        return [
            (each.path, each.state, self.model.incarnations[each.path], each.restarts, each.last_exit)
            for _, each in self.model.listed()
        ]

    def _compare_figures(self, tree: Tree) -> None:
        """Restart limits, backoffs and mailboxes, as a snapshot has them."""
        model, snapshot = self.model, tree.snapshot()
        assert sum(snapshot.dead_letters.values()) == self.dead + sum(type(each) is DeadLetter for each in self.told)
        nodes = {node.path: node for node in walk([snapshot.top])}
        for sup in model.supervisors():
            same(f"restarts in {sup.path}", nodes[sup.path].limit.restarts, model.count(sup.window, sup))
            counts = tree.count_children(sup.path)
            assert counts.specs == counts.workers + counts.supervisors == len(sup.children)
            assert counts.workers == sum(child.is_worker for child in sup.children)
            assert counts.active == sum(child.state == "running" for child in sup.children)
        for sup, child in model.listed():
            paths = [each.path for each in sup.children if child.pool and each.pool == child.pool]
            node, boxes = nodes[child.pool or child.path], [model.boxes[path] for path in paths or [child.path]]
            boxes += [model.boxes[child.pool]] if child.pool else []
            if child.is_worker and not any(sent.exposed for box in boxes for sent in box):
                same(f"mailbox of {node.path}", node.mailbox, sum(len(box) for box in boxes))
            if child.pool:
                continue
            own = len(child.window) if child.state == "parked" else model.count(child.window, sup)
            own = own if child.spec.on_exhausted == "park" else None
            same(f"restarts of {child.path}", node.own_limit and node.own_limit.restarts, own)
            due = max((each.due for each in sup.tries if child in each.pending), default=0.0)
            shown = (node.doing == "backoff", round(node.retry_in_s or 0.0, 3))
            waits = due > model.now
            same(f"backoff of {child.path}", shown, (waits, round(due - model.now, 3) if waits else 0.0))

    def _seen(self) -> list[tuple[Any, ...]]:
        """The events, as the model writes them."""
        seen: list[tuple[Any, ...]] = []
        for event in list(self.told):
            assert not isinstance(event, InternalError | ChildStopAbnormal), event
            if isinstance(event, ChildStarted):
                seen.append(("started", event.path, event.incarnation))
            elif isinstance(event, ChildExited):
                seen.append(("exited", event.path, str(event.reason), event.started, event.lost))
            elif isinstance(event, ChildRestarting):
                seen.append(("restarting", event.path, event.attempt, event.delay_s, event.restarts))
            elif isinstance(event, ChildParked):
                seen.append(("parked", event.path))
            elif isinstance(event, SupervisorGaveUp):
                seen.append(("gave_up", event.path))
        return in_order(seen)

    def _account_for_messages(self) -> None:
        """Each was handled once, or lost in a handler, or refused and that was said; or it waits for a restart."""
        model, world = self.model, self.world
        dead = Counter(event.message_type for event in self.told if isinstance(event, DeadLetter))
        self.begun.update(itertools.chain(*world.begun.values()))
        self.unsure |= {f"m{sent.number}" for sent, _ in self.open if sent.exposed and sent.outcome != "handled"}
        for address in {*world.begun, *model.begun}:
            seen = [name for name in world.begun[address] if name not in self.unsure]
            expected = [name for sent in model.begun[address] if (name := f"m{sent.number}") not in self.unsure]
            is_pool = any(child.pool == address for child in model.takers(address))
            same(f"begun at {address}", sorted(seen) if is_pool else seen, sorted(expected) if is_pool else expected)
        for sent, reply in self.open:
            note(f"  {sent}")
            name, outcome = f"m{sent.number}", sent.outcome
            refused = dead[name] if reply is None else int(outcome in {"refused", "full"})
            if outcome == "either":
                assert self.begun[name] + refused == 1 or reply is not None, sent
            elif outcome == "late":
                assert self.begun[name] == 0, sent
            else:
                assert refused == (outcome in {"refused", "full"}), sent
            if reply is not None:
                self._look_at_reply(sent, reply)
        self.open = [each for each in self.open if each[0].outcome == "waits"]
        self.dead += sum(dead.values())
        self.told.clear()
        for used in (world.begun, model.begun, world.hooks, model.hooks, model.events):
            used.clear()

    @staticmethod
    def _look_at_reply(sent: Sent, reply: Reply) -> None:
        if sent.outcome == "waits":
            assert sent.exposed or not reply.done, sent
            return
        answer, names = "", set[str]()
        try:
            answer = reply.get(timeout=PATIENCE_S)
        except (ActorsError, BoomError) as error:
            names = {kind.__name__ for kind in type(error).__mro__}
        if sent.outcome == "handled" or (sent.outcome == "either" and answer):
            assert answer.startswith(sent.address), (sent, names)
        else:
            assert sent.error in names, (sent, answer, names)


def same(what: str, shown: object, expected: object) -> None:
    assert shown == expected, f"{what}\n   is {shown}\n  not {expected}"


def walk(nodes: Iterable[Any]) -> Iterable[Any]:
    for node in nodes:
        yield node
        yield from walk(getattr(node, "children", ()))


def in_order(entries: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What the members of a pool do at one time is in no order."""
    groups = itertools.groupby(entries, lambda entry: (entry[0], entry[1].partition("#")[0]))
    return [entry for _, group in groups for entry in sorted(group)]


TestTrees = pytest.mark.timeout(600)(pytest.mark.usefixtures("quiet_log")(TreeMachine.TestCase))  # if it fails
TestTrees.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
)

if __name__ == "__main__":
    run.main(TreeMachine)
