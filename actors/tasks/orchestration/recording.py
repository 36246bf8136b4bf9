"""The straight line of a task: a fact is decided upon, recorded, and what follows from the record is carried out.

::

    fact (an attempt ended, a timer, an answer, a cancel, a worker changed)
      -> decide(state, fact, facts about workers) -> records         pure, knows no orchestrator
      -> record: the state, the journal, the stream of events        one place: ``Recording.emit``
      -> follow(state, record) -> commands                           pure: a table, record type -> what it starts
      -> carried out once that is kept (``actors.tasks.orchestration.outbox``)    one place

Resuming is then no second program: ``follow`` over the folded state says what is still to be carried out. What must not
be lost on the way: a record is written before anything follows from it; effects are flushed in groups; a subtask has at
most one live attempt; an idempotency key stays what it was.

Where each of them is:

* **Decide**: ``classify`` (what an end means), ``ladder`` (which rung is next), ``retries`` (the record that follows
  from the end of an attempt), ``compensation`` (the same of an undo, and what is to be undone), ``stage_ends`` (the
  same of a planner, a reviewer, a synthesizer), ``next_step`` (what is next for a task as a whole), ``endings`` (how
  a task and its subtasks end) and ``escalations`` (what an answer means, or none)
  are pure; ``OrchestratorCore.facts`` collects the facts for them. ``delegation`` and ``teams`` decide where they act:
  what they decide about are other orchestrators, and asks that live in the tree.
* **Follow**: ``actors.tasks.recovery.follow`` has the tables and ``pending(state)``; ``follow_up_handlers`` carries it
  out, after a record and after a resume alike. ``lifecycle`` carries out what ``next_of(state, facts)`` says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from actors.tasks.model import task_events, write_checks
from actors.tasks.model.event_base import AttemptEvent, Draft, give_metadata, give_times
from actors.tasks.model.outcome import FailureKind
from actors.tasks.model.task import NO_USAGE

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.journal.task_state import TaskState
    from actors.tasks.orchestration.orchestrator_core import OrchestratorCore

_LOST: Final = FailureKind.LOST
FieldsP = ParamSpec("FieldsP")
EventT = TypeVar("EventT", bound=task_events.TaskEvent)
Follow: TypeAlias = "Callable[[TaskState, task_events.TaskEvent], None]"


class Recording:
    """Door to the journal of one orchestrator's tasks: every record is made here."""

    def __init__(self, core: OrchestratorCore, follow: Follow) -> None:
        """Make it for one incarnation; ``follow`` carries out what follows from a record."""
        self.core, self._follow = core, follow
        self._path, self._port, self._store, self._runtime = core.path, core.port, core.store, core.runtime
        self._system, self._numbers, self._bus = core.system, core.runtime.numbers, core.system.bus
        self.last: task_events.TaskEvent | None = None
        """The last event that was about to be recorded."""

    def emit(
        self,
        state: TaskState,
        made: Callable[Concatenate[str, str, float, FieldsP], EventT],
        /,
        *fields: FieldsP.args,
        **more: FieldsP.kwargs,
    ) -> EventT:
        """Record that something has happened to a task just now.

        Args:
            state: the task's.
            made: the kind of event; it is made with the supervisor's path, the task's id and the time.
            fields: all others of the event.
            more: the same by name.
        """
        id_ = state.id
        event = made(self._path, id_, self._runtime.epoch + self._system.now(), *fields, **more)
        self._numbers.give(event, state.parent)
        if isinstance(event, AttemptEvent):
            # Nothing has run since the last record of an attempt that was lost with its process.
            ended_at = self._runtime.heard_last(state) if getattr(event, "kind", "") == _LOST else event.at
            node = state.nodes.get(event.subtask)
            if node is not None:  # else it is about a step of the task
                give_times(event, *node.times(ended_at))
        if state.has_metadata:
            give_metadata(event, state.metadata_of(getattr(event, "subtask", "")))
        self.core.task, self.last = id_, event
        state.apply(write_checks.checked(event))  # first: whoever reads of a question in the journal can answer it
        self._store.append(id_, event)
        self._port.taken = None
        self._bus.publish(event)
        self._follow(state, event)
        return event

    def record(self, state: TaskState, draft: Draft) -> None:
        """Record an event that was decided upon."""
        self.emit(state, draft.made, *draft.fields, **draft.more)

    def count(self, attempt: Attempt) -> None:
        """Record what an attempt has used up that no other record has."""
        if attempt.unrecorded is NO_USAGE:
            return
        state = self.core.states.get(attempt.task)
        used = attempt.take_used()
        if state is None or state.final is not None or used is NO_USAGE:
            return
        role = attempt.spec.role
        node = state.nodes.get(attempt.subtask.id) if role in {"work", "undo"} else None
        fields = (node.id, "", attempt.spec.part, attempt.spec.worker) if node is not None else ("", role)
        self.emit(state, task_events.UsageTold, used, *fields)

    def count_now(self, attempt: Attempt) -> None:
        """As ``count``, of an attempt that goes on: kept as soon as it can be, not only with the next record of it."""
        self.count(attempt)
        self._runtime.flush(attempt.task)  # nobody waits for that
