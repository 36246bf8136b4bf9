"""Picture of ``regrow top``: lines of plain text, decided from what a ``Source`` has answered and what was chosen.

Pure: nothing is asked or drawn here. Every text may come from a worker, so it is made printable, and stays plain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from actors.model.clock import local
from trees.observe.source import Shape
from trees.views.table import one_line
from trees.views.task_views import age

SORTS: Final = ("tree", "trouble", "restarts", "mailbox", "current")
"""Orders of the children: as they are declared, or those first that a person should look at."""
TREE_HEADS: Final = ("Child", "State", "Last error", "Restarts", "Mailbox", "Now", "Notes")
TASK_HEADS: Final = ("Task", "Status", "Where", "Subtasks", "Age", "Goal")
QUESTION_HEADS: Final = ("Question", "Task", "Subtask", "Waits", "Answers", "Text")
CRASH_HEADS: Final = ("Child", "Error", "Times", "Last")
_STATES: Final = ("parked", "stopped", "restarting", "running")
_ERROR_CHARS: Final = 40
"""Length of the last error in a line of the tree: Enter shows all of it."""
_LONGEST: Final = 200
_MOST_ASKED: Final = 4000
"""Length of a question, and of the line above all."""

Cells = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Choice of a person: what is to be seen, and in which order."""

    sort: str = "tree"
    text: str = ""
    """Part of what must stand in a line; empty: anything."""
    folded: frozenset[str] = frozenset()
    """Paths whose children are not shown."""
    unfolded: frozenset[str] = frozenset()
    """Paths that the source folds, and shall not."""

    def sorted_next(self) -> Chosen:
        """With the next order."""
        return replace(self, sort=SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)])

    def toggled(self, row: Shape) -> Chosen:
        """With a row folded that is open, or the other way round."""
        path = row["path"]
        if row.get("folded"):
            return replace(self, unfolded=self.unfolded | {path}, folded=self.folded - {path})
        if path in self.folded:
            return replace(self, folded=self.folded - {path})
        if path in self.unfolded:
            return replace(self, unfolded=self.unfolded - {path})
        return replace(self, folded=self.folded | {path})


def plain(text: object, longest: int = _LONGEST) -> str:
    """A text in one line that a terminal shows and never obeys."""
    shown = "".join(each if each.isprintable() else " " for each in str(text)[:longest])
    return shown.strip()


# -- the tree ----------------------------------------------------------------------------------------------


def children(rows: Sequence[Shape], chosen: Chosen) -> list[Shape]:
    """The rows to be drawn, in their order. A filter keeps what stands above a row that it finds."""
    open_ = [row for row in rows if not any(_is_below(row["path"], path) for path in chosen.folded)]
    if chosen.sort != "tree":
        found = [row for row in open_ if row["kind"] != "supervisor" and _has(row, chosen.text)]
        return sorted(found, key=lambda row: _weight(row, chosen.sort), reverse=True)
    found = [row for row in open_ if _has(row, chosen.text)]
    above = {path for row in found for path in _above(row["path"])} if chosen.text else set()
    kept = {row["path"] for row in found} | above
    return [row for row in open_ if row["path"] in kept]


def child_cells(row: Shape, chosen: Chosen) -> Cells:
    """One line of the tree."""
    is_tree = chosen.sort == "tree"
    size = f" ×{row['size']}" if row["kind"] == "pool" and row.get("size") is not None else ""
    indent = "  " * row["depth"] if is_tree else ""
    mark = _mark(row, chosen) if is_tree else ""
    name = f"{indent}{mark}{row['id'] if is_tree else row['path']}{size}"
    return (
        name if is_tree else plain(name),
        plain(row["state"]),
        one_line(row.get("last_error") or "", _ERROR_CHARS),
        _restarts(row),
        _number(row.get("mailbox")),
        "" if row.get("current_s") is None else f"{row['current_s']:.1f} s",
        ", ".join(_notes(row)),
    )


