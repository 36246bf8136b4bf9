"""Base of the kinds of work that a worker may have: an actor, a body, a handler, an executable.

A kind says in one file all that there is to say of it: how its code is found and judged (``flaw``, ``problems``), what
it can be given (``can_execute``), where it runs (``place``), how its incarnations are made (``recipe``), and how it is
shown (``shown``). Its field stands in ``trees.declaration.specs.WorkerSpec``, marked by
``actors.validation.field_types.WORK``; ``trees.declaration.kinds`` has the list of all. The user's modules are imported
to look at what import strings name; nothing of theirs is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeAlias

from actors.dispatch.process import ProcessCode
from actors.model.errors import Problem
from actors.model.spec import DispatcherKind, WorkerRecipe
from actors.tasks.execution.adapters import name_of
from actors.validation.introspection import is_async, is_generator, names_of, signature_of
from actors.validation.validation_messages import type_phrase as type_of
from actors.worker import is_actor_class
from trees.declaration import check_tasks
from trees.declaration.process import code_of, elsewhere, place_of
from trees.declaration.process import problems as process_problems
from trees.declaration.resolve import ResolveError, resolve
from trees.declaration.specs import WorkerSpec

Flaw: TypeAlias = tuple[str, str]
"""Fault of the code behind a field, as (what, hint)."""
Rules: TypeAlias = dict[str, Any]
"""Rules of a worker that its recipe carries, whatever kind it is of: fields of ``WorkerRecipe``."""
CROSSING: Final = ("where", "expected", "crash_on_ask_error", "stall_s")
"""Rules that a worker's half in a process needs; its mailbox stays in the host."""
FIRST: Final = object()
"""Stands for the message, or for the object itself, when arguments are tried on a signature."""


@dataclass(frozen=True, slots=True)
class Target:
    """Code behind a worker's one field of work, looked at once for all the specs that use it."""

    found: Any = None
    flaws: tuple[Flaw, ...] = ()
    """Flaws for every spec that uses it; with flaws nothing else is worth a look."""
    name: str = ""
    """Name of what is called with args and kwargs."""
    signature: inspect.Signature | None = None
    """Signature of that; None where it cannot be told."""
    coroutines: tuple[str, ...] = ()
    """Async names: the methods of an actor, or the function's own."""
    can_execute: bool = False
    """True if it can be given work; unknown counts as yes, so that one mistake makes one problem."""
    misfit: str | None = None
    """Why it cannot be called without args and kwargs, as most specs call it; None: it can, or that cannot be told."""


