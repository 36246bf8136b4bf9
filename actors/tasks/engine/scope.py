"""``Scope``: a supervisor with ``tasks=``, as the engine sees it: its settings, its workers, its slots.

The outermost one is that of the engine itself; a nested one is a team. A scope outlives the incarnations of its
supervisor and of the engine. It is the owner of the attempts that its workers have: what their code asks for comes
here, from any thread, and goes on to the engine as a fact. All else is touched by the engine only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.messaging.mailbox import Refusal
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import list_wait
from actors.tasks.engine import asks
from actors.tasks.scheduling.worker_registry import RegistryEntry, WorkerChanged, WorkerRegistry

if TYPE_CHECKING:
    from actors.tasks.engine.service import EnginePort, TaskService
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_steps import StepCall
    from actors.tasks.execution.context import AskedWork
    from actors.tasks.model import ExecutableInfo, ToolInfo
    from actors.tasks.planning.settings import Tasks
    from actors.tasks.scheduling.ready_queue import LaneKey


class Scope:
    """One supervisor with ``tasks=``."""

    def __init__(self, service: TaskService, path: str, settings: Tasks, port: EnginePort, above: Scope | None) -> None:
        self.service, self.system, self.port = service, service.system, port
        self.path, self.settings, self.above = path, settings, above
        self.workers = WorkerRegistry()
        self.is_open = above is None
        """False while the supervisor of a team is down, or is being stopped: nothing is given to its workers."""
        self.running = 0
        """Attempts of its workers that hold a slot."""
        self.steps = 0
        """Calls of its planner, reviewer and synthesizer, and undos, that hold a slot."""
        self.lanes: set[LaneKey] = set()
        """Lanes that wait until a slot is free."""

    def begins_anew(self) -> None:
        """Forget what an earlier engine has counted: the next one takes up what still goes on."""
        self.running = self.steps = 0
        self.lanes.clear()
        for entry in self.workers:
            entry.holds_nothing()

    def answer_of_engine(self) -> Reply:
        """Return a reply that the engine completes. It fails if that cannot be before a worker that waits has ended."""
        box = self.system.boxes.get(self.port.address)
        reply = Reply(box)
        list_wait(reply)
        if self.system.is_down or (box is not None and box.refusal is Refusal.DOWN):
            reply.fail(self.service.down())  # nobody else will: the engine was closed before the reply was listed
        return reply

    # -- of its attempts -----------------------------------------------------------------------------------

    def look_at(self, attempt: Attempt) -> None:
        """An attempt has used up something. From any thread."""
        self.port.post(lambda engine: engine.attempts.reported(attempt))

    def keep_step(self, attempt: Attempt, step: StepCall, value: Any) -> Reply:
        """Have a step recorded; what is returned is completed when it is kept."""
        kept = self.answer_of_engine()
        self.port.post(lambda engine: engine.asks.record_step(attempt, step, value, kept))
        return kept

    def delegate(self, attempt: Attempt, asked: AskedWork, limit: float | None) -> Reply:
        """Carry out ``context.ask``."""
        return asks.ask(self, attempt, asked, limit)

    def tools(self, attempt: Attempt, of: str) -> tuple[ToolInfo, ...]:
        """Return the tools of a worker that has several.

        Raises:
            NoCapableWorkerError: there is no such worker.
        """
        _, found = asks.who_can(self, of, attempt)
        return found[0].executable.tools or ()

    # -- its workers ---------------------------------------------------------------------------------------

    @property
    def team(self) -> RegistryEntry | None:
        """The team that it is, among the workers above; None: it is the engine's own."""
        return None if self.above is None else self.above.workers.get(self.path.rpartition("/")[2])

    @property
    def is_up(self) -> bool:
        """True where its workers can be given something."""
        if self.above is None:
            return self.is_open
        team = self.team
        return self.is_open and (team is None or team.is_up)

    def addresses(self, chain: tuple[str, ...]) -> tuple[Any, ...]:
        """Addresses of the members of a chain that are listed now."""
        return tuple([box for box in map(self.system.boxes.get, chain) if box is not None])

    def rows(self) -> list[ExecutableInfo]:
        """The registry, as the engine knows it."""
        now, entries = self.service.time(), list(self.workers.entries.values())
        return [entry.info(now, is_only=len(entries) == 1) for entry in entries]

    def registry(self) -> list[ExecutableInfo]:
        """Registry as seen from outside, also with changes that the engine has yet to hear of."""
        supervisor = self.system.supervisors.get(self.path)
        if supervisor is None:
            return self.rows()
        listed, now = WorkerRegistry(), self.service.time()
        for child in list(supervisor.table.children.values()):
            listed.hear(WorkerChanged(child.spec, child.path, child.state, child.mailbox, child.registration))
        for entry in listed:
            known = self.workers.get(entry.id)
            if known is not None and known.spec is entry.spec:
                entry.attempts, entry.breaker = known.attempts, known.breaker
        return [entry.info(now) for entry in listed]
