"""Small server of the page, over any source: shapes, token, policy and stream as its API has them, no more."""

from __future__ import annotations

import json
import mimetypes
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from trees.observe.source import Source, SourceError

STATIC = files("trees.observe") / "web" / "static"
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, *_: object) -> None:
        """Tell nobody."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        path = unquote(url.path)
        if path == "/events":
            self._stream()
        elif path == "/" or path.startswith("/static/"):
            name = path.removeprefix("/static/").strip("/") or "index.html"
            kind = mimetypes.guess_type(name)[0] or "text/plain"
            self._send(200, kind, (STATIC / name).read_bytes() if (STATIC / name).is_file() else b"")
        else:
            self._answer(lambda: self._look(path, query))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers.get("Authorization") != f"Bearer {self.server.token}":
            self._json(401, {"version": 1, "error": "This token is not the one that the program printed."})
            return
        self._answer(lambda: self._act(unquote(urlsplit(self.path).path), body))

    def _look(self, path: str, query: dict[str, str]) -> Any:
        source = self.server.source
        match path.strip("/").split("/"):
            case ["api", "snapshot"]:
                return source.snapshot(query.get("open", "").split(","), int(query.get("limit", "500")))
            case ["api", "child"]:
                return source.child(query["path"])
            case ["api", "stack"]:
                return source.stack(query["path"])
            case ["api", "tasks"]:
                return source.tasks(query.get("status"), query.get("q", ""), int(query.get("limit", "200")))
            case ["api", "tasks", *id_]:
                return source.task("/".join(id_))
            case ["api", "questions"]:
                return source.questions()
        raise SourceError(404, "There is no such page.")

    def _act(self, path: str, body: dict[str, Any]) -> Any:
        source = self.server.source
        match path.strip("/").split("/"):
            case ["api", "tasks", id_, "cancel"]:
                return source.cancel(id_)
            case ["api", "questions", id_]:
                return source.answer(id_, **body)
            case ["api", "children"]:
                return source.act(**body)
        raise SourceError(404, "There is no such page.")

    def _answer(self, ask: Any) -> None:
        try:
            self._json(200, ask())
        except SourceError as error:
            self._json(error.status, {"version": 1, "error": error.text})

    def _json(self, status: int, body: Any) -> None:
        self._send(status, "application/json", json.dumps(body).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b": welcome\n\n")
        told: queue.Queue[Any] = queue.Queue()
        self.server.streams.append(told)
        end = self.server.source.subscribe(told.put)
        try:
            while (event := told.get()) is not None:
                self.wfile.write(f"event: change\nid: {event['id']}\ndata: {json.dumps(event)}\n\n".encode())
        except OSError:
            self.close_connection = True
        finally:
            end()


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, source: Source, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.source = source
        self.token = token
        self.streams: list[queue.Queue[Any]] = []
        self.sockets: list[socket.socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        """Note the connection: a browser opens some in advance, on which it never asks."""
        self.sockets.append(request)
        super().process_request(request, client_address)

    def handle_error(self, *_: object) -> None:
        """A browser that goes closes its connections."""


@contextmanager
def serve(source: Source, token: str) -> Iterator[str]:
    """Serve the page of a source; gives its address without the token."""
    server = _Server(source, token)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        for stream in server.streams:
            stream.put(None)
        server.shutdown()
        for each in server.sockets:
            with suppress(OSError):  # it has ended already
                each.shutdown(socket.SHUT_RDWR)
        server.server_close()
        thread.join()
