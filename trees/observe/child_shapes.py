"""Settings of a child for the page's API: what its declaration says, as texts. No argument of its code is told."""

from __future__ import annotations

import math

from actors.model.spec import ChildSpec, SupervisorRecipe


def settings_of(spec: ChildSpec) -> dict[str, str]:
    """Return the settings of a child that somebody who operates it may want to know."""
    told: dict[str, object] = {
        "description": spec.description or None,
        "restart": spec.restart,
        "shutdown": "at once" if spec.brutal_kill else f"{spec.shutdown_s:g} s",
        "start timeout": None if math.isinf(spec.start_timeout_s) else f"{spec.start_timeout_s:g} s",
        "significant": spec.significant or None,
        "required": None if spec.required else "no",
        "parks": spec.park or None,
    }
    backoff = spec.backoff
    if backoff is not None:
        told["backoff"] = f"{backoff.initial_s:g} s, times {backoff.factor:g}, up to {backoff.max_s:g} s"
    recipe = spec.recipe
    if isinstance(recipe, SupervisorRecipe):
        told["strategy"] = recipe.strategy
        told["restart limit"] = f"{recipe.limit.max_restarts} in {recipe.limit.period_s:g} s"
        told["auto shutdown"] = recipe.auto_shutdown
        told["max children"] = recipe.max_children
    else:
        told["runs on"] = recipe.where
        told["mailbox"] = recipe.bounds.capacity
        told["when full"] = None if recipe.bounds.capacity is None else recipe.bounds.overflow
        told["stall after"] = None if recipe.stall_s is None else f"{recipe.stall_s:g} s"
        told["expected errors"] = ", ".join(each.__name__ for each in recipe.expected) or None
    return {name: _word(value) for name, value in told.items() if value is not None}


def _word(value: object) -> str:
    return "yes" if value is True else str(value)
