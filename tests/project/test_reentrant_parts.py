"""As ``test_reentrant_locks``: the parts between a tree and what is outside of it: processes, pages, other hosts."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter, deque
from pathlib import Path
from types import SimpleNamespace as Made
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from actors.concurrency import in_turn, wakeup
from actors.concurrency.in_turn import InTurn
from actors.concurrency.wakeup import Flag, Wakeup
from actors.dispatch.groups import guarded_process
from actors.dispatch.groups.guarded_process import GuardedProcess
from actors.dispatch.groups.process_group import GROUPS
from actors.execution import loop_watchdog
from actors.execution.loop_watchdog import Watchdog
from actors.messaging.reply import Reply
from actors.tasks.model.live_events import SubtaskProgressed
from actors.tasks.orchestration import unkept_events
from actors.tasks.orchestration.unkept_events import UnkeptEvents
from tests.project.test_reentrant_locks import Case, each_step, within_limit
from tests.support.hardening import eventually
from trees.ha import lease_keeper, played_role
from trees.ha.lease_keeper import LeaseKeeper
from trees.ha.played_role import PlayedRole
from trees.host import journal_follower
from trees.host.console import client
from trees.host.console.client import ConsoleSource
from trees.host.journal_follower import JournalFollower
from trees.observe.web import web_server
from trees.observe.web.web_server import WebServer

LONG_S = 60.0
LOCKS = threading.__file__
"""The code of Python's own events and conditions, which take a plain lock."""


class Signalled(Case):
    """A process is signalled while it is being signalled: by ``ref.stop()`` of its command."""

    files: ClassVar = {guarded_process.__file__}
    process: ClassVar[GuardedProcess]

    def do(self) -> None:
        self.process.signal(0)
        self.process.has_others()

    def between(self) -> None:
        self.process.signal(0)

    def check(self, *, reached: bool) -> None:
        assert self.process.pid


class Roused(Case):
    """A watchdog that rests is told of work at every step of that."""

    files: ClassVar = {loop_watchdog.__file__, wakeup.__file__, LOCKS}

    def __init__(self) -> None:
        self.loop: Any = Made(name="loop", has_work=False)
        self.dog = Watchdog(self.loop)

    def do(self) -> None:
        self.dog.busy.set()
        self.dog._rest()

    def between(self) -> None:
        self.loop.has_work = True
        if not self.dog.busy.is_set():
            self.dog.busy.set()

    def check(self, *, reached: bool) -> None:
        assert self.dog.busy.is_set() is reached
        assert not reached or self.dog.busy.wait(LONG_S)


class Raised(Case):
    """A flag is raised at every step of the wait for it: the wait ends."""

    files: ClassVar = {wakeup.__file__, LOCKS}

    def __init__(self) -> None:
        self.flag = Flag()
        self.found: list[bool] = []

    def do(self) -> None:
        self.found.append(self.flag.wait(0.0))
        self.flag.clear()
        self.flag.set()
        self.found.append(self.flag.wait())

    def between(self) -> None:
        self.flag.set()

    def check(self, *, reached: bool) -> None:
        assert self.found[1]
        assert reached or not self.found[0]


class Played(Case):
    """A role changes while somebody waits for one."""

    files: ClassVar = {played_role.__file__, LOCKS}

    def __init__(self) -> None:
        self.played = PlayedRole()
        self.found: list[bool] = []

    def do(self) -> None:
        self.found.append(self.played.wait_for("leader", 0.0))
        self.played.change("leader")
        self.found.append(self.played.wait_for("leader", None))
        self.found.append(self.played.wait_for("standby", None))

    def between(self) -> None:
        self.found.append(self.played.wait_for("standby", 0.0) or self.played.role == "leader")

    def check(self, *, reached: bool) -> None:
        assert Counter(self.found) == Counter({True: 1 + reached, False: 2})
        assert not self.played._waiting