def head_line(shape: Shape) -> str:
    """Line above all: who this is, and what is wrong."""
    health, now, children = shape.get("health") or {}, shape.get("now") or {}, shape.get("children")
    number = shape["total"] if children is None else sum(children.values())
    nouns = ("tree", "trees") if shape.get("role") == "store" else ("child", "children")
    states = [f"{count:,} {state}" for state, count in (children or {}).items() if state != "running"]
    tasks = ", ".join(f"{status} {count}" for status, count in (now.get("tasks") or {}).items() if count)
    dead = sum((now.get("dead_letters") or {}).values())
    problems = [f"{each.get('path') or ''}: {each.get('what')}" for each in health.get("problems") or ()]
    parts = [
        f"{shape['name']} ({shape.get('role') or 'alone'})",
        _of_a_store(shape) or ("ready" if health.get("ready") else "not ready" if health else ""),
        f"{number:,} {nouns[number != 1]}" + (f" ({', '.join(states)})" if states else ""),
        f"tasks: {tasks}" if tasks else "",
        f"dead letters {dead}" if dead else "",
        *(f"alert {each['name']}" for each in now.get("alerts") or ()),
        *problems[:2],
        f"and {len(problems) - 2} problems more" if len(problems) > 2 else "",  # noqa: PLR2004 - those just shown
    ]
    return plain("   ".join(part for part in parts if part), _MOST_ASKED)


def _of_a_store(shape: Shape) -> str:
    """``stopped, as of TIME``, of a store whose trees all have ended; empty if one of them runs."""
    if shape.get("state") != "stopped":
        return "" if shape.get("state") != "unknown" else "not known whether it runs"
    as_of = shape.get("as_of")
    return "stopped" if as_of is None else f"stopped, as of {local(as_of)}"


def _mark(row: Shape, chosen: Chosen) -> str:
    if row["kind"] not in {"supervisor", "pool"}:
        return "  "
    return "▸ " if row.get("folded") or row["path"] in chosen.folded else "▾ "


def _restarts(row: Shape) -> str:
    limit, used = row.get("max_restarts"), row.get("restarts_used")
    if row["state"] == "parked":
        number = row.get("restarts") if used is None else used
        return f"parked after {number} {'restart' if number == 1 else 'restarts'}"
    if limit is not None and used is not None:
        return f"{used} of {limit} in {row['within_s']:g} s"
    return _number(row.get("restarts"))


def _notes(row: Shape) -> Iterator[str]:
    if row.get("folded") and row["kind"] == "supervisor" and row.get("size") is not None:
        yield f"{row['size']:,} children folded"
    if row.get("busy"):
        yield f"busy {row['busy']}"
    if row.get("breaker") not in {None, "closed"}:
        yield f"breaker {str(row['breaker']).replace('_', ' ')}"
    if row.get("pid") is not None:
        yield f"pid {row['pid']}"
    if row.get("node"):
        yield f"on node {plain(row['node'])[:12]}"
    if row.get("holder"):
        led = "was led" if row["state"] == "stopped" else "led"
        yield f"{led} by {plain(row['holder'])}"
    if (row.get("lease_left_s") or 0.0) > 0.0:
        yield f"lease {row['lease_left_s']:.1f} s"


def _number(value: Any) -> str:
    return "" if value is None else str(value)


def _has(row: Shape, text: str) -> bool:
    return text.lower() in f"{row['path']} {row['state']} {row['kind']}".lower()


def _is_below(path: str, top: str) -> bool:
    return path.startswith((f"{top}/", f"{top}#"))


def _above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _weight(row: Shape, sort: str) -> Any:
    if sort == "trouble":
        state = str(row["state"])
        return (
            -_STATES.index(state) if state in _STATES else 1,
            row.get("breaker") not in {None, "closed"},
            row.get("restarts") or 0,
        )
    return row.get("current_s" if sort == "current" else sort) or 0


