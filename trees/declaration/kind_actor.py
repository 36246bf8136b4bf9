"""Workers with state: ``actor=`` names a class, of which each incarnation is a new object."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any, Final

from actors.model.errors import Problem
from actors.model.spec import DispatcherKind
from actors.validation.introspection import binds, is_generator, names_of, signature_of
from actors.validation.validation_messages import listed
from actors.validation.validation_messages import type_phrase as type_of
from actors.worker import Worker, actor_recipe, has_lifespan, is_actor_class, is_stock, overrides
from trees.declaration.check_tasks import GENERATOR
from trees.declaration.kind import Flaw, Target, WorkKind
from trees.declaration.resolve import async_names, sync_handlers
from trees.declaration.specs import WorkerSpec

_CALLED: Final = {
    "on_receive": ("message",),
    "on_start": (),
    "on_stop": (),
    "on_failure": ("exception_type", "exception_value", "traceback"),
}
"""Methods that the library calls, each with what it gives them. ``execute`` is looked at with the task fields."""


def _uncallable(found: Any, name: str, given: tuple[Any, ...]) -> Flaw | None:
    """Say why a method cannot be called as the library does; None: it can, or that cannot be told."""
    method: Any = inspect.getattr_static(found, name, None)
    own: tuple[Any, ...] = ()
    if isinstance(method, types.FunctionType):
        own = (found,)
    elif isinstance(method, (staticmethod, classmethod)):
        method = getattr(found, name)
    else:
        return None
    if is_generator(method):
        return f"{found.__name__}.{name} is {GENERATOR[0]}", GENERATOR[1]
    signature = signature_of(method)
    if signature is None or binds(signature, *own, *given):
        return None
    form = ", ".join(("self", *given))
    what = f"{found.__name__}.{name} cannot be called with ({', '.join(given)})"
    return what, f"It takes {names_of(signature)}. Write def {name}({form})."


class ActorKind(WorkKind):
    """A ``Worker``, or a stock Pykka actor."""

    field = "actor"
    may_execute = True
    maker = staticmethod(actor_recipe)

    def flaw(self, found: Any) -> Flaw | None:
        """Judge the class by itself."""
        if not is_actor_class(found):
            hint = "Name a subclass of actors.Worker or pykka.ThreadingActor; a function goes to run= or handle=."
            return f"expected an actor class, got {type_of(found)}", hint
        abstract: frozenset[str] = getattr(found, "__abstractmethods__", frozenset())
        missing = sorted(abstract - getattr(Worker, "__abstractmethods__", frozenset()))
        if missing:
            hint = f"Define {listed(missing, last='and')}, or name a subclass that does."
            return f"{type_of(found)} is abstract", hint
        return next(filter(None, (_uncallable(found, name, given) for name, given in _CALLED.items())), None)

    def described(self, found: Any) -> Target:
        """Describe the class: args and kwargs go to its constructor."""
        init = signature_of(found.__init__)
        return Target(found, (), f"{found.__name__}.__init__", init, tuple(async_names(found)), self.can_execute(found))

    def can_execute(self, found: Any) -> bool:
        """True where the class has an ``execute`` of its own."""
        return is_actor_class(found) and not is_stock(found) and overrides(found, "execute")

    def owns(self, found: Any) -> bool:
        """True where the class has a method ``lifespan``."""
        return has_lifespan(found)

    def dispatch(self, spec: WorkerSpec, at: str, target: Target) -> Iterator[Problem]:
        """Check if its methods can run where the spec wants it."""
        coroutines = ", ".join(target.coroutines)
        if is_stock(target.found):
            if coroutines:
                what = f"a stock Pykka actor never awaits its async {coroutines}"
                yield Problem(f"{at}.actor", what, "Subclass actors.Worker instead.")
            elif spec.dispatch == "loop":
                hint = "Leave dispatch out, or subclass actors.Worker with async methods."
                yield Problem(f"{at}.dispatch", "a stock Pykka actor would hold up the event loop", hint)
            return
        yield from super().dispatch(spec, at, target)
        if coroutines and spec.dispatch == "auto":
            for name in sync_handlers(target.found):
                hint = f"Make {name} async, or write dispatch='loop' if it never waits for anything."
                what = f"a sync {name} beside async {coroutines} would run on the event loop"
                yield Problem(f"{at}.dispatch", what, hint)

    def place(self, found: Any) -> DispatcherKind:
        """Give a stock actor a thread of its own; a worker runs on the loop where it has an async method."""
        if is_stock(found):
            return DispatcherKind.THREAD
        return DispatcherKind.LOOP if async_names(found) else DispatcherKind.POOL
