"""Shapes of tasks for the page's API, of a live tree and of a store alike: their journals become rows and pages. Pure.

``content``: with goals, inputs, results, feedback, questions and the report; else ids, types, states, figures and the
texts of errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from actors.model.clock import local
from actors.model.event_dict import ErrorTexts
from actors.tasks.journal.view import ROLES, Escalation, TaskView
from actors.tasks.model import (
    Planned,
    PlanRefused,
    Reviewed,
    SubtaskEvent,
    SubtaskStarted,
    SubtaskStatus,
    Synthesized,
    TaskEvent,
    TaskStatus,
)
from trees.observe.source import VERSION, Shape
from trees.observe.timeline import bars_of

MOST_LOG: Final = 2000
"""Lines of the log that a page has, the newest."""
_MOST_TEXT: Final = 500
_MOST_VALUE: Final = 4000
"""Characters of an input or a result that a page shows."""
_STEPS: Final[dict[type, str]] = {
    Planned: "plan",
    PlanRefused: "plan",
    Reviewed: "review",
    Synthesized: "combine",
}
_UNSAID: Final = frozenset(
    {"version", "name", "at", "path", "task", "subtask", "seq", "metadata", "standing", "usage", "spec", "trace"}
)


def task_row(view: TaskView, *, content: bool = False) -> Shape:
    """Return a task as a line of a list."""
    return {
        **_head(view, content=content),
        "subtasks": {str(status): number for status, number in view.counts().items()},
        "tokens": view.usage.tokens,
        "cost": view.usage.cost,
    }


def _head(view: TaskView, *, content: bool) -> Shape:
    return {
        "id": view.id,
        "path": view.course.scope,
        "status": str(view.status),
        "goal": view.state.task.goal if content else None,
        "created_at": view.course.unit.started_at,
        "finished_at": view.finished_at,
    }


def in_a_list(row: Shape) -> Shape:
    """Return the line of a task with the beginning of its goal: a list of long ones is asked for every second.

    The page of the task has all of it, and a search has looked at all of it.
    """
    goal = row["goal"]
    return row if goal is None or len(goal) <= _MOST_TEXT else row | {"goal": f"{goal[:_MOST_TEXT]}..."}


def task_page(
    view: TaskView,
    *,
    content: bool = False,
    errors: ErrorTexts = "text",
) -> Shape:
    """Return everything that a page shows of a task, with the teams' parts of it."""
    every = [view, *_parts_of(view)]
    return {
        "version": VERSION,
        **_head(view, content=content),
        "error": _error(view) if content and errors == "text" else None,
        "inputs": _texts(view.state.task.inputs) if content else {},
        "nodes": [
            node for each in every for node in _nodes(each, f"{each.part}/" if each.part else "", content=content)
        ],
        "bars": bars_of(view.records),
        "usage": _usage(view),
        "reviews": list(_reviews(view, content=content)),
        "report": _report(view) if content else None,
        "log": _log(view, content=content, errors=errors),
    }


def _nodes(view: TaskView, prefix: str, *, content: bool) -> Iterator[Shape]:
    for unit in view.units():
        depends = [f"{prefix}{each}" for each in unit.depends_on]
        if unit.parent is not None:
            depends.append(f"{prefix}{unit.parent}")
        elif prefix and not depends:
            depends.append(prefix.rstrip("/"))
        yield {
            "id": f"{prefix}{unit.id}",
            "kind": "part" if prefix else "delegated" if unit.parent is not None else "subtask",
            "worker": unit.worker or unit.spec.worker,
            "status": str(unit.status),
            "depends": depends,
            "instruction": unit.instruction if content else None,
            "inputs": _texts(unit.spec.inputs) if content else {},
        }


def _parts_of(view: TaskView) -> Iterator[TaskView]:
    for part in view.parts().values():
        yield part
        yield from _parts_of(part)


def _usage(view: TaskView) -> Shape:
    """Return what each worker and each role has used up; a member of a team is named after it, as ``team/member``."""
    found: dict[str, Shape] = {}
    workers: dict[str, str] = {}
    for record in view.records:
        if isinstance(record, SubtaskStarted) and record.role == "work":
            workers[record.subtask] = record.worker
        usage = getattr(record, "usage", None)
        if usage is None or not (usage.tokens or usage.cost):
            continue
        team = f"{record.path}/".removeprefix(f"{view.course.scope}/")
        of = found.setdefault(f"{team}{_who(record, workers)}", {"tokens": 0, "cost": 0.0})
        of["tokens"] += usage.tokens
        of["cost"] += usage.cost
    return found


def _who(record: Any, workers: dict[str, str]) -> str:
    step = _STEPS.get(type(record)) or getattr(record, "role", "")
    subtask = getattr(record, "subtask", "")
    if step in ROLES and step != "work":
        return ROLES[step]
    return getattr(record, "worker", None) or workers.get(subtask) or "workers"


