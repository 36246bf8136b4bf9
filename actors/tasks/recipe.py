"""How an orchestrator is declared: the first child of every supervisor with ``tasks=``."""

from __future__ import annotations

from actors.spec import ChildSpec, Where, WorkerRecipe
from actors.tasks.ground import ORCHESTRATOR
from actors.tasks.orchestrator import Orchestrator
from actors.tasks.settings import Tasks


def orchestrator_spec(settings: Tasks) -> ChildSpec:
    """The first child of a supervisor with ``tasks=``."""
    recipe = WorkerRecipe(
        make=lambda life: Orchestrator(life, settings),
        where=Where.LOOP,
        never_waits=True,
        fails_plain=True,
        actor_class=Orchestrator,
    )
    return ChildSpec(id=ORCHESTRATOR, recipe=recipe, description="turns goals into plans, and plans into work")
