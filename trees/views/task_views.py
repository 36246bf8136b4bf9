"""Output of ``regrow tasks``: the tasks of a store, one with its graph and its log.

Comes in: tasks as a store has them (``TaskView``), and the time. Goes out: text. Pure: nothing is read or asked here.
What a task is about, and what went wrong, is shown: who can read the store may see it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

from actors.model.clock import local
from actors.tasks.journal.view import Escalation, TaskView
from actors.tasks.model import SubtaskEvent, SubtaskStatus, TaskEvent
from trees.views.run_text import draw
from trees.views.run_view import view_of
from trees.views.table import one_line

_GOAL_CHARS: Final = 60
_QUESTION_CHARS: Final = 100
_GAP: Final = "   "
_UNTOLD: Final = frozenset({"path", "task", "at", "subtask", "standing", "usage"})
_TIMES: Final = frozenset({"due", "deadline"})
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def listing(tasks: Sequence[TaskView], now: float) -> str:
    """One line for each task, and one below it for each open question; a team's part is not listed for itself."""
    heads = ["task", "where", "status", "done", "age", "goal", "error"]
    rows = [heads, *(_row(task, now) for task in tasks)]
    if not any(task.error for task in tasks):
        rows = [row[:-1] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = []
    for row, task in zip(rows, [None, *tasks], strict=True):
        *cells, last = row
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        lines.append(_GAP.join([*padded, last]).rstrip())
        if task is not None:
            lines += [line for each in asked(task) for line in _question(each)]
    return "\n".join(lines)


def _question(asked: Escalation) -> Iterator[str]:
    yield f"  asks {asked.id}: {one_line(asked.question, _QUESTION_CHARS)}"
    if asked.error and asked.error != asked.question:
        yield f"    because: {one_line(asked.error, _QUESTION_CHARS)}"


def _row(task: TaskView, now: float) -> list[str]:
    counts = task.counts()
    done = f"{counts[SubtaskStatus.SUCCEEDED]}/{counts.total()}" if counts else "-"
    path = task.state.path if task.state.path.partition("/")[0] == task.root else f"{task.root}: {task.state.path}"
    texts = one_line(task.state.task.goal, _GOAL_CHARS), one_line(task.error, _GOAL_CHARS)
    return [task.id, path, task.status, done, age(now - task.state.root.started_at), *texts]


def asked(task: TaskView) -> list[Escalation]:
    """The open questions of a task and of the teams that have a part of it, the oldest first."""
    return sorted(task.state.questions.values(), key=lambda each: each.raised_at)


def age(seconds: float) -> str:
    """``5 min``: in the largest unit of which there is one."""
    whole = max(0, int(seconds))
    size, unit = next(((size, unit) for size, unit in _UNITS if whole >= size), _UNITS[-1])
    return f"{whole // size} {unit}"


def shown(task: TaskView, format: str, now: float) -> str:
    """A task with what its teams do: as text with the log of what happened, or its graph, or all there is as JSON.

    Raises:
        DumpFormatError: no such format.
    """
    graph = draw(view_of(task, now, deep=True), format)
    if format == "json":
        everything = json.loads(graph)
        everything["root"] = task.root
        everything["events"] = [_facts_of(event) for event in _log(task)]
        return json.dumps(everything, indent=2)
    if format == "mermaid":
        return graph
    return "\n\n".join([graph, "\n".join(_line(event, task) for event in _log(task))])


def _log(task: TaskView) -> list[TaskEvent]:
    return [event for event in task.records if isinstance(event, TaskEvent)]


def _line(event: TaskEvent, task: TaskView) -> str:
    """``2031-05-06 07:08:09.123   SubtaskStarted search   worker=search attempt=1``."""
    where = f"{event.path}: " if event.path != task.state.path else ""
    what = " ".join([type(event).__name__, *_subtask_of(event)])
    said = " ".join(f"{name}={_worded(name, value)}" for name, value in _told(event))
    return _GAP.join([local(event.at), f"{where}{what}", said]).rstrip()


def _worded(name: str, value: Any) -> str:
    return local(value) if name in _TIMES else one_line(str(value), _QUESTION_CHARS)


def _subtask_of(event: TaskEvent) -> list[str]:
    return [event.subtask] if isinstance(event, SubtaskEvent) else []


def _told(event: TaskEvent) -> Iterator[tuple[str, Any]]:
    """Return the fields but those that all events have, and long ones, which stand in the graph."""
    for each in fields(event):
        value = getattr(event, each.name)
        if each.name == "rerun":
            value = tuple(value)  # the texts of the feedback are long
        says = value not in (None, "", (), False) or each.name == "passed"
        if says and (each.repr or each.name in {"error", "rerun"}) and each.name not in _UNTOLD:
            yield each.name, value


def _facts_of(event: TaskEvent) -> dict[str, Any]:
    subtask = {"subtask": event.subtask} if isinstance(event, SubtaskEvent) else {}
    told = {name: value if isinstance(value, (int, float)) else str(value) for name, value in _told(event)}
    return {"at": event.at, "event": type(event).__name__, "path": event.path, "task": event.task} | subtask | told
