"""The rules that only the whole tree shows: everything that is wrong with it, at once, before anything runs.

Comes in: a spec. Goes out: a ``Problem`` for each mistake, or one ``ConfigError`` with all of them. The user's
modules are imported to look at what import strings name; nothing of theirs is called. This module must never import
threads, a clock or Pykka.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from actors.callables import is_async, signature_of
from actors.errors import ConfigError, DepthError, Problem
from actors.problems import kind, listed
from actors.tasks.adapters import entry_of, name_of
from actors.worker import Worker, is_actor_class, is_stock
from trees import check_tasks
from trees.check_tasks import NOBODY, Kin, Siblings, names_of
from trees.config import Spec, SupervisorSpec, WorkerSpec, check_depth
from trees.resolve import ResolveError, async_names, can_execute, executes_async, resolve, sync_handlers, target_of

_FIRST = object()
"""Stands for the message, or for the object itself, when arguments are tried on a signature."""


def check(
    spec: Spec, path: str = "", level: int = 1, auto_shutdown: str | None = None, siblings: Siblings = NOBODY
) -> list[Problem]:
    """Every problem of ``spec`` and of what is below it; an empty list means that it can be built.

    ``path``, ``level``, ``auto_shutdown`` and ``siblings`` are for a child that is added to a running tree: its
    parent's full path, the level it will stand on, its parent's word, and who is there; by default it is a root.
    Whether its id is free there is not looked at. Starts nothing; imports what import strings name. Takes time in
    proportion to the specs.
    """
    return check_depth(spec, level, path) + list(_Checker().of(spec, path, auto_shutdown, siblings))


def require_valid(
    spec: Spec, path: str = "", level: int = 1, auto_shutdown: str | None = None, siblings: Siblings = NOBODY
) -> None:
    """Raise one ``ConfigError`` with every problem, a ``DepthError`` if depth is all that is wrong."""
    problems = check(spec, path, level, auto_shutdown, siblings)
    if problems:
        raise (DepthError if len(problems) == len(check_depth(spec, level, path)) else ConfigError)(tuple(problems))


def require_root(spec: object) -> SupervisorSpec:
    """``require_valid`` for what a tree is started with, whatever it is: a supervisor."""
    if not isinstance(spec, SupervisorSpec):
        at = spec.id if isinstance(spec, WorkerSpec) else "start(...)"
        hint = "The root of a tree is one: write SupervisorSpec(id=..., children=[...])."
        raise ConfigError((Problem(at, f"{kind(spec)} is no SupervisorSpec", hint),))
    require_valid(spec)
    return spec


def require_spec(spec: object) -> None:
    """Refuse what cannot be a child."""
    if not isinstance(spec, Spec):
        hint = "Write WorkerSpec(...) or SupervisorSpec(...)."
        raise ConfigError((Problem("start_child(...)", f"{kind(spec)} is no spec", hint),))


@dataclass(frozen=True, slots=True)
class _Target:
    """Code behind a worker's one field of work, looked at once for all the specs that use it."""

    found: Any = None
    flaws: tuple[tuple[str, str], ...] = ()
    """Flaws for every spec that uses it, as (what, hint); with flaws nothing else is worth a look."""
    name: str = ""
    """Name of what is called with args and kwargs."""
    signature: inspect.Signature | None = None
    """Signature of that; None where it cannot be told."""
    coroutines: tuple[str, ...] = ()
    """Async names: the methods of an actor, or the function's own."""
    can_execute: bool = False
    """True if it can be given work; unknown counts as yes, so that one mistake makes one problem."""


