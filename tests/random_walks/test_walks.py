"""Random walks: a real tree and the model of it do the same, and must look the same after every step.

``REGROW_WALKS=5000 pytest tests/random_walks`` walks for long. Under stress (tests/stress.py) what fails is a matter of
timing: there the failing walk is shown as it is, and not shortened by trying it again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from actors import (
    ActorStoppedError,
    ChildError,
    ChildExited,
    DeadLetter,
    Event,
    InternalError,
    ParkedError,
    Reply,
    RestartLimitError,
    StartError,
    SupervisorGaveUp,
    TreeDownError,
    UnknownPathError,
)
from actors.testing import ManualClock, settle
from tests.random_walks.declared import PLACES, RESTARTS, roots
from tests.random_walks.model import Child, Decl, Model, Sup
from tests.random_walks.world import BoomError, World, message, spec_of
from trees import SupervisorSpec, Tree, start

pytestmark = pytest.mark.usefixtures("quiet_log")
WALKS = int(os.environ.get("REGROW_WALKS", "40"))
STEPS = int(os.environ.get("REGROW_STEPS", "30"))

PICK = st.integers(0, 11)


class Walk(RuleBasedStateMachine):
    """One tree, one model."""

    tree: Tree | None = None
    differs = False
    """True from the begin of a step until the tree was seen to be as the model."""

    @initialize(decl=roots())
    def begin(self, decl: Decl) -> None:
        self.world = World()
        self.clock = ManualClock()
        self.events: list[Event] = []
        self.numbers = 0
        self.sent: dict[str, tuple[str, str, Reply | None]] = {}
        """Messages not yet accounted for: their path, their deed, the reply where it was an ask."""
        self.model = Model(decl, self.clock.now())
        self.model.faults = {}
        spec = spec_of(decl, self.world)
        assert isinstance(spec, SupervisorSpec)
        self.tree = start(spec, clock=self.clock)
        self.tree.subscribe(self.events.append)
        self.model.exits.clear()
        self._compare()

    def teardown(self) -> None:
        if self.tree is None:
            return
        tree, self.tree = self.tree, None
        try:
            if self.differs:
                return
            if self.model.root_gave_up:
                with pytest.raises(RestartLimitError):
                    tree.wait(60)
            elif self.model.down:
                assert tree.wait(60)
            running = Model.workers(self.model)
            up = [child.path for _, child in running if child.state == "running"]
            assert tree.stop(timeout=10.0)
            assert {path for path, alive in self.world.alive.items() if alive} == set()
            stops = [path for hook, path in self.world.log if hook == "stop"]
            assert stops == expected_stops(self.model, up)
        finally:
            tree.stop(timeout=0.0)

    # -- rules ---------------------------------------------------------------------------------------------

    @rule(pick=PICK, asked=st.booleans(), before=st.integers(0, 2), after=st.integers(0, 2), aside=PICK)
    def crash(self, pick: int, asked: bool, before: int, after: int, aside: int) -> None:
        self._burst("crash", pick, before, after, aside, asked=asked)

    @rule(pick=PICK, asked=st.booleans(), after=st.integers(0, 2), aside=PICK)
    def end_itself(self, pick: int, asked: bool, after: int, aside: int) -> None:
        self._burst("stop", pick, 0, after, aside, asked=asked)

    @rule(pick=PICK)
    def stop_by_ref(self, pick: int) -> None:
        _, child = self._pick([each for each in self.model.listed() if each[1].state != "restarting"], pick)
        if child is None or self.tree is None:
            return
        was_running = child.state == "running"
        ended = self.tree.ref(child.path).stop(timeout=10.0)

        assert ended is was_running
        if was_running:
            self.model.end(self._sup_of(child), child, "shutdown")
        self._compare()

    @rule(pick=PICK, faults=st.lists(st.sampled_from(["fail", "fail", "fail", "ignore"]), min_size=1, max_size=3))
    def make_starts_fail(self, pick: int, faults: list[str]) -> None:
        _, child = self._pick(self.model.workers(), pick)
        if child is not None:
            faults = ["fail" if child.decl.significant else each for each in faults]
            self.model.faults[child.path] = list(faults)
            self.world.faults[child.path] = list(faults)

    @rule(seconds=st.sampled_from([1.0, 1.0, 3.0, 10.0, 20.0]))
    def advance(self, seconds: float) -> None:
        target = self.clock.now() + seconds
        while (due := self.model.next_due()) is not None and due <= target:
            self._advance_to(due)
        self._advance_to(target)

    @rule(pick=PICK, restart=RESTARTS, place=PLACES, fault=st.sampled_from(["", "", "fail", "ignore"]))
    def start_child(self, pick: int, restart: str, place: str, fault: str) -> None:
        sups = self.model.supervisors()
        if not sups:
            return
        sup = sups[pick % len(sups)]
        decl = Decl("d", restart=restart, place=place)
        if fault and not any(child.decl.id == "d" for child in sup.children):
            self.model.faults[f"{sup.path}/d"] = [fault]
            self.world.faults[f"{sup.path}/d"] = [fault]
        self._same(
            lambda tree: tree.start_child(sup.path, spec_of(decl, self.world)), self.model.start_child(sup, decl)
        )

    @rule(pick=PICK)
    def start_child_that_is_listed(self, pick: int) -> None:
        sup, child = self._pick(self.model.listed(), pick)
        if sup is not None and child is not None:
            again = Decl(child.decl.id)
            expected = self.model.start_child(sup, again)
            self._same(lambda tree: tree.start_child(sup.path, spec_of(again, self.world)), expected)

    @rule(pick=PICK)
    def terminate_child(self, pick: int) -> None:
        self._child_call(pick, Tree.terminate_child, Model.terminate_child)

    @rule(pick=PICK)
    def restart_child(self, pick: int) -> None:
        self._child_call(pick, Tree.restart_child, Model.restart_child)

    @rule(pick=PICK)
    def delete_child(self, pick: int) -> None:
        self._child_call(pick, Tree.delete_child, Model.delete_child)

    @rule()
    def call_for_a_child_that_is_not_there(self) -> None:
        for call in (Tree.terminate_child, Tree.restart_child, Tree.delete_child):
            self._same(lambda tree, call=call: call(tree, "r/nobody"), "not_found")

    @rule(pick=PICK, asked=st.booleans())
    def send_a_note(self, pick: int, asked: bool) -> None:
        _, child = self._pick(self.model.workers(), pick)
        if child is not None:
            self._send(child.path, "note", asked=asked)
            self._compare()

    @precondition(lambda self: self.tree is not None and not self.model.down)
    @rule()
    def ask_everybody(self) -> None:
        assert self.tree is not None
        for _, child in self.model.workers():
            ref = self.tree.ref(child.path)
            if child.state == "running":
                assert ref.ask(message(0), timeout=None) == child.path
            elif child.state != "restarting":
                with pytest.raises(ActorStoppedError) as caught:
                    ref.ask(message(0), timeout=None)
                assert isinstance(caught.value, ParkedError) is (child.state == "parked")
        self._compare()

    # -- doing ---------------------------------------------------------------------------------------------

    def _pick(self, among: list[tuple[Sup, Child]], pick: int) -> tuple[Any, Any]:
        return among[pick % len(among)] if among else (None, None)

    def _sup_of(self, child: Child) -> Sup:
        return next(sup for sup, each in self.model.listed() if each is child)

    def _burst(self, deed: str, pick: int, before: int, after: int, aside: int, *, asked: bool) -> None:
        """Notes, then what ends it, then notes for the next incarnation; and one to some other worker."""
        running = [each for each in self.model.workers() if each[1].state == "running"]
        sup, child = self._pick(running, pick)
        _, other = self._pick(self.model.workers(), aside)
        if child is None:
            return
        ref = self.tree.ref(child.path) if self.tree is not None else None
        for _ in range(before):
            self._send(child.path, "note", asked=False, ref=ref)
        self._send(child.path, deed, asked=asked, ref=ref)
        for number in range(after):
            self._send(child.path, "note", asked=number == 1, ref=ref)
        if other is not child and aside < 6:
            # To one that is down and about to be started with the rest, it may come too early.
            is_open = other.state in {"running", "restarting"}
            self._send(other.path, "note" if is_open else "perhaps", asked=False)
        if deed == "crash":
            self.model.crash(sup, child)
        else:
            self.model.end(sup, child, "normal")
        self._compare()

    def _send(self, path: str, deed: str, *, asked: bool, ref: Any = None) -> None:
        assert self.tree is not None
        self.numbers += 1
        body = message(self.numbers, deed)
        try:
            ref = ref or self.tree.ref(path)
        except UnknownPathError:
            return  # the walk has just ended it, and the tree was quicker than the look-up
        reply = None
        if asked:
            reply = ref.ask(body, timeout=None, block=False)
        else:
            ref.tell(body)
        self.sent[type(body).__name__] = (path, deed, reply)

    def _child_call(self, pick: int, call: Callable[..., Any], modelled: Callable[..., str]) -> None:
        sup, child = self._pick(self.model.listed(), pick)
        if child is not None:
            self._same(lambda tree: call(tree, child.path), modelled(self.model, sup, child))

    def _same(self, call: Callable[[Tree], Any], expected: str) -> None:
        """The call has the outcome that the model says."""
        assert self.tree is not None
        if self.model.down and not self.tree.is_alive:
            with pytest.raises(TreeDownError):
                call(self.tree)
            return
        try:
            call(self.tree)
            outcome = "ok"
        except ChildError as refused:
            outcome = refused.code
        except StartError:
            outcome = "StartError"
        assert outcome == expected
        self._compare()

    def _advance_to(self, then: float) -> None:
        while self.clock.now() < then:
            self.clock.advance(max(then - self.clock.now(), 1e-6))
        self.model.time_is(self.clock.now())
        self._compare()

    # -- comparing -----------------------------------------------------------------------------------------

    def _compare(self) -> None:
        tree, model, world = self.tree, self.model, self.world
        assert tree is not None
        self.differs = True
        settle(tree)
        if model.down:
            tree._system.ended.wait(60)
        assert tree.is_alive is not model.down
        assert world.overlaps == []
        assert world.log == model.log
        assert world.faults == model.faults
        assert {path for path, count in world.alive.items() if count} == {
            child.path for _, child in model.workers() if child.state == "running"
        }
        for sup in model.supervisors():
            self._compare_children(tree, sup)
        self._compare_events()
        self._account_for_messages()
        world.log.clear()
        model.log.clear()
        model.closed.clear()
        self.differs = False

    def _compare_children(self, tree: Tree, sup: Sup) -> None:
        seen = [
            (info.path, info.state, info.incarnation, info.restarts, info.last_exit and info.last_exit.reason)
            for info in tree.which_children(sup.path)
        ]
        assert seen == [
            (each.path, each.state, self.model.incarnations.get(each.path, 0), each.restarts, each.last_exit)
            for each in sup.children
        ]
        counts = tree.count_children(sup.path)
        nested = sum(child.decl.children is not None for child in sup.children)
        assert counts.specs == len(sup.children)
        assert counts.active == sum(child.state == "running" for child in sup.children)
        assert (counts.supervisors, counts.workers) == (nested, len(sup.children) - nested)

    def _compare_events(self) -> None:
        events, model = list(self.events), self.model
        assert not [event for event in events if isinstance(event, InternalError)]
        exits = [(each.path, str(each.reason), each.started) for each in events if isinstance(each, ChildExited)]
        assert exits == model.exits
        assert [each.path for each in events if isinstance(each, SupervisorGaveUp)] == model.gave_up
        model.exits.clear()
        model.gave_up.clear()

    def _account_for_messages(self) -> None:
        """Each was handled once, or nobody will ever handle it and that was said; or it waits for a restart."""
        dead = [event.message_type for event in self.events if isinstance(event, DeadLetter)]
        states = {child.path: child.state for _, child in self.model.workers()}
        waiting = {}
        for name, (path, deed, reply) in self.sent.items():
            handled = self.world.handled[name]
            refused = dead.count(name)
            if reply is not None and reply.done and isinstance(reply._error, ActorStoppedError):
                refused += 1
            assert handled + refused <= 1, (name, path, handled, refused)
            was_closed = any(f"{path}/".startswith(f"{closed}/") for closed in self.model.closed)
            if deed in {"crash", "stop"} or (deed == "note" and states.get(path) == "running" and not was_closed):
                assert handled == 1, (name, path)
            elif handled + refused == 0:
                assert self._waits_for_restart(path), (name, path)
                waiting[name] = (path, deed, reply)
            if handled and reply is not None:
                assert reply.done
                assert isinstance(reply._error, BoomError) is (deed == "crash")
        self.sent = waiting
        self.events.clear()

    def _waits_for_restart(self, path: str) -> bool:
        return any(
            child.state == "restarting" and f"{path}/".startswith(f"{child.path}/") for _, child in self.model.listed()
        )


def expected_stops(model: Model, running: list[str]) -> list[str]:
    """The reverse of the order in which they stand, level by level."""
    order: list[str] = []
    for child in reversed(model.root.children):
        inside = [child] if child.inside is None else list(reversed(child.inside.children))
        order += [each.path for each in inside if each.path in running]
    return order


TestWalks = pytest.mark.timeout(120 + WALKS)(Walk.TestCase)
TestWalks.settings = settings(
    max_examples=WALKS,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.generate] if "REGROW_SWITCHINTERVAL" in os.environ else list(Phase),
)
