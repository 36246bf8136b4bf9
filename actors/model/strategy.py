"""Restart strategies: pure functions from (strategy, children, exit) to what is to be done.

No threads, no clock, no Pykka. A child is anything that has an ``id`` and a ``pool`` (the id of its pool, or
None); the children come in start order.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Protocol, TypeVar

from actors.model.spec import AutoShutdown, Reason, Restart, Strategy


class ExitAction(Enum):
    """Decision on a child that ended by itself."""

    RESTART = auto()
    KEEP = auto()
    """Decision that it stays listed as stopped."""
    FORGET = auto()


def decide(restart: Restart, reason: Reason) -> ExitAction:
    """The table of SEMANTICS.md, "A child exits"."""
    if restart is Restart.PERMANENT:
        return ExitAction.RESTART
    if restart is Restart.TEMPORARY:
        return ExitAction.FORGET
    return ExitAction.KEEP if reason.clean else ExitAction.RESTART


class HasPool(Protocol):
    """Interface of a child that ``scope`` looks at."""

    @property
    def pool(self) -> str | None:
        """The id of the pool that this child is a member of."""


ChildT = TypeVar("ChildT", bound=HasPool)


def scope(strategy: Strategy, newest_first: Iterable[ChildT], culprit: ChildT) -> list[ChildT]:
    """The children that a restart of ``culprit`` touches, itself included, in start order.

    ``newest_first`` is read only as far as needed: rest_for_one costs the children after the culprit, not all.
    The members of a pool stand at one position: a member's crash touches that member and what follows the pool.
    """
    if strategy is Strategy.ONE_FOR_ONE:
        return [culprit]
    touched: list[ChildT] = []
    for child in newest_first:
        if strategy is Strategy.REST_FOR_ONE and _same_position(child, culprit):
            touched.append(culprit)
            break
        touched.append(child)
    touched.reverse()
    return touched


def _same_position(child: HasPool, culprit: HasPool) -> bool:
    return child is culprit or (culprit.pool is not None and child.pool == culprit.pool)


def stop_batches(children: Iterable[ChildT], *, parallel: bool) -> list[list[ChildT]]:
    """Start order -> the batches to stop, last batch first to go (pop from the end).

    One child a batch, except the members of a pool, which go together; with ``parallel`` all go together.
    """
    batches: list[list[ChildT]] = []
    for child in children:
        joins = batches and (parallel or (child.pool is not None and batches[-1][-1].pool == child.pool))
        if joins:
            batches[-1].append(child)
        else:
            batches.append([child])
    return batches


def ends_supervisor(rule: AutoShutdown, *, significant: bool, significant_alive: int) -> bool:
    """True if the end of a child *by itself* shuts its supervisor down (SEMANTICS.md 20)."""
    if not significant or rule is AutoShutdown.NEVER:
        return False
    return rule is AutoShutdown.ANY_SIGNIFICANT or significant_alive == 0
