"""A snapshot as text for people and for tests, as JSON for programs, as mermaid for documents.

The text is an oracle for tests: for a tree that has settled it is always the same. So it has no times, no ids that
differ from run to run, nothing that is 0, and pools folded. ``verbose`` adds what differs: ages, due times, the message
that is being handled, threads. This module must never import threads or a clock, and never look at a tree itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from actors.model.child_state import State
from actors.model.errors import ActorsError
from trees.views.snapshot import (
    BreakerSnapshot,
    Doing,
    ExitSnapshot,
    LimitSnapshot,
    PoolSnapshot,
    ProcessSnapshot,
    SupervisorSnapshot,
    TreeSnapshot,
    WorkerSnapshot,
)
from trees.views.table import TableRow, aligned, lines_before
from trees.views.task_rows import task_rows

Format: TypeAlias = Literal["text", "json", "mermaid"]
FORMATS: Final[tuple[Format, ...]] = ("text", "json", "mermaid")
ShownNode: TypeAlias = WorkerSnapshot | PoolSnapshot | SupervisorSnapshot

_STATES: Final[tuple[State, ...]] = ("running", "restarting", "stopped", "parked")
"""In the order in which a pool's are listed, the worst last."""
_DOING: Final[dict[Doing, str]] = {
    "starting": "starting",
    "stopping": "stopping",
    "backoff": "retry pending",
    "waiting": "waits its turn",
}


class DumpFormatError(ActorsError, ValueError):
    """No such format."""

    def __init__(self, given: object) -> None:
        super().__init__(given)
        self.given = given

    def __str__(self) -> str:
        what = repr(self.given) if isinstance(self.given, str) else f"a {type(self.given).__name__}"
        return f"dump: {what} is not a format. Use 'text', 'json' or 'mermaid'."


def render(snapshot: TreeSnapshot, format: Format = "text", *, verbose: bool = False) -> str:
    """A snapshot in one of the formats; ``verbose`` is for text, the others show all or little anyway.

    Raises:
        DumpFormatError: no such format.
    """
    if format == "text":
        return to_text(snapshot, verbose=verbose)
    if format == "json":
        return snapshot.model_dump_json(indent=2)
    if format == "mermaid":
        return to_mermaid(snapshot)
    raise DumpFormatError(format)


# -- text --------------------------------------------------------------------------------------------------


def to_text(snapshot: TreeSnapshot, *, verbose: bool = False) -> str:
    """One line a child, pools folded; then what the whole tree has to say, and stacks where they were asked for."""
    top = snapshot.top
    rows = _rows(top, _name(top, top.path), ("", ""), verbose=verbose)
    parts = [
        _leading(snapshot, verbose=verbose),
        aligned(rows),
        "\n".join(_footer(snapshot, verbose=verbose)),
        *_stacks(top),
    ]
    return "\n\n".join(part for part in parts if part)


def _leading(snapshot: TreeSnapshot, *, verbose: bool) -> str:
    """Leader, where several processes could lead."""
    if snapshot.token is None:
        return ""
    said = [str(snapshot.role)]
    if snapshot.role == "standby":
        said.append(f"{snapshot.holder} leads" if snapshot.holder is not None else "nobody is known to lead")
        left_s = snapshot.lease_left_s
        if snapshot.holder is not None and left_s is not None:
            said.append(f"until {left_s:.1f} s from now unless it renews its lease")
    if verbose and snapshot.token:
        said.append(f"token {snapshot.token}")
    if snapshot.role_reason is not None:
        said.append(snapshot.role_reason)
    return ", ".join(said)


def _rows(node: ShownNode, name: str, prefix: tuple[str, str], *, verbose: bool) -> Iterator[TableRow]:
    own, below = prefix
    kind = node.strategy if isinstance(node, SupervisorSnapshot) else node.restart
    yield TableRow(own + name, kind, _state(node), list(_facts(node, verbose=verbose)))
    children = node.children if isinstance(node, SupervisorSnapshot) else _unfolded(node, own)
    if isinstance(node, SupervisorSnapshot):
        yield from task_rows(node, below + ("│  " if children or node.hidden else "   "), verbose=verbose)
    hidden = node.hidden if isinstance(node, SupervisorSnapshot) else 0
    for number, child in enumerate(children, start=1):
        last = number == len(children) and not hidden
        yield from _rows(child, _name(child, child.id), lines_before(below, last=last), verbose=verbose)
    if hidden:
        yield TableRow(f"{below}└─ ... and {hidden:,} more", "", "")


