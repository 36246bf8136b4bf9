"""Workers that wait for each other's capacity: found when one more is about to wait.

A worker takes one attempt at a time, and an attempt that waits in ``context.ask`` keeps its worker. So A may wait for B
while B, for somebody else, waits for A: no ancestry shows it, since the two belong to different chains. Pure.

A wait is *hopeless* where everybody who could do it is busy with attempts that wait hopelessly themselves; what is
assumed hopeless on the way round a circle stays so if nothing breaks the circle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

AskT = TypeVar("AskT")
AttemptT = TypeVar("AttemptT")


def find_wait_cycle(
    ask: AskT,
    holders: Callable[[AskT], Iterable[AttemptT] | None],
    waits_for: Callable[[AttemptT], Iterable[AskT | None] | None],
    name: Callable[[AttemptT], str],
) -> tuple[str, ...]:
    """The chain of those who wait for each other if ``ask`` can never be served; empty where it can.

    Args:
        ask: what is to be waited for.
        holders: the attempts that keep everybody busy who could do an ask; None where somebody has room, or it runs.
        waits_for: what an attempt waits for, None for what will be served; None where it does not wait. Not read on
            once one is served, so that a look costs the same however many there are.
        name: of the worker of an attempt, for the chain.
    """
    search = _Search(holders, waits_for, name)
    return tuple(search.chain) if search.is_stuck(ask) and search.chain else ()


class _Search(Generic[AskT, AttemptT]):
    """One look: two closures that call each other would be garbage for the collector after each ask."""

    def __init__(
        self,
        holders: Callable[[AskT], Iterable[AttemptT] | None],
        waits_for: Callable[[AttemptT], Iterable[AskT | None] | None],
        name: Callable[[AttemptT], str],
    ) -> None:
        self._holders = holders
        self._waits_for = waits_for
        self._name = name
        self._seen: set[int] = set()
        self.chain: list[str] = []

    def is_stuck(self, wanted: AskT) -> bool:
        """True if everybody who could do it waits in vain."""
        busy = self._holders(wanted)
        return busy is not None and all(self._waits_in_vain(attempt) for attempt in busy)

    def _waits_in_vain(self, attempt: AttemptT) -> bool:
        if id(attempt) in self._seen:
            return True
        self._seen.add(id(attempt))
        wanted = self._waits_for(attempt)
        if wanted is None:
            return False
        self.chain.append(self._name(attempt))
        return all(each is not None and self.is_stuck(each) for each in wanted)
