"""Resolution of what a spec names: the class or function behind an import string, and which of its methods are async.

Importing the user's module is the only thing that happens here. This module must never import threads or a clock; what
a Pykka actor is it asks ``actors.worker``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from actors.model.errors import ActorsError
from actors.validation.introspection import is_async
from actors.validation.validation_messages import nearest
from actors.worker import Worker, is_stock

HOOKS = ("on_start", "on_receive", "on_stop", "on_failure")
"""The methods that are called on an actor without anybody asking for them by name."""


class ResolveError(ActorsError):
    """An import string that leads nowhere. Never leaves ``trees``: ``check`` makes a ``Problem`` of it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}. {self.hint}"


def resolve(target: object) -> Any:
    """The object that ``"module:attr"`` names (``attr`` may have dots); anything but a str is returned as it is.

    Raises ``ResolveError`` saying which part failed, with what the import raised as its cause.
    """
    if not isinstance(target, str):
        return target
    module, _, attribute = target.partition(":")
    parts = attribute.split(".")
    if not all(part.isidentifier() for part in [*module.split("."), *parts]):
        raise ResolveError(f"expected an import string, got {target!r}", _right_form(target))
    found: Any = _module(module)
    for part in parts:
        found = _attribute(found, part, target)
    return found


def _right_form(target: str) -> str:
    package, _, attribute = target.rpartition(".")
    guess = f"{package}:{attribute}" if ":" not in target and package and attribute else "package.module:attribute"
    return f"Write {guess!r}, or give the object itself."


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
        hint = nearest(name, dir(owner)).strip() or "Correct the name after the colon."
        if target.startswith("__main__:"):  # of this process: in a notebook or under ``regrow run`` it may be another
            hint = f"Give the function itself: {name}, without quotes."
        raise ResolveError(what, hint) from error
    except Exception as error:  # a module's own __getattr__
        what = f"attribute {name!r} of {target!r} raised {type(error).__name__}"
        raise ResolveError(what, "Repair what it does when it is looked up.") from error


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
