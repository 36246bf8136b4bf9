"""SEMANTICS.md, "Where user code can run": finalizers run on any thread, also on those that serve a tree.

Such a thread does what others wait for: a finalizer there that waited for them would wait for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from actors import BlockingAskError, DeadLetter, MailboxFullError
from actors.concurrency.thread_state import HERE, without_waits
from actors.dispatch.groups.process_reader import ProcessReader
from actors.execution.pool import Pool
from actors.execution.timers import Timers
from actors.supervision.restarts import Restarts
from actors.testing import settle
from tests.support.hardening import LONG_S, Gate, crash, eventually, obey
from trees import Backoff, Mailbox, SupervisorSpec, Tree, WorkerSpec, start

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
}


class ComesInBetween:
    """Once, in the middle of a function of the library, code that waits, as a finalizer would."""

    def __init__(self, of: type[Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.act: Callable[[], object] | None = None
        self.error: BaseException | None = None
        self.done = threading.Event()
        real = getattr(of, name)

        def stands_in(*args: Any) -> Any:
            act, self.act = self.act, None
            if act is not None:
                self._try(act)
            return real(*args)

        monkeypatch.setattr(of, name, stands_in)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        self.done.set()


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("place", PLACES)
def test_a_finalizer_that_would_wait_on_a_thread_that_serves_the_tree_is_refused_and_the_tree_goes_on(
    place: str, wait: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    between = ComesInBetween(*PLACES[place], monkeypatch)
    program = WorkerSpec(id="program", command=["sleep", "600"], restart="transient")
    victim = WorkerSpec(id="victim", handle=obey, backoff=SOON)
    spec = SupervisorSpec(id="t", max_restarts=1000, children=[victim, WorkerSpec(id="other", handle=obey)])
    with start(spec) as tree:
        between.act = partial(WAITS[wait], tree)
        tree.ref("t/victim").tell(crash)
        tree.start_child("t", program)
        assert between.done.wait(LONG_S)

        assert isinstance(between.error, BlockingAskError)
        assert between.error.is_in_between
        eventually(lambda: tree.child("t/victim").incarnation == 2)
        assert tree.ref("t/victim").ask("next", timeout=LONG_S) == tree.ref("t/other").ask("next", timeout=LONG_S)


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
