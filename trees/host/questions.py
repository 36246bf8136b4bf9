"""The questions of one task to people, as they are asked: read off its events."""

from __future__ import annotations

from actors.messaging.reply import Reply
from actors.tasks.journal.questions import Escalation
from actors.tasks.model.task_events import EscalationRaised, TaskEvent
from actors.tasks.orchestration.task_runtime import OrchestratorPort
from trees.host.answers import port_of_question
from trees.host.events import Reading
from trees.host.journal_follower import JournalFollower


class Questions(Reading[Escalation]):
    """Questions that are open when they are handed out, each once."""

    def __init__(self, port: OrchestratorPort, id_: str) -> None:
        self._runtime = port.runtime
        super().__init__(_Asked(port, id_), port.path, "async for question in handle.questions()")

    def _read(self, event: TaskEvent) -> Escalation | None:
        if not isinstance(event, EscalationRaised):
            return None
        port = port_of_question(self._runtime, event.escalation)
        return None if port is None else port.answers.question(event.escalation)


class _Asked(JournalFollower):
    """Follows a task, and tells only of questions that were asked."""

    def __init__(self, port: OrchestratorPort, id_: str) -> None:
        super().__init__(port, id_, deep=True, after=0, recall="never")

    def _tells(self, event: TaskEvent) -> bool:
        return isinstance(event, EscalationRaised)

    def fetched(self, event: TaskEvent) -> Reply | None:  # noqa: ARG002 - as for all events
        """What a question carries for its worker is not needed."""
        return None
