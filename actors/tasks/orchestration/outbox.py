"""Effects of an orchestrator's decisions: done in their order, each once the records that say so are kept.

With a store that writes in groups that is when the group is written, which is told on the store's own thread. The
effects are done on the tree's event loop, where the orchestrators are, and so never in the middle of a decision; also
where the one that decided has died meanwhile. Whoever comes after it may decide the same once more from the journal:
every effect is harmless the second time. What is not kept when the tree is down has no effect; the next process finds
the records, or does not, and goes on from there.

Each task has a line of its own, so that a task whose large result is being written holds up no other::

    effect of a task        after the effects of that task that came before, and once the records of it are kept
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
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from actors.messaging.reply import Reply

if TYPE_CHECKING:
    from actors.runtime.system import System

Effect: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]
"""A function and its arguments."""


class _Group(NamedTuple):
    """Effects that wait for the same."""

    number: int
    kept: Reply | None
    effects: list[Effect]

    @property
    def is_kept(self) -> bool:
        return self.kept is None or self.kept.done


class Outbox:
    """Effects of one orchestrator that wait, over all its incarnations."""

    def __init__(self, system: System, failed: Callable[[Exception, str | None], object]) -> None:
        self._system = system
        self._failed = failed
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
        """Do them now where what they follow from is kept, else when it is; never before those that came before."""
        if kept is None and not (self._lines if task is None else task in self._lines):
            self._do(effects, task)
            return
        self._number += 1
        self._open[self._number] = None
        self._lines.setdefault(task, deque()).append(_Group(self._number, kept, effects))
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
                self._do(group.effects, task)
            line.popleft()
            del self._open[group.number]
        if not line:
            self._lines.pop(task, None)

    def _do(self, effects: list[Effect], task: str | None) -> None:
        for function, args in effects:
            try:
                function(*args)
            except Exception as error:  # noqa: BLE001 - a bug of ours; the others must be done all the same
                self._failed(error, task)
