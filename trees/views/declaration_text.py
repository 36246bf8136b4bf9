"""A tree as it is declared, drawn without starting it. Takes a spec that the check has passed."""

from __future__ import annotations

from collections.abc import Iterator

from trees.declaration.check_tasks import ORCHESTRATOR
from trees.declaration.kinds import kind_of, parks, where
from trees.declaration.specs import Spec, SupervisorSpec, WorkerSpec
from trees.views.table import TableRow, aligned, lines_before


def draw(spec: SupervisorSpec) -> str:
    """One line a child, pools folded: what it is, what it runs, and where. Arguments never show."""
    return aligned(_rows(spec, ("", "")))


def _rows(spec: Spec, prefix: tuple[str, str], *, under_tasks: bool = False) -> Iterator[TableRow]:
    own, below = prefix
    if isinstance(spec, WorkerSpec):
        name = f"{spec.id} ×{spec.pool}" if spec.pool > 1 else spec.id
        yield TableRow(own + name, spec.restart, _shown(spec), list(_worker_facts(spec, under_tasks=under_tasks)))
        return
    limit = f"up to {spec.max_restarts} restarts in {spec.period_s:g} s"
    yield TableRow(own + spec.id, spec.strategy, "supervisor", [limit, *_common_facts(spec)])
    tasks = spec.tasks is not None
    if tasks:
        first, _ = lines_before(below, last=not spec.children)
        yield TableRow(first + ORCHESTRATOR, "permanent", "orchestrator", ["on the loop"])
    for child in spec.children[:-1]:
        yield from _rows(child, lines_before(below, last=False), under_tasks=tasks)
    for child in spec.children[-1:]:
        yield from _rows(child, lines_before(below, last=True), under_tasks=tasks)


def _shown(spec: WorkerSpec) -> str:
    kind, value = kind_of(spec)
    return kind.shown(value)


def _worker_facts(spec: WorkerSpec, *, under_tasks: bool) -> Iterator[str]:
    place = where(spec)
    yield f"{place} of its own" if place in {"thread", "process"} else f"on the {place}"
    if spec.mailbox.capacity is not None:
        yield f"mailbox {spec.mailbox.capacity}, then {spec.mailbox.overflow}"
    yield from _common_facts(spec, under_tasks=under_tasks)


def _common_facts(spec: Spec, *, under_tasks: bool = False) -> Iterator[str]:
    if isinstance(spec, SupervisorSpec) and spec.restart != "permanent":
        yield spec.restart
    if spec.significant:
        yield "significant"
    if parks(spec, under_tasks=under_tasks):
        yield "parks"
    if spec.backoff is not None:
        yield f"backoff from {spec.backoff.initial_s:g} to {spec.backoff.max_s:g} s"
    if spec.description:
        yield spec.description
