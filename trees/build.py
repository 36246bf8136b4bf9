"""From what a user wrote to what a supervisor reads: specs in, ``ChildSpec`` out. Starts nothing, checks nothing.

Comes in: specs that ``trees.check`` has found right. The specs of a whole tree are turned into one frozen ``ChildSpec``
of its root; ``start_child`` turns one more spec into one more.
"""

from __future__ import annotations

import math
from typing import Any

from actors import spec as core
from actors.spec import (
    UNBOUNDED,
    AutoShutdown,
    Bounds,
    ChildSpec,
    Overflow,
    RestartLimit,
    Strategy,
    SupervisorRecipe,
    WorkerRecipe,
)
from actors.worker import actor_recipe, body_recipe, handle_recipe
from trees.config import Backoff, Mailbox, Spec, SupervisorSpec, WorkerSpec
from trees.resolve import resolve, target_of, where


def build(spec: Spec) -> ChildSpec:
    """The ``ChildSpec`` of a spec, with everything below it."""
    return _Builder().build(spec)


class _Builder:
    """One build. Workers that differ in their id only share a recipe: one look at their code, and little memory."""

    def __init__(self) -> None:
        self._recipes: dict[tuple[Any, ...], WorkerRecipe] = {}

    def build(self, spec: Spec) -> ChildSpec:
        """The ``ChildSpec`` of a spec, with everything below it."""
        common: dict[str, Any] = {
            "id": spec.id,
            "restart": core.Restart(spec.restart),
            "shutdown_s": _seconds(spec.shutdown),
            "brutal_kill": spec.shutdown == "brutal_kill",
            "significant": spec.significant,
            "backoff": _backoff(spec.backoff),
            "park": spec.on_exhausted == "park",
            "description": spec.description,
        }
        if isinstance(spec, SupervisorSpec):
            return ChildSpec(recipe=self._supervisor(spec), **common)
        return ChildSpec(
            recipe=self._worker(spec),
            start_timeout_s=math.inf if spec.start_timeout_s is None else spec.start_timeout_s,
            pool=spec.pool if spec.pool > 1 else None,
            **common,
        )

    def _supervisor(self, spec: SupervisorSpec) -> SupervisorRecipe:
        return SupervisorRecipe(
            strategy=Strategy(spec.strategy),
            limit=RestartLimit(spec.max_restarts, spec.period_s),
            auto_shutdown=AutoShutdown(spec.auto_shutdown),
            children=tuple([self.build(child) for child in spec.children]),
            max_children=spec.max_children,
            parallel_stop=spec.parallel_stop,
        )

    def _worker(self, spec: WorkerSpec) -> WorkerRecipe:
        if spec.args or spec.kwargs:
            return _recipe(spec)
        which, target = target_of(spec)
        # By identity: the specs keep their functions and mailboxes alive while they are built.
        key = (which, id(target), spec.dispatch, id(spec.mailbox), spec.expected, spec.crash_on_ask_error)
        recipe = self._recipes.get(key)
        if recipe is None:
            recipe = self._recipes[key] = _recipe(spec)
        return recipe


def _recipe(spec: WorkerSpec) -> WorkerRecipe:
    which, target = target_of(spec)
    args, kwargs = tuple(spec.args), dict(spec.kwargs)
    code, place = resolve(target), where(spec)
    if which == "run":
        return body_recipe(code, args, kwargs, where=place)
    make = actor_recipe if which == "actor" else handle_recipe
    return make(
        code,
        args,
        kwargs,
        where=place,
        bounds=_bounds(spec.mailbox),
        expected=tuple(spec.expected),
        crash_on_ask_error=spec.crash_on_ask_error,
    )


def _seconds(shutdown: float | str) -> float:
    if isinstance(shutdown, str):
        return math.inf if shutdown == "infinity" else 0.0
    return float(shutdown)


def _backoff(backoff: Backoff | None) -> core.Backoff | None:
    return None if backoff is None else core.Backoff(**backoff.model_dump())


def _bounds(mailbox: Mailbox) -> Bounds:
    return UNBOUNDED if mailbox.capacity is None else Bounds(mailbox.capacity, Overflow(mailbox.overflow))
