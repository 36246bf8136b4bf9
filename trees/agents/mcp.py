"""``MCP``: a server of the Model Context Protocol as a worker, whose tools are its capabilities.

Each incarnation holds one session (``trees.agents.mcp_session``), in a task of its own, around everything that it does:
the session is its lifespan. It is up when the server has answered ``initialize`` and ``tools/list``.

================================================ ====================================================================
what happens                                     what follows
================================================ ====================================================================
the process ends, the connection is closed       a crash: the supervisor starts it again. A call in flight is a failed
                                                 attempt; its ladder tries it again where the tool says that it is read
                                                 only or idempotent, or where the call was never sent
the answer to a call is cut off, or unreadable   as a call in flight: it may have been done
the tool says that it has failed (``isError``)   a failed attempt: the server goes on
the tool tells its progress                      progress of the attempt, so a sign of life for ``idle_timeout_s``
an attempt is cancelled, or its time is up       the request is cancelled at the server, which goes on
the server says that its tools have changed      they are listed anew, and the registry has them
the worker is stopped, killed or abandoned       the process and its group are gone (``trees.agents.mcp_process``); a
                                                 stop cuts a list that does not come, also the first one
================================================ ====================================================================

Nothing of ``env``, ``headers`` and the arguments of ``command`` gets into a repr, a dump, a log line or an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from actors.model.errors import ConfigError, Failed, Problem, StartError, UnknownEffectError
from actors.tasks.model import ToolInfo
from actors.validation.validation_messages import nearest, type_phrase
from actors.worker import Worker
from trees.agents import packages
from trees.agents.secret_texts import SecretTexts
from trees.agents.wrapper import AgentWrapper

if TYPE_CHECKING:
    from actors.messaging.reply import Reply
    from trees.agents.mcp_session import Session

_ONE: str = "Give exactly one: MCP(command=['server', ...]), MCP(url='http://...') or MCP(server_object)."
_MOST_DESCRIBED = 600
"""Characters of a description that is made of the tools."""


class _Progress:
    """Progress of a tool, told as that of its attempt."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._share = 0.0

    def shows(self, done: float, total: float | None, said: str) -> None:
        """Tell it; a tool that does not say how much there is to do is where it was last."""
        if total:
            self._share = done / total
        if total or said:
            self._context.progress(self._share, said)
        else:
            self._context.heartbeat()


class MCPWorker(Worker):
    """One incarnation: a session with the server, and one call at a time; ``pool=n`` gives n sessions."""

    def __init__(self, server: MCP) -> None:
        self._server = server
        self._session: Session | None = None
        self._is_calling = False
        self._lost: BaseException | None = None
        """Error with which the session has ended by itself."""

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[Session]:
        """Hold the session."""
        packages.require(*packages.MCP)
        # Apart, because it takes long, and everybody on the loop would wait for it.
        module = await asyncio.to_thread(import_module, "trees.agents.mcp_session")
        self._session = session = module.Session(self._server, self._lists, self._loses)
        at_once = True
        try:
            await session.open(self._stop_signal())
            self._has_process(session.pid)
            yield session  # also one that was stopped before it was open: nothing is asked of that
            at_once = not session.is_open
        finally:
            self._has_process(None)
            await session.close(at_once=at_once)

    def _has_process(self, pid: int | None) -> None:
        """Say which process serves it: ``tree.child(path).pid``."""
        incarnation: Any = self._regrow_incarnation
        if incarnation is not None:
            incarnation.program_pid = pid

    def _stop_signal(self) -> Reply | None:
        """Return what is completed when the worker is asked to stop: its server may not answer before that."""
        incarnation: Any = self._regrow_incarnation
        signal: Reply | None = None if incarnation is None else incarnation.stop_signal()
        return signal

    def _lists(self, tools: tuple[ToolInfo, ...]) -> None:
        """Tell the registry which tools there are now."""
        incarnation: Any = self._regrow_incarnation
        said = None if incarnation is None else incarnation.spec.registration
        if said is None:
            return
        names = {tool.name for tool in tools}
        what = {
            "tools": tools,
            "capabilities": said.capabilities | names,
            "input_schema": _schema_of(tools),
            "description": said.description or _described(tools),
        }
        incarnation.register(replace(said, **what))

    def _loses(self, error: BaseException) -> None:
        """End as crashed: the connection is gone. A call that is under way fails of it, and is the crash then."""
        incarnation: Any = self._regrow_incarnation
        self._lost = error
        if incarnation is not None and not self._is_calling:
            incarnation.lose_resource(error)

    async def execute(self, task: Any, context: Any) -> Any:
        """Call the tool that the task names by ``tool=``, or by ``capability=``, with its inputs."""
        session = self._session
        assert session is not None  # noqa: S101 - its lifespan is around this
        tool = self._chosen(task, session.tools)
        arguments = _arguments(tool, task, context)
        self._is_calling = True
        try:
            result = await session.call(tool, arguments, _Progress(context).shows)
        except ConnectionError as error:
            was_sent = getattr(error, "was_sent", True)
            if was_sent and not (tool.read_only or tool.idempotent):
                key = context.idempotency_key
                text = (
                    f"{error}, while {tool.name!r} was called (key {key}). It is neither read only nor idempotent, and "
                    "may have been done: it is not called again. Look it up by its key"
                )
                raise UnknownEffectError(text) from error
            if getattr(error, "goes_on", False):
                self._calls_no_more()
                raise Failed(str(error)) from None
            raise
        except BaseException:
            self._calls_no_more()
            raise
        self._calls_no_more()
        return result

    def _calls_no_more(self) -> None:
        """End now, if the connection was lost while a call was under way that has not failed of that."""
        self._is_calling = False
        if self._lost is not None:
            self._loses(self._lost)

    def _chosen(self, task: Any, tools: Mapping[str, ToolInfo]) -> ToolInfo:
        wanted = task.tool or task.capability
        found = tools.get(wanted) if wanted is not None else None
        if found is not None:
            return found
        if task.tool is None and len(tools) == 1:
            return next(iter(tools.values()))
        known = ", ".join(sorted(tools)) or "none"
        if task.tool is not None:
            near = nearest(task.tool, tools)
            raise Failed(f"the server has no tool {task.tool!r}. {near}It has: {known}", retryable=False)
        text = f"the subtask names no tool. Write tool= or capability= with one of: {known}"
        raise Failed(text, retryable=False)


