"""The rules that only the whole tree shows: everything that is wrong with it, at once, before anything runs.

Comes in: a spec. Goes out: a ``Problem`` for each mistake, or one ``ConfigError`` with all of them. The user's
modules are imported to look at what import strings name; nothing of theirs is called. This module must never import
threads, a clock or Pykka.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from actors.model.errors import ConfigError, DepthError, Problem
from actors.model.spec import RefTo
from actors.validation.introspection import binds, is_async, names_of, signature_of
from actors.validation.validation_messages import nearest
from actors.validation.validation_messages import type_phrase as type_of
from trees.declaration import check_steps, check_tasks
from trees.declaration.check_tasks import NO_SIBLINGS, SiblingInfo, Siblings
from trees.declaration.kind import Target, WorkKind
from trees.declaration.kinds import kind_of
from trees.declaration.resolve import ResolveError, resolve
from trees.declaration.shared_recipes import alike, looks
from trees.declaration.specs import Spec, SupervisorSpec, WorkerSpec, check_depth


def check(
    spec: Spec,
    path: str = "",
    level: int = 1,
    auto_shutdown: str | None = None,
    siblings: Siblings = NO_SIBLINGS,
    listed: Collection[str] = (),
) -> list[Problem]:
    """Every problem of ``spec`` and of what is below it; an empty list means that it can be built.

    ``path``, ``level``, ``auto_shutdown`` and ``siblings`` are for a child that is added to a running tree: its
    parent's full path, the level it will stand on, its parent's word, and who is there; by default it is a root.
    ``listed`` are the paths of that tree, which ``Ref.to`` may name. Whether its id is free there is not looked at.
    Starts nothing; imports what import strings name. Takes time in proportion to the specs.
    """
    checker = _Checker()
    problems = [*check_depth(spec, level, path), *checker.of(spec, path, auto_shutdown, siblings)]
    return [*problems, *checker.unknown_refs(listed)]


def require_valid(
    spec: Spec,
    path: str = "",
    level: int = 1,
    auto_shutdown: str | None = None,
    siblings: Siblings = NO_SIBLINGS,
    listed: Collection[str] = (),
) -> None:
    """Raise one ``ConfigError`` with every problem, a ``DepthError`` if depth is all that is wrong."""
    problems = check(spec, path, level, auto_shutdown, siblings, listed)
    if problems:
        raise (DepthError if len(problems) == len(check_depth(spec, level, path)) else ConfigError)(tuple(problems))


def require_place(spec: WorkerSpec, path: str, level: int, auto_shutdown: str, siblings: Siblings) -> None:
    """``require_valid`` for a worker of which a spec that differs in its id only has passed the check elsewhere."""
    deep = check_depth(spec, level, path)
    problems = (*deep, *_in_place(spec, f"{path}/{spec.id}", auto_shutdown, siblings))
    if problems:
        raise (DepthError if len(problems) == len(deep) else ConfigError)(problems)


def require_root(spec: object) -> SupervisorSpec:
    """``require_valid`` for what a tree is started with, whatever it is: a supervisor, or ``"module:attr"`` of one."""
    if isinstance(spec, str):
        try:
            spec = resolve(spec)
        except ResolveError as error:
            raise ConfigError((Problem("start(...)", error.what, error.hint),)) from error
    if not isinstance(spec, SupervisorSpec):
        at, hint = "start(...)", "The root of a tree is one: write SupervisorSpec(id=..., children=[...])."
        if isinstance(spec, WorkerSpec):
            at, hint = spec.id, "Put it under one: start(SupervisorSpec(id='app', children=[WorkerSpec(...)]))."
        elif callable(spec):
            hint = "Call it, if it makes the root: start(make_tree())."
        raise ConfigError((Problem(at, f"expected a SupervisorSpec, got {type_of(spec)}", hint),))
    require_valid(spec)
    return spec


def require_spec(spec: object) -> None:
    """Refuse what cannot be a child."""
    if not isinstance(spec, Spec):
        hint = "Write WorkerSpec(...) or SupervisorSpec(...)."
        raise ConfigError((Problem("start_child(...)", f"expected a spec, got {type_of(spec)}", hint),))


def kin_of(spec: SupervisorSpec) -> dict[str, SiblingInfo]:
    """Return the children of a supervisor, as their siblings know them."""
    return _Checker().kin(spec)


class _Checker:
    """One check. It remembers targets, so that a hundred thousand workers of one class cost one look at it."""

    def __init__(self) -> None:
        self._targets: dict[tuple[str, object], Target] = {}
        self._passed: dict[int, tuple[object, ...]] = {}
        """Looks of a worker in which nothing was wrong, by the identity of its function or class."""
        self._paths: list[str] = []
        self._refs: list[tuple[str, str]] = []
        """Places of args and kwargs, each with the path that it names."""

    def unknown_refs(self, listed: Collection[str]) -> Iterator[Problem]:
        """The problems of ``Ref.to`` in what was looked at; ``listed`` are paths that are there besides."""
        known = {*self._paths, *listed} if self._refs else {*listed}
        for at, path in self._refs:
            if path not in known:
                hint = nearest(path, known).strip() or "Give the whole path, from the id of the root on."
                yield Problem(at, f"no child is declared at {path!r}", hint)

    def of(self, spec: Spec, above: str, auto_shutdown: str | None, siblings: Siblings) -> Iterator[Problem]:
        """The problems of a spec and of everything below it, in the order of the declaration."""
        at = f"{above}/{spec.id}" if above else spec.id
        self._paths.append(at)
        yield from _in_place(spec, at, auto_shutdown, siblings)
        if isinstance(spec, WorkerSpec):
            mine = looks(spec)
            if mine is None or not alike(mine, self._passed.get(id(mine[0]))):
                problems = list(self._worker(spec, at, above, tasks_above=siblings.tasks_above))
                yield from problems
                if mine is not None and not problems:
                    self._passed[id(mine[0])] = mine
            return
        yield from check_tasks.placed(spec, at, can_execute=spec.tasks is not None)
        yield from check_tasks.rules(spec, at)
        yield from _siblings(spec, at)
        has_tasks = spec.tasks is not None
        tasks_above = has_tasks or (siblings.tasks_above if above else False)
        below = Siblings(lambda: self.kin(spec), has_tasks=has_tasks, tasks_above=tasks_above)
        if spec.tasks is not None:
            yield from check_steps.steps(spec, at, below.sibling_info)
        for child in spec.children:
            yield from self.of(child, at, spec.auto_shutdown, below)

    def kin(self, spec: SupervisorSpec) -> dict[str, SiblingInfo]:
        """Return its children, as their siblings know them."""
        return {child.id: self._sibling(child) for child in spec.children}

    def _sibling(self, spec: Spec) -> SiblingInfo:
        if isinstance(spec, SupervisorSpec):
            return SiblingInfo(can_execute=spec.tasks is not None, backup=spec.backup)
        target = self._target(*kind_of(spec))
        return SiblingInfo(target.can_execute, spec.backup)

    def _target(self, kind: WorkKind, value: Any) -> Target:
        # By identity, since callables need not be hashable; the spec keeps them alive.
        key = (kind.field, value if isinstance(value, str) else id(value))
        target = self._targets.get(key)
        if target is None:
            target = self._targets[key] = kind.look(value)
        return target

    def _worker(self, spec: WorkerSpec, at: str, above: str, *, tasks_above: bool | None) -> Iterator[Problem]:
        kind, value = kind_of(spec)
        target = self._target(kind, value)
        given = {**{f"args[{n}]": each for n, each in enumerate(spec.args)}, **spec.kwargs}
        self._refs += [(f"{at}.{name}", each.path) for name, each in given.items() if type(each) is RefTo]
        yield from check_tasks.rules(spec, at)
        yield from lifespan_problems(spec, at)
        if target.flaws:
            for what, hint in target.flaws:
                yield Problem(f"{at}.{kind.field}", what, hint)
            return
        yield from check_tasks.placed(spec, at, can_execute=target.can_execute)
        if kind.field == "execute" and tasks_above is False:
            yield check_tasks.without_orchestrator(at, above)
        yield from kind.problems(spec, at, target)


# -- among siblings -----------------------------------------------------------------------------------------


def _in_place(spec: Spec, at: str, auto_shutdown: str | None, siblings: Siblings) -> Iterator[Problem]:
    if spec.significant:
        yield from _significance(spec, at, auto_shutdown)
    yield from check_tasks.related(spec, at, siblings)


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


_DECORATE = "Decorate it with @contextlib.asynccontextmanager or @contextlib.contextmanager, and yield once."


def lifespan_problems(spec: WorkerSpec, at: str) -> Iterator[Problem]:
    """Yield what is wrong with the lifespan of a worker: it leads nowhere, or cannot be called without arguments."""
    if spec.lifespan is None:
        return
    at = f"{at}.lifespan"
    try:
        found = resolve(spec.lifespan)
    except ResolveError as error:
        yield Problem(at, error.what, error.hint)
        return
    if not callable(found):
        yield Problem(at, f"expected a factory of context managers, got {type_of(found)}", _DECORATE)
        return
    if is_async(found):
        yield Problem(at, "expected a context manager, got a coroutine: it has no yield", _DECORATE)
    signature = signature_of(found)
    if signature is not None and not binds(signature):
        what = f"expected a factory without arguments, got one that takes {names_of(signature)}"
        yield Problem(at, what, "Give the arguments with functools.partial, or in a lambda.")
    if inspect.isclass(found) and not any(hasattr(found, name) for name in ("__enter__", "__aenter__")):
        yield Problem(at, f"expected a context manager, got {type_of(found)}", _DECORATE)
