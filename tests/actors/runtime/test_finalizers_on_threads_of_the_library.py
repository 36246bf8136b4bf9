"""SEMANTICS.md, "Where user code can run": finalizers run on any thread, also on those that serve a tree.

Such a thread does what others wait for: a finalizer there that waited for them would wait for itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import actors
from actors import BlockingAskError, DeadLetter, MailboxFullError, RecursionDetectedError, Worker
from actors.concurrency.thread_state import HERE, serves_others, without_waits
from actors.dispatch.groups.process_reader import ProcessReader
from actors.execution.crash_boundary import WorkerIncarnation
from actors.execution.pool import Pool
from actors.execution.timers import Timers
from actors.messaging import mailbox
from actors.messaging.leftovers import Leftovers
from actors.runtime.event_bus import Subscription
from actors.runtime.handle import system_of
from actors.supervision.restarts import Restarts
from actors.supervision.supervisor_incarnation import SupervisorIncarnation
from actors.testing import settle
from tests.support.hardening import LONG_S, Gate, crash, eventually, obey
from trees import Backoff, Mailbox, Plan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start

pytestmark = [pytest.mark.own_thread, pytest.mark.usefixtures("quiet_log")]

SOON = Backoff(initial_s=0.001, max_s=0.001, jitter=0.0)
WAITS: dict[str, Callable[[Tree], object]] = {
    "stop": lambda tree: tree.stop(),
    "terminate_child": lambda tree: tree.terminate_child("t/other"),
    "start_child": lambda tree: tree.start_child("t", WorkerSpec(id="new", handle=obey)),
    "ask": lambda tree: tree.ref("t/other").ask("next"),
}
PLACES: dict[str, tuple[type[Any], str]] = {
    "a supervisor decides": (Restarts, "attempt"),
    "a supervisor's job is taken": (Pool, "next_job"),
    "a timer fires": (Timers, "_fire"),
    "a process is read": (ProcessReader, "watch"),
    "a worker takes its messages": (mailbox.Mailbox, "take"),
    "a worker looks for its handler": (WorkerIncarnation, "_handler"),
    "a worker looks for more": (WorkerIncarnation, "next_work"),
    "a worker tells its end": (WorkerIncarnation, "_tell_end"),
    "a worker's thread comes back": (WorkerIncarnation, "_leave"),
    "events are delivered": (Subscription, "_deliver"),
}
OURS = f"{Path(actors.__file__).parent}/"


class ComesInBetween:
    """Once, in the middle of a function of the library, code that waits, as a finalizer would."""

    def __init__(self, of: type[Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.act: Callable[[], object] | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()
        real = getattr(of, name)

        def stands_in(*args: Any, **words: Any) -> Any:
            act, self.act = self.act, None
            if act is not None:
                self._try(act)
            return real(*args, **words)

        monkeypatch.setattr(of, name, stands_in)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        self.done.set()


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dispatch", ["pool", "thread"])
def test_a_finalizer_that_would_wait_on_a_thread_that_serves_the_tree_is_refused_and_the_tree_goes_on(
    place: str, wait: str, dispatch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    between = ComesInBetween(*PLACES[place], monkeypatch)
    program = WorkerSpec(id="program", command=["sleep", "600"], restart="transient")
    victim = WorkerSpec(id="victim", handle=obey, backoff=SOON, dispatch=dispatch)
    spec = SupervisorSpec(id="t", max_restarts=1000, children=[victim, WorkerSpec(id="other", handle=obey)])
    with start(spec) as tree:
        tree.subscribe(lambda _: None)
        between.act = partial(WAITS[wait], tree)
        tree.ref("t/victim").tell("next")
        settle(tree)
        tree.ref("t/victim").tell(crash)
        tree.start_child("t", program)
        assert between.done.wait(LONG_S)

        refused = type(between.error) is RecursionDetectedError  # its worker still is in the request
        assert refused or (isinstance(between.error, BlockingAskError) and between.error.is_in_between)
        eventually(lambda: tree.child("t/victim").incarnation == 2)
        assert tree.ref("t/victim").ask("next", timeout=LONG_S) == tree.ref("t/other").ask("next", timeout=LONG_S)


class Steps:
    """Tries at each step of the library, on threads that serve others, whether a finalizer there could wait."""

    def __init__(self) -> None:
        self.system: Any = None
        self.names: set[str] = set()
        """Functions of which a step was looked at."""
        self.open: set[str] = set()
        """Where one could have waited for the end of its own tree."""
        self._mine = threading.local()

    @contextmanager
    def watched(self) -> Iterator[None]:
        threading.settrace(self._trace)
        try:
            yield
        finally:
            threading.settrace(None)  # type: ignore[arg-type]
            self.system = None

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        if sys.version_info >= (3, 13):
            frame.f_trace = self._trace
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and HERE.serves and self.system is not None:
            sys.settrace(None)
            try:
                self._look(frame)
            finally:
                sys.settrace(self._trace)
        return self._trace

    def _look(self, frame: FrameType) -> None:
        above, callers = frame, list[str]()
        while above.f_back is not None:
            callers.append(above.f_code.co_name)
            above = above.f_back
        if "with_users" in callers:
            return
        self.names.add(frame.f_code.co_name)
        with suppress(BlockingAskError, RecursionDetectedError):
            self.system.refuse_to_wait_for_end()
            self.open.add(f"{frame.f_code.co_filename.removeprefix(OURS)}:{frame.f_lineno} in {callers[:3]}")


class Pupil(Worker):
    def on_start(self) -> None: ...

    def on_stop(self) -> None: ...

    def on_failure(self, *_: object) -> None: ...

    def on_receive(self, message: Any) -> Any:
        return obey(message)


@pytest.mark.parametrize("words", [{"pool": 2}, {"dispatch": "thread"}], ids=["pool", "thread"])
def test_at_no_step_of_a_workers_run_outside_of_its_code_can_a_finalizer_wait_for_the_end_of_the_tree(
    words: dict[str, Any],
) -> None:
    steps = Steps()
    dispatch: Any = words.get("dispatch", "pool")
    children = [
        WorkerSpec(id="w", actor=Pupil, **words),
        WorkerSpec(id="body", run=lambda: None, restart="temporary"),
        WorkerSpec(id="done", execute=lambda *_: "done", dispatch=dispatch),
    ]
    with (
        steps.watched(),
        start(SupervisorSpec(id="t", max_restarts=99, tasks=Tasks(), children=children)) as tree,
    ):
        steps.system = system_of(tree)
        for _ in range(3):
            tree.ref("t/w").ask("next", timeout=LONG_S)
            tree.ref("t/w").tell("next")
            tree.run(Task("go", plan=Plan([Subtask("done")])), timeout=LONG_S)
        with pytest.raises(ValueError, match="boom"):
            tree.ref("t/w").ask(crash, timeout=LONG_S)
        tree.ref("t/w").ask("next", timeout=LONG_S)
        settle(tree, LONG_S)  # the next ask may have been for another member of the pool
        tree.terminate_child("t/done")

    assert steps.open == set()
    assert {"_work", "take", "next_work", "_end", "_begin", "_crash"} <= steps.names


@pytest.mark.parametrize("moment", ["is turned away", "is over"])
def test_a_finalizer_on_a_thread_whose_run_did_not_begin_or_is_over_waits_for_nobody_while_another_is_in_the_same_code(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    between, busy = ComesInBetween(mailbox.Mailbox, "take", monkeypatch), Gate()
    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="w", handle=obey)])) as tree:
        life: Any = system_of(tree).children["t/w"].incarnation

        def runs_late() -> None:
            serves_others()
            if moment == "is turned away":
                life.run()  # as a thread of the pool that comes while another holds the worker
            else:
                HERE.runs = life  # as a thread after whose run the worker was idle, until another took it
                between._try(tree.stop)

        tree.ref("t/w").tell(busy)
        busy.wait_reached()
        between.act = tree.stop
        thread = threading.Thread(target=runs_late)
        thread.start()
        thread.join(LONG_S)
        busy.open.set()

        assert isinstance(between.error, BlockingAskError)
        assert between.error.is_in_between


@pytest.mark.parametrize("part", ["stop", "close"])
def test_a_finalizer_on_a_thread_that_brings_the_end_about_does_not_wait_for_it(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, name = (SupervisorIncarnation, "stop") if part == "stop" else (Leftovers, "finish")
    between = ComesInBetween(of, name, monkeypatch)
    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="w", handle=obey)])) as tree:
        between.act = tree.stop
        tree.stop()

    assert isinstance(between.error, BlockingAskError)
    assert between.error.is_in_between


def test_a_finalizer_on_the_thread_by_which_a_stuck_pool_grows_waits_for_nobody() -> None:
    seen: list[bool] = []
    pool = Pool("p", 1, near_cap=lambda *_: None, failed=lambda _: None)
    pool._closed = True  # so that it ends at once

    def looks() -> None:
        pool._grow_slowly()
        seen.append(HERE.in_between)

    thread = threading.Thread(target=looks)
    thread.start()
    thread.join(LONG_S)

    assert seen == [True]


@pytest.mark.parametrize("place", ["handler", "done callback", "subscriber"])
def test_code_of_users_on_a_pool_thread_may_wait(place: str) -> None:
    answers: list[Any] = []
    done = threading.Event()

    def asks(*_: object) -> None:
        if not done.is_set():
            answers.append(tree.ref("t/other").ask("next", timeout=LONG_S))
            done.set()

    children = [WorkerSpec(id="w", handle=lambda deed: deed()), WorkerSpec(id="other", handle=lambda word: word)]
    with start(SupervisorSpec(id="t", children=children)) as tree:
        if place == "handler":
            tree.ref("t/w").tell(asks)
        elif place == "subscriber":
            tree.subscribe(asks)
            tree.terminate_child("t/w")
        else:
            tree.ref("t/w").ask(int, block=False).add_done_callback(asks)
        assert done.wait(LONG_S)

    assert answers == ["next"]


def test_a_message_without_room_is_a_dead_letter_at_once_where_nobody_may_wait() -> None:
    busy = Gate()
    full = WorkerSpec(id="full", handle=obey, mailbox=Mailbox(capacity=1))
    letters: list[DeadLetter] = []
    with start(SupervisorSpec(id="t", children=[full])) as tree:
        tree.subscribe(lambda event: letters.append(event) if isinstance(event, DeadLetter) else None)
        ref = tree.ref("t/full")
        ref.tell(busy)
        busy.wait_reached()
        ref.tell("next")

        without_waits(lambda: ref.tell("no room"))
        asked = without_waits(lambda: ref.ask("no room", block=False))
        busy.open.set()
        settle(tree)

        with pytest.raises(MailboxFullError):
            asked.get(timeout=LONG_S)
    assert [letter.reason for letter in letters] == ["full"]
