"""Effects of an orchestrator's decisions: done in their order, each once the records that say so are kept.

With a store that writes in groups that is when the group is written, which is told on the store's own thread. The
effects are done on the tree's event loop, where the orchestrators are, and so never in the middle of a decision; also
where the one that decided has died meanwhile. Whoever comes after it may decide the same once more from the journal:
every effect is harmless the second time. What is not kept when the tree is down has no effect; the next process finds
the records, or does not, and goes on from there.

What an effect needs and the journal has left in the store is fetched when its turn comes
(``actors.tasks.orchestration.fetching``); those behind it in its line wait for that. A value that cannot be read is an
effect that could not be had.

Each task has a line of its own, so that a task whose large result is being written holds up no other::

    effect of a task        after the effects of that task that came before, once the records of it are kept, and once
                            the large values that it needs are there
    effect of no one task   after all effects that came before, and once all records are kept
    one on its last chance  (it has perhaps killed processes) as of no one task: should the process die of it, the end
                            of whoever had its chance before must be kept, or that one is taken for the culprit
    two tasks               no order: no effect of one says anything about the other. A task and its part are with two
                            orchestrators, which have an outbox each; what each waits for are the records of both
                            (``DurableStore.flush_streams``)

Locking: none. Only the loop touches the lines. ``_ready`` is a deque whose ``append`` and ``popleft`` are one step of C
each, and ``_woken`` is set by any thread; one wake-up too many does nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from actors.messaging.reply import Reply
from actors.tasks.model.task_errors import DamagedJournalError, StoreError
from actors.tasks.orchestration.fetching import Effect, Fetched, Fetching

if TYPE_CHECKING:
    from actors.runtime.system import System


class _Group:
    """Effects that wait for the same."""

    __slots__ = ("effects", "fetched", "kept", "number")

    def __init__(self, number: int, kept: Reply | None, effects: list[Effect]) -> None:
        self.number = number
        self.kept = kept
        self.effects = effects
        self.fetched: Fetched | None = None
        """Values that they lack; None: there are none, or their turn has not come."""

    @property
    def is_kept(self) -> bool:
        return self.kept is None or self.kept.done


class Outbox:
    """Effects of one orchestrator that wait, over all its incarnations."""

    def __init__(
        self,
        system: System,
        failed: Callable[[Exception, str | None], object],
        fetching: Fetching | None = None,
    ) -> None:
        self._system = system
        self._failed = failed
        self._fetching = fetching
        """None: with this store every value is at hand."""
        self._lines: dict[str | None, deque[_Group]] = {}
        """By task, the groups that wait; None: those that wait for all before them."""
        self._number = 0
        self._open: dict[int, None] = {}
        """Numbers of all groups that wait, the oldest first."""
        self._ready: deque[str | None] = deque()
        """Tasks for which something is kept by now."""
        self._woken = False

    def __len__(self) -> int:
        """How many groups wait."""
        return len(self._open)

    def after(self, kept: Reply | None, effects: list[Effect], task: str | None = None) -> None:
        """Carry out effects once the records that they follow from are kept, in the order in which they were given.

        Args:
            kept: completed when the records are kept; None: they are.
            effects: calls, in order.
            task: the task that they are about: effects of one task keep their order; None: they wait for all tasks.
        """
        waits = kept is not None or (self._lines if task is None else task in self._lines)
        if not waits and self._fetching is None:
            self._do(effects, task)  # nothing can be lacking
            return
        group = _Group(self._number + 1, kept, effects)
        if not waits and self._is_whole(group, task):
            self._do(group.effects, task)
            return
        self._number = group.number
        self._open[group.number] = None
        self._lines.setdefault(task, deque()).append(group)
        if kept is not None:
            kept.when_done(partial(self._wake, task))

    def _wake(self, task: str | None) -> None:
        self._ready.append(task)
        if not self._woken:
            self._woken = True
            self._system.loop.call(self._do_kept)

    def _do_kept(self) -> None:
        self._woken = False
        while self._ready:
            self._advance(self._ready.popleft())
            self._advance(None)

    def _advance(self, task: str | None) -> None:
        """Do what can be done of one line."""
        line = self._lines.get(task)
        while line and not self._system.is_down:
            group = line[0]
            if not group.is_kept or (task is None and group.number != next(iter(self._open))):
                return
            if group.kept is None or group.kept.succeeded:  # else it never will be, so nothing may follow from it
                if not self._is_whole(group, task):
                    return
                self._do(group.effects, task)
            line.popleft()
            del self._open[group.number]
        if not line:
            self._lines.pop(task, None)

    def _is_whole(self, group: _Group, task: str | None) -> bool:
        """True if nothing is lacking, or what is cannot be had; else it is on its way."""
        if self._fetching is None:
            return True
        fetched = group.fetched
        if fetched is None:
            fetched = group.fetched = self._fetching.begin(group.effects)
            if fetched is None:
                return True
            fetched.when_done(partial(self._wake, task))
        if not fetched.done:
            return False
        try:
            fetched.put_back()
        except StoreError as error:
            group.effects = []
            if isinstance(error, DamagedJournalError):  # else the store is closed, and the tree ends
                self._failed(error, task)
        return True

    def _do(self, effects: list[Effect], task: str | None) -> None:
        for function, args in effects:
            try:
                function(*args)
            except Exception as error:  # noqa: BLE001 - a bug of ours; the others must be done all the same
                self._failed(error, task)
