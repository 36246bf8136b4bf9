"""How an effect is undone: by code, or by a worker, as it was declared."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.model.errors import Failed
from actors.tasks.journal.effect import Effect
from actors.tasks.journal.unit import Unit
from actors.validation.introspection import is_async

if TYPE_CHECKING:
    from actors.tasks.engine.scope import Scope
    from actors.tasks.scheduling.worker_registry import RegistryEntry


class Undoer(NamedTuple):
    """What undoes an effect."""

    worker: str
    code: Callable[[Any, Any], Any] | None
    """Called with the subtask and its context; None: a worker does it."""
    is_async: bool = False
    entry: RegistryEntry | None = None


def undo_code(scope: Scope, unit: Unit, effect: Effect) -> Undoer | str:
    """Find what undoes an effect; a text that says who is gone, where that is nobody."""
    entry = scope.workers.get_including_removed(effect.worker, is_team=effect.is_team)
    declared: Any = unit.spec.undo
    if declared is None and entry is not None:
        declared = entry.executable.undo
    if declared is None:
        return f"{effect.worker!r}, which knew how to undo it, is gone"
    if not isinstance(declared, str):
        return Undoer(effect.worker, partial(_undo, declared, unit.id), is_async(declared))
    if ":" in declared:
        return Undoer(effect.worker, partial(_undo, partial(_imported, declared), unit.id))
    by = scope.workers.get(declared)
    if by is None or by.is_gone:
        return f"{declared!r}, which is to undo it, is gone"
    return Undoer(by.id, None, entry=by)


def _undo(how: Callable[..., Any], subtask: str, task: Any, context: Any) -> Any:
    """Call code that undoes: with the result, which it may change."""
    return how(task, context.results[subtask], context)


def _imported(name: str, task: Any, result: Any, context: Any) -> Any:
    """Call ``module:attr``; importing it runs code of the user's, so it is done where that runs."""
    try:
        found: Any = pkgutil.resolve_name(name)
    except Exception as error:
        said = f"{name!r}, which is to undo it, could not be imported: {type(error).__name__}"
        raise Failed(said, retryable=False) from error
    return found(task, result, context)