def _reviews(view: TaskView, *, content: bool) -> Iterator[Shape]:
    for record in view.records:
        if isinstance(record, Reviewed) and not record.problems:
            prefix = f"{record.subtask}/" if record.subtask else ""
            feedback: dict[str, str | None] = dict.fromkeys(record.rejected, record.checks or None)
            feedback.update(record.rerun)
            for subtask, text in feedback.items() or [("", None)]:
                yield {
                    "subtask": f"{prefix}{subtask}" if subtask else None,
                    "round": record.iteration,
                    "accepted": record.passed,
                    "feedback": text if content else None,
                    "at": record.at,
                }


def _report(view: TaskView) -> str | None:
    report = view.report()
    if report is None:
        return None
    if report.status is TaskStatus.SUCCEEDED:
        return None if report.output is None else as_text(report.output)
    parts: Shape = {"results": report.results, "failed": report.failed, "skipped": report.skipped}
    parts |= {"undone": report.compensated, "not undone": report.undo_errors, "notes": report.notes}
    return "\n".join(f"{name}: {as_text(part)}" for name, part in parts.items() if part) or None


def _error(view: TaskView) -> str | None:
    """Return why a task has failed, or is about to; None: it has not."""
    report = view.report()
    if report is None:
        return view.error or None
    return None if report.error is None else str(report.error)


def as_text(value: object) -> str:
    """Return an input or a result as people read it: a text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    shown = {name: as_text(value) for name, value in values.items()}
    return {name: text if len(text) <= _MOST_VALUE else f"{text[:_MOST_VALUE]}..." for name, text in shown.items()}


def _log(view: TaskView, *, content: bool, errors: ErrorTexts) -> list[Shape]:
    found = [record for record in view.records if isinstance(record, TaskEvent)]
    return [_line(record, content=content, errors=errors) for record in found[-MOST_LOG:]]


def _line(record: TaskEvent, *, content: bool, errors: ErrorTexts) -> Shape:
    told = record.as_dict(content=content, errors=errors)
    said = (f"{name}={_word(value, name)}" for name, value in told.items() if name not in _UNSAID and _says(value))
    subtask = record.subtask if isinstance(record, SubtaskEvent) and record.subtask else None
    return {"at": record.at, "kind": record.name, "subtask": subtask, "text": " ".join(said)}


def _says(value: object) -> bool:
    return value is not None and value is not False and value not in ("", [], {})


def _word(value: object, name: str) -> str:
    if isinstance(value, float) and (name == "due" or name.endswith("_at")):
        return local(value)
    if isinstance(value, dict | list):
        text = json.dumps(_without_empty(value), ensure_ascii=False, default=str)
    else:
        text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."


def _without_empty(value: object) -> object:
    """Leave out of a plan, or another large value, what says nothing: most fields of a subtask are not given."""
    if isinstance(value, dict):
        return {key: _without_empty(each) for key, each in value.items() if _says(each)}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value


def question_row(asked: Escalation, view: TaskView, *, content: bool = False, errors: ErrorTexts = "text") -> Shape:
    """Return an open question with what a person needs for the answer: goal, instruction, inputs, results.

    The error that it is about is told as in the log of its task.
    """
    shows_error = errors == "text" and (content or not asked.is_content)
    return {
        "id": asked.id,
        "task": asked.task,
        "path": view.course.scope,
        "subtask": asked.subtask or None,
        "kind": asked.step or ("undo" if asked.undoing else "subtask"),
        "text": asked.question if content else None,
        "error": asked.error if shows_error else None,
        "asked_at": asked.raised_at,
        "due": asked.due,
        "answers": list(asked.answers),
        **(_about(asked, view) if content else {"goal": None, "instruction": None, "inputs": {}, "results": {}}),
    }


def _about(asked: Escalation, view: TaskView) -> Shape:
    """Return what a question is about; ``results``: of what its subtask needs; of a review or undo what it is about."""
    unit = view.unit(asked.subtask)
    if asked.step:
        team, needed = f"{asked.about}/" if asked.about else "", asked.subtasks
    elif asked.undoing or unit is None:
        team, needed = "", asked.subtasks
    else:
        team, needed = asked.subtask.removesuffix(unit.id), unit.depends_on  # ids that hold in its team alone
    about = [found for id_ in needed if (found := view.unit(f"{team}{id_}")) is not None]
    return {
        "goal": view.state.task.goal,
        "instruction": None if unit is None else unit.instruction,
        "inputs": _texts(view.state.task.inputs | (unit.spec.inputs if unit is not None else {})),
        "results": _texts({each.id: each.result for each in about if each.status is SubtaskStatus.SUCCEEDED}),
    }
