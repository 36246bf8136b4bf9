"""Resolution of ``actor=``, ``run=``, ``handle=`` and ``execute=``, and of where each runs.

Comes in: a spec, or one of these fields. Goes out: the class or function itself, whether it is async, and the place
that runs it. Importing the user's module is the only thing that happens here. This module must never import threads
or a clock; what a Pykka actor is it asks ``actors.worker``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from actors.callables import is_async
from actors.errors import ActorsError
from actors.problems import nearest
from actors.spec import Where
from actors.tasks.adapters import adapt, entry_of
from actors.worker import Worker, is_actor_class, is_stock, overrides
from trees.config import Spec, SupervisorSpec, WorkerSpec

HOOKS = ("on_start", "on_receive", "on_stop", "on_failure")
"""The methods that are called on an actor without anybody asking for them by name."""


class ResolveError(ActorsError):
    """An import string that leads nowhere. Never leaves ``trees``: ``trees.check`` makes a ``Problem`` of it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}. {self.hint}"


def target_of(spec: WorkerSpec) -> tuple[str, Any]:
    """The name of the one field that says what the worker does (such as ``actor``), and its value."""
    if spec.actor is not None:
        return "actor", spec.actor
    if spec.run is not None:
        return "run", spec.run
    return ("handle", spec.handle) if spec.handle is not None else ("execute", spec.execute)


def resolve(target: object) -> Any:
    """The object that ``"module:attr"`` names (``attr`` may have dots); anything but a str is returned as it is.

    Raises ``ResolveError`` saying which part failed, with what the import raised as its cause.
    """
    if not isinstance(target, str):
        return target
    module, _, attribute = target.partition(":")
    parts = attribute.split(".")
    if not all(part.isidentifier() for part in [*module.split("."), *parts]):
        raise ResolveError(f"{target!r} is no import string", _right_form(target))
    found: Any = _module(module)
    for part in parts:
        found = _attribute(found, part, target)
    return found


def _right_form(target: str) -> str:
    package, _, attribute = target.rpartition(".")
    guess = f"{package}:{attribute}" if ":" not in target and package and attribute else "package.module:attribute"
    return f"Write {guess!r}."


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            hint = "Correct the name, or install it: it must be on the path of this Python."
            raise ResolveError(f"module {missing!r} not found", hint) from error
        raise _broken(name, f"ModuleNotFoundError for {missing!r}") from error
    except (Exception, SystemExit) as error:  # a script without a main guard exits
        raise _broken(name, type(error).__name__) from error


def _broken(name: str, raised: str) -> ResolveError:
    return ResolveError(f"module {name!r} raised {raised} on import", f"To see where: python -c 'import {name}'.")


def _attribute(owner: Any, name: str, target: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as error:
        what = f"attribute {name!r} of {target!r} is missing"
        raise ResolveError(what, nearest(name, dir(owner)).strip() or "Correct the name after the colon.") from error
    except Exception as error:  # a module's own __getattr__
        what = f"attribute {name!r} of {target!r} raised {type(error).__name__}"
        raise ResolveError(what, "Repair what it does when it is looked up.") from error


def can_execute(which: str, found: Any) -> bool:
    """True where what stands behind ``which`` field can be given work."""
    if which == "actor":
        return is_actor_class(found) and not is_stock(found) and overrides(found, "execute")
    return which == "execute"


def parks(spec: Spec, *, under_tasks: bool) -> bool:
    """True if it is parked, alone, when its restarts are used up.

    What serves an orchestrator is unless it says otherwise: one poisoned task is not to use up the restarts of all.
    """
    if not under_tasks or isinstance(spec, SupervisorSpec) or "on_exhausted" in spec.model_fields_set:
        return spec.on_exhausted == "park"
    which, target = target_of(spec)
    return can_execute(which, resolve(target))


def executes_async(found: Any) -> bool:
    """True where what ``execute=`` names gives a coroutine: a function, or the method that is called of an object."""
    if isinstance(found, type):
        entry = entry_of(found)
        return entry is not None and is_async(entry.code)
    return adapt(found).is_async


def async_names(actor: type[Any]) -> list[str]:
    """The hooks and public methods of an actor class that are async, in the order of their classes.

    What the class inherits from ``Worker`` and Pykka does not count. Of a stock Pykka actor only the hooks count:
    Pykka never awaits, so an async method of one is called by its own code, which knows how.
    """
    stock = is_stock(actor)
    return [
        name
        for name, member in _members(actor)
        if (name in HOOKS or not (stock or name.startswith("_"))) and is_async(member)
    ]


def sync_handlers(actor: type[Any]) -> list[str]:
    """Return which of ``on_receive`` and ``execute`` the class (or a base or mixin that is not ours) has as sync."""
    return [name for name, member in _members(actor) if name in {"on_receive", "execute"} and not is_async(member)]


def _members(actor: type[Any]) -> Iterator[tuple[str, object]]:
    """Yield what the user wrote of a class, each name once, the one that counts."""
    seen: set[str] = set()
    for cls in actor.__mro__:
        if cls in Worker.__mro__:
            continue
        for name, member in vars(cls).items():
            if name not in seen:
                seen.add(name)
                yield name, member


def where(spec: WorkerSpec) -> Where:
    """Where the worker's code runs, for a spec that the check has passed."""
    if spec.dispatch != "auto":
        return Where(spec.dispatch)
    field, target = target_of(spec)
    found = resolve(target)
    if field == "run":
        return Where.LOOP if is_async(found) else Where.THREAD
    if field == "handle":
        return Where.LOOP if is_async(found) else Where.POOL
    if field == "execute":
        return Where.LOOP if executes_async(found) else Where.POOL
    if is_stock(found):
        return Where.THREAD
    return Where.LOOP if async_names(found) else Where.POOL
