"""The page of a real tree: it opens, shows, follows, acts, ends with the tree, and cannot hurt it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from actors import ActorsError, ConfigError, Worker
from actors.runtime.handle import system_of
from tests.support.hardening import LONG_S, eventually
from tests.support.ports import free_port
from tests.support.programs import ran
from tests.trees.observe.scripted_source import ScriptedSource
from trees import Operated, PageFailed, SupervisorSpec, Tree, Web, WebError, WorkerSpec, start
from trees.agents.packages import package_flaw
from trees.observe.source import SourceKind
from trees.observe.web.web_app import MOST_ACTS
from trees.observe.web.web_server import WebServer

ROOT = Path(__file__).parents[4]


def _handle(message: object) -> object:
    if message == "boom":
        raise ValueError("<script>alert(1)</script>")
    return message


def _shop() -> SupervisorSpec:
    children = [WorkerSpec(id="a", handle=_handle), WorkerSpec(id="p", handle=_handle, pool=3)]
    return SupervisorSpec(id="shop", children=children)


@pytest.fixture
def tree() -> Iterator[Tree]:
    with start(_shop()) as tree:
        yield tree


@contextmanager
def _client(page: WebServer, token: str | None = None) -> Iterator[httpx.Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=page.address, headers=headers, timeout=20) as client:
        yield client


def _events(response: httpx.Response) -> Iterator[tuple[str, dict[str, Any], int | None]]:
    kind, number = "", None
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "id":
            number = int(value)
        elif name == "data":
            yield kind, json.loads(value), number


def test_a_tree_is_shown_and_operated_and_each_act_is_an_event_with_who_did_it(tree: Tree) -> None:
    heard: list[object] = []
    tree.subscribe(heard.append)
    page = tree.serve(port=0)
    with _client(page, page.token) as client:
        rows = client.get("/api/snapshot").json()["rows"]
        assert [(row["path"], row["kind"], row["depth"], row["size"]) for row in rows] == [
            ("shop", "supervisor", 0, 2),
            ("shop/a", "worker", 1, None),
            ("shop/p", "pool", 1, 3),
        ]
        before = tree.child("shop/a").incarnation
        assert client.post("/api/children", json={"path": "shop/a", "act": "restart"}).json() == {
            "version": 1,
            "ok": True,
        }
        assert tree.child("shop/a").incarnation > before
        assert client.post("/api/children", json={"path": "shop/a", "act": "unpark"}).status_code == 409
        assert client.post("/api/children", json={"path": "shop/p", "act": "terminate"}).status_code == 200
        assert client.post("/api/children", json={"path": "shop", "act": "terminate"}).status_code == 409
        assert client.post("/api/children", json={"path": "shop/zz", "act": "restart"}).status_code == 404
        assert client.get("/api/child?path=shop/zz").status_code == 404
        assert client.get("/api/stack?path=shop/p").json() == {"version": 1, "frames": []}
    system_of(tree).bus.flush(5)
    acts = [(event.path, event.act, event.by) for event in heard if isinstance(event, Operated)]
    assert acts == [("shop/a", "restart", "page 127.0.0.1"), ("shop/p", "terminate", "page 127.0.0.1")]


def test_whoever_looks_or_answers_waits_for_no_act_on_a_child_that_hangs_and_too_many_acts_are_refused() -> None:
    """A liveness probe that waits for a worker that cannot connect would have the whole process killed."""
    gate, begun = threading.Event(), threading.Semaphore(0)

    def hangs() -> dict[str, Any]:
        begun.release()
        gate.wait(LONG_S)
        return {"ok": True}

    source = ScriptedSource(act=hangs, snapshot={"health": {"ok": True, "ready": True}})
    page = WebServer(source, Web(port=0), lambda *_: None)
    with ThreadPoolExecutor(MOST_ACTS) as people, _client(page, page.token) as client:

        def post(number: int) -> int:
            return client.post("/api/children", json={"path": f"shop/{number}", "act": "restart"}).status_code

        acts = [people.submit(post, number) for number in range(MOST_ACTS)]
        try:
            for _ in acts:
                assert begun.acquire(timeout=LONG_S)
            looks = [client.get(address).status_code for address in ("/healthz", "/readyz", "/api/snapshot")]
            answered = client.post("/api/questions/q", json={"answer": "approve"}).status_code
            refused = post(MOST_ACTS)
        finally:
            gate.set()
        done = [each.result(LONG_S) for each in acts]
        again = post(0)
    page.stop()
    assert looks == [200, 200, 200]
    assert (answered, refused, again) == (200, 503, 200)
    assert done == [200] * MOST_ACTS


@pytest.mark.parametrize("act", ["restart", "terminate"])
def test_an_act_below_a_team_that_is_stopped_is_a_conflict_and_names_the_team(act: str) -> None:
    """The page is well, and so is its tree: 503 would have a client try the same again and again."""
    team = SupervisorSpec(id="team", children=[WorkerSpec(id="x", handle=str)])
    with start(SupervisorSpec(id="shop", children=[team])) as tree:
        page = tree.serve(port=0)
        tree.terminate_child("shop/team")
        with _client(page, page.token) as client:
            refused = client.post("/api/children", json={"path": "shop/team/x", "act": act})
    assert refused.status_code == 409
    assert "shop/team" in refused.json()["error"]


def test_a_crash_is_shown_with_its_frames_to_who_looks_afterwards_and_its_message_never(tree: Tree) -> None:
    page = tree.serve(port=0)
    tree.ref("shop/a").tell("boom")
    system = system_of(tree)
    with _client(page) as client:

        def exits() -> list[dict[str, Any]]:
            system.bus.flush(5)
            return list(client.get("/api/child?path=shop/a").json()["exits"])

        eventually(lambda: bool(exits()))
        last = exits()[0]
        assert (last["reason"], last["type"]) == ("crashed", "ValueError")
        assert last["text"] == "ValueError: <script>alert(1)</script>"
        assert any("_handle" in frame for frame in last["frames"])
        crashes = client.get("/api/snapshot").json()["now"]["crashes"]
        assert [(each["path"], each["type"], each["count"]) for each in crashes] == [("shop/a", "ValueError", 1)]


def test_events_come_with_ids_and_go_on_after_the_last_that_was_seen(tree: Tree) -> None:
    page = tree.serve(port=0)
    with _client(page, page.token) as client:
        with client.stream("GET", "/events") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            client.post("/api/children", json={"path": "shop/a", "act": "restart"})
            seen = []
            for kind, event, number in _events(response):
                assert (kind, event["version"], event["id"]) == ("change", 1, number)
                seen.append((number, event["name"]))
                if event["name"] == "operated":
                    break
        assert [number for number, _ in seen] == sorted({number for number, _ in seen})
        first = seen[0][0]
        with client.stream("GET", "/events", headers={"Last-Event-ID": str(first)}) as response:
            again = [
                (number, event["name"]) for _, (_, event, number) in zip(seen[1:], _events(response), strict=False)
            ]
        assert again == seen[1:]
        with client.stream("GET", "/events", headers={"Last-Event-ID": "0"}) as response:
            kind, told, _ = next(_events(response))
        assert (kind, told["version"]) == ("lost", 1)
        assert told["lost"] >= 1


def test_the_page_ends_with_the_tree_tells_its_end_and_frees_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trees.observe.web.web_server.GRACE_S", 60)
    with start(_shop()) as tree:
        page = tree.serve(port=free_port())
        client = httpx.Client(base_url=page.address, timeout=60.0)
        with closing(client), client.stream("GET", "/events") as response:
            tree.stop()
            seen = list(_events(response))  # ends: the stream does
    assert [kind for kind, _, _ in seen] == ["change"] * len(seen)  # and nothing was lost
    assert seen[-1][1]["name"] == "tree_stopped"
    assert not page.is_up
    with socket.create_server((page.host, page.port)):
        pass


HANGS = """
import threading, urllib.request
from tests.support.programs import ran
from tests.trees.observe.scripted_source import ScriptedSource
from trees import Web
from trees.observe.web.web_server import WebServer

