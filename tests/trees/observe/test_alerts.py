"""Alerts: what is watched, when it is told, and whoever is told, hangs, raises or answers with 500."""

from __future__ import annotations

import http.server
import json
import math
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors import ConfigError, Event, RestartLimitError
from actors.testing import ManualClock, settle
from tests.support.asking import LONG_S
from tests.support.command import runtime
from tests.support.hardening import eventually
from trees import (
    Alert,
    AlertFailed,
    AlertNotice,
    Escalate,
    Log,
    Respond,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    Tree,
    Web,
    Webhook,
    WorkerSpec,
    start,
)
from trees.observe import alert_notifier, alert_threads, alerts
from trees.observe.alert_notifier import AlertNotifier
from trees.observe.alert_state import AlertState

__all__ = ["runtime"]

STEPS = [
    # for_s, every_s, looks as (at, holds), what is told
    (0, 300, [(0, True), (1, True), (2, False), (3, False)], ["firing", None, "resolved", None]),
    (5, 300, [(0, True), (4, True), (5, True), (6, False)], [None, None, "firing", "resolved"]),
    (5, 300, [(0, True), (4, False), (5, True), (9, True), (10, True)], [None, None, None, None, "firing"]),
    (
        0,
        10,
        [(0, True), (9, True), (10, True), (19, True), (20, True)],
        ["firing", None, *["still_firing", None] * 2][:5],
    ),
    (0, 10, [(0, True), (1, False), (2, True), (3, False), (10, True)], ["firing", "resolved", None, None, "firing"]),
]


@pytest.mark.parametrize(("for_s", "every_s", "looks", "told"), STEPS)
def test_firing_still_firing_and_resolved_are_told_apart_and_never_too_often(
    for_s: float, every_s: float, looks: list[tuple[float, bool]], told: list[str | None]
) -> None:
    state = AlertState(for_s, every_s, resolve=True)
    assert [state.step(float(at), holds=holds) for at, holds in looks] == told


def test_without_resolve_its_end_is_not_told() -> None:
    state = AlertState(0, 300, resolve=False)
    assert [state.step(0.0, holds=True), state.step(1.0, holds=False)] == ["firing", None]


class Stage:
    """A tree with a manual clock, its alerts, and what was told."""

    def __init__(self, tree: Tree, clock: SetByHand, notifier: AlertNotifier, told: queue.SimpleQueue[Any]) -> None:
        self.tree, self.clock, self.notifier, self.told = tree, clock, notifier, told

    def look(self) -> None:
        """Have it looked at once all has happened."""
        settle(self.tree)
        self.notifier.look()

    def news(self) -> tuple[str, str]:
        notice = self.told.get(timeout=LONG_S)
        return notice.name, notice.state


class SetByHand(ManualClock):
    """A clock whose machine is set to another time of day while the tree runs."""

    ahead_s = 0.0

    def wall(self) -> float:
        return super().wall() + self.ahead_s


@contextmanager
def stage(monkeypatch: pytest.MonkeyPatch, spec: SupervisorSpec, when: Any, **more: Any) -> Iterator[Stage]:
    """The notifier's own thread does not look: the test does."""
    monkeypatch.setattr(alert_notifier, "LOOK_S", 3600.0)
    monkeypatch.setattr(alert_notifier, "SOON_S", 3600.0)
    clock, told = SetByHand(), queue.SimpleQueue[Any]()
    with start(spec, clock=clock) as tree:
        notifier = tree.watch_alerts([Alert("it", when, told.put, **more)])
        yield Stage(tree, clock, notifier, told)


def faulty(message: Any) -> Any:
    if message == "die":
        raise ValueError(message)
    return message


def one(**words: Any) -> SupervisorSpec:
    return SupervisorSpec(id="p", max_restarts=10, children=[WorkerSpec(id="w", handle=faulty, **words)])


def fires_for_its_period(played: Any, deaths: int) -> None:
    """So many restarts are told of, and no longer once thirty seconds have passed."""
    for _ in range(deaths):
        played.tree.ref("p/w").tell("die")
        played.look()
    assert played.news() == ("it", "firing")
    played.clock.advance(31.0)
    played.look()
    assert played.news() == ("it", "resolved")


def test_restarts_over_counts_within_its_period(monkeypatch: pytest.MonkeyPatch) -> None:
    with stage(monkeypatch, one(), alerts.restarts_over(1, 30.0)) as played:
        fires_for_its_period(played, 2)


