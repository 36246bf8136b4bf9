"""Variants of a declaration: a spec of it by its path, and a copy in which one spec is another.

Comes in: a root that was declared. Goes out: one of its specs, or a new root that the whole check has passed. The root
itself is never changed, and shares what is the same with its copy. Nothing runs; as in any check, what import strings
name is imported.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from actors.model.errors import ConfigError, UnknownPathError
from trees.declaration.check import require_valid
from trees.declaration.specs import Spec, SupervisorSpec, WorkerSpec, kind_fields

_ARGUMENTS = ("args", "kwargs")
"""Fields that belong to the code of a worker: other code begins without them."""


def find(root: SupervisorSpec, path: str) -> Spec:
    """Return the spec at ``path``, which begins with the id of the root.

    Raises:
        UnknownPathError: nothing is declared there.
    """
    found: Spec = _line(root, path)[-1]
    return found


def replaced(root: SupervisorSpec, path: str, changes: Mapping[str, Any]) -> SupervisorSpec:
    """Return a copy of the root in which the spec at ``path`` has these fields, checked as a whole.

    Raises:
        UnknownPathError: nothing is declared there.
        ConfigError: the copy could not be started; with every problem, each with its path.
    """
    *above, old = _line(root, path)
    parent = path.rpartition("/")[0]
    try:
        new: Any = _changed(old, changes)
        for supervisor in reversed(above):
            children = [new if child is old else child for child in supervisor.children]
            old, new = supervisor, supervisor.model_copy(update={"children": children})
    except ConfigError as error:
        if not parent:
            raise
        problems = tuple(replace(problem, path=f"{parent}/{problem.path}") for problem in error.problems)
        raise type(error)(problems) from None
    require_valid(new)
    copy: SupervisorSpec = new
    return copy


def _changed(spec: Spec, changes: Mapping[str, Any]) -> Spec:
    """Return one spec with other fields. A worker has one field of work: a new one takes the place of the old."""
    given = {name: getattr(spec, name) for name in spec.model_fields_set}
    if isinstance(spec, WorkerSpec) and any(changes.get(name) is not None for name in kind_fields()):
        given = {name: value for name, value in given.items() if name not in (*kind_fields(), *_ARGUMENTS)}
    return type(spec)(**{**given, **changes})


def _line(root: SupervisorSpec, path: str) -> list[Any]:
    """Return the specs from the root down to the one at ``path``."""
    wanted, line = str(path).split("/"), [root]
    if wanted[0] != root.id:
        raise _unknown(root, path)
    for id_ in wanted[1:]:
        children = getattr(line[-1], "children", ())
        child = next((child for child in children if child.id == id_), None)
        if child is None:
            raise _unknown(root, path)
        line.append(child)
    return line


def _unknown(root: SupervisorSpec, path: str) -> UnknownPathError:
    return UnknownPathError(str(path), tuple(difflib.get_close_matches(str(path), list(_paths(root)), n=5, cutoff=0.5)))


def _paths(spec: Spec, above: str = "") -> Iterator[str]:
    at = f"{above}/{spec.id}" if above else spec.id
    yield at
    for child in getattr(spec, "children", ()):
        yield from _paths(child, at)
