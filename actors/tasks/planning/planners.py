"""What a planner may return, what it is told, and ``StaticPlan``. Nothing is kept between two plans. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from actors.model.errors import ConfigError, Problem
from actors.tasks.model import Budget, Catalogue, InvalidAnswerError, Plan, Subtask, Task, answer_data
from actors.tasks.planning.capability import CapabilityPlanner
from actors.tasks.planning.keyword import KeywordPlanner, free_id
from actors.validation.validation_messages import type_phrase, value_phrase

# -- a plan as people and models write it --------------------------------------------------------------------------

_HINT: Final = (
    'Return a Plan, a list of Subtask or of names of workers, {"executors": ["a", "b"], "parallel": false} or '
    '{"subtasks": [{"id": ..., "instruction": ..., "worker": ...}]}; in Python such as '
    "Plan([Subtask('first', 'what is to be done', worker='the id of a worker')])."
)
SLOT: Final = re.compile(r"s[0-9]{1,6}")
_MOST_PROBLEMS: Final = 50


def as_plan(value: object) -> Plan:
    """Return what a planner returned as a plan.

    It may be a ``Plan``; a list of subtasks (``Subtask`` or dict) and of names of workers; ``{"subtasks": [...]}``;
    ``{"executors": [names], "parallel": false}``; slots (``plan_schema``); or the JSON of one of these. A worker that
    is only named gets the goal. Names run side by side, or one after the other if ``parallel`` is false.

    Raises:
        InvalidAnswerError: with the problems of it, at most 50.
    """
    if isinstance(value, Plan):
        return value
    data = answer_data(value, "plan", _HINT)
    field, parallel, entries = "subtasks", True, data
    if _is_slots(data):
        entries = _of_slots(data)
    elif isinstance(data, Mapping):
        field = "executors" if "executors" in data else "subtasks"
        parallel, entries = data.get("parallel", True), data.get(field)
        if odd := [value_phrase(key) for key in data if key not in {field, "parallel"}]:
            raise _invalid("plan", f"was not understood: a plan has no {', '.join(odd[:_MOST_PROBLEMS])}")
    if not isinstance(parallel, bool):
        raise _invalid("plan.parallel", f"expected true or false, got {value_phrase(parallel)}")
    if isinstance(entries, (str, bytes, Mapping, BaseModel)) or not isinstance(entries, Iterable):
        raise _invalid("plan", f"expected a list of {field}, got {value_phrase(entries)}")
    return _plan_of(entries, field, parallel=parallel)


def _invalid(at: str, what: str) -> InvalidAnswerError:
    return InvalidAnswerError((Problem(at, what, _HINT),))


def _plan_of(entries: Iterable[Any], field: str, *, parallel: bool) -> Plan:
    problems: list[Problem] = []
    made: list[Subtask] = []
    times = Counter[str]()
    for n, entry in enumerate(entries):
        try:
            if isinstance(entry, str):
                times[entry] += 1
                name = free_id(entry, [one.id for one in made], times[entry])
                made.append(Subtask(name, worker=entry, depends_on=[] if parallel else [one.id for one in made[-1:]]))
            else:
                made.append(entry if isinstance(entry, Subtask) else _of_data(entry))
        except ConfigError as error:
            problems += [Problem(f"{field}[{n}] {one.path}".rstrip(), one.what, one.hint) for one in error.problems]
    if problems:
        raise InvalidAnswerError(tuple(problems[:_MOST_PROBLEMS]))
    return Plan(made)


def _of_data(entry: object) -> Subtask:
    """Make a subtask of a dict. A field that is null counts as not given."""
    if not isinstance(entry, Mapping):
        raise _invalid("", f"expected a subtask or the name of a worker, got {type_phrase(entry)}")
    data = {str(name): value for name, value in entry.items() if value is not None}
    for name in ("budget", "estimate"):
        if isinstance(data.get(name), Mapping):
            data[name] = Budget(**data[name])
    subtask = Subtask(**data)
    require_no_code(subtask)
    return subtask


def require_no_code(subtask: Subtask) -> None:
    """Refuse a subtask that is data, and may come from a model, and names code: a model must not choose what is called.

    Raises:
        InvalidAnswerError: its undo is an import string.
    """
    if subtask.undo is not None and ":" in subtask.undo:
        hint = "Name a worker, or leave it out; code is named by a Subtask that the planner's own code makes."
        raise InvalidAnswerError((Problem(f"{subtask.id}.undo", "a model may name no code", hint),))


def _is_slots(value: object) -> bool:
    """Whether a value is an object of objects, or nulls, by the names of slots."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(SLOT.fullmatch(str(name)) and isinstance(slot, (Mapping, type(None))) for name, slot in value.items())
    )


