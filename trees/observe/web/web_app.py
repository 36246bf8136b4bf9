"""Application of the page: each address is one method of a source, behind the same checks.

``_Guard`` stands before all of them. It refuses foreign hosts and whoever may not look or act (``access``), turns
refusals and errors of the source into one sentence of JSON, and gives every answer the headers that keep a browser
from running anything but the files of the page. A bug here is answered with 500 and told by ``PageFailed``.

Methods of a source may wait, so they are called on threads, of which the server has a few. An act on a child takes as
long as the child, which may hang in its start, or in a stop without a limit. Such acts have threads of their own, so
whoever looks, answers a question or probes the health of the tree waits for none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from typing import Any, Final

from sse_starlette.sse import EventSourceResponse
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from trees.observe.source import ACTS, ANSWERS, ROWS, TASKS, VERSION, Shape, Source, SourceError
from trees.observe.web import refusals
from trees.observe.web.access import Access
from trees.observe.web.api_page import openapi, openapi_page
from trees.observe.web.event_feed import EventFeed, as_json
from trees.observe.web.page_files import INDEX, page_files
from trees.observe.web.patient_protocol import MOST_HEAD
from trees.observe.web.refusals import Refusal
from trees.observe.web.request_reading import (
    MOST_BODY,
    UnreadBody,
    body_of,
    checked,
    checked_value,
    choice_of,
    declared_length,
    limit_of,
    only,
    query_of,
    text_of,
)

TOO_LATE: Final = 408
"""Status where a body was waited for long enough."""
MOST_FOLLOWERS: Final = 64
"""Streams of events at a time."""
MOST_DIGITS: Final = 16
"""Digits of the number of an event: microseconds since 1970, which JavaScript can still tell apart."""
MOST_ACTS: Final = 16
"""Acts on children at a time."""
SEND_S: Final = 30.0
"""Seconds that a browser may take for one piece of the stream; it may come back after that."""
PING_S: Final = 15
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""Headers of every answer."""
_UNGUARDED: Final = frozenset({"/healthz", "/readyz"})
"""Addresses that tell nothing but yes or no, for probes that have no token."""

Endpoint = Callable[[Request], Awaitable[Response]]


class JsonResponse(Response):
    """JSON in ASCII, which no cache keeps."""

    media_type = "application/json"

    def __init__(self, content: Shape, status: int = 200) -> None:
        super().__init__(as_json(content), status, {"cache-control": "no-store"})


def refused(status: int, sentence: str) -> JsonResponse:
    """Return the answer to a request that is not carried out."""
    return JsonResponse({"version": VERSION, "error": sentence}, status)