# -- tasks, questions, crashes -----------------------------------------------------------------------------


def tasks(shape: Shape, at: float, text: str) -> Iterator[tuple[str, Cells]]:
    """A line for each task, by its id."""
    for task in shape.get("tasks", ()):
        counts = ", ".join(f"{status} {count}" for status, count in (task.get("subtasks") or {}).items() if count)
        where = f"{task['root']}: {task['path']}" if task.get("root") else task["path"]
        cells = (task["id"], task["status"], where, counts, age(at - task["created_at"]), task.get("goal") or "")
        yield from _line(task["id"], cells, text)


def questions(shape: Shape, at: float, text: str) -> Iterator[tuple[str, Cells]]:
    """A line for each question, by its id. Its text is not cut: a person decides by it."""
    for asked in shape.get("questions", ()):
        cells = (
            asked["id"],
            asked["task"],
            asked.get("subtask") or asked.get("kind") or "",
            age(at - asked["asked_at"]),
            ", ".join(asked.get("answers") or ()),
            asked.get("text") or "",
        )
        yield from _line(asked["id"], cells, text, _MOST_ASKED)


def crashes(shape: Shape, at: float, text: str) -> Iterator[tuple[str, Cells]]:
    """A line for each child and type of error."""
    for crash in (shape.get("now") or {}).get("crashes") or ():
        cells = (crash["path"], crash["type"], str(crash["count"]), f"{age(at - crash['last_at'])} ago")
        yield from _line(f"{crash['path']} {crash['type']}", cells, text)


def _line(key: str, cells: Iterable[object], text: str, longest: int = _LONGEST) -> Iterator[tuple[str, Cells]]:
    shown = tuple(plain(cell, longest) for cell in cells)
    if text.lower() in " ".join(shown).lower():
        yield key, shown


def overview(tree: Shape, tasks_: Shape, questions_: Shape) -> str:
    """All of it as text, for a file or a pipe."""
    at = tree.get("at") or 0.0
    parts = [
        (TREE_HEADS, [child_cells(row, Chosen()) for row in tree["rows"]]),
        (TASK_HEADS, [cells for _, cells in tasks(tasks_, at, "")]),
        (QUESTION_HEADS, [cells for _, cells in questions(questions_, at, "")]),
        (CRASH_HEADS, [cells for _, cells in crashes(tree, at, "")]),
    ]
    return "\n\n".join([head_line(tree), *(_columns([heads, *rows]) for heads, rows in parts if rows)])


def _columns(rows: Sequence[Cells]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


# -- one of them -------------------------------------------------------------------------------------------


def details(shape: Shape) -> str:
    """All that is told of one child or task, as text: a heading for each part, a line for each entry."""
    lines: list[str] = []
    for name, value in shape.items():
        if name == "version" or value in (None, "", [], {}):
            continue
        if isinstance(value, dict):
            lines += ["", f"{name}:", *(f"  {key}: {_brief(part)}" for key, part in value.items() if part is not None)]
        elif isinstance(value, list):
            lines += ["", f"{name}:", *(f"  {_brief(part)}" for part in value)]
        else:
            lines.append(f"{name}: {_brief(value, name)}")
    return "\n".join(lines)


def stack_text(shape: Shape) -> str:
    """Frames of a stack; lines of code keep their indentation."""
    frames = [line for frame in shape.get("frames") or () for line in str(frame).splitlines()]
    shown = ["".join(each if each.isprintable() else " " for each in line[:_LONGEST]) for line in frames]
    return "\n".join(shown) or "It runs no code now."


def _brief(value: Any, name: str = "") -> str:
    if isinstance(value, dict):
        return plain("   ".join(f"{key} {_brief(part, key)}" for key, part in value.items() if part is not None))
    if isinstance(value, float) and (name.endswith("at") or name in {"from", "to"}):
        return local(value)
    return plain(value if isinstance(value, str) else json.dumps(value, default=str))
