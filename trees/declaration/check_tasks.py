"""The rules of what can be given work: who may have the task fields, whom they name, and what their code must take.

Comes in: a spec, what its checker knows of its code, and its siblings. Goes out: ``Problem``s. The user's modules are
imported to look at what import strings name; nothing of theirs is called, but for the schema of an ``output``. This
module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Final

from pydantic import TypeAdapter

from actors.model.errors import Problem
from actors.model.spec import ChildSpec
from actors.tasks.execution.adapters import entry_of, is_context, is_unbound, takes_prompt
from actors.validation.introspection import binds, is_generator, names_of, signature_of
from actors.validation.validation_messages import listed, nearest, type_phrase
from trees.declaration.resolve import ResolveError, resolve
from trees.declaration.specs import Spec, SupervisorSpec, WorkerSpec
from trees.declaration.work_fields import SET_FIELDS, TASK_FIELDS, TEAM_FIELDS

ORCHESTRATOR = "orchestrator"
"""The id of the first child of every supervisor with ``tasks``."""

GENERATOR: Final = ("a generator function, so that calling it runs nothing", "Return the result; take the yield out.")
"""Flaw of code that is to do something when it is called."""
_SOME = object()
"""Stands for an argument when signatures are tried."""


@dataclass(frozen=True, slots=True)
class SiblingInfo:
    """Facts about a sibling."""

    can_execute: bool = False
    backup: str | None = None


class Siblings:
    """Siblings of a spec, looked at only when it names one."""

    def __init__(
        self,
        look: Callable[[], Mapping[str, SiblingInfo]],
        *,
        has_tasks: bool = False,
        run: bool = False,
        tasks_above: bool | None = None,
    ) -> None:
        self._look = look
        self._found: Mapping[str, SiblingInfo] | None = None
        self.has_tasks = has_tasks
        """True if one of them is an orchestrator."""
        self.run = run
        """True if they run already, so that only the spec itself is checked."""
        self.tasks_above = tasks_above
        """True if a supervisor above has an orchestrator; None where that is not known."""

    @property
    def sibling_info(self) -> Mapping[str, SiblingInfo]:
        """All of them by their ids."""
        found = self._found
        if found is None:
            found = self._found = self._look()
        return found


NO_SIBLINGS = Siblings(dict)


def running(
    children: Callable[[], Iterable[ChildSpec]], *, has_tasks: bool, tasks_above: bool | None = None
) -> Siblings:
    """The children of a supervisor that runs; members of a pool share a spec."""

    def look() -> dict[str, SiblingInfo]:
        return {child.id: _sibling_info(child) for child in children()}

    return Siblings(look, has_tasks=has_tasks, run=True, tasks_above=tasks_above)


def _sibling_info(child: ChildSpec) -> SiblingInfo:
    return (
        SiblingInfo() if child.registration is None else SiblingInfo(can_execute=True, backup=child.registration.backup)
    )


# -- who may have them, and whom they name --------------------------------------------------------------------


def placed(spec: Spec, at: str, *, can_execute: bool) -> Iterator[Problem]:
    """Fields that say nothing where nobody can give it work."""
    if can_execute:
        return
    team = isinstance(spec, SupervisorSpec)
    values = (_team_values if team else _task_values)(spec)
    vain = [
        name
        for (name, default), value in zip(_task_defaults(type(spec)), values, strict=True)
        # Identity, since an output may be anything; only an empty set is never the same one.
        if value is not default and (name not in SET_FIELDS or value)
    ]
    if vain:
        are = "is" if len(vain) == 1 else "are"
        whom = "a supervisor with tasks=" if team else "a worker that can be given work"
        hint = "Add tasks=Tasks()" if team else "Use execute=, or an actor class with a method execute"
        yield Problem(f"{at}.{vain[0]}", f"{listed(vain, last='and')} {are} for {whom}", f"{hint}, or leave it out.")


_team_values: Final = attrgetter(*TEAM_FIELDS)
_task_values: Final = attrgetter(*TASK_FIELDS)


@cache
def _task_defaults(kind: type[Spec]) -> tuple[tuple[str, object], ...]:
    """Names and defaults of the fields above: looked up once for a class, since there may be many specs of it."""
    fields = kind.model_fields
    return tuple(
        (name, fields[name].default) for name in (TEAM_FIELDS if issubclass(kind, SupervisorSpec) else TASK_FIELDS)
    )


def without_orchestrator(at: str, above: str) -> Problem:
    """Say that nobody can give it work."""
    supervisor = above.rpartition("/")[2]
    hint = f"Give it one, SupervisorSpec(id={supervisor!r}, tasks=Tasks(), ...), or use handle= for messages."
    return Problem(f"{at}.execute", f"nobody gives it work: {above!r} has no orchestrator", hint)


def related(spec: Spec, at: str, siblings: Siblings) -> Iterator[Problem]:
    """Id, and the siblings that it names."""
    if spec.id == ORCHESTRATOR and siblings.has_tasks:
        hint = "Choose another id: a supervisor with tasks= has its orchestrator under this one."
        yield Problem(at, f"the id {ORCHESTRATOR!r} is taken", hint)
    if spec.backup is not None:
        yield from _backup(spec, spec.backup, at, siblings)
    if isinstance(spec.undo, str) and ":" not in spec.undo:
        yield from _named(spec, spec.undo, f"{at}.undo", siblings)


def _backup(spec: Spec, backup: str, at: str, siblings: Siblings) -> Iterator[Problem]:
    problems = list(_named(spec, backup, f"{at}.backup", siblings))
    yield from problems
    chain = [spec.id]
    follow: str | None = backup
    while follow is not None and follow not in chain:
        chain.append(follow)
        kin = siblings.sibling_info.get(follow)
        follow = None if kin is None else kin.backup
    # One that is met from outside of the circle is told at its members.
    if not problems and follow == spec.id and (siblings.run or spec.id == min(chain)):
        circle = " > ".join([*chain, follow])
        yield Problem(f"{at}.backup", f"{circle} go round in a circle", "Take the backup= of one of them out.")


def _named(spec: Spec, name: str, at: str, siblings: Siblings) -> Iterator[Problem]:
    """True if a name is that of a sibling that can be given work."""
    if name == spec.id:
        yield Problem(at, f"{name!r} is itself", "Name a sibling, or leave it out.")
        return
    found = siblings.sibling_info.get(name)
    if found is None:
        known = [id_ for id_, kin in siblings.sibling_info.items() if kin.can_execute and id_ != spec.id]
        hint = nearest(name, known).strip() or "Name a child of the same supervisor, or leave it out."
        yield Problem(at, f"expected the id of a sibling, got {name!r}", hint)
    elif not found.can_execute:
        hint = "Name one with execute=, or a supervisor with tasks=."
        yield Problem(at, f"{name!r} cannot be given work", hint)


# -- what their code must take --------------------------------------------------------------------------------


def takes_work(
    found: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], which: str
) -> tuple[str, str] | None:
    """Return the flaws of the parameters of its ``execute``, as (what, hint).

    ``args`` and ``kwargs`` are what each call gets besides; those of a class are its constructor's. The method of an
    actor gets a task and its context; other code may take the instruction instead.
    """
    entry = entry_of(found)
    if entry is None:
        return None
    if is_generator(entry.code):
        return f"{name} is {GENERATOR[0]}", GENERATOR[1]
    signature = signature_of(entry.code)
    if signature is None:
        return None
    own = (_SOME,) if is_unbound(found) else ()
    if isinstance(found, type):
        args, kwargs = (), {}
    wanted = ((_SOME, _SOME),) if which == "actor" else ((_SOME, _SOME), (_SOME,))
    if any(binds(signature, *own, *some, *args, **kwargs) for some in wanted):
        return None if entry.method else _second(entry.code, name, signature, len(own), args, kwargs, which)
    if entry.method:
        return f"{name} cannot be called with a prompt, args and kwargs", f"It takes {names_of(signature)}."
    besides = ", args and kwargs" if args or kwargs else ""
    what = f"{name} can be called neither with (task, context{besides}) nor with (instruction{besides})"
    if which == "actor":
        what = f"{name} cannot be called with (task, context)"
    return what, f"It takes {names_of(signature)}."


def _second(
    code: Callable[..., Any],
    name: str,
    signature: inspect.Signature,
    own: int,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    which: str,
) -> tuple[str, str] | None:
    """Refuse a second parameter that would get the context by accident: ``def search(query, limit)``."""
    if not own and takes_prompt(code, args, kwargs):
        return None
    positional = [each for each in signature.parameters.values() if each.kind < each.VAR_POSITIONAL][own:]
    if len(positional) < 2 or positional[1].default is not inspect.Parameter.empty or is_context(positional[1]):  # noqa: PLR2004
        return None
    second = positional[1].name
    what = f"{name} would get the context of the attempt as its parameter {second!r}"
    forms = f"Call it 'context' (or annotate it as Context): {name}(task, context)"
    if which == "actor":
        return what, f"{forms}."
    return (
        what,
        f"{forms}; or take the instruction alone: {name}({positional[0].name}), with {second}= a default or in kwargs=",
    )


def rules(spec: Spec, at: str) -> Iterator[Problem]:
    """The code and the types that its task fields name."""
    if isinstance(spec, WorkerSpec) and spec.output is not None:
        yield from _output(spec.output, f"{at}.output")
    if spec.undo is not None and (not isinstance(spec.undo, str) or ":" in spec.undo):
        yield from _undo(spec.undo, f"{at}.undo")
    if callable(spec.estimate):
        signature = signature_of(spec.estimate)
        if signature is not None and not binds(signature, _SOME):
            hint = f"It takes {names_of(signature)}."
            yield Problem(f"{at}.estimate", "it cannot be called with the subtask alone", hint)


def _output(output: Any, at: str) -> Iterator[Problem]:
    try:
        TypeAdapter(output)
    except Exception as error:  # noqa: BLE001 - a type may say in its own words that it has no schema
        hint = "Give a pydantic model, a dataclass, or a type such as dict[str, int]."
        yield Problem(at, f"pydantic can check nothing against {type_phrase(output)} ({type(error).__name__})", hint)


def _undo(undo: Any, at: str) -> Iterator[Problem]:
    try:
        found = resolve(undo)
    except ResolveError as error:
        yield Problem(at, error.what, error.hint)
        return
    if not callable(found):
        yield Problem(at, f"{type_phrase(found)} cannot be called", "Name a function of (task, result, context).")
        return
    signature = signature_of(found)
    if signature is not None and not binds(signature, _SOME, _SOME, _SOME):
        what = "it cannot be called with (task, result, context)"
        yield Problem(at, what, f"It takes {names_of(signature)}.")
