"""From what a user wrote to what a supervisor reads: specs in, ``ChildSpec`` out. Starts nothing, checks nothing.

Comes in: specs that ``trees.declaration.check`` has found right. The specs of a whole tree are turned into one frozen
``ChildSpec`` of its root; ``start_child`` turns one more spec into one more.
"""

from __future__ import annotations

import math
from dataclasses import fields
from functools import partial
from operator import attrgetter
from typing import Any, Final

from actors.model import spec as core
from actors.model.spec import (
    UNBOUNDED,
    AutoShutdown,
    ChildSpec,
    MailboxLimit,
    Overflow,
    RestartLimit,
    Strategy,
    SupervisorRecipe,
    WorkerRecipe,
)
from actors.tasks.engine.registry_feed import RegistryFeed
from actors.tasks.model import Executable
from actors.tasks.planning.settings import Tasks
from actors.worker import process_recipe
from trees.declaration import executables
from trees.declaration.kinds import kind_of, parks, where
from trees.declaration.process import elsewhere
from trees.declaration.resolve import resolve
from trees.declaration.shared_recipes import Origin, alike, looks, origin_of, remember
from trees.declaration.specs import Backoff, Mailbox, Spec, SupervisorSpec, WorkerSpec

_CONVERTED: Final = frozenset({"restart", "backoff"})
_COPIED: Final = tuple(
    each.name
    for each in fields(ChildSpec)
    if each.name in WorkerSpec.model_fields and each.name in SupervisorSpec.model_fields and each.name not in _CONVERTED
)
"""Fields of a child that stand in the specs of workers and supervisors as they are: a new one needs no line here."""
_copied: Final = attrgetter(*_COPIED)
_COPIED_RULES: Final = tuple(each.name for each in fields(WorkerRecipe) if each.name in WorkerSpec.model_fields)
"""Fields of a recipe that stand in a ``WorkerSpec`` as they are: likewise."""
_copied_rules: Final = attrgetter(*_COPIED_RULES)


def build(spec: Spec, *, under_tasks: bool = False) -> ChildSpec:
    """The ``ChildSpec`` of a spec, with everything below it.

    ``under_tasks`` says whether the supervisor that it is for has an orchestrator.
    """
    return _Builder().build(spec, under_tasks=under_tasks)