def _unfolded(node: WorkerSnapshot | PoolSnapshot, own: str) -> tuple[WorkerSnapshot, ...]:
    """The members of a pool that stands at the top, because they were asked for."""
    return (node.members or ()) if isinstance(node, PoolSnapshot) and not own else ()


def _name(node: ShownNode, name: str) -> str:
    return f"{name} ×{node.size}" if isinstance(node, PoolSnapshot) else name


def _state(node: ShownNode) -> str:
    if isinstance(node, PoolSnapshot):
        return ", ".join(f"{state} {node.states[state]}" for state in _STATES if state in node.states)
    return node.state


def _facts(node: ShownNode, *, verbose: bool) -> Iterator[str]:
    """Facts about a child beside its state, the usual first."""
    if isinstance(node, PoolSnapshot):
        if node.restarts:
            yield f"restarts {node.restarts}"
        yield from (f"{_DOING[doing]} {node.doing[doing]}" for doing in _DOING if doing in node.doing)
    else:
        yield from _of_one(node, verbose=verbose)
    if node.last_exit is not None:
        yield _last_exit(node.last_exit, verbose=verbose)
    if node.breaker is not None and node.breaker.state != "closed":
        yield _breaker(node.breaker, verbose=verbose)
    yield from _counts(node)
    if verbose:
        yield from _now(node)


def _breaker(breaker: BreakerSnapshot, *, verbose: bool) -> str:
    due = verbose and breaker.probe_in_s is not None
    words = f"breaker {breaker.state.replace('_', ' ')}"
    return f"{words}, probe in {math.ceil(breaker.probe_in_s or 0.0)} s" if due else words


def _of_one(node: WorkerSnapshot | SupervisorSnapshot, *, verbose: bool) -> Iterator[str]:
    """Fields that a pool does not have."""
    if isinstance(node, SupervisorSnapshot):
        yield _limit(node.limit)
        if node.restart != "permanent":
            yield node.restart
    if isinstance(node, WorkerSnapshot) or node.incarnation > 1:
        yield f"incarnation {node.incarnation}"
    if node.own_limit is not None and node.state == "parked":
        yield f"parked after {node.own_limit.restarts} restarts in {node.own_limit.period_s:g} s"
    elif node.own_limit is not None and (node.restarts or node.own_limit.restarts):
        yield f"parks after {_limit(node.own_limit)}"
    if node.doing is not None:
        due = verbose and node.retry_in_s is not None
        yield f"retry in {node.retry_in_s:.1f} s" if due else _DOING[node.doing]


def _limit(limit: LimitSnapshot) -> str:
    restarts = "?" if limit.restarts is None else limit.restarts
    return f"restarts {restarts}/{limit.max_restarts} in {limit.period_s:g} s"


def _last_exit(last: ExitSnapshot, *, verbose: bool) -> str:
    how = f"last exit: {last.reason} {last.detail}".rstrip()
    return f"{how} {last.age_s:.1f} s ago" if verbose else how


def _counts(node: ShownNode) -> Iterator[str]:
    if not isinstance(node, SupervisorSnapshot) and node.mailbox:
        yield f"mailbox {node.mailbox}"
    if node.dead_letters:
        yield f"dead letters {node.dead_letters}"
    if node.abandoned:
        yield f"abandoned {node.abandoned}"
    if isinstance(node, SupervisorSnapshot) and node.tasks_finished:
        yield f"tasks finished {node.tasks_finished}"


def _now(node: ShownNode) -> Iterator[str]:
    if isinstance(node, PoolSnapshot):
        if node.busy:
            yield f"busy {node.busy}"
        return
    if isinstance(node, WorkerSnapshot) and node.current is not None:
        yield f"handles {node.current.type} for {node.current.age_s:.1f} s"
    if node.up_s is not None:
        yield f"up {node.up_s:.1f} s"
    if isinstance(node, WorkerSnapshot) and node.process is not None:
        yield from _process(node.process)
    if isinstance(node, WorkerSnapshot) and node.node is not None:
        yield f"node {node.node}"