class Handlers:
    """One method for each address."""

    def __init__(self, source: Source, feed: EventFeed, access: Access, acts: Executor) -> None:
        self._source = source
        self._feed = feed
        self._access = access
        self._acts = acts
        self._acting: list[Future[Shape]] = []
        """Acts on children that have begun; those that are over go with the next one. Only the loop touches it."""

    async def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(function, *args, **kwargs)

    async def _told(self, function: Callable[..., Shape], *args: Any, **kwargs: Any) -> Response:
        return JsonResponse(await self._call(function, *args, **kwargs))

    # -- looking -------------------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """The page itself; a link with the token has the browser keep that."""
        response = _file(request, INDEX)
        if request.query_params.get("token") is not None:
            response.headers["set-cookie"] = self._access.set_cookie()
            response.headers["cache-control"] = "no-store"
        return response

    async def static(self, request: Request) -> Response:
        """One file of the page."""
        return _file(request, request.path_params["name"])

    async def snapshot(self, request: Request) -> Response:
        """The tree."""
        query = request.query_params
        unfold = [each for each in (query_of(query, "open") or "").split(",") if each]
        text, limit = query_of(query, "q") or "", limit_of(query, ROWS)
        troubled = choice_of(query, "only", "troubled") is not None
        return await self._told(self._source.snapshot, unfold, limit, text, troubled)

    async def child(self, request: Request) -> Response:
        """One child."""
        return await self._told(self._source.child, query_of(request.query_params, "path", required=True))

    async def stack(self, request: Request) -> Response:
        """Stack of one child."""
        return await self._told(self._source.stack, query_of(request.query_params, "path", required=True))

    async def tasks(self, request: Request) -> Response:
        """The tasks."""
        query = request.query_params
        status, text = query_of(query, "status"), query_of(query, "q") or ""
        return await self._told(self._source.tasks, status, text, limit_of(query, TASKS))

    async def task(self, request: Request) -> Response:
        """One task."""
        return await self._told(self._source.task, _id(request))

    async def questions(self, request: Request) -> Response:  # noqa: ARG002 - as all handlers
        """All that waits for a person."""
        return await self._told(self._source.questions)

    async def events(self, request: Request) -> Response:
        """The stream of events."""
        if self._feed.watching >= MOST_FOLLOWERS:
            raise Refusal(503, f"{MOST_FOLLOWERS} browsers follow this tree already; close one of them.")
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isascii() and last.isdecimal() and len(last) <= MOST_DIGITS else None
        pieces = self._feed.follow(after)
        await anext(pieces)  # a browser that sees its stream open is told of everything from then on
        return EventSourceResponse(pieces, ping=PING_S, sep="\n", send_timeout=SEND_S)

    async def metrics(self, request: Request) -> Response:  # noqa: ARG002 - as all handlers
        """Metrics for Prometheus."""
        text = await self._call(self._source.metrics)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def healthz(self, request: Request) -> Response:  # noqa: ARG002 - as all handlers
        """Tell whether it is alive."""
        return await self._health("ok")

    async def readyz(self, request: Request) -> Response:  # noqa: ARG002 - as all handlers
        """Tell whether it is ready."""
        return await self._health("ready")

    async def _health(self, word: str) -> Response:
        health = (await self._call(self._source.snapshot, (), 1)).get("health") or {}
        good = bool(health.get(word))
        return JsonResponse({"version": VERSION, word: good}, 200 if good else 503)

    async def openapi(self, request: Request) -> Response:  # noqa: ARG002 - as all handlers
        """Description of the API."""
        return JsonResponse(openapi())

    async def docs(self, request: Request) -> Response:  # noqa: ARG002 - as all handlers
        """Description of the API, to be read."""
        return Response(openapi_page(), media_type="text/html")

    # -- acting --------------------------------------------------------------------------------------------

    async def cancel(self, request: Request) -> Response:
        """Cancel a task."""
        body = await body_of(request)
        only(body, "reason")
        reason = text_of(body, "reason", required=False) or ""
        return await self._told(self._source.cancel, _id(request), reason, by=_by(request))

    async def answer(self, request: Request) -> Response:
        """Answer a question."""
        body = await body_of(request)
        only(body, "answer", "text", "value")
        word = text_of(body, "answer")
        if word not in ANSWERS:
            raise Refusal(422, f"The field 'answer' must be one of {', '.join(ANSWERS)}.")
        text = text_of(body, "text", most=MOST_BODY, required=False)
        if word == "respond" and not text:
            raise Refusal(422, "A respond needs a 'text'.")
        if word == "edit" and "value" not in body:
            raise Refusal(422, "An edit needs a 'value'.")
        value = checked_value(body.get("value"), "value")
        return await self._told(self._source.answer, _id(request), word, text, value, by=_by(request))

    async def act(self, request: Request) -> Response:
        """Restart, terminate or unpark a child."""
        body = await body_of(request)
        only(body, "path", "act")
        path, act = text_of(body, "path"), text_of(body, "act")
        if act not in ACTS:
            raise Refusal(422, f"The field 'act' must be one of {', '.join(ACTS)}.")
        self._acting = [each for each in self._acting if not each.done()]
        if len(self._acting) >= MOST_ACTS:
            raise Refusal(503, f"{MOST_ACTS} acts on children are not over yet; wait for one of them.")
        acting = self._acts.submit(self._source.act, str(path), str(act), by=_by(request))
        self._acting.append(acting)
        return JsonResponse(await asyncio.wrap_future(acting))

    def routes(self) -> list[Route]:
        """Return all addresses; an id may hold a slash, so ``cancel`` is looked for first."""

        def look(path: str, endpoint: Endpoint) -> Route:
            return Route(path, endpoint, methods=["GET"])

        def act(path: str, endpoint: Endpoint) -> Route:
            return Route(path, endpoint, methods=["POST"])

        return [
            look("/", self.page),
            look("/static/{name:path}", self.static),
            look("/api/snapshot", self.snapshot),
            look("/api/child", self.child),
            look("/api/stack", self.stack),
            act("/api/children", self.act),
            look("/api/tasks", self.tasks),
            act("/api/tasks/{id:path}/cancel", self.cancel),
            look("/api/tasks/{id:path}", self.task),
            look("/api/questions", self.questions),
            act("/api/questions/{id:path}", self.answer),
            look("/events", self.events),
            look("/metrics", self.metrics),
            look("/healthz", self.healthz),
            look("/readyz", self.readyz),
            look("/openapi.json", self.openapi),
            look("/docs", self.docs),
        ]


