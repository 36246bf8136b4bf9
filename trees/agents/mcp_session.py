"""A session with an MCP server: opened, used and closed in one task of its own.

The scopes of the SDK are entered and left in that task; the worker's own is never cancelled by them. States::

    open: opening --> ready --> closed          (close: in order, or at once)
              |          |
              +-- failed +-- lost: the server has ended, or the connection is closed; the worker is told once

A call runs in the task of the worker. When that is cancelled, the SDK cancels the request at the server. When the
connection ends, the SDK wakes the call, which then waits for the end of the session's task, to say why.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import httpx2
import mcp_types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from actors.model.errors import Failed, Later, StartError
from actors.tasks.model import ToolInfo
from trees.agents.mcp_http import MOST_BYTES, HttpAnswers, is_cut
from trees.agents.mcp_messages import flaws_of
from trees.agents.mcp_process import ServerProcess

if TYPE_CHECKING:
    from trees.agents.mcp import MCP

_GRACE_S: Final = 4.0
"""How long closing may take; less than what a stop may take by default."""
_KILLED_S: Final = 0.4
"""How long a session may take to end once its server is killed: less than the grace of a kill."""
_CLOSES_S: Final = 0.2
_MOST_PAGES: Final = 100
_LISTS_EVERY_S: Final = 0.1
"""How often the tools of a server that says that they have changed are listed, at most."""
_LOGS: Final = ("httpx2", "mcp.client.streamable_http")
"""Loggers that tell the address of each request, with its query."""
_CLOSED: Final = "Connection closed"
"""Text of the SDK's own error with the code ``CONNECTION_CLOSED``."""
_CALL: Final = "tools/call"
_LIST: Final = "tools/list"
_FIRST: Final = ("initialize", _LIST)
"""Methods of the requests with which a session begins."""
_NEVER_AGAIN: Final = frozenset({mcp_types.INVALID_PARAMS, mcp_types.METHOD_NOT_FOUND})
"""Codes of errors that come of every call of this kind."""


Shows = Callable[[float, float | None, str], None]


class ConnectionLostError(ConnectionError):
    """The connection to the server is gone."""

    def __init__(self, text: str, *, was_sent: bool = True, goes_on: bool = False) -> None:
        super().__init__(text)
        self.was_sent = was_sent
        """False where the request cannot have reached the server."""
        self.goes_on = goes_on
        """True where only the answer is lost: the connection is there."""