class Heard(Case):
    """A keeper is told to end by code that comes in between on its own thread, or on one that tells it something."""

    files: ClassVar = {lease_keeper.__file__, wakeup.__file__, LOCKS}

    def __init__(self) -> None:
        self.keeper = keeper = LeaseKeeper.__new__(LeaseKeeper)
        keeper._heard, keeper._wakeup = deque(), Wakeup()
        keeper._now = lambda: 0.0
        keeper._candidate = Made(wake_at=lambda: 0.0)  # type: ignore[assignment]
        self.taken: list[Any] = []

    def own(self, _: float) -> None:
        raise NotImplementedError

    def other(self, _: float) -> None:
        raise NotImplementedError

    def do(self) -> None:
        self.keeper._hear(self.own)
        self.taken += self.keeper._next()
        self.taken += self.keeper._next()

    def between(self) -> None:
        self.keeper._hear(self.other)

    def check(self, *, reached: bool) -> None:
        self.keeper._candidate = Made(wake_at=lambda: LONG_S / 2)  # type: ignore[assignment]
        if len(self.taken) < 1 + reached:
            self.taken += self.keeper._next()
        assert Counter(self.taken) == Counter({self.own: 1, **({self.other: 1} if reached else {})})


class Followed(Case):
    """Events are told and taken: each is taken once."""

    files: ClassVar = {journal_follower.__file__, in_turn.__file__, unkept_events.__file__}

    def __init__(self) -> None:
        self.follower = follower = JournalFollower.__new__(JournalFollower)
        follower._turns, follower._unkept, follower.signal = InTurn(), UnkeptEvents(), Reply()
        follower._id, follower._deep, follower._recalled = "t", False, 0
        follower._untold, follower._taken, follower._was_cut = deque(), None, False

    def hear(self, text: str) -> None:
        self.follower.hear(SubtaskProgressed("p", "t", 1.0, "s", 0.5, text, number=1))

    def do(self) -> None:
        self.hear("a")
        self.follower._take_over()
        self.hear("b")

    def between(self) -> None:
        self.hear("c")

    def check(self, *, reached: bool) -> None:
        self.follower._take_over()
        assert sorted(event.text for event in self.follower._untold) == ["a", "b", *(["c"] if reached else [])]


class Closed(Case):
    """Subscriptions at a console end once each, whoever ends them."""

    files: ClassVar = {client.__file__}

    def __init__(self) -> None:
        self.source = ConsoleSource(Path("x.p.sock"))
        self.ended: list[str] = []

    def subscribe(self, name: str) -> Any:
        def end() -> None:
            self.ended.append(name)

        with self.source._lock:
            self.source._ends[end] = None
        return end

    def do(self) -> None:
        self.source._end(self.subscribe("a"))
        self.subscribe("b")
        self.source.close()

    def between(self) -> None:
        self.subscribe("c")
        self.source._end(self.subscribe("d"))

    def check(self, *, reached: bool) -> None:
        self.source.close()
        assert sorted(self.ended) == ["a", "b", *(["c", "d"] if reached else [])]