class MCP(AgentWrapper):
    """A server of the Model Context Protocol, for ``WorkerSpec(execute=...)``.

    Args:
        server: a server object (``MCPServer``, ``Server``), which is run in this process.
        command: a program and its arguments: it is started for each incarnation, and spoken to by its stdin and stdout.
        env: further environment variables of that program; it gets no others but ``PATH``, ``HOME`` and their like.
        cwd: its working directory.
        url: address of a server that runs already (streamable HTTP).
        headers: headers of all requests to it.

    Raises ``ConfigError`` with what is wrong with these.
    """

    requires: ClassVar = packages.MCP
    worker: ClassVar[type[Worker] | None] = MCPWorker
    waits_for: ClassVar[str] = "its MCP server has not answered 'initialize' and 'tools/list'"
    has_tools: ClassVar[bool] = True

    def __init__(
        self,
        server: Any = None,
        *,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        url: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        problems = list(_problems(server, command, env, cwd, url, headers))
        if problems:
            raise ConfigError(tuple(problems))
        self.server = server
        self.command = None if command is None else tuple(str(word) for word in command)
        self.env = dict(env or {})
        self.cwd = None if cwd is None else str(cwd)
        self.url = url
        self.headers = dict(headers or {})
        self.only: frozenset[str] | None = None
        """Names of the tools that may be used; None: all."""
        self.secrets = SecretTexts(self.env.values(), self.headers.values(), _secrets_of(url), (self.command or ())[1:])
        """Texts that no error may show."""

    def __repr__(self) -> str:
        return f"MCP({self.name})"

    @property
    def name(self) -> str:
        """Name of the program, host of the server, or name of the server object."""
        if self.command is not None:
            return Path(self.command[0]).name
        if self.url is not None:
            return urlsplit(self.url).netloc.rpartition("@")[2]
        return str(getattr(self.server, "name", None) or type(self.server).__name__)

    @property
    def type(self) -> Literal["tool", "workflow", "agent"]:
        """A tool, for planners."""
        return "tool"

    def restricted_to(self, tools: frozenset[str]) -> MCP:
        """Return the same server with these tools only."""
        given = copy(self)
        given.only = tools
        return given

    async def execute(self, task: Any, context: Any) -> Any:
        """Call a tool in a session of its own: what an incarnation does in one that it keeps."""
        worker = MCPWorker(self)
        async with worker.lifespan():
            return await worker.execute(task, context)

    def chosen(self, tools: Iterable[ToolInfo]) -> tuple[ToolInfo, ...]:
        """Choose those that may be used.

        Raises:
            StartError: one that is wanted is not among them.
        """
        found = tuple(tools)
        if self.only is None:
            return found
        names = [tool.name for tool in found]
        missing = sorted(self.only.difference(names))
        if missing:
            near = nearest(missing[0], names)
            hint = f"{near}It has: {', '.join(sorted(names)) or 'none'}. Mend tools= of its WorkerSpec."
            raise StartError(self.name, f"the server has no tool {missing[0]!r}", hint)
        return tuple(tool for tool in found if tool.name in self.only)


def _problems(server: Any, command: Any, env: Any, cwd: Any, url: Any, headers: Any) -> Iterable[Problem]:
    given = [name for name, value in (("server", server), ("command", command), ("url", url)) if value is not None]
    if len(given) != 1:
        yield Problem("MCP", f"{' and '.join(given)} together" if given else "names no server", _ONE)
    if isinstance(server, (str, bytes, Sequence)):
        is_url = isinstance(server, str) and "://" in server
        hint = "Write MCP(url='http://...')." if is_url else "Write MCP(command=['server', ...])."
        yield Problem("MCP.server", f"{type_phrase(server)} is no server object", hint)
    elif server is not None and not _is_server(server):
        yield Problem("MCP.server", f"{type_phrase(server)} is no server object", "Write MCP(MCPServer('name')).")
    words = isinstance(command, Sequence) and not isinstance(command, (str, bytes)) and len(command) > 0
    if command is not None and not (words and all(isinstance(word, (str, Path)) for word in command)):
        what = "is empty" if command in ([], ()) else f"expected a list of texts, got {type_phrase(command)}"
        yield Problem("MCP.command", what, "Write the program and its arguments: ['server', '--option'].")
    if url is not None and not (isinstance(url, str) and url.startswith(("http://", "https://"))):
        yield Problem(
            "MCP.url", "expected a text that begins with http:// or https://", "Write 'http://host:port/mcp'."
        )
    for name, value, of in (("env", env, "command"), ("cwd", cwd, "command"), ("headers", headers, "url")):
        if value is not None and of not in given:
            yield Problem(f"MCP.{name}", f"is for {of}=", f"Leave {name} out, or give {of}=.")
    for name, value in (("env", env), ("headers", headers)):
        texts = isinstance(value, Mapping) and all(isinstance(each, str) for pair in value.items() for each in pair)
        if value is not None and not texts:
            yield Problem(f"MCP.{name}", "expected a dict of texts", "Write {'NAME': 'value'}.")


def _is_server(server: object) -> bool:
    """Return True for an object of the SDK, and for a transport, which is entered for each session."""
    kind = type(server)
    is_of_the_sdk = any(base.__module__.partition(".")[0] == "mcp" for base in kind.__mro__)
    return is_of_the_sdk or hasattr(kind, "__aenter__")


def _secrets_of(url: str | None) -> tuple[str, ...]:
    """Return the parts of an address that may be secret: the user before its host, and its query."""
    if url is None:
        return ()
    parts = urlsplit(url)
    return tuple(part for part in (parts.netloc.rpartition("@")[0], parts.query) if part)


def _schema_of(tools: tuple[ToolInfo, ...]) -> dict[str, Any] | None:
    """Return the schema of the inputs of one tool, or of any of several; each is called like its tool."""
    schemas = [{**(tool.input_schema or {}), "title": tool.name} for tool in tools]
    if len(schemas) > 1:
        return {"oneOf": schemas}
    return schemas[0] if schemas else None


def _described(tools: tuple[ToolInfo, ...]) -> str:
    firsts = (f"{tool.name}: {tool.description.strip().partition(chr(10))[0]}".rstrip(": ") for tool in tools)
    said = "; ".join(firsts)
    return said if len(said) <= _MOST_DESCRIBED else f"{said[:_MOST_DESCRIBED]} ..."


def _arguments(tool: ToolInfo, task: Any, context: Any) -> dict[str, Any]:
    """Return the inputs of the subtask, and those of its task that the tool takes.

    Raises:
        Failed: one that the tool needs is missing.
    """
    schema = tool.input_schema or {}
    takes = schema.get("properties") or {}
    found = {name: value for name, value in context.inputs.items() if name in takes or name in task.inputs}
    missing = [name for name in schema.get("required") or () if name not in found]
    if missing:
        takes_what = ", ".join(takes) or "nothing"
        text = f"{tool.name} needs {', '.join(missing)}: give inputs={{{missing[0]!r}: ...}}. It takes {takes_what}"
        raise Failed(text, retryable=False)
    return found
