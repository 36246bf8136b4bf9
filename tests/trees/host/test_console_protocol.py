"""The language of the console: what each call does, what garbage does, and what becomes of callers and streams."""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors import ActorsError, UnknownPathError
from tests.support.crew import LONG_S
from tests.support.hardening import eventually
from tests.trees.observe.scripted_source import ScriptedSource
from trees.host.console import Console, ConsoleError, ConsoleRequest, ConsoleSource, ask, server, session, stream
from trees.host.console.client import exchange
from trees.host.console.protocol import LONGEST_REQUEST, PROTOCOL, request_line
from trees.host.console.stream import EventStream
from trees.observe.source import Source, SourceError


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="rg"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    yield place
    shutil.rmtree(place)


@contextmanager
def served(source: Source | None = None) -> Iterator[tuple[Console, ConsoleSource]]:
    """A console that serves this source, and the other end of it."""
    console = Console("shop")
    console.serve(lambda asked: f"dump of {asked.path}", source)
    with closing(ConsoleSource(console.path, LONG_S)) as far:
        try:
            yield console, far
        finally:
            console.close()


@contextmanager
def calling(console: Console, line: bytes) -> Iterator[socket.socket]:
    """A caller that has said this."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(LONG_S)
        caller.connect(str(console.path))
        caller.sendall(line)
        yield caller


def said(console: Console, line: bytes) -> dict[str, Any]:
    """The one line that is the answer to this one."""
    with calling(console, line) as caller:
        caller.shutdown(socket.SHUT_WR)
        with caller.makefile("rb") as lines:
            (only,) = lines.readlines()
    answer: dict[str, Any] = json.loads(only)
    return answer


def callers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "console-caller" in thread.name]


def all_have_gone() -> None:
    """One that is just being started is listed a moment before it may be joined."""
    eventually(lambda: not callers(), "the end of all callers")


# -- calls -------------------------------------------------------------------------------------------------

ME = "whoever calls"
CALLS: list[tuple[str, Callable[[Source], object], dict[str, Any]]] = [
    (
        "snapshot",
        lambda far: far.snapshot((), 7, "b", troubled=True),
        {"unfold": (), "limit": 7, "text": "b", "troubled": True},
    ),
    ("child", lambda far: far.child("shop/a"), {"path": "shop/a"}),
    ("stack", lambda far: far.stack("shop/a"), {"path": "shop/a"}),
    ("tasks", lambda far: far.tasks("running", "mail", 3), {"status": "running", "text": "mail", "limit": 3}),
    ("task", lambda far: far.task("t1"), {"id": "t1"}),
    ("questions", lambda far: far.questions(), {}),
    ("cancel", lambda far: far.cancel("t1", "late"), {"id": "t1", "reason": "late", "by": ME}),
    (
        "answer",
        lambda far: far.answer("t1:q1", "edit", value={"a": [1, None]}),
        {"id": "t1:q1", "answer": "edit", "text": None, "value": {"a": [1, None]}, "by": ME},
    ),
    ("act", lambda far: far.act("shop/a", "restart", "127.0.0.1"), {"path": "shop/a", "act": "restart"}),
]


@pytest.mark.parametrize(("method", "call", "given"), CALLS, ids=[method for method, _, _ in CALLS])
def test_each_call_of_the_far_end_is_a_call_of_the_source(
    method: str, call: Callable[[Source], object], given: dict[str, Any]
) -> None:
    source = ScriptedSource(**{method: {"said": "so"}})
    with served(source) as (_, far):
        answer = call(far)

    ((asked, with_these),) = source.asked
    assert asked == method
    me = f"console uid {os.geteuid()} pid {os.getpid()}"
    by = {"by": f"{me}: 127.0.0.1"} if method == "act" else {"by": me} if "by" in given else {}
    assert given | by == with_these
    assert answer == {"version": 1, "said": "so"}
    assert source.closed


REFUSED = [
    (SourceError(404, "task t9: is not known."), 404, "task t9: is not known."),
    (SourceError(409, "task t1: has ended."), 409, "task t1: has ended."),
    (UnknownPathError("shop/x", "Listed there: shop/a"), 404, "shop/x"),
    (ActorsError("refused"), 409, "refused"),
    (RuntimeError("secret"), 503, "failed with RuntimeError"),
    (OSError("secret"), 503, "failed with OSError"),
]


@pytest.mark.parametrize(("error", "status", "text"), REFUSED, ids=[type(each[0]).__name__ for each in REFUSED])
@pytest.mark.parametrize("method", ["task", "subscribe"])
def test_what_cannot_be_done_is_said_and_never_with_the_text_of_a_stranger(
    method: str, error: Exception, status: int, text: str
) -> None:
    with served(ScriptedSource(**{method: error})) as (_, far), pytest.raises(SourceError) as caught:
        far.task("t9") if method == "task" else far.subscribe(print)

    assert caught.value.status == status
    assert text in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_console_without_a_source_dumps_and_says_that_it_does_no_more() -> None:
    with served() as (console, far):
        shown = ask(console.path, ConsoleRequest(path="shop/a"))
        with pytest.raises(SourceError, match="shows dumps only"):
            far.snapshot()

    assert shown == "dump of shop/a"


def test_a_console_that_is_gone_is_said_to_be_so() -> None:
    with served(ScriptedSource()) as (_, far):
        pass

    with pytest.raises(SourceError, match="nobody listens there") as caught:
        far.snapshot()
    assert caught.value.status == 503


# -- garbage -----------------------------------------------------------------------------------------------


def request(**changed: Any) -> bytes:
    return json.dumps({"version": PROTOCOL, "do": "snapshot", "given": {}} | changed).encode() + b"\n"


GARBAGE = {
    "an empty line": (b"\n", "does not understand"),
    "no JSON": (b"GET / HTTP/1.1\r\n", "does not understand"),
    "half of a request": (request()[:20], "does not understand"),
    "bytes": (bytes(range(256)), "does not understand"),
    "no text": (b'{"version": 1, "do": "\xff\xfe"}\n', "does not understand"),
    "a list": (b"[1, 2]\n", "does not understand"),
    "a number": (b"7\n", "does not understand"),
    "too deep": (b"[" * 50_000 + b"\n", "does not understand"),
    "no version": (b'{"do": "snapshot"}\n', "does not understand"),
    "the request of an older dump": (b'{"format": "text", "path": null}\n', "does not understand"),
    "another version": (request(version=2), "speaks version 1"),
    "a version that is no number": (request(version="one"), "does not understand"),
    "more than a request has": (request(more="secret"), "does not understand"),
    "nothing that it can do": (request(do="secret"), "cannot do that: it knows dump, snapshot,"),
    "a method that is none of a source": (request(do="__init__"), "cannot do that"),
    "an argument too many": (request(given={"secret": 1}), "snapshot: it takes less than was given"),
    "an argument of another type": (request(given={"limit": "secret"}), "snapshot: limit: input should be a valid"),
    "a limit of none": (request(given={"limit": 0}), "limit: input should be greater than or equal to 1"),
    "a limit of a million": (request(given={"limit": 10**6}), "limit: input should be less than or equal to 10000"),
    "a number of a thousand digits": (
        b'{"version": 1, "do": "snapshot", "given": {"limit": 1%s}}\n' % (b"0" * 999),
        "",
    ),
    "an act that is none": (request(do="act", given={"path": "a", "act": "secret"}), "'restart', 'terminate' or"),
    "a path without an end": (request(do="child", given={"path": "a" * 5000}), "path: string should have at most 4096"),
    "a path that is missing": (request(do="child"), "child: path: field required"),
    "a dump of no format": (request(do="dump", given={"format": "secret"}), "dump: format: input should be 'text',"),
    "too much": (request(given={"x": "secret" * 200_000}), "longer than 1,048,576 bytes"),
    "too much that never ends": (b"secret" * 700_000, "longer than 1,048,576 bytes"),
}


@pytest.mark.parametrize(("line", "text"), GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_gets_one_sentence_and_hurts_nothing(line: bytes, text: str) -> None:
    source = ScriptedSource()
    with served(source) as (console, far):
        answer = said(console, line)
        far.questions()

    assert answer["version"] == 1
    assert answer["status"] == 400
    assert text in answer["error"]
    assert "\n" not in answer["error"]
    assert "secret" not in answer["error"]
    assert [asked for asked, _ in source.asked] == ["questions"]


def test_the_far_end_refuses_what_is_too_long_before_it_is_sent() -> None:
    with pytest.raises(SourceError, match="longer than"):
        request_line("answer", {"value": "x" * LONGEST_REQUEST})
    with pytest.raises(SourceError, match="JSON cannot be made"):
        request_line("answer", {"value": object()})


ANSWERS = {
    "nothing": (b"", "ended before it was whole.*The tree ended meanwhile"),
    "a part of one": (b'{"version": 1, "ans', "ended before it was whole.*The tree ended meanwhile"),
    "no JSON": (b"hello\n", "can be read.*is no regrow tree"),
    "another version": (b'{"version": 2, "answer": {}}\n', "can be read.*of another version"),
    "more than a reply has": (b'{"version": 1, "answer": {}, "more": 1}\n', "can be read.*of another version"),
}


@pytest.mark.parametrize(("answer", "says"), ANSWERS.values(), ids=ANSWERS.keys())
def test_garbage_from_a_socket_is_no_answer_and_what_has_ended_is_told_from_what_is_no_tree(
    answer: bytes, says: str, runtime: Path
) -> None:
    path = runtime / "strange.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def strange() -> None:
            with listener.accept()[0] as caller:
                caller.recv(4096)
                caller.sendall(answer)

        thread = threading.Thread(target=strange)
        thread.start()
        with pytest.raises(ConsoleError, match=f"no answer.*{says}"):
            exchange(path, "snapshot", {}, LONG_S)
        thread.join(LONG_S)


# -- callers -----------------------------------------------------------------------------------------------


def test_a_call_that_takes_its_time_holds_up_nobody() -> None:
    entered, go = threading.Event(), threading.Event()

    def slow() -> dict[str, Any]:
        entered.set()
        assert go.wait(LONG_S)
        return {}

    with served(ScriptedSource(act=slow)) as (_, far):
        waiting = threading.Thread(target=far.act, args=("shop/a", "restart"))
        waiting.start()
        assert entered.wait(LONG_S)
        other = far.questions()
        go.set()
        waiting.join(LONG_S)

    assert other == {"version": 1}


def test_a_call_that_never_ends_does_not_keep_its_tree_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LEAVE_S", 0.01)
    entered, go = threading.Event(), threading.Event()

    def slow() -> dict[str, Any]:
        entered.set()
        assert go.wait(LONG_S)
        return {}

    failed: queue.SimpleQueue[str] = queue.SimpleQueue()
    with served(ScriptedSource(act=slow)) as (console, far):

        def act() -> None:
            try:
                far.act("shop/a", "restart")
            except SourceError as error:
                failed.put(str(error))

        waiting = threading.Thread(target=act)
        waiting.start()
        assert entered.wait(LONG_S)
        console.close()
        assert "no answer" in failed.get(timeout=LONG_S)
        waiting.join(LONG_S)
        go.set()
        all_have_gone()


def test_one_caller_too_many_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CALLERS", 1)
    source = ScriptedSource()
    with served(source) as (_, far):
        end = far.subscribe(print)
        with pytest.raises(SourceError, match="1 others look at this tree already") as caught:
            far.questions()
        end()
        assert source.left.acquire(timeout=LONG_S)
        all_have_gone()
        far.questions()

    assert caught.value.status == 503


def test_a_caller_that_goes_before_its_answer_leaves_nothing_behind() -> None:
    entered, go = threading.Event(), threading.Event()

    def slow() -> dict[str, Any]:
        entered.set()
        assert go.wait(LONG_S)
        return {"much": "x" * 3_000_000}

    with served(ScriptedSource(tasks=slow)) as (console, far):
        with calling(console, request(do="tasks")):
            assert entered.wait(LONG_S)
        go.set()
        all_have_gone()
        assert far.questions() == {"version": 1}


def test_a_caller_that_does_not_take_its_answer_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PATIENCE_S", 0.05)
    with served(ScriptedSource(tasks={"much": "x" * 3_000_000})) as (console, _), calling(console, request(do="tasks")):
        all_have_gone()


# -- subscriptions -----------------------------------------------------------------------------------------


def test_each_subscriber_is_told_all_that_happens_in_order_and_that_the_tree_has_ended() -> None:
    source, heard = ScriptedSource(), [queue.SimpleQueue[dict[str, Any]]() for _ in range(2)]
    with served(source) as (console, far):
        for each in heard:
            far.subscribe(each.put)
        for n in range(3):
            source.tell(name="child_exited", n=n)
        told = [[each.get(timeout=LONG_S)["n"] for _ in range(3)] for each in heard]
        console.close()
        last = [each.get(timeout=LONG_S) for each in heard]

    assert told == [[0, 1, 2]] * 2
    assert last == [{"version": 1, "name": "source_ended", "text": "the tree has ended."}] * 2
    assert source.subscribers == []
    assert callers() == []


def test_a_subscriber_that_vanishes_leaves_nothing_behind() -> None:
    source = ScriptedSource()
    with served(source) as (console, _):
        with calling(console, request(do="subscribe")):
            assert source.subscribed.acquire(timeout=LONG_S)
        assert source.left.acquire(timeout=LONG_S)
        all_have_gone()
        assert source.subscribers == []


def test_a_subscription_that_is_let_go_of_ends_on_both_sides() -> None:
    source, heard = ScriptedSource(), queue.SimpleQueue[dict[str, Any]]()
    with served(source) as (_, far):
        end = far.subscribe(heard.put)
        source.tell(name="child_exited")
        assert heard.get(timeout=LONG_S)["name"] == "child_exited"
        end()
        end()
        assert source.left.acquire(timeout=LONG_S)
        source.tell(name="child_exited")

    assert heard.empty()


@contextmanager
def streaming() -> Iterator[tuple[EventStream, socket.socket, threading.Thread]]:
    """A stream to a caller that takes little at a time, and its thread, which runs already."""
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with near, far:
        far.settimeout(LONG_S)
        events = EventStream(near)

        def serve() -> None:
            with near:
                events.run()

        thread = threading.Thread(target=serve)
        thread.start()
        yield events, far, thread
        far.close()
        thread.join(LONG_S)
        events.close()


@pytest.mark.parametrize(("limit", "room"), [("BACKLOG", 10), ("BACKLOG_BYTES", 5_000)])
def test_a_slow_subscriber_loses_the_oldest_and_is_told_how_many(
    limit: str, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, limit, room)
    monkeypatch.setattr(stream, "FAREWELL_S", LONG_S)
    count = 500
    with streaming() as (events, far, _):
        for n in range(count):
            events.put({"n": n, "text": "x" * 400})
        events.end("over")
        with far.makefile("rb") as lines:
            told = [json.loads(line) for line in lines]

    numbers = [each["event"]["n"] for each in told if "event" in each]
    lost = sum(each.get("lost", 0) for each in told)
    assert told[-1] == {"version": 1, "ended": "over"}
    assert numbers == sorted(numbers)
    assert numbers[-1] == count - 1
    assert lost > 0
    assert lost + len(numbers) == count


def test_a_subscriber_that_takes_nothing_does_not_keep_its_tree_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "FAREWELL_S", 0.01)
    with streaming() as (events, _, thread):
        for n in range(1000):
            events.put({"n": n, "text": "x" * 4000})
        events.end("over")
        thread.join(LONG_S)
        assert not thread.is_alive()


def test_nothing_follows_the_end_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "FAREWELL_S", LONG_S)
    with streaming() as (events, far, _):
        events.end("over")
        events.put({"n": 1})
        events.end("again")
        with far.makefile("rb") as lines:
            told = [json.loads(line) for line in lines]
        events.close()
        events.put({"n": 2})

    assert told == [{"version": 1, "ended": "over"}]