def _process(process: ProcessSnapshot) -> Iterator[str]:
    yield f"pid {process.pid}"
    if process.memory_bytes is not None:
        yield f"memory {process.memory_bytes / 1e6:.0f} MB"
    if process.cpu_s is not None:
        yield f"cpu {process.cpu_s:.1f} s"


def _footer(snapshot: TreeSnapshot, *, verbose: bool) -> Iterator[str]:
    """Lines on the whole tree; none where there is nothing to say."""
    if snapshot.gave_up is not None:
        yield f"gave up: {snapshot.gave_up}"
    if snapshot.store_paused_s is not None:
        yield f"store paused for {snapshot.store_paused_s:.1f} s" if verbose else "store paused"
    if snapshot.dead_letters:
        yield "dead letters: " + ", ".join(f"{reason} {count}" for reason, count in snapshot.dead_letters.items())
    if snapshot.abandoned:
        yield "abandoned: " + ", ".join(f"{path} {count}" for path, count in snapshot.abandoned.items())
    if verbose:
        yield f"threads of the pool: {snapshot.threads}"


def _stacks(node: ShownNode) -> Iterator[str]:
    """A paragraph for each stack."""
    if isinstance(node, WorkerSnapshot):
        if node.stack is not None:
            yield f"{node.path}: {_what(node)}, in\n{node.stack.rstrip()}"
        for stack in node.abandoned_stacks or ():
            yield f"{node.path}: abandoned, still in\n{stack.rstrip()}"
        return
    for child in node.children if isinstance(node, SupervisorSnapshot) else node.members or ():
        yield from _stacks(child)


def _what(node: WorkerSnapshot) -> str:
    current = node.current
    if current is None:
        return node.state if node.doing is None else _DOING[node.doing]
    return f"handles {current.type} for {current.age_s:.1f} s"


# -- mermaid -----------------------------------------------------------------------------------------------

_COLOURS: Final[dict[State, str]] = {
    "running": "fill:#d8f0d8,stroke:#2e7d32,color:#111",
    "restarting": "fill:#fff3c4,stroke:#b7791f,color:#111",
    "stopped": "fill:#e6e6e6,stroke:#666,color:#111",
    "parked": "fill:#f8d0d0,stroke:#b71c1c,color:#111",
}
_BRACKETS: Final[dict[str, tuple[str, str]]] = {"supervisor": ("{{", "}}"), "pool": ("[[", "]]"), "worker": ("[", "]")}


def to_mermaid(snapshot: TreeSnapshot) -> str:
    """A ``graph TD`` with a class for each state; supervisors are hexagons, pools (folded) have double borders."""
    lines = ["graph TD"]
    _draw(snapshot.top, _name(snapshot.top, snapshot.top.path), None, lines)
    lines += [f"  classDef {state} {style}" for state, style in _COLOURS.items()]
    return "\n".join(lines)


def _draw(node: ShownNode, name: str, parent: str | None, lines: list[str]) -> None:
    # A name of our own for each: an id of the user's could be a word of mermaid's ("end").
    own = f"n{len(lines)}"
    kind = node.strategy if isinstance(node, SupervisorSnapshot) else node.restart
    state = max(node.states, key=_STATES.index) if isinstance(node, PoolSnapshot) else node.state
    label = "<br/>".join(escaped(text) for text in (name, f"{kind}, {_state(node)}", *_facts(node, verbose=False)))
    left, right = _BRACKETS[node.kind]
    arrow = f"{parent} --> " if parent is not None else ""
    lines.append(f'  {arrow}{own}{left}"{label}"{right}:::{state}')
    for child in node.children if isinstance(node, SupervisorSnapshot) else ():
        _draw(child, _name(child, child.id), own, lines)


def escaped(text: str) -> str:
    """Mermaid writes what means something to it as ``#code;``."""
    return "".join(f"#{ord(char)};" if char in _SPECIAL else char for char in text)


_SPECIAL: Final = frozenset("#;&<>\"'`\\{}[]()|")