asked = threading.Event()

def hangs():
    asked.set()
    threading.Event().wait()

page = WebServer(ScriptedSource(stack=hangs), Web(port=0), lambda *_: None)
address = page.address + "api/stack?path=shop/a"
threading.Thread(target=lambda: urllib.request.urlopen(address), daemon=True).start()
assert asked.wait(LONG_S)
if STOPS:
    page.stop()
    assert not page._thread.is_alive(), "it waits for the call"
"""
"""A call of the source, for example the restart of a child, never returns."""


@pytest.mark.slow
@pytest.mark.parametrize("stops", [True, False])
def test_a_call_that_never_returns_keeps_neither_its_page_nor_the_interpreter_from_ending(stops: bool) -> None:
    program = HANGS.replace("LONG_S", str(LONG_S)).replace("STOPS", str(stops))
    done = ran("-c", program, cwd=ROOT, timeout=LONG_S)

    assert done.returncode == 0, done.stderr


def test_a_page_may_be_stopped_and_opened_anew_on_its_port(tree: Tree) -> None:
    first = tree.serve(port=free_port())
    first.stop()
    first.stop()
    second = tree.serve(port=first.port)
    with _client(second) as client:
        assert client.get("/healthz").status_code == 200
    assert second.token != first.token


def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(tree: Tree) -> None:
    page = tree.serve(port=0)
    with pytest.raises(WebError, match=r"taken.*Give another port, or 0"):
        tree.serve(port=page.port)
    with pytest.raises(WebError, match="no address of this machine"):
        tree.serve(port=0, host="no-such-host.invalid")


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": -1},
        {"port": 70_000},
        {"token": "short"},
        {"token": "with spaces in it"},
        {"host": ""},
        {"names": "ops.example.com"},
        {"names": ["https://ops.example.com"]},
        {"names": ["ops.example.com:443"]},
        {"names": [7]},
    ],
)
def test_wrong_settings_are_a_config_error(tree: Tree, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="Web"):
        tree.serve(**wrong)


@pytest.mark.parametrize(
    ("kind", "said"),
    [("tree", "the extra 'metrics'"), ("console", "program of a tree"), ("store", "program of a tree")],
)
def test_where_there_are_no_metrics_the_page_says_where_they_are(kind: SourceKind, said: str) -> None:
    source = ScriptedSource()
    source.kind = kind
    page = WebServer(source, Web(port=0), lambda *_: None)
    with _client(page) as client:
        found = client.get("/metrics")
    page.stop()
    assert (found.status_code, said in found.json()["error"]) == (404, True)


def test_a_page_is_reached_by_the_names_that_it_was_given(tree: Tree) -> None:
    page = tree.serve(port=0, names=["Ops.example.com"])
    with _client(page, page.token) as client:
        assert client.get("/api/snapshot", headers={"Host": "ops.example.com"}).status_code == 200
        assert client.get("/api/snapshot", headers={"Host": "other.example.com"}).status_code == 400
    with _client(page) as stranger:
        assert stranger.get("/api/snapshot").status_code == 401
        assert stranger.get("/healthz").status_code == 200
    page.stop()


def test_without_the_extra_the_error_names_it(tree: Tree) -> None:
    package_flaw.cache_clear()
    try:
        with (
            patch("trees.agents.packages.metadata.version", side_effect=_missing),
            pytest.raises(ConfigError, match=r"the extra 'web'"),
        ):
            tree.serve(port=0)
    finally:
        package_flaw.cache_clear()


def _missing(name: str) -> str:
    from importlib.metadata import PackageNotFoundError  # noqa: PLC0415

    raise PackageNotFoundError(name)


def test_a_crash_of_the_server_is_an_event_and_it_comes_back_on_its_port(tree: Tree) -> None:
    heard: list[object] = []
    tree.subscribe(heard.append)
    page = tree.serve(port=free_port())
    with _client(page) as client:
        client.get("/healthz")
    server = page._server
    assert server is not None
    with patch.object(type(server), "on_tick", side_effect=ZeroDivisionError("tick")):
        eventually(lambda: page.restarts >= 1)
    with _client(page) as client:
        eventually(lambda: client.get("/healthz").status_code == 200)
    system_of(tree).bus.flush(5)
    assert any(isinstance(event, PageFailed) and isinstance(event.error, ZeroDivisionError) for event in heard)
    assert tree.child("shop/a").restarts == 0
    assert tree.is_alive


def test_a_tree_may_be_started_with_its_page_and_a_start_that_fails_leaves_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with start(_shop(), web=Web(port=free_port())) as tree:
        page = tree.page
        assert page is not None
        assert page.url in capsys.readouterr().err
        with _client(page) as client:
            assert client.get("/readyz").status_code == 200
        with pytest.raises(WebError, match="taken"):
            start(_shop(), web=Web(port=page.port))
    port = page.port
    with pytest.raises(ActorsError):
        start(SupervisorSpec(id="shop", children=[WorkerSpec(id="a", actor=_Fails)]), web=Web(port=port))
    with socket.create_server((page.host, port)):
        pass


class _Fails(Worker):
    def on_start(self) -> None:
        raise ValueError("no")
