"""What the page refuses: each attack is a row. One server over a scripted source, real HTTP on loopback."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import httpx
import pytest

from actors.execution.daemon_executor import DaemonExecutor
from tests.support.hardening import eventually
from tests.trees.observe.scripted_source import ScriptedSource
from trees import Web
from trees.observe.source import SourceError
from trees.observe.web import request_reading
from trees.observe.web.access import Access
from trees.observe.web.patient_protocol import PatientProtocol
from trees.observe.web.refusals import Refusal
from trees.observe.web.web_app import POLICY
from trees.observe.web.web_server import MOST_AT_WORK, WebServer

TOKEN = "a-token-of-the-tests-0123456789"  # noqa: S105 - of no other tree
ANYWHERE = "0.0.0.0"  # noqa: S104 - compared, never listened at
BEARER = {"Authorization": f"Bearer {TOKEN}"}
ACT = {"path": "shop/a", "act": "restart"}


@pytest.fixture(scope="module")
def source() -> ScriptedSource:
    return ScriptedSource(snapshot={"health": {"ok": True, "ready": False}}, act={"ok": True}, answer={"ok": True})


@pytest.fixture(scope="module")
def failures() -> list[BaseException]:
    return []


@pytest.fixture(scope="module")
def server(source: ScriptedSource, failures: list[BaseException]) -> Iterator[WebServer]:
    """A page whose threads are all there, and stay: none is one that a test has left behind."""
    with patch("trees.observe.web.web_server.DaemonExecutor", partial(DaemonExecutor, idle_s=600.0)):
        page = WebServer(source, Web(port=0, token=TOKEN), lambda error, _: failures.append(error))
        together = threading.Barrier(MOST_AT_WORK)
        source.answers["stack"] = lambda: {"here": together.wait(60) >= 0}
        with ThreadPoolExecutor(MOST_AT_WORK) as callers:
            list(callers.map(lambda _: httpx.get(f"{page.address}api/stack?path=x"), range(MOST_AT_WORK)))
        httpx.post(f"{page.address}api/children", json=ACT, headers=BEARER)
        source.asked.clear()
    yield page
    page.stop()


@pytest.fixture(scope="module")
def client(server: WebServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address, timeout=10) as client:
        yield client


def _sentence(response: httpx.Response) -> str:
    told = response.json()
    assert told["version"] == 1
    assert isinstance(told["error"], str)
    assert told["error"].endswith((".", "...'."))
    return str(told["error"])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": f"Basic {TOKEN}"}, 401),
        ({"X-Regrow-Token": "wrong"}, 401),
        ({"Cookie": f"regrow-PORT={TOKEN}"}, 401),
        ({**BEARER, "Origin": "http://evil.example"}, 403),
        ({**BEARER, "Origin": "null"}, 403),
        ({**BEARER, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**BEARER, "Sec-Fetch-Site": "same-site"}, 403),
        ({**BEARER, "Host": "evil.example"}, 400),
        ({**BEARER, "Host": "127.0.0.1.evil.example:PORT"}, 400),
    ],
)
def test_an_act_needs_the_token_in_a_header_and_no_other_site_can_send_one(
    client: httpx.Client, server: WebServer, source: ScriptedSource, headers: dict[str, str], status: int
) -> None:
    before = len(source.acts())
    sent = {name: value.replace("PORT", str(server.port)) for name, value in headers.items()}
    for path, body in (
        ("/api/children", ACT),
        ("/api/tasks/t/cancel", {}),
        ("/api/questions/q", {"answer": "approve"}),
    ):
        response = client.post(path, json=body, headers=sent)
        assert response.status_code == status
        _sentence(response)
    assert len(source.acts()) == before
    assert TOKEN not in response.text


@pytest.mark.parametrize("headers", [BEARER, {"X-Regrow-Token": TOKEN}, {**BEARER, "Sec-Fetch-Site": "same-origin"}])
def test_an_act_with_the_token_is_carried_out_and_says_who(
    client: httpx.Client, source: ScriptedSource, headers: dict[str, str]
) -> None:
    response = client.post("/api/children", json=ACT, headers=headers)
    assert response.status_code == 200
    assert source.acts()[-1] == ("act", {**ACT, "by": "page 127.0.0.1"})


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8420",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "",
        "a b",
        "[::",
    ],
)
def test_a_foreign_host_is_refused_so_no_name_can_be_rebound_to_this_address(client: httpx.Client, host: str) -> None:
    for path in ("/", "/api/snapshot", "/healthz", "/events", "/static/main.js"):
        response = client.get(path, headers={"Host": host})
        assert response.status_code == 400


@pytest.mark.parametrize("path", ["/?token=wrong", "/api/snapshot?token=wrong", "/?token=", "/events?token=wrong"])
def test_a_wrong_token_in_a_link_is_refused_also_where_looking_needs_none(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 401


def test_the_link_sets_a_cookie_that_no_script_and_no_other_site_can_use(
    client: httpx.Client, server: WebServer
) -> None:
    response = httpx.get(server.url)
    assert response.status_code == 200
    cookie = response.headers["set-cookie"]
    assert cookie == f"regrow-{server.port}={TOKEN}; HttpOnly; SameSite=Strict; Path=/"
    assert response.headers["cache-control"] == "no-store"
    assert "set-cookie" not in client.get("/").headers


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/snapshot", "/nope", "/docs", "/healthz"])
def test_every_answer_keeps_browsers_from_running_anything_else(client: httpx.Client, path: str) -> None:
    headers = client.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert not [name for name in headers if name.startswith("access-control")]
    assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/static/../web_app.py",
        "/static/..%2fweb_app.py",
        "/static/%2e%2e/%2e%2e/source.py",
        "/static//etc/passwd",
        "/static/%00",
        "/static/main.js%00.css",
        "/static/..\\web_app.py",
        "/static/",
        "/static",
        "//etc/passwd",
        "/api/../static/../../x",
        "/%ff%fe",
        "/api/snapshot/",
        "/.git/config",
    ],
)
def test_no_path_leads_out_of_the_files_of_the_page(server: WebServer, path: str) -> None:
    status, body = _raw(server, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert status == 404
    assert json.loads(body)["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"NaN", 400),
        (b'{"path": NaN, "act": "restart"}', 400),
        (b"[" * 30_000, 400),
        (b"1" * 5_000, 400),
        (b'{"a":' * 9_000, 400),
        (b"null", 422),
        (b"[]", 422),
        (b'"restart"', 422),
        (b"{}", 422),
        (b'{"path": "shop/a"}', 422),
        (b'{"path": 1, "act": "restart"}', 422),
        (b'{"path": ["shop"], "act": "restart"}', 422),
        (b'{"path": "shop/a", "act": "explode"}', 422),
        (b'{"path": "shop/a", "act": {}}', 422),
        (b'{"path": "shop/a", "act": "restart", "force": true}', 422),
        (b'{"path": "shop/\\u0000", "act": "restart"}', 422),
        (b'{"path": "shop/\\ud800", "act": "restart"}', 422),
        (b'{"path": "' + b"x" * 5_000 + b'", "act": "restart"}', 422),
        (b'{"path": "' + b"x" * 70_000 + b'", "act": "restart"}', 413),
    ],
)
def test_odd_bodies_get_a_sentence_and_never_500(client: httpx.Client, body: bytes, status: int) -> None:
    response = client.post("/api/children", content=body, headers=BEARER)
    assert response.status_code == status
    _sentence(response)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"answer": "maybe"}, 422),
        ({"answer": "respond"}, 422),
        ({"answer": "edit"}, 422),
        ({"answer": "respond", "text": 5}, 422),
        ({"answer": "edit", "value": {"x": ["\x00"]}}, 422),
        ({"answer": None}, 422),
        ({"answer": "edit", "value": None}, 200),
        ({"answer": "approve"}, 200),
        ({"answer": "reject", "text": "no"}, 200),
    ],
)
def test_answers_are_checked_before_anybody_hears_them(
    client: httpx.Client, source: ScriptedSource, body: dict[str, Any], status: int
) -> None:
    before = len(source.acts())
    assert client.post("/api/questions/q", json=body, headers=BEARER).status_code == status
    assert len(source.acts()) - before == (status == 200)


def test_a_body_of_unknown_length_is_read_no_further_than_its_bound(client: httpx.Client) -> None:
    taken = []

    def pieces(number: int) -> Iterator[bytes]:
        for each in range(number):
            taken.append(each)
            yield b"x" * 10_000

    assert client.post("/api/children", content=pieces(50), headers=BEARER).status_code == 413
    taken.clear()
    with suppress(httpx.TransportError):  # it is cut off: it may not see the answer
        client.post("/api/children", content=pieces(10_000), headers=BEARER)
    assert len(taken) < 5_000


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=1e3",
        "limit=99999999999",
        "limit=%C2%B2",
        "only=bogus",
        "only=troubled,bogus",
        "open=%00",
        "open=" + "x" * 5000,
    ],
)
def test_odd_queries_get_a_sentence(client: httpx.Client, query: str) -> None:
    response = client.get(f"/api/snapshot?{query}")
    assert response.status_code == 422
    _sentence(response)


@pytest.mark.parametrize(
    "id_", ["a/b", "it's", 'a"b', "a b", "<script>", "ü", "a?b", "a%b", "..a", "cancel", "x/cancel"]
)
def test_ids_with_any_character_reach_the_source_as_they_are(
    client: httpx.Client, source: ScriptedSource, id_: str
) -> None:
    assert client.get(f"/api/tasks/{quote(id_)}").status_code == 200
    assert source.asked[-1] == ("task", {"id": id_})
    client.get("/api/child", params={"path": id_})
    assert source.asked[-1] == ("child", {"path": id_})


@pytest.mark.parametrize("status", [400, 404, 409, 503])
def test_a_refusal_of_the_source_is_its_status_and_its_sentence(
    client: httpx.Client, source: ScriptedSource, status: Any
) -> None:
    with patch.dict(source.answers, {"child": SourceError(status, "No <b>child</b> here.")}):
        response = client.get("/api/child?path=x")
    assert (response.status_code, _sentence(response)) == (status, "No <b>child</b> here.")
    assert response.headers["content-type"] == "application/json"


def test_a_bug_is_told_to_the_tree_and_its_text_to_nobody_else(
    client: httpx.Client, source: ScriptedSource, failures: list[BaseException]
) -> None:
    bug = ZeroDivisionError("secret")
    with patch.dict(source.answers, {"child": bug}):
        response = client.get("/api/child?path=x")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert failures == [bug]


def test_half_a_surrogate_pair_of_a_worker_is_written_as_json_has_it(
    client: httpx.Client, source: ScriptedSource
) -> None:
    with patch.dict(source.answers, {"child": {"text": "a\ud800<script>"}}):
        assert client.get("/api/child?path=x").json()["text"] == "a\ud800<script>"


@pytest.mark.parametrize(
    ("headers", "asked", "may"),
    [
        ({}, None, False),
        ({"cookie": f"regrow-8420={TOKEN}"}, None, True),
        ({"cookie": f"other=1; regrow-8420={TOKEN}"}, None, True),
        ({"cookie": "regrow-8420=wrong"}, None, False),
        ({"cookie": "\x00=;;="}, None, False),
        ({"cookie": f"regrow-1={TOKEN}"}, None, False),
        ({"authorization": f"Bearer {TOKEN}"}, None, True),
        ({}, TOKEN, True),
        ({}, "wrong", False),
    ],
)
def test_looking_from_elsewhere_needs_the_token_or_its_cookie(
    headers: dict[str, str], asked: str | None, may: bool
) -> None:
    access = Access(ANYWHERE, 8420, "box", TOKEN)
    assert not access.is_open
    if may:
        access.require_look(headers, asked)
    else:
        with pytest.raises(Refusal) as refused:
            access.require_look(headers, asked)
        assert refused.value.status == 401


@pytest.mark.parametrize("host", ["127.0.0.1", ANYWHERE])
def test_behind_a_proxy_the_names_that_were_given_are_right_and_looking_needs_the_token(host: str) -> None:
    """[ops.example.com] The Host header is that of the browser, and so is the Origin of an act."""
    access = Access(host, 8420, "box", TOKEN, frozenset({"ops.example.com"}))
    for name in ("ops.example.com", "OPS.example.com:443", "localhost:8420", "127.0.0.1:8420"):
        access.require_host(name)
    for name in ("evil.example", "ops.example.com.evil.example", "example.com"):
        with pytest.raises(Refusal):
            access.require_host(name)
    with pytest.raises(Refusal):
        access.require_look({}, None)
    access.require_look({"cookie": f"regrow-8420={TOKEN}"}, None)
    headers = {"authorization": f"Bearer {TOKEN}", "host": "ops.example.com", "sec-fetch-site": "same-origin"}
    access.require_act({**headers, "origin": "https://ops.example.com"})
    with pytest.raises(Refusal):
        access.require_act({**headers, "origin": "https://evil.example"})


# -- sockets ---------------------------------------------------------------------------------------------------


def _raw(server: WebServer, text: bytes) -> tuple[int, bytes]:
    with socket.create_connection((server.host, server.port), timeout=10) as caller:
        caller.sendall(text)
        answer = b""
        while piece := caller.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def test_a_head_that_comes_byte_by_byte_is_given_up(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """[slow-loris] Nothing at all, half a head, half a head after a request."""
    monkeypatch.setattr(PatientProtocol, "head_s", 0.05)
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for text in (b"", b"GET / HTTP/1.1\r\nHost: loc", whole + b"GET / HT"):
        with socket.create_connection((server.host, server.port), timeout=10) as caller:
            caller.sendall(text)
            try:
                while caller.recv(65536):
                    pass
            except ConnectionResetError:
                pass


def test_who_does_not_read_a_large_answer_keeps_neither_it_nor_its_connection(
    server: WebServer, source: ScriptedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or as many of them as there may be connections would keep everybody else out, health checks too."""
    monkeypatch.setattr(PatientProtocol, "take_s", 0.05)
    monkeypatch.setitem(source.answers, "child", {"text": "x" * 16_000_000})

    def is_held(caller: socket.socket) -> bool:
        assert server._server is not None
        held = [each.client for each in list(server._server.server_state.connections)]  # type: ignore[union-attr]
        return caller.getsockname()[:2] in held

    with socket.create_connection((server.host, server.port), timeout=10) as caller:
        caller.sendall(b"GET /api/child?path=x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert caller.recv(1) == b"H", "the answer has begun"
        eventually(lambda: not is_held(caller), "the end of the connection")


def test_a_body_that_does_not_come_is_given_up(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_reading, "BODY_S", 0.05)
    head = (
        f"POST /api/children HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 10\r\n\r\n"
    )
    status, _ = _raw(server, head.encode() + b"{")
    assert status == 408