class Served(Case):
    """A page is stopped at every step of its beginning and of its end: it is not served, or is told to end."""

    files: ClassVar = {web_server.__file__, wakeup.__file__, LOCKS}

    def __init__(self) -> None:
        self.server = WebServer.__new__(WebServer)
        self.server._server, self.server._stopped = None, Flag()
        self.server._source, self.server._access = Made(name="p"), Made()  # type: ignore[assignment]
        self.closed: list[str] = []
        self.server._listener = Made(  # type: ignore[assignment]
            close=lambda: self.closed.append("its own"),
            dup=lambda: Made(close=lambda: self.closed.append("a copy")),
        )
        self.server._failed = lambda *_: None
        self.told: list[str] = []

    async def serve(self, _: object) -> None:
        self.told.append("served")

    def do(self) -> None:
        asyncio.run(self.server._serve())
        self.told.append("over")
        self.server.end()

    def between(self) -> None:
        self.server.end()

    def check(self, *, reached: bool) -> None:
        assert self.server._stopped.is_set()
        assert self.closed.count("a copy") == 1
        assert self.closed.count("its own") == 1 + reached
        assert self.server._server is None
        before = self.told[: self.told.index("over")]
        assert reached or before == ["served"]
        assert before in ([], ["left"], ["served"], ["left", "served"], ["served", "left"])


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that are not served: what a server is told is noted by its case."""
    present: list[Served] = []
    begin = Served.__init__

    def noted(case: Served) -> None:
        begin(case)
        present[:] = [case]

    monkeypatch.setattr(Served, "__init__", noted)
    served = lambda *_: Made(serve=present[0].serve, leave=lambda: present[0].told.append("left"))  # noqa: E731
    monkeypatch.setattr(web_server, "_Uvicorn", served)
    monkeypatch.setattr(web_server, "EventFeed", lambda _: Made(close=lambda: None))
    monkeypatch.setattr(web_server, "web_app", lambda *_: None)
    monkeypatch.setattr(web_server, "_config", lambda _: None)


@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize("kind", [Roused, Raised, Played, Heard, Followed, Closed, Served])
def test_whoever_calls_the_same_object_at_any_step_waits_for_nobody(kind: type[Case]) -> None:
    steps: list[int] = []

    within_limit(lambda: steps.extend(each_step(kind)))

    assert len(steps) > 20


def test_a_process_is_signalled_at_any_step_of_a_signal_to_it() -> None:
    Signalled.process = GuardedProcess([sys.executable, "-c", "import time; time.sleep(600)"], env={})
    steps: list[int] = []
    try:
        within_limit(lambda: steps.extend(each_step(Signalled)))
    finally:
        within_limit(Signalled.process.give_up)  # which kills it
        eventually(GROUPS.dismiss, "the guardian goes when the last process has")

    assert len(steps) > 20


def test_usage_that_a_model_tells_is_counted_once_at_any_step() -> None:
    events = pytest.importorskip("trees.agents.langchain_events", exc_type=ImportError)

    class Counted(Case):
        """Answers of models that are streamed side by side."""

        files: ClassVar = {events.__file__}

        def __init__(self) -> None:
            self.used: list[int] = []
            context = Made(use=self.use, stream=lambda *_: None)
            self.events = events.AttemptEvents(context)

        def use(self, tokens: int) -> None:
            self.used.append(tokens)

        def answer(self, *, is_cut_off: bool) -> None:
            run_id = uuid4()
            for _ in range(2):
                piece = Made(message=Made(usage_metadata={"total_tokens": 5}))
                self.events.on_llm_new_token("a", chunk=piece, run_id=run_id)
            if not is_cut_off:
                self.events.on_llm_error(ValueError(), run_id=run_id)

        def do(self) -> None:
            self.answer(is_cut_off=False)
            self.answer(is_cut_off=True)
            self.events.end()

        def between(self) -> None:
            self.answer(is_cut_off=False)
            self.answer(is_cut_off=True)

        def check(self, *, reached: bool) -> None:
            self.events.end()
            assert sum(self.used) == 20 + 20 * reached

    steps: list[int] = []
    within_limit(lambda: steps.extend(each_step(Counted)))

    assert len(steps) > 50


@pytest.mark.parametrize("order", ["it waits before the change", "it waits after it"])
def test_whoever_waits_for_a_role_is_told_of_it_in_either_order(order: str) -> None:
    played, found = PlayedRole(), list[bool]()
    thread = threading.Thread(target=lambda: found.append(played.wait_for("leader", LONG_S)), daemon=True)
    if order == "it waits after it":
        played.change("leader")
    thread.start()
    if order == "it waits before the change":
        waiting = threading.Event()
        while not played._waiting and not waiting.wait(0.001):
            continue
        played.change("leader")
    thread.join(LONG_S)

    assert found == [True]


def test_what_is_told_between_the_look_of_a_keeper_and_its_sleep_ends_that_sleep_at_once() -> None:
    case = Heard()
    keeper, sleep = case.keeper, case.keeper._wakeup.sleep
    keeper._candidate = Made(wake_at=lambda: 10 * LONG_S)  # type: ignore[assignment]

    def sleep_late(limit_s: float) -> bool:
        keeper._hear(case.other)
        return sleep(limit_s)

    keeper._wakeup = Made(give=keeper._wakeup.give, sleep=sleep_late)  # type: ignore[assignment]
    within_limit(lambda: case.taken.extend(keeper._next()))

    assert case.taken == [case.other]