class _Checker:
    """One check. It remembers targets, so that a hundred thousand workers of one class cost one look at it."""

    def __init__(self) -> None:
        self._targets: dict[tuple[str, object], _Target] = {}

    def of(self, spec: Spec, above: str, auto_shutdown: str | None, siblings: Siblings) -> Iterator[Problem]:
        """The problems of a spec and of everything below it, in the order of the declaration."""
        at = f"{above}/{spec.id}" if above else spec.id
        if spec.significant:
            yield from _significance(spec, at, auto_shutdown)
        yield from check_tasks.related(spec, at, siblings)
        if isinstance(spec, WorkerSpec):
            yield from self._worker(spec, at)
            return
        yield from check_tasks.placed(spec, at, can_execute=spec.tasks is not None)
        yield from check_tasks.rules(spec, at)
        yield from _siblings(spec, at)
        below = Siblings(lambda: self._kin(spec), has_tasks=spec.tasks is not None)
        for child in spec.children:
            yield from self.of(child, at, spec.auto_shutdown, below)

    def _kin(self, spec: SupervisorSpec) -> dict[str, Kin]:
        return {child.id: Kin(can_execute=self._can_execute(child), backup=child.backup) for child in spec.children}

    def _can_execute(self, spec: Spec) -> bool:
        return spec.tasks is not None if isinstance(spec, SupervisorSpec) else self._target(spec).can_execute

    def _target(self, spec: WorkerSpec) -> _Target:
        which, value = target_of(spec)
        # By identity, since callables need not be hashable; the spec keeps them alive.
        key = (which, value if isinstance(value, str) else id(value))
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = _look(which, value)
        return target

    def _worker(self, spec: WorkerSpec, at: str) -> Iterator[Problem]:
        which, _ = target_of(spec)
        target = self._target(spec)
        yield from check_tasks.rules(spec, at)
        if target.flaws:
            for what, hint in target.flaws:
                yield Problem(f"{at}.{which}", what, hint)
            return
        yield from check_tasks.placed(spec, at, can_execute=target.can_execute)
        yield from _arguments(spec, at, which, target)
        if target.can_execute:
            yield from _work(spec, at, which, target)
        yield from _dispatch(spec, at, which, target)
        if which == "run" and spec.mailbox.capacity is not None:
            hint = "Leave mailbox out, or use handle= for a worker that takes messages."
            yield Problem(f"{at}.mailbox", "a run= body has no mailbox to bound", hint)


# -- among siblings -----------------------------------------------------------------------------------------


def _siblings(spec: SupervisorSpec, at: str) -> Iterator[Problem]:
    for child_id, times in Counter(child.id for child in spec.children).items():
        if times > 1:
            hint = "Siblings need different ids; for several of the same worker use pool=."
            yield Problem(f"{at}/{child_id}", f"{times} children of {at!r} have this id", hint)
    declared = sum(child.pool if isinstance(child, WorkerSpec) else 1 for child in spec.children)
    orchestrator = spec.tasks is not None
    if spec.max_children is not None and declared + orchestrator > spec.max_children:
        besides = " and the orchestrator" if orchestrator else ""
        what = f"{spec.max_children} is less than the {declared} children declared{besides}"
        yield Problem(f"{at}.max_children", what, "Raise it; each member of a pool counts.")


def _significance(spec: Spec, at: str, auto_shutdown: str | None) -> Iterator[Problem]:
    """Rule 20 of the semantics."""
    at = f"{at}.significant"
    if auto_shutdown is None:
        yield Problem(at, "the root cannot be significant", "Leave it out: nobody stands above the root.")
        return
    if auto_shutdown == "never":
        hint = "Give the supervisor auto_shutdown='any_significant' or 'all_significant', or leave significant out."
        yield Problem(at, "its supervisor has auto_shutdown='never'", hint)
    if spec.restart == "permanent":
        hint = "Make it 'transient' or 'temporary': only a child that may end for good can be significant."
        yield Problem(at, "a permanent child cannot be significant", hint)


# -- what a worker does -------------------------------------------------------------------------------------


def _look(which: str, value: object) -> _Target:
    """Find the target and judge it by itself."""
    try:
        found = resolve(value)
    except ResolveError as error:
        return _Target(flaws=((error.what, error.hint),), can_execute=which in {"actor", "execute"})
    flaw = _FLAWS[which](found)
    if flaw:
        return _Target(found, (flaw,), can_execute=which in {"actor", "execute"})
    able = can_execute(which, found)
    if which == "actor":
        init = found.__init__
        return _Target(found, (), f"{found.__name__}.__init__", signature_of(init), tuple(async_names(found)), able)
    code = found
    if which == "execute":
        entry = entry_of(found)
        code = found if entry is None else entry.code
    asynchronous = executes_async(found) if which == "execute" else is_async(found)
    signature = signature_of(found if isinstance(found, type) else code)
    return _Target(found, (), name_of(found), signature, (name_of(code),) if asynchronous else (), able)


