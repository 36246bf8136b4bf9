"""Executables that follow a script: what happens is said for each attempt, and what they were given is written down.

Comes in: steps (see ``actors.testing.script``). Goes out: what ``execute=`` takes, and lists of the calls that it got.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from actors.testing.script import ECHO, now, play, play_async

if TYPE_CHECKING:
    from actors.tasks.execution.context import Context
    from actors.tasks.model import Work

WAIT_S = 10.0
"""How long ``wait_for_calls`` waits for what should happen at once."""


@dataclass(slots=True, eq=False)
class Call:
    """One call of ``execute``, or of ``undo``: what it was given, and how it ended."""

    subtask: str
    """Id."""
    attempt: int
    """1 is the first."""
    idempotency_key: str
    goal: str = field(repr=False)
    instruction: str = field(repr=False)
    inputs: dict[str, Any] = field(repr=False)
    results: dict[str, Any] = field(repr=False)
    """Results of other subtasks that it saw."""
    feedback: str = field(repr=False)
    remaining_s: float | None
    """Budget that it had left when it began."""
    result: Any = field(default=None, repr=False)
    """Result that is undone, for an undo."""
    ended: str = ""
    """Empty while it runs; then ``returned``, or the type of what was raised, such as ``CancelledError``."""


class _Scripted:
    """Script of what happens, and record of the calls. The classes below say which of the two ways to wait is used."""

    def __init__(
        self,
        *steps: object,
        at: Mapping[int, object] | None = None,
        then: object = ECHO,
        by: Literal["attempt", "call"] = "attempt",
        undo: Sequence[object] = (),
    ) -> None:
        self._steps = dict(enumerate(steps, start=1)) | dict(at or {})
        self._then = steps[-1] if steps and then is ECHO else then
        self._by = by
        self._undo_steps = dict(enumerate(undo, start=1))
        self._undo_then = undo[-1] if undo else None
        self._books = threading.Condition()
        self._running = 0
        self.calls: list[Call] = []
        """Calls of ``execute``, in the order in which they began."""
        self.undos: list[Call] = []
        """Calls of ``undo``, in the order in which they began."""
        self.most_at_once = 0
        """Largest number of calls of ``execute`` that ran at the same time."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._steps)} steps, called {len(self.calls)} times>"

    def wait_for_calls(self, count: int = 1, timeout_s: float = WAIT_S) -> list[Call]:
        """Wait until ``execute`` has been called ``count`` times; those calls.

        Raises:
            TimeoutError: it was not within ``timeout_s`` seconds.
        """
        with self._books:
            if not self._books.wait_for(lambda: len(self.calls) >= count, timeout_s):
                message = f"{len(self.calls)} calls within {timeout_s:g} s, wanted {count}"
                raise TimeoutError(message)
            return self.calls[:count]

    @contextmanager
    def _called(self, task: Work, context: Context) -> Iterator[tuple[object, float | None]]:
        """Write it down; what happens now, and the time from which that counts: before anybody knows of the call."""
        call, began = _call(task, context), now()
        with self._books:
            self.calls.append(call)
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
            number = call.attempt if self._by == "attempt" else len(self.calls)
            self._books.notify_all()
        try:
            with _ending(call):
                yield self._steps.get(number, self._then), began
        finally:
            with self._books:
                self._running -= 1

    @contextmanager
    def _undone(self, task: Work, result: object, context: Context) -> Iterator[tuple[object, float | None]]:
        call, began = _call(task, context), now()
        call.result = result
        with self._books:
            self.undos.append(call)
            self._books.notify_all()
        with _ending(call):
            yield self._undo_steps.get(call.attempt, self._undo_then), began


class ScriptedExecutable(_Scripted):
    """A sync executable that does, at each attempt, what its script says.

    ::

        payment = ScriptedExecutable(ConnectionError("no route"), Slow(5, then={"paid": 20}))
        TREE = SupervisorSpec(id="shop", tasks=Tasks(planner=...), children=[
            WorkerSpec(id="payment", execute=payment, undo=payment.undo),
        ])
        clock = ManualClock()
        with start(TREE, clock=clock) as tree:
            handle = tree.submit("checkout")
            settle(tree)            # the first attempt has failed, the second one waits for its delay
            clock.advance(1)        # its delay is over, and so would be a breaker's cooldown or a timeout
            payment.wait_for_calls(2)
            clock.advance(5)
            handle.result(timeout=10)
        assert [call.attempt for call in payment.calls] == [1, 2]

    Time is the tree's: with a ``ManualClock`` retries, breakers, timeouts and ``Slow`` pass when it is advanced.
    It records its calls over all incarnations of its worker, and may serve several workers.

    Args:
        steps: what happens at the first attempt of a subtask, at the second, and so on; after the last one, the last.
        at: the same by number, for those that stand far apart; over ``steps``.
        then: what happens where nothing else is said; of a script without ``steps`` the instruction is the result.
        by: ``"call"`` counts the calls that it gets, whatever they are for, instead of the attempts of each subtask.
        undo: what happens at each attempt of ``undo``, the last one again and again; nothing does by default.
    """

    def execute(self, task: Work, context: Context) -> Any:
        """Do what the script says."""
        with self._called(task, context) as (step, began):
            return play(step, (task, context), began)

    def undo(self, task: Work, result: Any, context: Context) -> Any:
        """For ``undo=``: do what the script says of that, and write it down in ``undos``."""
        with self._undone(task, result, context) as (step, began):
            return play(step, (task, result, context), began)


class AsyncScriptedExecutable(_Scripted):
    """``ScriptedExecutable`` with async methods: its attempts can be cancelled. Its functions may be async."""

    async def execute(self, task: Work, context: Context) -> Any:
        """Do what the script says."""
        with self._called(task, context) as (step, began):
            return await play_async(step, (task, context), began)

    async def undo(self, task: Work, result: Any, context: Context) -> Any:
        """For ``undo=``: do what the script says of that, and write it down in ``undos``."""
        with self._undone(task, result, context) as (step, began):
            return await play_async(step, (task, result, context), began)


def _call(task: Work, context: Context) -> Call:
    return Call(
        subtask=task.id,
        attempt=context.attempt,
        idempotency_key=context.idempotency_key,
        goal=context.goal,
        instruction=str(task),
        inputs=context.inputs,
        results=context.results,
        feedback=context.feedback,
        remaining_s=context.remaining_s,
    )


@contextmanager
def _ending(call: Call) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        call.ended = type(error).__name__
        raise
    call.ended = "returned"
