"""How an orchestrator is declared: the first child of every supervisor with ``tasks=``."""

from __future__ import annotations

from actors.model.spec import ChildSpec, DispatcherKind, WorkerRecipe
from actors.tasks.orchestration.orchestrator import Orchestrator
from actors.tasks.orchestration.task_runtime import ORCHESTRATOR
from actors.tasks.planning.settings import Tasks


def orchestrator_spec(settings: Tasks) -> ChildSpec:
    """The first child of a supervisor with ``tasks=``."""
    recipe = WorkerRecipe(
        make=lambda incarnation: Orchestrator(incarnation, settings),
        where=DispatcherKind.LOOP,
        never_waits=True,
        fails_plain=True,
        actor_class=Orchestrator,
    )
    words = "turns goals into plans, and plans into work"
    return ChildSpec(id=ORCHESTRATOR, recipe=recipe, description=words, owned=True)
