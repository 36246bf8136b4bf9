"""From a spec to the ``ChildSpec`` of the runtime."""

from __future__ import annotations

import math
from typing import Any

from actors.model import spec as core
from actors.model.spec import ChildSpec, DispatcherKind, SupervisorRecipe, WorkerRecipe
from actors.validation.introspection import is_async
from actors.worker import Worker, actor_recipe, body_recipe, handle_recipe, is_stock
from trees.declaration.specs import Mailbox, Spec, SupervisorSpec, WorkerSpec

HOOKS = ("on_start", "on_receive", "on_stop", "on_failure")


def build(spec: Spec) -> ChildSpec:
    """The ``ChildSpec`` of a spec, with everything below it."""
    common: dict[str, Any] = {
        "id": spec.id,
        "restart": core.Restart(spec.restart),
        "shutdown_s": {"infinity": math.inf, "brutal_kill": 0.0}.get(str(spec.shutdown), spec.shutdown),
        "brutal_kill": spec.shutdown == "brutal_kill",
        "significant": spec.significant,
        "backoff": spec.backoff,
        "park": spec.on_exhausted == "park",
        "description": spec.description,
    }
    if isinstance(spec, WorkerSpec):
        limit = math.inf if spec.start_timeout_s is None else spec.start_timeout_s
        pool = spec.pool if spec.pool > 1 else None
        return ChildSpec(recipe=_worker(spec), start_timeout_s=limit, pool=pool, **common)
    return ChildSpec(recipe=_supervisor(spec), **common)


def _supervisor(spec: SupervisorSpec) -> SupervisorRecipe:
    return SupervisorRecipe(
        strategy=core.Strategy(spec.strategy),
        limit=core.RestartLimit(spec.max_restarts, spec.period_s),
        auto_shutdown=core.AutoShutdown(spec.auto_shutdown),
        children=tuple(build(child) for child in spec.children),
        max_children=spec.max_children,
        parallel_stop=spec.parallel_stop,
    )


def _worker(spec: WorkerSpec) -> WorkerRecipe:
    args, kwargs, where = tuple(spec.args), dict(spec.kwargs), _where(spec)
    if spec.run is not None:
        return body_recipe(spec.run, args, kwargs, where=where)
    rules: dict[str, Any] = {
        "where": where,
        "bounds": _bounds(spec.mailbox),
        "resource": spec.lifespan,
        "expected": tuple(spec.expected),
        "crash_on_ask_error": spec.crash_on_ask_error,
    }
    if spec.actor is not None:
        return actor_recipe(spec.actor, args, kwargs, **rules)
    assert spec.handle is not None
    return handle_recipe(spec.handle, args, kwargs, **rules)


def _bounds(mailbox: Mailbox) -> core.MailboxLimit:
    return core.MailboxLimit(mailbox.capacity, core.Overflow(mailbox.overflow))


def _where(spec: WorkerSpec) -> DispatcherKind:
    if spec.dispatch != "auto":
        return DispatcherKind(spec.dispatch)
    if spec.run is not None:
        return DispatcherKind.LOOP if is_async(spec.run) else DispatcherKind.THREAD
    if spec.actor is None:
        return DispatcherKind.LOOP if is_async(spec.handle) else DispatcherKind.POOL
    if is_stock(spec.actor):
        return DispatcherKind.THREAD
    members = [
        (name, member) for cls in spec.actor.__mro__ if cls not in Worker.__mro__ for name, member in vars(cls).items()
    ]
    return (
        DispatcherKind.LOOP
        if any(name in HOOKS and is_async(member) for name, member in members)
        else DispatcherKind.POOL
    )
