"""Facts about work that was done, or asked about, before: what an attempt that is sent back sees of it.

In a team they are joined with those of the attempt that the team has. Pure.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from actors.tasks.model.policy import Answer


class Revision(NamedTuple):
    """Facts about a subtask that was done, or asked about, before."""

    number: int = 0
    """How often it was sent back, or what it needs was."""
    feedback: str = ""
    history: tuple[str, ...] = ()
    """Feedbacks before that, the oldest first."""
    work: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    """Last result of the subtask, as JSON, under the name ``previous``, and under ``state`` what its worker has asked
    a person with; nothing: it has none."""
    answers: tuple[Answer, ...] = ()
    """Answers of people to the questions about it, the oldest first."""
    answer: Answer | None = None
    """The one among them to the question that came with ``state``; None: that has no answer."""

    @property
    def previous(self) -> Any:
        """Last result of the subtask, as JSON; None: it has none."""
        return self.work.get("previous")

    @property
    def state(self) -> Any:
        """State that its worker has asked a person with, as JSON; None: it has asked with none."""
        return self.work.get("state")


def work_of(previous: Any, state: Any = None) -> dict[str, Any]:
    """The work that a revision begins with: this result, and this state of a question, if there is one."""
    found = {} if previous is None else {"previous": previous}
    return found if state is None else {**found, "state": state}


NO_REVISION: Final = Revision()