def test_parked_holds_while_a_child_is_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SupervisorSpec(id="p", max_restarts=0, children=[WorkerSpec(id="w", handle=faulty, on_exhausted="park")])
    with stage(monkeypatch, spec, alerts.parked()) as played:
        played.tree.ref("p/w").tell("die")
        played.look()
        assert played.news() == ("it", "firing")
        played.tree.restart_child("p/w")
        played.look()
        assert played.news() == ("it", "resolved")


def working(outcome: Callable[[Any], Any], **words: Any) -> SupervisorSpec:
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), max_parallel=1, **words)
    return SupervisorSpec(
        id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=lambda task, context: outcome(context))]
    )


def test_task_failed_breaker_open_and_question_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(context: Any) -> str:
        if not context.answers:
            raise ValueError("no")
        return "done"

    with stage(monkeypatch, working(fails, on_failure=[]), alerts.task_failed()) as played:
        assert played.tree.submit("go").status is not None
        played.look()
        assert played.news() == ("it", "firing")

    with stage(monkeypatch, working(fails, on_failure=[Escalate()]), alerts.question_waiting(60.0)) as played:
        handle = played.tree.submit("go")
        played.look()
        assert played.told.empty()
        played.clock.advance(61.0)
        played.look()
        assert played.news() == ("it", "firing")
        played.tree.respond(handle.escalations[0].id, Respond("try again"))
        played.look()
        assert played.news() == ("it", "resolved")


