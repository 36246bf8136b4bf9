"""A run of one task as text, as JSON, as mermaid.

Comes in: a ``RunView``. Goes out: text. This is about one run,
and for whoever holds its handle: it tells times, and what the task is about. Texts of users, models and workers are cut
and made harmless for a terminal, and for mermaid. This module must never import threads or a clock, nor ask anybody.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

from actors.tasks.journal.view import Escalation, UnitView
from actors.tasks.model import SubtaskStatus, TaskStatus, Usage
from trees.views.run_view import RunView
from trees.views.table import TableRow, aligned, lines_before, one_line
from trees.views.task_rows import progress_of
from trees.views.tree_text import DumpFormatError, escaped

FORMATS: Final = ("text", "mermaid", "json")
_NOTE_CHARS: Final = 120
_GOAL_CHARS: Final = 80
_SAID_LINES: Final = 20
"""Lines of the task's error that are shown."""


def draw(view: RunView, format: str) -> str:
    """Draw a view of a run, with the parts that it has.

    Raises:
        DumpFormatError: no such format.
    """
    if format == "text":
        return _to_text(view)
    if format == "mermaid":
        return _to_mermaid(view)
    if format == "json":
        return _to_json(view)
    raise DumpFormatError(format)


# -- text --------------------------------------------------------------------------------------------------


def _to_text(view: RunView) -> str:
    rows = [TableRow(f"task {view.id}", "", view.status, list(_of_task(view)))]
    rows += _rows(view)
    return "\n".join([aligned(rows), *_below(view)])


def _of_task(view: RunView) -> Iterator[str]:
    yield one_line(view.goal, _GOAL_CHARS)
    if view.phase is not None:
        yield view.phase
    if view.iterations:
        yield f"reviews {view.iterations}"
    if view.replans:
        yield f"replans {view.replans}"
    if view.best_effort:
        yield "best effort"
    used = _used(view.usage)
    if used:
        yield used
    yield f"{view.elapsed_s:.1f} s"


def _used(usage: Usage) -> str:
    parts = [f"{name} {value:,g}" for name in ("tokens", "cost") if (value := getattr(usage, name))]
    return ", ".join(parts)


def _rows(view: RunView) -> Iterator[TableRow]:
    """The subtasks of the plan, and under each those that it asked for and those of its team, however deep that is."""
    left = _under(view, None, "")
    while left:
        of, each, own, below = left.pop()
        undone = ["undone"] if each.id in of.undone and each.status is not SubtaskStatus.COMPENSATED else []
        yield TableRow(own + each.id, _who(each), each.status, [*undone, *_facts(of, each)])
        left += _under(of, each.id, below)


def _under(view: RunView, parent: str | None, prefix: str) -> list[tuple[RunView, UnitView, str, str]]:
    """Subtasks that stand under one, each with its run and the lines before it; the last one first."""
    found = _below_one(view, parent)
    return [(of, each, *lines_before(prefix, last=each is found[-1][1])) for of, each in reversed(found)]


def _below_one(view: RunView, parent: str | None) -> list[tuple[RunView, UnitView]]:
    part = view.parts.get(parent) if parent is not None else None
    inner = part.children.get(None, ()) if part is not None else ()
    return [*((view, each) for each in view.children.get(parent, ())), *((part, each) for each in inner if part)]


def _facts(view: RunView, each: UnitView) -> Iterator[str]:
    """Facts about a subtask, times last."""
    if each.depends_on:
        yield "after " + ", ".join(each.depends_on)
    part = view.parts.get(each.id)
    if part is not None and part.phase is not None:
        yield part.phase
    if each.attempts > 1:
        yield f"attempts {each.attempts}"
    if each.progress is not None:
        yield progress_of(each.progress.fraction, each.progress.text).rstrip()
    if each.note:
        note = one_line(each.note, _NOTE_CHARS)
        yield note if each.status in _WHY and each.id not in view.parts else f"before: {note}"
    used = _used(each.usage)
    if used:
        yield used
    if each.waits:
        yield each.reason
    if each.retry_in_s is not None:
        yield f"next attempt in {each.retry_in_s:.1f} s"
    times = _times(each)
    if times:
        yield times


_WHY: Final = frozenset(
    {
        SubtaskStatus.FAILED,
        SubtaskStatus.SKIPPED,
        SubtaskStatus.CANCELLED,
        SubtaskStatus.RETRYING,
        SubtaskStatus.WAITING,
    }
)
"""Where a note is about what is now; elsewhere, and where a team has it now, it is of an attempt before."""


def _times(each: UnitView) -> str:
    """``queued 0.0 s, ran 1.2 s``; nothing for one that never could run."""
    if each.started_at:
        return f"queued {each.queued_s:.1f} s, ran {each.running_s:.1f} s"
    return f"queued {each.queued_s:.1f} s" if each.queued_s or each.status is SubtaskStatus.QUEUED else ""


