"""A tree as it is declared, drawn without starting it. Takes a spec that the check has passed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from actors.tasks.journal.view import ladder_of_teams
from actors.tasks.planning.settings import Tasks
from trees.declaration.check_tasks import ORCHESTRATOR
from trees.declaration.kinds import kind_of, parks, where
from trees.declaration.specs import Spec, SupervisorSpec, WorkerSpec
from trees.views.table import TableRow, aligned, lines_before


def draw(spec: SupervisorSpec) -> str:
    """One line a child, pools folded: what it is, what it runs, and where. Arguments never show."""
    return aligned(_rows(spec, ("", "")))


def _rows(
    spec: Spec, prefix: tuple[str, str], above: SupervisorSpec | None = None, levels: tuple[int, ...] = ()
) -> Iterator[TableRow]:
    """Yield the rows of a child; ``levels``: attempts that the supervisors above give to the team that it is in."""
    own, below = prefix
    under_tasks = above is not None and above.tasks is not None
    if above is not None and above.tasks is not None and (isinstance(spec, SupervisorSpec) or _executes(spec)):
        levels = (*levels, _attempts(spec, above.tasks))
    if isinstance(spec, WorkerSpec):
        name = f"{spec.id} ×{spec.pool}" if spec.pool > 1 else spec.id
        yield TableRow(
            own + name, spec.restart, _shown(spec), list(_worker_facts(spec, levels if under_tasks else None))
        )
        return
    limit = f"up to {spec.max_restarts} restarts in {spec.period_s:g} s"
    yield TableRow(own + spec.id, spec.strategy, "supervisor", [limit, *_common_facts(spec)])
    tasks = spec.tasks is not None
    if tasks:
        first, _ = lines_before(below, last=not spec.children)
        yield TableRow(first + ORCHESTRATOR, "permanent", "orchestrator", ["on the loop"])
    for child in spec.children[:-1]:
        yield from _rows(child, lines_before(below, last=False), spec, levels if tasks else ())
    for child in spec.children[-1:]:
        yield from _rows(child, lines_before(below, last=True), spec, levels if tasks else ())


def _shown(spec: WorkerSpec) -> str:
    kind, value = kind_of(spec)
    return kind.shown(value)


def _worker_facts(spec: WorkerSpec, levels: tuple[int, ...] | None) -> Iterator[str]:
    place = where(spec)
    yield f"{place} of its own" if place in {"thread", "process"} else f"on the {place}"
    if spec.mailbox.capacity is not None:
        yield f"mailbox {spec.mailbox.capacity}, then {spec.mailbox.overflow}"
    yield from _tries(spec, levels or ())
    yield from _common_facts(spec, under_tasks=levels is not None)


def _executes(spec: Spec) -> bool:
    """Return True for a worker that is given work by an orchestrator."""
    if isinstance(spec, SupervisorSpec):
        return False
    kind, value = kind_of(spec)
    return kind.may_execute and kind.can_execute(kind.find(value))


def _attempts(spec: Spec, tasks: Tasks) -> int:
    """How often a worker, or a team, is tried by its ladder, or by that of its supervisor."""
    by_default = ladder_of_teams(tasks) if isinstance(spec, SupervisorSpec) else tasks.on_failure
    ladder = by_default if spec.on_failure is None else spec.on_failure
    return 1 + sum(getattr(rung, "max_attempts", 1) - 1 for rung in ladder)


def _tries(spec: WorkerSpec, levels: tuple[int, ...]) -> Iterator[str]:
    """Say how many attempts a failing worker makes of one subtask: ladders multiply over teams in teams."""
    if levels and _executes(spec):
        most = math.prod(levels)
        product = " × ".join(str(each) for each in reversed(levels) if each > 1)
        yield f"up to {most} attempts" + (f" ({product})" if "×" in product else "") if most > 1 else "1 attempt"


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
