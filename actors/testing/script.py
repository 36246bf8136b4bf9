"""Steps of a scripted call, and how each is made to happen, on a thread or on an event loop.

Comes in: a step, and the arguments of the call. Goes out: the value of the call, or what it raises. The scripts are
kept by ``actors.testing.scripted_executable`` and ``actors.testing.fake_model``.

=======================  =============================================================================================
any value                is the result, ``Done(value, usage=...)`` too
an exception, its class  is raised: ``ValueError("no")``, the signals ``Failed``, ``Rejected``, ``Later``, ``Escalated``
``Crash("why")``         the worker dies of it, whatever it is and whatever is ``expected=``
``Hang()``               hangs until released (then the echo), asked to stop, or cancelled; ``deaf=True``: only released
``Slow(0.5)``            half a second on the tree's clock, from the call on, then the echo; with ``then=step`` that
``InTurn(a, b, c)``      one after the other; the result is that of the last one
``Echo()``               the instruction is the result
a function               is called with what the call was given, and says what happens: ``def step(task, context): ...``
=======================  =============================================================================================
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from actors.messaging.envelope import CURRENT
from actors.messaging.worker_api import sleep, wait_to_stop
from actors.testing.faulty_workers import Hang, sleep_on_clock


class Echo:
    """Step: the first argument of the call (of an attempt: its instruction) is the result."""

    def __repr__(self) -> str:
        return "Echo()"


ECHO: Final = Echo()


class Crash:
    """Step: the worker dies, as of a ``SystemExit``, which nothing makes a failure."""

    def __init__(self, why: str = "a scripted crash") -> None:
        self.why = why

    def __repr__(self) -> str:
        return "Crash()"


class Slow:
    """Step: it takes ``seconds`` on the tree's clock (less where a thread's worker is asked to stop), then ``then``."""

    def __init__(self, seconds: float, then: object = ECHO) -> None:
        self.seconds = seconds
        self.then = then

    def __repr__(self) -> str:
        return f"Slow({self.seconds:g})"


class InTurn:
    """Step: several, one after the other, up to the first that raises."""

    def __init__(self, *steps: object) -> None:
        self.steps = steps

    def __repr__(self) -> str:
        return f"InTurn of {len(self.steps)} steps"


def now() -> float | None:
    """Time on the clock of the tree whose worker runs this code; None outside of a tree."""
    current = CURRENT.get()
    return None if current is None else current.incarnation.system.now()


def play(step: Any, args: tuple[Any, ...], began: float | None = None) -> Any:
    """Make a step happen on this thread; ``began``: the time on the tree's clock from which it counts; None: now."""
    if isinstance(step, InTurn):
        value: Any = None
        for number, each in enumerate(step.steps):
            value = play(each, args, None if number else began)
        return value
    if isinstance(step, Hang):
        step.hold()
        return _echo(args)
    if isinstance(step, Slow):
        _sleep(step.seconds, began)
        return play(step.then, args, None if began is None else began + step.seconds)
    return play(step(*args), args) if _is_code(step) else _plain(step, args)


async def play_async(step: Any, args: tuple[Any, ...], began: float | None = None) -> Any:
    """Make a step happen on this event loop, as ``play``; functions may be async."""
    if isinstance(step, InTurn):
        value: Any = None
        for number, each in enumerate(step.steps):
            value = await play_async(each, args, None if number else began)
        return value
    if isinstance(step, Hang):
        await step.hold_async()
        return _echo(args)
    if isinstance(step, Slow):
        await sleep_on_clock(step.seconds, began)
        return await play_async(step.then, args, None if began is None else began + step.seconds)
    if not _is_code(step):
        return _plain(step, args)
    said = step(*args)
    return await play_async(await said if inspect.isawaitable(said) else said, args)


def _sleep(seconds: float, began: float | None) -> None:
    current = CURRENT.get()
    if current is None or began is None:
        sleep(seconds)
    else:
        wait_to_stop(current.incarnation, began + seconds)


def _is_code(step: Any) -> bool:
    """A function, a method, a partial; a class is a value, or an error."""
    return callable(step) and not isinstance(step, type)


def _plain(step: object, args: tuple[Any, ...]) -> Any:
    if isinstance(step, Crash):
        raise SystemExit(step.why)
    if isinstance(step, BaseException) or (isinstance(step, type) and issubclass(step, BaseException)):
        raise step
    return _echo(args) if isinstance(step, Echo) else step


def _echo(args: tuple[Any, ...]) -> str:
    return str(args[0]) if args else ""
