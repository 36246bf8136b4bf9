"""Random plans on a real tree, with everything going wrong that may, at moments that a person would not choose.

Every attempt waits until it is let go, so that between two moves nothing happens by itself, and what runs and what
waits can be looked at. ``REGROW_PLANS=5000 pytest tests/random_plans`` goes on for long.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings

from actors import ChildError, Event, InternalError, Reply
from actors.model.clock import monotonic
from actors.supervision.supervisor_incarnation import Ping
from actors.tasks.model.policy import Answer
from actors.tasks.orchestration.messages import TimerFired
from actors.testing import ManualClock, settle
from tests.random_plans import checks
from tests.random_plans.declared import Hand, Job, Move, Run, Sub, runs
from tests.random_plans.world import BoomError, Hold, World, spec_of
from trees import Approve, Edit, EscalationError, Reject, Respond, SubtaskSucceeded, Task, TaskHandle, Tree, start

pytestmark = pytest.mark.usefixtures("quiet_log")
PLANS = int(os.environ.get("REGROW_PLANS", "40"))
WAIT_S = 60.0
ROUNDS = 400
"""Of letting everybody go, or else the time pass, after which a run that has not ended never will."""


class Player:
    """Makes the moves of one run."""

    def __init__(self, run: Run, world: World, tree: Tree, clock: ManualClock) -> None:
        self.run, self.world, self.tree, self.clock = run, world, tree, clock
        self.system = tree._system
        self.events: list[Event] = []
        self.handles: list[TaskHandle] = []
        tree.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        self.events.append(event)

    # -- moves ---------------------------------------------------------------------------------------------

    def play(self) -> None:
        """All moves, and then whatever it takes until every task has ended."""
        self.submit(0)
        self.look()
        for group in self.run.moves:
            for move in group:
                self._make(move)
            self.look()
        while len(self.handles) < len(self.run.jobs):
            self.submit(0)
        self.look()
        seconds = 1.0
        for _ in range(ROUNDS):
            if all(handle.report is not None for handle in self.handles):
                return
            if holds := self.waiting():
                for hold in holds:
                    self._go(hold)
                seconds = 1.0
            else:
                self.tick(seconds)
                seconds = min(seconds * 1.5, 50.0)
            self.look()
        open_ones = [handle.dump() for handle in self.handles if handle.report is None]
        raise AssertionError("\n".join(["never ends:", *open_ones]))

    def _make(self, move: Move) -> None:
        moves: dict[str, Callable[[int], None]] = {
            "go": self.go,
            "tick": lambda pick: self.tick([0.5, 1.0, 2.0, 5.0, 11.0, 25.0][pick]),
            "submit": self.submit,
            "cancel": lambda pick: self.handles[pick % len(self.handles)].cancel(),
            "kill": lambda _: self.kill(),
            "terminate": lambda pick: self._child(pick, Tree.terminate_child),
            "restart": lambda pick: self._child(pick, Tree.restart_child),
            "answer": self.answer,
        }
        moves[move.what](move.pick)

    def waiting(self) -> list[Hold]:
        with self.world.changed:
            return [hold for hold in self.world.holds if not hold.gate.done and not hold.is_lost]

    def go(self, pick: int) -> None:
        holds = self.waiting()
        if holds:
            self._go(holds[pick % len(holds)])

    def _go(self, hold: Hold) -> None:
        hold.gate.complete()

    def tick(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def submit(self, _: int) -> None:
        at = len(self.handles)
        if at < len(self.run.jobs):
            job = self.run.jobs[at]
            task = Task(goal=str(at), id=f"t{at}", priority=job.priority, deadline_s=job.deadline_s)
            self.handles.append(self.tree.submit(task))

    def kill(self) -> None:
        """The orchestrator crashes, as soon as it comes to it."""

        def crash() -> None:
            raise BoomError

        incarnation: Any = self.system.children["r/orchestrator"].incarnation
        if incarnation is not None:
            self.system.services["tasks"].ports["r"].tell(TimerFired(incarnation, crash))

    def _child(self, pick: int, call: Callable[[Tree, str], Any]) -> None:
        paths = [path for path in self.system.children if path not in {"r/orchestrator", "r/u"}]
        paths = sorted(path for path in paths if path.startswith("r/"))
        with suppress(ChildError):  # it is as it was to be
            call(self.tree, paths[pick % len(paths)])

    def answer(self, pick: int) -> None:
        questions = self.tree.escalations()
        if questions:
            answers: list[Answer] = [Approve(), Edit("edited"), Respond("better"), Reject("no")]
            with suppress(EscalationError):  # its time was up just now
                self.tree.respond(questions[0].id, answers[pick % 4])

    # -- looking -------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Nothing moves any more: is everything as it must be?"""
        self.be_quiet()
        for event in self.events:
            if isinstance(event, SubtaskSucceeded):
                self.world.finished.add((event.task, event.subtask))
        wrong = [*self.world.wrong, *checks.nothing_is_idle(self.tree, self.run)]
        wrong += [str(event) for event in self.events if isinstance(event, InternalError)]
        assert not wrong, "\n".join(wrong)

    def be_quiet(self) -> None:
        """Return when nothing moves but what waits to be let go, which ``settle`` would wait for."""
        before, quiet = -1, 0
        end = monotonic() + WAIT_S
        while quiet < 2:
            assert monotonic() < end, f"it does not come to rest: {self.system.services['tasks'].attempts}"
            self._ping()
            for child in list(self.system.children.values()):
                if not child.spec.is_supervisor:
                    self._wait_for(child.mailbox.when_quiet(), child.path)
            for attempt in list(self.system.services["tasks"].attempts.values()):
                if attempt.spec.role != "work":
                    assert attempt.wait(WAIT_S), attempt
            self._ping()
            assert self.system.bus.flush(WAIT_S)
            now = self.system.activity()
            quiet = quiet + 1 if now == before and not self._is_moving() else 0
            before = now

    def _is_moving(self) -> bool:
        children = [child for child in list(self.system.children.values()) if not child.spec.is_supervisor]
        held = {hold.attempt.key for hold in self.world.holds if hold.waits}
        attempts = list(self.system.services["tasks"].attempts.values())
        return any(child.incarnation is not None and child.incarnation.is_over for child in children) or any(
            attempt.done or attempt.key not in held for attempt in attempts
        )

    def _ping(self) -> None:
        for supervisor in list(self.system.supervisors.values()):
            pong = Reply()
            if supervisor.incarnation.mailbox.post(Ping(), pong):
                assert pong.wait(WAIT_S)

    def _wait_for(self, quiet: Reply, path: str) -> None:
        def is_quiet() -> bool:
            return quiet.done or any(hold.path == path and hold.waits for hold in self.world.holds)

        quiet.when_done(self._changed)
        with self.world.changed:
            assert self.world.changed.wait_for(is_quiet, WAIT_S), f"{path} is busy with {self.world.holds}"

    def _changed(self) -> None:
        with self.world.changed:
            self.world.changed.notify_all()

    # -- the end -------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Threads that were given up, and whoever is left after a failure."""
        for hold in list(self.world.holds):
            hold.gate.complete()

    def check_the_end(self) -> None:
        self.release()
        settle(self.tree)
        ground = self.system.services["tasks"]
        assert checks.most_at_once(self.events) <= self.run.max_parallel
        for job, handle in zip(self.run.jobs, self.handles, strict=True):
            report = handle.report
            assert report is not None
            records = ground.store.read(handle.id)
            wrong = checks.journal_is_right(job, records, report, self.world)
            assert not wrong, "\n".join([*wrong, *map(str, records)])
            kept = [event for event in self.events if getattr(event, "task", None) == handle.id]
            assert kept == list(records)
        assert (ground.attempts, ground.asks, ground.detached_calls) == ({}, {}, set())
        assert ground.ports["r"].states == {}


def play(run: Run) -> None:
    """A whole run."""
    world, clock = World(run), ManualClock()
    with start(spec_of(run, world), clock=clock) as tree:
        player = Player(run, world, tree, clock)
        try:
            player.play()
            player.check_the_end()
        finally:
            player.release()


BROKEN_OFF = Run(
    hands=(Hand("w0", "async def", undo="def"),),
    jobs=(Job((Sub("s0", "w0", deeds=("rubbish", "raise", "raise")), Sub("s1", "w0"), Sub("s2", "w0"))),),
    moves=((Move("go"), Move("kill")),),
    max_parallel=1,
    strategy="one_for_all",
)
"""What an attempt had done that was broken off is unknown, whatever the next one says."""


@pytest.mark.timeout(120 + PLANS)
@settings(
    max_examples=PLANS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.generate] if "REGROW_SWITCHINTERVAL" in os.environ else list(Phase),
)
@given(run=runs())
@example(run=BROKEN_OFF)
def test_whatever_happens_to_a_plan_it_ends_and_ends_right(run: Run) -> None:
    play(run)