def _below(view: RunView) -> Iterator[str]:
    """Questions to people, and facts about the task as a whole."""
    yield from _questions(view)
    if len(view.usage_by_role) > 1:
        by = {role: _used(usage) for role, usage in view.usage_by_role.items()}
        yield "used by " + "; ".join(f"{role}: {used}" for role, used in by.items() if used)
    yield from (f"not undone: {id_}: {one_line(why, _NOTE_CHARS)}" for id_, why in view.undo_errors.items())
    yield from (f"note: {one_line(note, _NOTE_CHARS)}" for note in view.notes)
    if view.status is not TaskStatus.SUCCEEDED:
        said = view.error_text.splitlines()
        yield from (one_line(line, 2 * _NOTE_CHARS) for line in said[:_SAID_LINES])
        if len(said) > _SAID_LINES:
            yield f"... and {len(said) - _SAID_LINES:,} more lines"


def _questions(view: RunView) -> Iterator[str]:
    """Questions that are open, those of its teams too: about ``team/subtask``."""
    for asked in view.escalations:
        yield f"asks {asked.id}, about {_about(asked)}: {one_line(asked.question, _NOTE_CHARS)}"
        if asked.error and asked.error != asked.question:
            yield f"  because: {one_line(asked.error, _NOTE_CHARS)}"
    for part in view.parts.values():
        yield from _questions(part)


def _about(asked: Escalation) -> str:
    if asked.step:
        step = "the review" if asked.step == "review" else "the synthesis"
        return f"{step} of {asked.subtask}".removesuffix(" of ")
    return f"the undo of {asked.subtask}" if asked.undoing else asked.subtask


# -- mermaid -----------------------------------------------------------------------------------------------

_COLOURS: Final[dict[str, str]] = {
    SubtaskStatus.PENDING: "fill:#f5f5f5,stroke:#999,color:#111",
    SubtaskStatus.QUEUED: "fill:#e3eefc,stroke:#1a5fb4,color:#111",
    SubtaskStatus.RUNNING: "fill:#d0e8ff,stroke:#0b4f9e,color:#111",
    SubtaskStatus.RETRYING: "fill:#fff3c4,stroke:#b7791f,color:#111",
    SubtaskStatus.WAITING: "fill:#ffe2b8,stroke:#c05600,color:#111",
    SubtaskStatus.SUCCEEDED: "fill:#d8f0d8,stroke:#2e7d32,color:#111",
    SubtaskStatus.FAILED: "fill:#f8d0d0,stroke:#b71c1c,color:#111",
    SubtaskStatus.CANCELLED: "fill:#e6e6e6,stroke:#b71c1c,color:#111",
    SubtaskStatus.SKIPPED: "fill:#e6e6e6,stroke:#666,color:#111",
    SubtaskStatus.COMPENSATED: "fill:#eadcf5,stroke:#6a1b9a,color:#111",
}


def _to_mermaid(view: RunView) -> str:
    """A ``graph TD`` of what ran: arrows from what was needed, dashed ones from who asked for more, or has a team."""
    lines: list[str] = []
    used = _draw_run(view, None, itertools.count(), lines)
    if not lines:  # not planned yet, or never
        lines.append(f'  n0["{escaped(f"task {view.id}")}<br/>{view.status}"]')
    lines += [f"  classDef {status} {style}" for status, style in _COLOURS.items() if status in used]
    return "\n".join(["graph TD", *lines])


def _draw_run(view: RunView, team: str | None, numbers: Iterator[int], lines: list[str]) -> set[SubtaskStatus]:
    """Draw a run below the node of its team; returns where its subtasks stand."""
    # Names of our own: an id of the user's could be a word of mermaid's ("end").
    names = {each.id: f"n{next(numbers)}" for each in view.subtasks}
    for each in view.subtasks:
        label = "<br/>".join(escaped(text) for text in _label(each))
        lines.append(f'  {names[each.id]}["{label}"]:::{each.status}')
    for each in view.subtasks:
        lines += [f"  {names[needed]} --> {names[each.id]}" for needed in each.depends_on if needed in names]
        if each.parent in names:
            lines.append(f"  {names[each.parent]} -.-> {names[each.id]}")
        elif team is not None and not each.depends_on:
            lines.append(f"  {team} -.-> {names[each.id]}")
    used = {each.status for each in view.subtasks}
    for id_, part in view.parts.items():
        used |= _draw_run(part, names.get(id_), numbers, lines)
    return used


def _who(each: UnitView) -> str:
    """Return the worker that has it, or is to have it; a [capability] if that is open."""
    return each.worker or each.spec.worker or (f"[{each.spec.capability}]" if each.spec.capability else "")


def _label(each: UnitView) -> Iterator[str]:
    yield each.id
    who = _who(each)
    if who:
        yield who
    yield each.status
    times = _times(each)
    if times:
        yield times
    if each.attempts > 1:
        yield f"attempts {each.attempts}"


# -- json --------------------------------------------------------------------------------------------------


def _to_json(view: RunView) -> str:
    """Everything; ASCII, so that it goes through whatever pipe there is. What is not a number there becomes null."""
    data = view.everything()
    try:
        return _dumped(data, allow_nan=False)
    except ValueError:
        return _dumped(json.loads(_dumped(data, allow_nan=True), parse_constant=_nothing), allow_nan=False)


def _dumped(data: dict[str, Any], *, allow_nan: bool) -> str:
    return json.dumps(data, indent=2, allow_nan=allow_nan, default=_named)


def _named(value: object) -> str:
    """Stand-in for what cannot be JSON, which only a store in memory can hold: its kind and nothing of it."""
    return f"<{type(value).__name__}>"


def _nothing(_: str) -> None:
    return None