class _Builder:
    """One build. Workers that differ in their id only share a recipe: one look at their code, and little memory."""

    def __init__(self) -> None:
        self._recipes: dict[tuple[Any, ...], WorkerRecipe] = {}
        self._facts: dict[tuple[str, object], executables.CodeFacts | None] = {}
        """Facts of the code of a worker that can be given work; None: it cannot."""
        self._built: dict[int, tuple[tuple[object, ...], WorkerRecipe, dict[str, Any]]] = {}
        """Looks of a worker, and what was built of it, by the identity of its function or class."""

    def build(self, spec: Spec, *, under_tasks: bool = False) -> ChildSpec:
        """The ``ChildSpec`` of a spec, with everything below it."""
        if isinstance(spec, WorkerSpec):
            return self._of_worker(spec, under_tasks=under_tasks)
        recipe = self._supervisor(spec, under_tasks=under_tasks)
        team = None if spec.tasks is None else executables.of_team(spec, recipe.children)
        return ChildSpec(recipe=recipe, registration=team, **_common(spec, under_tasks=under_tasks))

    def _of_worker(self, spec: WorkerSpec, *, under_tasks: bool) -> ChildSpec:
        mine = None if spec.args or spec.kwargs else looks(spec)
        before = None if mine is None else self._built.get(id(mine[0]))
        if mine is not None and before is not None and alike(mine, before[0]):
            return ChildSpec(recipe=before[1], **before[2] | {"id": spec.id})
        common, executable = _common(spec, under_tasks=under_tasks), self._executable(spec)
        if executable is not None:
            common["description"] = executable.description
        common["start_timeout_s"] = math.inf if spec.start_timeout_s is None else spec.start_timeout_s
        common["pool"] = spec.pool if spec.pool > 1 else None
        common["registration"] = executable
        recipe = self._worker(spec, common)
        if mine is not None and executable is None:
            self._built[id(mine[0])] = mine, recipe, common
        return ChildSpec(recipe=recipe, **common)

    def _supervisor(self, spec: SupervisorSpec, *, under_tasks: bool) -> SupervisorRecipe:
        has_tasks = spec.tasks is not None
        children = [self.build(child, under_tasks=has_tasks) for child in spec.children]
        if spec.tasks is not None and not under_tasks:  # else it is a team, which the engine above has
            children.insert(0, _engine(spec.tasks))
        return SupervisorRecipe(
            strategy=Strategy(spec.strategy),
            limit=RestartLimit(spec.max_restarts, spec.period_s),
            auto_shutdown=AutoShutdown(spec.auto_shutdown),
            children=tuple(children),
            max_children=spec.max_children,
            parallel_stop=spec.parallel_stop,
            max_abandoned=(spec.tasks or Tasks()).max_abandoned,
            observer=None if spec.tasks is None else partial(RegistryFeed, settings=spec.tasks),
            settings=spec.tasks,
        )

    def _executable(self, spec: WorkerSpec) -> Executable | None:
        """Description for others, where it can be given work."""
        kind, value = kind_of(spec)
        if not kind.may_execute:
            return None
        key = (kind.field, value if isinstance(value, str) else id(value))
        if key not in self._facts:
            found = kind.find(value)
            self._facts[key] = executables.facts_of(found) if kind.can_execute(found) else None
        facts = self._facts[key]
        if facts is None:
            return None
        return executables.of_worker(spec, facts)

    def _worker(self, spec: WorkerSpec, common: dict[str, Any]) -> WorkerRecipe:
        if spec.args or spec.kwargs:
            return _recipe(spec, origin_of(spec, common))
        kind, value = kind_of(spec)
        # By identity: the specs keep their functions and mailboxes alive while they are built.
        key = (
            kind.field,
            id(value),
            spec.dispatch if isinstance(spec.dispatch, str) else id(spec.dispatch),
            id(spec.mailbox),
            id(spec.lifespan),
            spec.tools,
            _copied_rules(spec),
        )
        recipe = self._recipes.get(key)
        if recipe is None:
            recipe = self._recipes[key] = _recipe(spec, origin_of(spec, common))
        return recipe


def _common(spec: Spec, *, under_tasks: bool) -> dict[str, Any]:
    """Return the fields of a ``ChildSpec`` that workers and supervisors have."""
    return {
        "restart": core.Restart(spec.restart),
        "shutdown_s": _seconds(spec.shutdown),
        "brutal_kill": spec.shutdown == "brutal_kill",
        "backoff": _backoff(spec.backoff),
        "park": parks(spec, under_tasks=under_tasks),
        **dict(zip(_COPIED, _copied(spec), strict=True)),
    }


def _engine(tasks: Tasks) -> ChildSpec:
    from actors.tasks.engine.engine import engine_spec  # noqa: PLC0415

    return engine_spec(tasks)


def _recipe(spec: WorkerSpec, origin: Origin | None) -> WorkerRecipe:
    kind, value = kind_of(spec)
    rules = {name: getattr(spec, name) for name in _COPIED_RULES}
    if origin is not None:
        rules |= {"origin": origin, "work": value}
    rules |= {"where": where(spec), "bounds": _bounds(spec.mailbox), "resource": resolve(spec.lifespan)}
    found = kind.find(value)
    if spec.tools is not None:
        found = found.restricted_to(frozenset(spec.tools))
    recipe = kind.recipe(found, tuple(spec.args), dict(spec.kwargs), rules)
    if elsewhere(spec) is not None:
        return process_recipe(recipe, kind.code(spec, rules))
    remember(recipe)
    return recipe


def _seconds(shutdown: float | str) -> float:
    if isinstance(shutdown, str):
        return math.inf if shutdown == "infinity" else 0.0
    return float(shutdown)


def _backoff(backoff: Backoff | None) -> core.Backoff | None:
    return None if backoff is None else core.Backoff(**backoff.model_dump())


def _bounds(mailbox: Mailbox) -> MailboxLimit:
    return UNBOUNDED if mailbox.capacity is None else MailboxLimit(mailbox.capacity, Overflow(mailbox.overflow))
