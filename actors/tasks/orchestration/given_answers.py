"""Answers of people that are on their way: each question is answered once, and is no longer shown as open.

A question stays in its task until the answer to it is recorded. Up to then the answer is an order at the port of the
orchestrator, and noted here: from just before the order lies there until it is carried out, or given up. An incarnation
that dies of it leaves both to the next one.

Threads: whoever answers or looks may be on any; the orchestrator is on the loop. There is no lock, each operation on
the table is one step of C. The orders:

* *One who looks, against the orchestrator*: the record takes the question out of its task, and then the note goes. Who
  looks has the notes first, and then looks into the task. So a question whose answer was noted before is not shown.
* *Two who answer*: the first one that notes it has answered. A note that comes after the record finds no question in
  the task any more, and goes again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.tasks.journal.questions import Escalation
    from actors.tasks.journal.task_state import TaskState


class GivenAnswers:
    """Answers on their way to one orchestrator; ``states`` returns its tasks, as they stand now."""

    def __init__(self, states: Callable[[], Mapping[str, TaskState]]) -> None:
        self._states = states
        self._notes: dict[str, tuple[str, Any]] = {}
        """By the id of the question: the answer, as its word and its value."""

    def __contains__(self, question: str) -> bool:
        """True where it was answered, and that is not recorded yet."""
        return question in self._notes

    def open_questions(self) -> list[Escalation]:
        """All questions that nobody has answered, the oldest first."""
        answered = self._notes.copy()
        found = [each for state in list(self._states().values()) for each in list(state.escalations.values())]
        return sorted((each for each in found if each.id not in answered), key=lambda each: each.raised_at)

    def question(self, id_: str) -> Escalation | None:
        """The question of this id, if nobody has answered it."""
        return None if id_ in self._notes else self._in_task(id_)

    def _in_task(self, id_: str) -> Escalation | None:
        """Look a question up in its task, whose id it begins with."""
        state = self._states().get(id_.rpartition(":")[0].rpartition(":")[0])
        return None if state is None else state.escalations.get(id_)

    def noted(self, question: str) -> tuple[str, Any] | None:
        """Return the answer that is on its way to a question; None: none is."""
        return self._notes.get(question)

    def note(self, question: str, answer: tuple[str, Any]) -> bool:
        """Note the answer that it is being given; False where it was answered, or has ended, meanwhile."""
        if self._notes.setdefault(question, answer) is not answer:
            return False
        if self._in_task(question) is None:
            self.forget(question)
            return False
        return True

    def forget(self, question: str) -> None:
        """Let go of a note: its order is carried out, or was not given."""
        self._notes.pop(question, None)