def _of_slots(slots: Any) -> list[dict[str, Any]]:
    """Return the subtasks of the slots that were filled in. No subtask needs a slot that is empty."""
    subtasks = []
    for name, slot in slots.items():
        if slot is not None:
            needs = slot.get("needs") or []
            if isinstance(needs, (list, tuple)):
                needs = [need for need in dict.fromkeys(map(str, needs)) if slots.get(need, "another") is not None]
            fields = {field: value for field, value in slot.items() if field != "needs"}
            subtasks.append({**fields, "id": name, "depends_on": needs})
    return subtasks


# -- a fixed graph -----------------------------------------------------------------------------------------------


class StaticPlan:
    """Planner with one graph for every task. Subtasks without an instruction get the goal as theirs.

    Args:
        subtasks: subtasks, names of workers, or any other form of a plan (``{"executors": [...], "parallel": false}``).

    Raises:
        ConfigError: it is no plan.
    """

    def __init__(self, subtasks: Iterable[Subtask | str] | Mapping[str, Any] | Plan) -> None:
        self.fixed = as_plan(subtasks)

    def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan:  # noqa: ARG002 - it is fixed
        """Return the plan."""
        return self.fixed


# -- which planners are quick --------------------------------------------------------------------------------------

_MOST_MATCHED: Final = 50_000
"""Characters of the goal times workers: a few hundredths of a second."""


def is_quick(planner: object, task: Task, rows: Catalogue) -> bool:
    """Whether planning and the check of the plan run no code of users and take no time: a loop may run both."""
    if any(callable(row.estimate) for row in rows):
        return False
    if type(planner) is StaticPlan and any(":" in (one.undo or "") for one in planner.fixed.subtasks):
        return False  # the check imports them
    is_pure = type(planner) in {StaticPlan, KeywordPlanner}
    is_ours = is_pure or (type(planner) is CapabilityPlanner and planner.needs is None)
    return is_ours and len(task.goal) * (len(rows) + 1) <= _MOST_MATCHED


# -- another plan, after a required subtask has failed for good ----------------------------------------------------


class ReplanFeedback(str):
    """Feedback of a planner that is to plan what is left: a text, and the same facts by name."""

    __slots__ = ("done", "failed", "skipped")
    done: dict[str, Any]
    """Results of the subtasks that are done, by id."""
    failed: dict[str, str]
    """Errors of the subtasks that failed, by id."""
    skipped: dict[str, str]
    """Reasons of the subtasks that did not run, by id."""


def replan_feedback(
    done: Mapping[str, Any], failed: Mapping[str, str], skipped: Mapping[str, str], refused: str = ""
) -> ReplanFeedback:
    """Tell a planner what became of its last plan; ``refused`` is what was wrong with the one that it made since."""
    lines = ["The last plan could not be carried out. Plan what is left to be done, in another way."]
    lines += [f"Done, and kept: {', '.join(done)}. They do not run again; depends_on may name them."] if done else []
    lines += [f"Failed: {id_}: {error}" for id_, error in failed.items()]
    lines += [f"Did not run: {id_}: {reason}" for id_, reason in skipped.items()]
    lines += [f"Your answer to that was refused: {refused}"] if refused else []
    feedback = ReplanFeedback("\n".join(lines))
    feedback.done, feedback.failed, feedback.skipped = dict(done), dict(failed), dict(skipped)
    return feedback