def _actor_flaw(found: Any) -> tuple[str, str] | None:
    if not is_actor_class(found):
        hint = "Name a subclass of actors.Worker or pykka.ThreadingActor; a function goes to run= or handle=."
        return f"{kind(found)} is no actor class", hint
    abstract: frozenset[str] = getattr(found, "__abstractmethods__", frozenset())
    missing = sorted(abstract - getattr(Worker, "__abstractmethods__", frozenset()))
    if missing:
        return f"{kind(found)} is abstract", f"Define {listed(missing, last='and')}, or name a subclass that does."
    return None


def _code_flaw(found: Any) -> tuple[str, str] | None:
    if not callable(found):
        return f"{kind(found)} cannot be called", "Name a function, or an object with a __call__."
    if is_actor_class(found):
        return f"{kind(found)} is an actor class", "Write actor=: called as a function it would only make an object."
    return None


def _body_flaw(found: Any) -> tuple[str, str] | None:
    flaw = _code_flaw(found)
    if flaw is None and (inspect.isgeneratorfunction(found) or inspect.isasyncgenfunction(found)):
        return "a generator function, so that calling it runs nothing", "Take the yield out of the body."
    return flaw


_FLAWS = {"actor": _actor_flaw, "run": _body_flaw, "handle": _code_flaw, "execute": check_tasks.flaw_of_execute}


def _arguments(spec: WorkerSpec, at: str, which: str, target: _Target) -> Iterator[Problem]:
    """Check if the call that will be made can be made. Names of parameters get into the text, values never."""
    if target.signature is None or (which == "execute" and not isinstance(target.found, type)):
        return
    first = () if which in {"run", "execute"} else (_FIRST,)
    try:
        target.signature.bind(*first, *spec.args, **spec.kwargs)
    except TypeError as error:
        called = "It is called with the message first and" if which == "handle" else "It"
        what = f"args and kwargs do not fit {target.name}: {error}"
        yield Problem(f"{at}.{which}", what, f"{called} takes {names_of(target.signature)}.")


def _work(spec: WorkerSpec, at: str, which: str, target: _Target) -> Iterator[Problem]:
    """True if it can be called with a task and its context, or with the instruction."""
    flaw = check_tasks.takes_work(target.found, _entry_name(target), tuple(spec.args), spec.kwargs, which)
    if flaw is not None:
        yield Problem(f"{at}.{which}", *flaw)


def _entry_name(target: _Target) -> str:
    return f"{name_of(target.found)}.execute" if hasattr(target.found, "execute") else name_of(target.found)


def _dispatch(spec: WorkerSpec, at: str, which: str, target: _Target) -> Iterator[Problem]:
    """Check if the code can run where the spec wants it."""
    word, at_dispatch = spec.dispatch, f"{at}.dispatch"
    coroutines = ", ".join(target.coroutines)
    if which == "actor" and is_stock(target.found):
        if coroutines:
            what = f"a stock Pykka actor never awaits its async {coroutines}"
            yield Problem(f"{at}.actor", what, "Subclass actors.Worker instead.")
        elif word == "loop":
            hint = "Leave dispatch out, or subclass actors.Worker with async methods."
            yield Problem(at_dispatch, "a stock Pykka actor would hold up the event loop", hint)
    elif coroutines and word in {"pool", "thread"}:
        hint = "Leave dispatch out, or write 'loop'; a helper that is not to be called from outside starts with '_'."
        yield Problem(at_dispatch, f"{word!r} cannot run what is async: {coroutines}", hint)
    elif which == "run" and not coroutines and word in {"pool", "loop"}:
        hint = "Leave dispatch out, or write 'thread'."
        yield Problem(at_dispatch, f"{word!r} cannot run a sync body, which needs a thread of its own", hint)
    elif which == "actor" and coroutines and word == "auto":
        for name in sync_handlers(target.found):
            hint = f"Make {name} async, or write dispatch='loop' if it never waits for anything."
            what = f"a sync {name} beside async {coroutines} would run on the event loop"
            yield Problem(at_dispatch, what, hint)
