"""Hints: what is allowed in a declaration, and probably not what its author wants. ``regrow check`` prints them.

Comes in: a spec that the check has passed. Goes out: a ``Problem`` for each hint. The source of workers is read where
there is any; nothing of theirs is called. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from actors.model.errors import Escalated, Problem
from actors.tasks.execution.adapters import entry_of
from actors.tasks.model import Ladder, LadderPosition
from actors.worker import Worker
from trees.declaration.check_tasks import without_orchestrator
from trees.declaration.kinds import kind_of
from trees.declaration.specs import SupervisorSpec, WorkerSpec


def hints(spec: SupervisorSpec) -> list[Problem]:
    """List the hints for a tree, in the order of its declaration. Starts nothing."""
    return list(_of(spec, spec.id))


def _of(spec: SupervisorSpec, at: str) -> Iterator[Problem]:
    yield from _out_of_reach(spec, at)
    for child in spec.children:
        if isinstance(child, SupervisorSpec):
            yield from _of(child, f"{at}/{child.id}")
        elif spec.tasks is not None:
            yield from _nobody_to_ask(child, tuple(spec.tasks.on_failure), f"{at}/{child.id}")


def _out_of_reach(spec: SupervisorSpec, at: str) -> Iterator[Problem]:
    """Executables whose own supervisor has no orchestrator, though one above it has."""
    if spec.tasks is None and "/" in at:
        for child in spec.children:
            if isinstance(child, WorkerSpec) and child.execute is not None:
                yield without_orchestrator(f"{at}/{child.id}", at)


def _nobody_to_ask(spec: WorkerSpec, above: Ladder, at: str) -> Iterator[Problem]:
    """A worker that asks a person where no rung of its ladder does."""
    ladder = above if spec.on_failure is None else tuple(spec.on_failure)
    if any(rung.ask(LadderPosition(), "") is not None for rung in ladder):
        return
    kind, value = kind_of(spec)
    if raises_escalated(kind.look(value).found):
        what = "its code raises Escalated, and no rung of its ladder asks a person: the subtask would fail"
        yield Problem(f"{at}.on_failure", what, "Add Escalate() to it, or to on_failure= of the supervisor's Tasks.")


def raises_escalated(found: Any) -> bool:
    """True where the source of a worker is known to raise ``Escalated``, or to return one.

    Of a class, or an object, all of its own methods are looked at. Code whose source cannot be read is not known.
    """
    return any(_asks(function) for function in _functions(found))


def _functions(found: Any) -> Iterator[FunctionType]:
    while isinstance(found, functools.partial):
        found = found.func
    entry = entry_of(found)
    code = inspect.unwrap(getattr(entry.code, "__func__", entry.code)) if entry is not None else None
    if isinstance(code, FunctionType):
        yield code
    owner = found if isinstance(found, type) else type(found)
    if owner is FunctionType:
        return
    for base in owner.__mro__:
        if base not in {object, Worker}:
            yield from (each for each in vars(base).values() if isinstance(each, FunctionType))


def _asks(function: FunctionType) -> bool:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, ValueError, SyntaxError):
        return False
    names = {**function.__globals__, **_enclosed(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in {"actors", "actors.model.errors"}:
            names.update({each.asname or each.name: Escalated for each in node.names if each.name == "Escalated"})
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    return any(_is_escalated(each, names) for each in (*raised, *returned))


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """Names of enclosing functions, by what they stand for now."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # it is not there yet
    return found


def _is_escalated(said: ast.expr | None, names: dict[str, Any]) -> bool:
    """True where an expression is the signal, or a call of it."""
    if isinstance(said, ast.Call):
        said = said.func
    path = []
    while isinstance(said, ast.Attribute):
        path.append(said.attr)
        said = said.value
    value = names.get(said.id) if isinstance(said, ast.Name) else None
    for name in reversed(path):
        value = vars(value).get(name) if hasattr(value, "__dict__") else None
    return isinstance(value, type) and issubclass(value, Escalated)