class Session:
    """One session."""

    def __init__(
        self, server: MCP, lists: Callable[[tuple[ToolInfo, ...]], None], loses: Callable[[BaseException], None]
    ) -> None:
        self._server = server
        self._lists, self._loses = lists, loses
        self._client: Any = None
        self._process: ServerProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._stirred = asyncio.Event()
        """Set when there is something to look at: the process has ended, the tools have changed, it is to be closed."""
        self._is_ready = self._is_closing = self._has_changed = False
        self._http = HttpAnswers()
        self._is_forgotten = False
        """True where the server does not know this session: it was started anew."""
        self._must_list = False
        """True once the time has come to list tools that have changed."""
        self._next_list = 0.0
        """When the tools may be listed again."""
        self.tools: dict[str, ToolInfo] = {}
        """Tools that may be used, by name."""

    def __repr__(self) -> str:
        return f"<Session {self._server.name} tools={len(self.tools)}>"

    # -- open and close ------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True once the server has said which tools it has."""
        return self._is_ready

    @property
    def pid(self) -> int | None:
        """Number of the server's process; None: it runs in this one, or elsewhere."""
        return (self._process.pid or None) if self._process is not None else None

    async def open(self, stop: Awaitable[object] | None = None) -> None:
        """Connect, and list the tools; or return without that when ``stop`` comes first: then it is to be closed.

        Raises:
            StartError: the server does not start, or is no MCP server.
        """
        task = self._task = asyncio.create_task(self._run(), name=f"mcp {self._server.name}")
        ready = asyncio.create_task(self._ready.wait())
        stopped = asyncio.create_task(_awaited(stop))
        try:
            await asyncio.wait({task, ready, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            stopped.cancel()
        if self._is_ready:
            task.add_done_callback(self._is_over)
        elif task.done():
            raise self._start_error(task.exception())

    async def close(self, *, at_once: bool) -> None:
        """End the session; ``at_once``: kill the server instead of having it end in order."""
        task = self._task
        if task is None or task.done():
            return
        self._is_closing = True
        self._stirred.set()
        try:
            if not at_once:
                await asyncio.wait({task}, timeout=_GRACE_S)
        finally:
            if not task.done():
                self._kill(task)
                await asyncio.wait({task}, timeout=_KILLED_S)

    def _kill(self, task: asyncio.Task[None]) -> None:
        if self._process is not None:
            self._process.kill()
        task.cancel()

    async def _run(self) -> None:
        """Hold the connection, from the first step to the last."""
        async with self._connection() as transport:
            client = Client(transport, mode="legacy", message_handler=self._hear, cache=None)
            async with client:
                self._client = client
                await self._list()
                if self._process is not None:
                    self._process.started()
                self._is_ready = True
                self._ready.set()
                await self._serve()

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        server = self._server
        if server.command is not None:
            self._process = ServerProcess(server, self._stirred.set)
            yield self._process
        elif server.url is not None:
            # A call may take as long as its attempt may: that is limited, and cancelled, by the orchestrator.
            timeout = httpx2.Timeout(30.0, read=None)
            hooks: Any = {"response": [self._http.look_at]}
            made = partial(httpx2.AsyncClient, headers=server.headers, timeout=timeout, event_hooks=hooks)
            with server.secrets.kept_out_of_logs(*_LOGS):
                async with await asyncio.to_thread(made) as http:  # apart: it reads certificates
                    yield streamable_http_client(server.url, http_client=http, max_sse_event_size=MOST_BYTES)
        else:
            yield server.server

    async def _serve(self) -> None:
        """Wait for what changes, until the session is to be closed; a list that does not come holds none of it up."""
        lists: asyncio.Task[None] | None = None
        try:
            while True:
                await self._stirred.wait()
                self._stirred.clear()
                if self._is_closing:
                    return
                if self._process is not None and self._process.ended:
                    raise ConnectionLostError(self._text(self._process.ended))
                if lists is not None and lists.done():
                    lists = lists.result()  # None, or its error
                if self._must_list and lists is None:
                    self._has_changed = self._must_list = False  # what changes meanwhile is heard
                    self._next_list = asyncio.get_running_loop().time() + _LISTS_EVERY_S
                    lists = asyncio.create_task(self._list())
                    lists.add_done_callback(lambda _: self._stirred.set())
        finally:
            if lists is not None:
                lists.cancel()  # the SDK tells the server, which may not hear it
                await asyncio.wait({lists}, timeout=_CLOSES_S)
                if lists.done() and not lists.cancelled():
                    lists.exception()  # of a list that is not wanted any more: said nowhere

    # -- what the server says ------------------------------------------------------------------------------

    async def _hear(self, message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification) and not self._has_changed:
            self._has_changed = True
            loop = asyncio.get_running_loop()
            loop.call_later(max(0.0, self._next_list - loop.time()), self._list_soon)

    def _list_soon(self) -> None:
        self._must_list = True
        self._stirred.set()

    async def _list(self) -> None:
        found: list[ToolInfo] = []
        cursor = None
        for _ in range(_MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            found += [_tool(each) for each in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        chosen = self._server.chosen(found) if not self._is_ready else self._still_chosen(found)
        self.tools = {tool.name: tool for tool in chosen}
        self._lists(chosen)

    def _still_chosen(self, found: list[ToolInfo]) -> tuple[ToolInfo, ...]:
        """Choose among tools that have changed: one that is gone is no mistake of the declaration."""
        only = self._server.only
        return tuple(tool for tool in found if only is None or tool.name in only)

    # -- calls ---------------------------------------------------------------------------------------------

    async def call(self, tool: ToolInfo, arguments: dict[str, Any], shows: Shows) -> Any:
        """Call a tool; its result as JSON.

        Args:
            tool: which.
            arguments: what it is given.
            shows: is called with what the tool says of its progress: how much is done, of how much, and a text.

        Raises:
            Failed: the tool, or the server, says that it has failed.
            Later: the server wants the call later, and has said when.
            ConnectionLostError: the connection, or the answer, is gone.
        """
        task = self._task
        if task is None or task.done() or (self._process is not None and self._process.ended):
            raise await self._lost(was_sent=False)
        self._is_forgotten = False
        self._http.begin(_CALL)

        async def hear(done: float, total: float | None, said: str | None) -> None:
            shows(done, total, self._server.secrets.removed_from(said or ""))

        try:
            result = await self._client.call_tool(tool.name, arguments, progress_callback=hear)
        except MCPError as error:
            raise await self._error_of(tool, error) from None
        except (RuntimeError, ValidationError):
            await asyncio.wait({task}, timeout=_CLOSES_S)  # of a session that just ends the SDK says the same
            if task.done():
                raise await self._lost() from None
            what = "its result is not what MCP, or its output schema, says"
            raise ConnectionLostError(self._text(f"{tool.name}: {what}"), goes_on=True) from None
        if result.is_error:
            raise Failed(self._server.secrets.removed_from(_text_of(result)) or f"{tool.name} has failed")
        return _value_of(result)

    async def _error_of(self, tool: ToolInfo, error: MCPError) -> Exception:
        """Return what an error of the SDK means for a call: it is lost, was refused, or has failed."""
        http = self._http
        if error.code != mcp_types.METHOD_NOT_FOUND:  # some say that with a 404, too
            self._is_forgotten = http.is_gone(_CALL) or (http.may_be_gone(_CALL) and await self._is_unknown())
        if self._is_forgotten or self._is_closed_by(error):
            return await self._lost()
        if is_cut(error):
            return ConnectionLostError(self._text("the connection was closed before it had answered"))
        if lost := http.lost(_CALL, error):
            return ConnectionLostError(self._text(lost), goes_on=True)
        text = f"{tool.name}: {self._server.secrets.removed_from(http.said(_CALL, error))}"
        if (after_s := http.after_s(_CALL)) is not None:
            return Later(after_s, text)
        return Failed(text, retryable=error.code not in _NEVER_AGAIN and http.is_worth_a_try(_CALL))

    async def _is_unknown(self) -> bool:
        """Ask a server that has refused a call for something else: whether it still knows the session."""
        self._http.begin(_LIST)
        try:
            await self._client.list_tools()
        except MCPError:
            return self._http.may_be_gone(_LIST)
        return False

    def _is_closed_by(self, error: MCPError) -> bool:
        """True where an error says that the connection is closed: servers have errors of their own with its code."""
        is_ended = self._process is not None and bool(self._process.ended)
        return error.code == mcp_types.CONNECTION_CLOSED and (is_ended or error.error.message == _CLOSED)

    async def _lost(self, *, was_sent: bool = True) -> ConnectionLostError:
        """Make the error of a call whose connection is gone; it is the end of the worker, and of the session."""
        task = self._task
        if task is None:
            return ConnectionLostError(self._text("it was never opened"), was_sent=False)
        if self._is_forgotten:
            return ConnectionLostError(self._text("it was started anew, without this session"), was_sent=False)
        await asyncio.wait({task}, timeout=1.0)
        if not task.done():
            ended = self._process.ended if self._process is not None else ""
            return ConnectionLostError(self._text(ended or "the connection is closed"), was_sent=was_sent)
        cause = _leaf(None if task.cancelled() else task.exception())
        unsent = isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout))
        return ConnectionLostError(self._text(self._reason(cause)), was_sent=was_sent and not unsent)

    def _is_over(self, task: asyncio.Task[None]) -> None:
        """Tell the worker that the session has ended, unless that was wanted."""
        error = None if task.cancelled() else task.exception()
        if not self._is_closing:
            cause = _leaf(error)
            lost = isinstance(cause, ConnectionLostError)
            self._loses(cause if lost and cause else ConnectionLostError(self._text(self._reason(cause))))

    # -- words ---------------------------------------------------------------------------------------------

    def _start_error(self, error: BaseException | None) -> StartError:
        cause = _leaf(error)
        name = self._server.name
        if isinstance(cause, StartError):
            return StartError(name, self._server.secrets.removed_from(cause.what), cause.hint)
        said = self._process.last_words if self._process is not None else ""
        words = f"; it said: {said}" if said else ""
        what = self._text(self._reason(cause) + words)
        hint = (
            "Run it by hand to see what it says." if self._process is not None else "See if it runs, and its address."
        )
        return StartError(name, what, hint)

    def _reason(self, cause: BaseException | None) -> str:
        if self._process is not None and self._process.ended:
            return self._process.ended
        if isinstance(cause, ConnectionLostError):
            return "the connection is closed"
        if isinstance(cause, MCPError):
            refused = next((each for each in _FIRST if self._http.status(each)), "")
            return f"it answered: {cause.error.message}" if not refused else self._http.said(refused, cause)
        if isinstance(cause, ValidationError):
            return f"its answer is not what MCP says: {flaws_of(cause)}"
        return "the connection is closed" if cause is None else f"{type(cause).__name__}: {cause}"

    def _text(self, what: str) -> str:
        return self._server.secrets.removed_from(f"MCP server {self._server.name}: {what}")


async def _awaited(stop: Awaitable[object] | None) -> None:
    """Wait for it; for ever where there is nothing to wait for."""
    await (asyncio.Event().wait() if stop is None else stop)


def _tool(listed: Any) -> ToolInfo:
    hints = listed.annotations
    return ToolInfo(
        name=listed.name,
        description=listed.description or listed.title or "",
        input_schema=listed.input_schema,
        output_schema=listed.output_schema,
        read_only=bool(hints is not None and hints.read_only_hint),
        idempotent=bool(hints is not None and hints.idempotent_hint),
    )


def _value_of(result: Any) -> Any:
    """Return the result as JSON: what is structured, else its text, else its blocks as they are."""
    structured = result.structured_content
    if isinstance(structured, dict):
        return structured["result"] if set(structured) == {"result"} else structured
    if structured is not None:
        return structured
    blocks = result.content
    if all(block.type == "text" for block in blocks):
        return "\n".join(block.text for block in blocks) if blocks else None
    return [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks]


def _text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def _leaf(error: BaseException | None) -> BaseException | None:
    """Return the first error in a group that says something, else the error itself."""
    while isinstance(error, BaseExceptionGroup):
        inner = [each for each in error.exceptions if not isinstance(each, asyncio.CancelledError)]
        error = next((each for each in inner if isinstance(each, StartError)), inner[0] if inner else None)
    return error