class WorkKind:
    """One kind of work. What a kind does not say is as for a function that takes messages."""

    field: ClassVar[str]
    """Name of its field in a ``WorkerSpec``, which is also how it is shown."""
    maker: ClassVar[Callable[..., WorkerRecipe] | None] = None
    """``maker(code, args, kwargs, **rules)``: makes the recipe of such a worker in a process; None: it cannot."""
    may_execute: ClassVar[bool] = False
    """True where code of this kind may be such that it can be given work."""

    def find(self, value: object) -> Any:
        """Return what the field's value names: an import string is imported.

        Raises:
            ResolveError: it leads nowhere.
        """
        return resolve(value)

    # -- check ---------------------------------------------------------------------------------------------

    def look(self, value: object) -> Target:
        """Find the code and judge it by itself."""
        try:
            found = self.find(value)
        except ResolveError as error:
            return Target(flaws=((error.what, error.hint),), can_execute=self.may_execute)
        flaw = self.flaw(found)
        if flaw is not None:
            return Target(found, (flaw,), can_execute=self.may_execute)
        target = self.described(found)
        return replace(target, misfit=self.misfit(target, (), {}))

    def flaw(self, found: Any) -> Flaw | None:
        """Judge the code by itself; None: it will do."""
        if not callable(found):
            return f"{type_of(found)} cannot be called", "Name a function, or an object with a __call__."
        if is_actor_class(found):
            return (
                f"{type_of(found)} is an actor class",
                "Write actor=: called as a function it would only make an object.",
            )
        if is_generator(found):
            return check_tasks.GENERATOR
        return None

    def described(self, found: Any) -> Target:
        """Describe code without a flaw."""
        coroutines = (name_of(found),) if is_async(found) else ()
        return Target(found, (), name_of(found), signature_of(found), coroutines, self.can_execute(found))

    def can_execute(self, found: Any) -> bool:  # noqa: ARG002 - for the kinds that can
        """True where this code can be given work."""
        return False

    def owns(self, found: Any) -> bool:  # noqa: ARG002 - for the kinds that can
        """True where the code has a lifespan of its own."""
        return False

    def problems(self, spec: WorkerSpec, at: str, target: Target) -> Iterator[Problem]:
        """Yield what is wrong with this worker, whose code has no flaw; ``at`` is its path."""
        yield from self.arguments(spec, at, target)
        if target.can_execute:
            yield from self.work(spec, at, target)
        yield from self.dispatch(spec, at, target)
        if spec.tools is not None and not getattr(target.found, "has_tools", False):
            what = f"tools says which tools of an MCP server may be used, and {target.name} is none"
            yield Problem(f"{at}.tools", what, "Use execute=MCP(...), or leave it out.")

    def first(self) -> tuple[object, ...]:
        """Stand-ins for what comes before args when the code is called."""
        return (FIRST,)

    def arguments(self, spec: WorkerSpec, at: str, target: Target) -> Iterator[Problem]:
        """Check if the call that will be made can be made. Names of parameters get into the text, values never."""
        given = spec.args or spec.kwargs
        misfit = self.misfit(target, spec.args, spec.kwargs) if given else target.misfit
        if misfit is not None and target.signature is not None:
            what = f"args and kwargs do not fit {target.name}: {misfit}"
            yield Problem(f"{at}.{self.field}", what, f"{self.called()} takes {names_of(target.signature)}.")

    def misfit(self, target: Target, args: Iterable[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Return why the call that will be made cannot be made with these."""
        if target.signature is None:
            return None
        try:
            target.signature.bind(*self.first(), *args, **kwargs)
        except TypeError as error:
            return str(error)
        return None

    def called(self) -> str:
        """Begin a sentence that goes on with the parameters."""
        return "It"

    def work(self, spec: WorkerSpec, at: str, target: Target) -> Iterator[Problem]:
        """Check if it can be called with a task and its context, or with the instruction."""
        found = target.found
        name = f"{name_of(found)}.execute" if hasattr(found, "execute") else name_of(found)
        flaw = check_tasks.takes_work(found, name, tuple(spec.args), spec.kwargs, self.field)
        if flaw is not None:
            yield Problem(f"{at}.{self.field}", *flaw)

    def dispatch(self, spec: WorkerSpec, at: str, target: Target) -> Iterator[Problem]:
        """Check if the code can run where the spec wants it."""
        if elsewhere(spec) is not None:
            yield from self.process(spec, at)
        if target.coroutines and place_of(spec) in {"pool", "thread"}:
            what = f"{spec.dispatch!r} cannot run what is async: {', '.join(target.coroutines)}"
            hint = (
                "Leave dispatch out, or write 'loop'; a helper that is not to be called from outside starts with '_'."
            )
            yield Problem(f"{at}.dispatch", what, hint)

    def process(self, spec: WorkerSpec, at: str) -> Iterator[Problem]:
        """Check if the code can run in a process."""
        if self.maker is None:
            what = f"{self.field}= cannot run in a process of this kind"
            yield Problem(f"{at}.dispatch", what, "Leave dispatch out.")
            return
        yield from process_problems(spec, at, self.field, getattr(spec, self.field))

    # -- incarnations --------------------------------------------------------------------------------------

    def place(self, found: Any) -> DispatcherKind:
        """Where the code runs with ``dispatch="auto"``."""
        return DispatcherKind.LOOP if is_async(found) else DispatcherKind.POOL

    def recipe(self, found: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rules: Rules) -> WorkerRecipe:
        """Say how an incarnation is made: as in a process, where the kind does not say otherwise."""
        assert self.maker is not None  # noqa: S101 - a kind without one makes its own
        return self.maker(found, args, kwargs, **rules)

    def code(self, spec: WorkerSpec, rules: Rules) -> ProcessCode:
        """Return the code of a worker as it crosses to its process."""
        assert self.maker is not None  # noqa: S101 - the check has refused it
        kept = {name: rules[name] for name in CROSSING if name in rules}
        value = getattr(spec, self.field)
        return code_of(spec, self.maker, value, tuple(spec.args), dict(spec.kwargs), **kept, resource=spec.lifespan)

    # -- views ---------------------------------------------------------------------------------------------

    def shown(self, value: Any) -> str:
        """Name the work in a drawing of the declaration: the field and the name of the code, of an object its type."""
        name = value if isinstance(value, str) else getattr(value, "__qualname__", type(value).__qualname__)
        return f"{self.field} {name}"