def _id(request: Request) -> str:
    return checked(str(request.path_params["id"]), "id")


def _by(request: Request) -> str:
    """Say who acts: the address that the request came from."""
    return f"page {request.client.host}" if request.client is not None else "page"


def _file(request: Request, name: str) -> Response:
    file = page_files().get(name)
    if file is None:
        raise Refusal(404, refusals.NOT_HERE)
    headers = {"etag": file.tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers, media_type=file.media_type)


class _Guard:
    """Stands before the two applications: that of whoever has the token, and that of all others."""

    def __init__(
        self, inner: Router, without_token: Router, access: Access, failed: Callable[[BaseException], object]
    ) -> None:
        self._inner = inner
        self._without_token = without_token
        self._access = access
        self._failed = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun, body = False, UnreadBody(receive)

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": _with_policy(message["headers"])}
            await send(message)

        try:
            inner = self._inner if self._require(scope) else self._without_token
            await inner({**scope, "app": self}, body.receive, sending)  # so it raises where it has no route
        except Exception as error:
            answer = self._answer_to(error)
            if begun:
                raise
            if answer.status_code != TOO_LATE:
                await body.discard(declared_length(Headers(scope=scope)))
            answer.headers["connection"] = "close"  # the rest of a longer one is not read
            await answer(scope, receive, sending)

    def _require(self, scope: Scope) -> bool:
        """Refuse what is not allowed. Return whether the request has the token."""
        headers, query = Headers(scope=scope), QueryParams(scope["query_string"])
        if sum(len(name) + len(value) for name, value in headers.raw) + len(scope["query_string"]) > MOST_HEAD:
            raise Refusal(400, refusals.LONG_HEAD)
        self._access.require_host(headers.get("host"))
        if scope["method"] in {"GET", "HEAD"}:
            if scope["path"] not in _UNGUARDED:
                return self._access.require_look(headers, query.get("token"))
            return False
        self._access.require_act(headers)
        return True

    def _answer_to(self, error: Exception) -> Response:
        if isinstance(error, Refusal):
            return refused(error.status, error.sentence)
        if isinstance(error, SourceError):
            return refused(error.status, error.text)
        if isinstance(error, HTTPException):
            sentence = refusals.NOT_HERE if error.status_code == 404 else refusals.OTHER_METHOD  # noqa: PLR2004
            answer = refused(error.status_code, sentence)
            answer.headers.update(error.headers or {})
            return answer
        self._failed(error)
        return refused(500, refusals.INTERNAL)


def _with_policy(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [*headers, *((name.encode(), value.encode()) for name, value in HEADERS.items())]


def web_app(
    full: Handlers, without_token: Handlers, access: Access, failed: Callable[[BaseException], object]
) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Return the application of a page; ``failed`` is told of bugs."""
    routes, fewer = full.routes(), without_token.routes()
    return _Guard(Router(routes, redirect_slashes=False), Router(fewer, redirect_slashes=False), access, failed)
