"""Undo: what is void is undone, the newest first, once, and whatever else happens.

What is undone: all, where a task ends; what a reviewer has sent back and all that had used its results, before that
runs again; what failed subtasks may have done, before another plan is made; what a team had done that has failed; what
only an earlier attempt of a worker had asked for, before the task or the team succeeds. With each goes what it had
asked for. A team that declares no undo has its members undone.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.tasks.decide import ends
from actors.tasks.decide.drafts import Draft, draft
from actors.tasks.journal.course import Course
from actors.tasks.journal.fold import TaskState
from actors.tasks.journal.unit import Effect, Unit, with_dependants
from actors.tasks.model import SUCCEEDED, task_events


def void(course: Course) -> list[Unit]:
    """Subtasks of which all that was done is to be undone now, with what they had asked for."""
    units = list(course.units.values())
    rework = course.rework
    if course.unit.is_ending:
        return units
    if rework is None:
        found = [unit for unit in units if unit.is_in_vain]
    elif rework:
        found = with_dependants(course.units[id_] for id_ in rework)
    else:
        found = [unit for unit in units if unit.asker is None and unit.status is not SUCCEEDED]
    for unit in found:  # it grows
        found += [each for each in unit.asked or () if each.above is course.unit]
    return found


def next_effect(state: TaskState, course: Course) -> Effect | None:
    """Return the effect that is undone next: of those whose worker, or whose subtask, declares how, the last begun.

    What is to be undone is found once: it stays the same until something starts, or the course ends.
    """
    found_for = state.starts, course.rework, course.unit.is_ending
    if course.undoable is None or course.undoable[0] != found_for:
        found = [each for unit in void(course) for each in _effects_in(unit)]
        course.undoable = found_for, sorted(found, key=lambda each: each.seq)
    left: list[Effect] = course.undoable[1]
    while left and not left[-1].needs_undo:
        left.pop()
    return left[-1] if left else None


def _effects_in(unit: Unit) -> Iterator[Effect]:
    yield from (effect for effect in unit.effects.values() if effect.needs_undo)
    own = any(each.is_team and each.undoable for each in unit.effects.values())
    if unit.course is not None and not own:  # a team with an undo of its own is undone as a whole
        for each in list(unit.course.units.values()):
            yield from _effects_in(each)


def all_undone(course: Course) -> Draft:
    """All that was void is undone, or its undo was given up."""
    stands = [effect for unit in void(course) for effect in unit.effects.values() if effect.stands]
    rework = course.rework
    assert rework is not None  # noqa: S101 - it is what was undone for
    if not stands:
        return draft(course.unit, task_events.SentBack, dict(rework))
    names = ", ".join(f"{effect.unit.id} ({effect.stands})" for effect in stands)
    return ends.fails(course, "undo", f"it cannot be done again, because what was done could not be undone: {names}")
