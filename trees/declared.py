"""A tree as it is declared, drawn without starting it. Takes a spec that the check has passed."""

from __future__ import annotations

from collections.abc import Iterator

from trees.config import Spec, SupervisorSpec, WorkerSpec
from trees.dump import worst_case_line
from trees.picture import Row, aligned, lines_before
from trees.resolve import target_of, where
from trees.worst import crashes_to_give_up, share_of


def draw(spec: SupervisorSpec) -> str:
    """One line a child, pools folded: what it is, what it runs, and where. Arguments never show."""
    return f"{aligned(_rows(spec, ('', '')))}\n\n{worst_case_line(_crashes(spec))}"


def _rows(spec: Spec, prefix: tuple[str, str]) -> Iterator[Row]:
    own, below = prefix
    if isinstance(spec, WorkerSpec):
        name = f"{spec.id} ×{spec.pool}" if spec.pool > 1 else spec.id
        yield Row(own + name, spec.restart, _work(spec), list(_worker_facts(spec)))
        return
    limit = f"up to {spec.max_restarts} restarts in {spec.period_s:g} s"
    yield Row(own + spec.id, spec.strategy, "supervisor", [limit, *_common_facts(spec)])
    for child in spec.children[:-1]:
        yield from _rows(child, lines_before(below, last=False))
    for child in spec.children[-1:]:
        yield from _rows(child, lines_before(below, last=True))


def _work(spec: WorkerSpec) -> str:
    """The field and the name of the code: of an object only its type."""
    field, target = target_of(spec)
    if isinstance(target, str):
        return f"{field} {target}"
    return f"{field} {getattr(target, '__qualname__', type(target).__qualname__)}"


def _worker_facts(spec: WorkerSpec) -> Iterator[str]:
    place = where(spec)
    yield "thread of its own" if place == "thread" else f"on the {place}"
    if spec.mailbox.capacity is not None:
        yield f"mailbox {spec.mailbox.capacity}, then {spec.mailbox.overflow}"
    yield from _common_facts(spec)


def _common_facts(spec: Spec) -> Iterator[str]:
    if isinstance(spec, SupervisorSpec) and spec.restart != "permanent":
        yield spec.restart
    if spec.significant:
        yield "significant"
    if spec.on_exhausted == "park":
        yield "parks"
    if spec.backoff is not None:
        yield f"backoff from {spec.backoff.initial_s:g} to {spec.backoff.max_s:g} s"
    if spec.description:
        yield spec.description


def _crashes(spec: Spec) -> int | None:
    if isinstance(spec, WorkerSpec):
        return 1
    shares = (
        share_of(
            child.restart,
            _crashes(child),
            parks=child.on_exhausted == "park",
            supervisor=isinstance(child, SupervisorSpec),
        )
        for child in spec.children
    )
    return crashes_to_give_up(spec.max_restarts, shares)
