"""Workers that are given work: ``execute=`` names a function of a task, an object or class with one, or an agent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from actors.model.errors import Problem
from actors.model.spec import DispatcherKind, WorkerRecipe
from actors.tasks.execution.adapters import adapt, entry_of, name_of
from actors.validation.introspection import signature_of
from actors.validation.validation_messages import type_phrase as type_of
from actors.worker import actor_recipe, execute_recipe, has_lifespan, is_actor_class
from trees.agents.recognise import AgentWrapper, wrapped
from trees.declaration.kind import Flaw, Rules, Target, WorkKind
from trees.declaration.specs import WorkerSpec
from trees.declaration.work_fields import execute_flaw


def recipe_there(found: Any, args: tuple[Any, ...], kwargs: dict[str, Any], **rules: Any) -> WorkerRecipe:
    """Return the recipe of such a worker in its process."""
    return ExecuteKind().recipe(wrapped(found), args, kwargs, rules)


class ExecuteKind(WorkKind):
    """Code that does one piece of work at a time; of a class each incarnation is a new object."""

    field = "execute"
    may_execute = True
    maker = staticmethod(recipe_there)

    def find(self, value: object) -> Any:
        """Return what the field's value names; the agent of a framework in its wrapper.

        Raises:
            ResolveError: it leads nowhere.
        """
        return wrapped(super().find(value))

    def flaw(self, found: Any) -> Flaw | None:
        """Judge what ``execute=`` names by itself."""
        if isinstance(found, type) and issubclass(found, AgentWrapper):
            return f"{type_of(found)} is a class", f"Give an object of it: {found.__name__}(...)."
        flaw = found.flaw() if isinstance(found, AgentWrapper) else execute_flaw(found)
        if flaw is not None:
            return flaw
        if is_actor_class(found) or is_actor_class(type(found)):
            what = f"{type_of(found)} is an actor {'class' if isinstance(found, type) else 'object'}"
            return what, "Write actor= and the class: its execute is used all the same."
        if inspect.isabstract(found):
            return f"{type_of(found)} is abstract", "Name a subclass that defines what is missing."
        return None

    def described(self, found: Any) -> Target:
        """Describe the code that is called; args and kwargs of a class go to its constructor."""
        entry = entry_of(found)
        code = found if entry is None else entry.code
        signature = signature_of(found if isinstance(found, type) else code)
        coroutines = (name_of(code),) if _is_async(found) else ()
        return Target(found, (), name_of(found), signature, coroutines, self.can_execute(found))

    def can_execute(self, found: Any) -> bool:  # noqa: ARG002 - whatever it is
        """Say yes: that is what it is for."""
        return True

    def first(self) -> tuple[object, ...]:
        """Nothing comes before the args of a constructor."""
        return ()

    def arguments(self, spec: WorkerSpec, at: str, target: Target) -> Iterator[Problem]:
        """Check the arguments of a constructor; those of a call are checked with what comes before them (``work``)."""
        if isinstance(target.found, type):
            yield from super().arguments(spec, at, target)

    def owns(self, found: Any) -> bool:
        """True for an agent, or a server, that each incarnation has a connection to."""
        return isinstance(found, AgentWrapper) and found.worker is not None and has_lifespan(found.worker)

    def place(self, found: Any) -> DispatcherKind:
        """Run a coroutine on the loop."""
        return DispatcherKind.LOOP if _is_async(found) else DispatcherKind.POOL

    def recipe(self, found: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rules: Rules) -> WorkerRecipe:
        """Call the code with each piece of work; an object of a class is adapted when it is made."""
        if isinstance(found, AgentWrapper) and found.worker is not None:
            return actor_recipe(found.worker, (found, *args), kwargs, waits_for=found.waits_for, **rules)
        makes_object = isinstance(found, type)
        call = _maker(found) if makes_object else adapt(found, args, kwargs)
        return execute_recipe(call, args, kwargs, makes_object=makes_object, **rules)


def _is_async(found: Any) -> bool:
    """True where it gives a coroutine: a function, or the method that is called of an object."""
    entry = entry_of(found)
    return entry is not None and entry.is_async


def _maker(cls: type[Any]) -> Callable[..., Callable[..., Any]]:
    return lambda *args, **kwargs: adapt(cls(*args, **kwargs))