def test_mailbox_over_and_queue_over(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate = threading.Event(), threading.Event()

    def waits(_: Any) -> str:
        begun.set()
        assert gate.wait(LONG_S)
        return "done"

    spec = SupervisorSpec(id="p", children=[WorkerSpec(id="w", handle=waits)])
    with stage(monkeypatch, spec, alerts.mailbox_over(2)) as played:
        for number in range(4):
            played.tree.ref("p/w").tell(number)
        assert begun.wait(LONG_S)
        played.notifier.look()
        assert played.news() == ("it", "firing")
        gate.set()
        played.look()
        assert played.news() == ("it", "resolved")

    begun.clear()
    gate.clear()
    with stage(monkeypatch, working(waits), alerts.queue_over(1, 10.0)) as played:
        handles = [played.tree.submit("go") for _ in range(4)]
        assert begun.wait(LONG_S)
        eventually(lambda: played.notifier._look().queued == 3)
        played.notifier.look()
        assert played.told.empty()
        played.clock.advance(11.0)
        played.notifier.look()
        assert played.news() == ("it", "firing")
        gate.set()
        for handle in handles:
            handle.result(LONG_S)


def test_what_ends_a_tree_is_told_all_the_same() -> None:
    told = queue.SimpleQueue[AlertNotice]()
    spec = SupervisorSpec(id="p", max_restarts=0, children=[WorkerSpec(id="w", handle=faulty)])
    tree = start(spec, alerts=[Alert("over", alerts.gave_up(), told.put)])
    tree.ref("p/w").tell("die")
    with pytest.raises(RestartLimitError):
        tree.wait(LONG_S)
    notice = told.get(timeout=LONG_S)
    assert (notice.name, notice.state, notice.tree) == ("over", "firing", "p")
    tree.stop()


@pytest.mark.parametrize("error", [KeyError("mine"), SystemExit("mine")])
def test_a_condition_and_a_target_that_raise_are_events_and_hurt_nobody_else(error: BaseException) -> None:
    told, failed, heard = queue.SimpleQueue[Any](), queue.SimpleQueue[AlertFailed](), []

    def raises(_: Any) -> bool:
        raise error

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, AlertFailed):
            failed.put(event)

    watched = [
        Alert("bad condition", raises, told.put),
        Alert("bad target", lambda _: True, raises),
        Alert("good", lambda _: True, told.put),
    ]
    with start(one()) as tree:
        tree.subscribe(hear)
        tree.watch_alerts(watched)
        tree.ref("p/w").tell("something to look at")
        assert told.get(timeout=LONG_S).name == "good"
        assert {failed.get(timeout=LONG_S).alert for _ in range(2)} == {"bad condition", "bad target"}
        assert tree.ref("p/w").ask(1) == 1
        assert tree.child("p/w").incarnation == 1


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers with the statuses that the test has given, one after the other."""

    statuses: list[int]
    got: queue.SimpleQueue[tuple[dict[str, Any], str | None]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.statuses.pop(0) if self.statuses else 200)
        self.send_header("Content-Length", "0")
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.got.put((body, self.headers["Authorization"]))

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.got.put(({"GET": self.path}, self.headers["Authorization"]))

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@contextmanager
def server(*statuses: int) -> Iterator[tuple[str, queue.SimpleQueue[Any]]]:
    handler = type("Handler", (Answers,), {"statuses": [*statuses], "got": queue.SimpleQueue()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_port}/hook", handler.got  # type: ignore[attr-defined]
        finally:
            served.shutdown()
            thread.join()


def test_a_webhook_that_fails_is_tried_again_and_shows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_threads, "FIRST_WAIT_S", 0.01)
    with server(500, 503) as (url, got):
        hook = Webhook(url, headers={"Authorization": "Bearer sk-SECRET"})
        with start(one(), alerts=[Alert("down", lambda _: True, hook)]) as tree:
            tree.ref("p/w").tell("something to look at")
            tries = [got.get(timeout=LONG_S) for _ in range(3)]
    assert "sk-SECRET" not in repr(hook)
    for body, authorization in tries:
        assert authorization == "Bearer sk-SECRET"
        assert body | {"at": 0, "since": 0} == {
            "version": 1, "name": "down", "state": "firing", "tree": "p", "at": 0, "since": 0,
        }  # fmt: skip


SHORT = "SECRET"  # of a token that is too short


@pytest.mark.parametrize(
    "make",
    [
        lambda: Webhook("http://user:SECRET@host/hook"),
        lambda: Webhook("http://host:SECRET/hook"),
        lambda: Webhook("http://[SECRET/hook"),
        lambda: Webhook("http:///SECRET"),
        lambda: Webhook("ftp://host/SECRET"),
        lambda: Webhook("http://host/?token=SECRET\x01"),
        lambda: Webhook("http://host/?token=SECRET\n"),
        lambda: Webhook("http://host/?token=SECRET\xfc"),
        lambda: Webhook("http://host/", headers={"Authorization": "Bearer SECRET\n"}),
        lambda: Webhook("http://host/", headers={"Authorization": "Bearer SECRET\u20ac"}),
        lambda: Webhook("http://host/", headers={"Authorization: SECRET": "Bearer"}),
        lambda: Webhook("http://host/", headers="SECRET"),  # type: ignore[arg-type]  # the mistake that is tried
        lambda: Web(token=SHORT),
        lambda: Web(token=f"{SHORT} with spaces"),
    ],
)
def test_a_secret_that_could_not_be_sent_is_refused_at_once_and_not_shown(make: Callable[[], object]) -> None:
    """What http.client refuses it shows: an address with a password, the value of a header with a line break."""
    with pytest.raises(ConfigError) as raised:
        make()
    assert "SECRET" not in str(raised.value)
    assert "an id" not in str(raised.value)


def test_a_target_that_hangs_holds_up_no_other_and_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_notifier, "END_S", 0.1)
    hangs, gate, told = threading.Event(), threading.Event(), queue.SimpleQueue[Any]()

    def hang(_: Any) -> None:
        hangs.set()
        gate.wait(LONG_S)

    try:
        with start(one(), alerts=[Alert("a", lambda _: True, hang), Alert("b", lambda _: True, told.put)]) as tree:
            tree.ref("p/w").tell("something to look at")
            assert hangs.wait(LONG_S)
            assert told.get(timeout=LONG_S).name == "b"
            assert tree.stop(LONG_S)
    finally:
        gate.set()


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: Alert("", lambda _: True, print), "name"),
        (lambda: Alert("a", "no condition", print), "when"),
        (lambda: Alert("a", lambda _: True, "nobody"), "to"),
        (lambda: Alert("a", lambda _: True, print, for_s=-1), "for_s"),
        (lambda: Webhook("ftp://somewhere"), "url"),
        (lambda: Log("LOUD"), "level"),
        (lambda: alerts.restarts_over(-1, 60), "n"),
        (lambda: alerts.restarts_over(3, 0), "period_s"),
        (lambda: alerts.question_waiting(-1), "age_s"),
        (lambda: alerts.queue_over(1, None), "for_s"),  # type: ignore[arg-type]
        (lambda: alerts.mailbox_over(None), "n"),  # type: ignore[arg-type]
        (lambda: alerts.mailbox_over(math.inf), "n"),  # type: ignore[arg-type]
        (lambda: start(one(), alerts=[print]), "alerts"),
    ],
)
def test_bad_input_names_its_place(make: Callable[[], object], path: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make()
    assert any(path in problem.path for problem in raised.value.problems), raised.value


# -- what is async -------------------------------------------------------------------------------------------
