"""A signal handler or a finalizer never waits for a reply while its thread has a lock that the worker may need.

Whoever is to reply may be about to take that lock, and would wait for the one who waits for it.
"""

from __future__ import annotations

import asyncio
import copy
import dis
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from actors import ActorStoppedError, BlockingAskError, DeadLetter
from actors.concurrency.thread_state import HERE, without_waits
from actors.messaging.dead_letters import DeadLetterOffice
from actors.messaging.handled import waited_s
from actors.messaging.mailbox import Mailbox as Box
from actors.messaging.mailbox import Refusal
from actors.messaging.reply import Reply
from actors.runtime.handle import system_of
from actors.testing import ManualClock, settle
from tests.support.hardening import LONG_S, Gate, crash, obey
from trees import Backoff, Mailbox, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start

pytestmark = [pytest.mark.own_thread, pytest.mark.usefixtures("quiet_log")]

ROOT = Path(__file__).parents[2]
OURS = (f"{ROOT / 'actors'}/", f"{ROOT / 'trees'}/")
NO_HANDLER_RUNS = {"dead_letter", "_replace_oldest"}
"""Functions in whose ``with`` no instruction looks for signals or for garbage; tests read their bytecode."""
LOOKS_FOR_SIGNALS = ("CALL", "RESUME", "JUMP_BACKWARD", "SEND", "YIELD")


class Watch:
    """Looks at every step of the library on this thread whether it has a lock, and may wait all the same."""

    def __init__(self) -> None:
        self.locks: list[Any] = []
        self.open: set[str] = set()
        """Functions in which a wait would not have been refused."""
        self.refused: set[str] = set()
        self.make = threading.RLock

    def made(self) -> Any:
        lock = self.make()
        if sys._getframe(1).f_code.co_filename.startswith(OURS):
            self.locks.append(lock)
        return lock

    @contextmanager
    def steps(self) -> Iterator[None]:
        before = sys.gettrace()
        if sys.version_info[:2] == (3, 12):
            sys._getframe().f_trace_opcodes = True
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        if sys.version_info >= (3, 13):
            frame.f_trace = self._trace
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and any(lock._is_owned() for lock in self.locks):
            (self.refused if HERE.never_blocks else self.open).add(frame.f_code.co_name)
        return self._trace


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    found = Watch()
    monkeypatch.setattr(threading, "RLock", found.made)
    return found


def shop() -> SupervisorSpec:
    return SupervisorSpec(
        id="t",
        tasks=Tasks(),
        max_restarts=9,
        children=[
            WorkerSpec(id="w", handle=obey),
            WorkerSpec(id="pool", handle=obey, pool=2),
            WorkerSpec(id="down", handle=obey),
            WorkerSpec(id="full", handle=obey, mailbox=Mailbox(capacity=1, overflow="drop_oldest")),
            WorkerSpec(id="back", handle=obey, backoff=Backoff(initial_s=1.0, jitter=0.0), stall_s=50.0),
            WorkerSpec(id="done", execute=_done),
        ],
    )


def _done(task: object, context: Any) -> str:
    context.stream("a piece")
    return "done"


def _messages(tree: Tree) -> None:
    busy = Gate()
    with suppress(ActorStoppedError):
        tree.ref("t/down").ask("x")
    tree.ref("t/down").tell("x")
    tree.ref("t/full").tell(busy)
    busy.wait_reached()
    for number in range(3):
        tree.ref("t/full").tell(number)
    waited_s(system_of(tree).boxes["t/full"], 0.0)
    busy.open.set()
    tree.ref("t/pool").ask("next")
    box = Box("t/x")
    box.put(envelope := ("x", None, None))
    box.withdraw(envelope)
    box.refusal = Refusal.STOPPED
    box.overtaken(envelope)


def _ask_async(tree: Tree) -> None:
    async def host() -> None:
        await tree.ref("t/w").ask_async("next")
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(tree.ref("t/back").ask_async("next"), 0.0)

    asyncio.run(host())


def _tasks(tree: Tree) -> None:
    task = tree.submit(Task("done", id="a"))
    task.result(timeout=LONG_S)
    assert list(task.events())
    str(tree.dump())
    tree.remove_task("a")


def _children(tree: Tree) -> None:
    tree.start_child("t", WorkerSpec(id="new", handle=obey))
    tree.terminate_child("t/new")
    tree.delete_child("t/new")
    settle(tree)


CALLS: dict[str, Callable[[Tree], object]] = {
    "messages": _messages,
    "ask_async": _ask_async,
    "tasks": _tasks,
    "children": _children,
    "stop": lambda tree: tree.stop(),
}


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_no_step_of_a_call_lets_who_comes_in_between_wait_under_a_lock(
    store: str, watch: Watch, tmp_path: Path
) -> None:
    with start(shop(), store=f"sqlite:///{tmp_path / 'x.db'}" if store == "sqlite" else None) as tree:
        tree.terminate_child("t/down")
        for call in CALLS.values():
            with watch.steps():
                call(tree)

    assert watch.open <= NO_HANDLER_RUNS
    assert {"_remove", "_pull", "_waited_s", "_when_quiet"} <= watch.refused
    assert not HERE.never_blocks


def test_nobody_waits_under_a_lock_where_a_clock_is_moved_by_hand(watch: Watch) -> None:
    clock = ManualClock()
    with start(shop(), clock=clock) as tree:
        for _ in range(2):
            tree.ref("t/back").tell(crash)
            settle(tree)
            with watch.steps():
                clock.advance(5.0)
            settle(tree)

    assert watch.open == set()
    assert {"_pop_due", "_begun"} <= watch.refused


def test_where_a_dead_letter_is_counted_no_instruction_looks_for_signals_or_for_garbage() -> None:
    """What is traced step by step cannot show that nothing comes in between."""
    names = [each.opname for each in dis.get_instructions(DeadLetterOffice.dead_letter)]
    begin = next(at for at, name in enumerate(names) if "BEFORE_WITH" in name or name == "LOAD_SPECIAL")
    ends = [at for at in range(begin, len(names)) if names[at] == "STORE_ATTR"]
    inside = names[begin : ends[-1] + 1]
    body = inside[next(at for at, name in enumerate(inside) if name == "LOAD_FAST") :]

    assert [name for name in body if name.startswith((*LOOKS_FOR_SIGNALS, "BUILD"))] == []
    assert "STORE_SUBSCR" in body


def test_dead_letters_are_counted_by_reason() -> None:
    class Sink:
        events: list[DeadLetter] = []  # noqa: RUF012

        def publish(self, event: Any) -> None:
            self.events.append(event)

    office, box = DeadLetterOffice(Sink()), Box("t/w")  # type: ignore[arg-type]
    for reason in (Refusal.STOPPED, Refusal.STOPPED, Refusal.FULL):
        office.dead_letter(box, "x", reason, None)

    assert office.counts == {"stopped": 2, "full": 1}
    assert box.dead == len(Sink.events) == 3


def test_the_error_of_a_wait_in_between_says_what_it_has_come_into_the_middle_of_and_what_to_do() -> None:
    with pytest.raises(BlockingAskError) as raised:
        without_waits(lambda: Reply().wait(1.0))

    assert raised.value.is_in_between
    assert raised.value.instead == "threading.Thread(target=...).start()"
    assert "signal handler or a finalizer" in str(raised.value)
    assert "event loop" not in str(raised.value)
    assert str(copy.copy(raised.value)) == str(raised.value)
