"""Answers of people, and none in time: what follows from them for a subtask, or for an undo.

No answer in time is an outcome of its own, never a denial.
"""

from __future__ import annotations

from dataclasses import replace

from actors.tasks.decide.attempt import climbed, given_up
from actors.tasks.decide.drafts import Draft, Facts, draft
from actors.tasks.decide.undo import undone
from actors.tasks.journal.unit import Unit
from actors.tasks.model import task_events
from actors.tasks.model.outcome import Failure, FailureKind
from actors.tasks.model.task_errors import EscalationError


def answered(unit: Unit, facts: Facts) -> Draft | None:
    """Return the record that follows from the last answer about a unit; None: its undo is called once more."""
    event = unit.answered
    if event is None:
        return None
    if isinstance(event, task_events.EscalationExpired):
        return _expired(unit, event, facts)
    answer, value, undoes = event.answer, event.value, unit.role == "undo"
    goes_on = unit.kept is not None and unit.kept.goes_on_at is not None
    if answer in {"approve", "respond"} or goes_on:
        return None if undoes else draft(unit, task_events.SubtaskQueued, f"a person said: {answer}")
    if answer == "edit":
        return undone(unit) if undoes else draft(unit, task_events.SubtaskSucceeded, "person", unit.attempt, value)
    said = f"a person said no: {value}" if value else "a person said no"
    if undoes:
        said = f"{said}; it had failed: {unit.error}"
    return given_up(unit, Failure(FailureKind.DENIED, EscalationError(event.escalation, said)), None)


def _expired(unit: Unit, event: task_events.EscalationExpired, facts: Facts) -> Draft:
    said = f"nobody answered in time; it had failed: {unit.error}"
    failure = Failure(FailureKind.UNANSWERED, EscalationError(event.escalation, said))
    if unit.role == "undo":
        return given_up(unit, failure, None)
    standing = replace(unit.standing, rung=unit.standing.rung + 1, questions=0)
    return climbed(unit, failure, None, facts, standing)
