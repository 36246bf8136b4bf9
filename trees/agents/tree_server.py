"""MCP server of a running tree: any MCP client gives it tasks, follows them and answers their questions.

``server_of(tree)`` makes it; ``trees.agents.serving`` has it listen. A call of ``run_task`` waits for the end of a task
and owns nothing: a client that goes away, or cancels the call, leaves the task running, and finds it again by its id.

Questions to people go the way that the client can:

============================  ====================================================================================
the client                    an open question of the task that ``run_task`` waits for
============================  ====================================================================================
elicits, up to 2025-11-25     is asked (``elicitation/create``) while the task goes on
elicits, from 2026-07-28 on   the call returns ``input_required``, with the question and the task's id in the state;
                              the client's retry brings the answer and waits on
cannot, or declines           ``run_task`` returns at once: status ``waiting``, the questions, and what to call
============================  ====================================================================================

Whatever a client does wrong is one sentence, as the text of a tool error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias
from uuid import uuid4

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field, ValidationError

from actors.model.errors import ActorsError
from actors.tasks.journal.view import Escalation
from actors.tasks.model import Answer, Report, Task, TaskError, answer_of
from actors.validation.validation_messages import nearest
from trees.agents.mcp_messages import sendable
from trees.agents.tree_progress import Following

FIRST_MODERN: Final = "2026-07-28"
"""First revision of the protocol in which a server asks by ``input_required``, not by a request of its own."""
_QUESTION: Final = "question"
"""Key of a question among the inputs that a client is to bring, before its id."""

Word: TypeAlias = Literal["approve", "edit", "respond", "reject"]
Goal: TypeAlias = Annotated[str, Field(description="What is to be done, in words.")]
Inputs: TypeAlias = Annotated[dict[str, Any] | None, Field(description="Values that it needs, by name.")]
At: TypeAlias = Annotated[str | None, Field(description="Path of the supervisor that gets it; the root by default.")]
Id: TypeAlias = Annotated[str, Field(description="Id of the task.")]
NewId: TypeAlias = Annotated[
    str | None, Field(description="Id of your own. One that is known starts nothing, and waits for that task.")
]


class ServedTree(Protocol):
    """A running tree, as a ``trees.Tree`` is one."""

    spec: Any

    async def asubmit(self, task: Task | str, path: str | None = None) -> Any:
        """Give a task to a supervisor; its handle."""

    def task(self, id: str) -> Any:
        """Return the handle of a task."""

    def tasks(self, status: Any = None) -> list[Any]:
        """List the tasks that the store has."""

    def escalations(self) -> list[Escalation]:
        """List all open questions."""

    def respond(self, id: str, answer: Answer) -> None:
        """Answer a question."""

    def dump(self, path: str | None = None, format: Any = "text") -> str:
        """Render the tree."""


class AnswerForm(BaseModel):
    """Answer of a person to a question of a task."""

    answer: Word = Field(
        description="approve: go on as it is; edit: take the value as the result; respond: try again with the value as "
        "feedback; reject: it has failed."
    )
    value: str = Field(default="", description="Of edit the result (JSON, or a text); of respond a text.")


class TreeServer(MCPServer[Any]):
    """An MCP server whose errors are one sentence."""

    async def serve(self, read: Any, write: Any) -> None:
        """Serve one client over these streams: the library's own ``run_stdio_async`` knows none but its own."""
        low = self._lowlevel_server
        await low.run(read, write, low.create_initialization_options())

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool; what is wrong is raised as a ``ToolError``, a sentence for the client."""
        takes = {each.name: list(each.input_schema["properties"]) for each in await self.list_tools()}.get(name)
        if takes is not None and (odd := [each for each in arguments if each not in takes]):
            hint = f"{nearest(odd[0], takes)}It takes {', '.join(takes) or 'none'}."
            raise ToolError(f"{name}: there is no argument {', '.join(map(repr, odd))}. {hint}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                raise ToolError(f"{name}: {_sentence(cause)}") from None
            if type(error) is ToolError:
                raise ToolError(sendable(str(error).removeprefix(f"Error executing tool {name}: "))) from None
            raise


def _sentence(error: ValidationError) -> str:
    """Say what is wrong with arguments, without their values."""
    found = [f"{'.'.join(map(str, each['loc']))}: {each['msg'].lower()}" for each in error.errors(include_url=False)]
    return "; ".join(dict.fromkeys(found)) + "."


def server_of(tree: ServedTree) -> TreeServer:
    """Make the server of a running tree."""
    tools = _Tools(tree)
    team = str(tree.spec.description) or f"The supervised tree {tree.spec.id!r}"
    server = TreeServer(
        str(tree.spec.id),
        instructions=f"{team}. run_task gives it a goal and waits for the result; submit_task does not wait.",
        log_level="WARNING",
    )
    changing: tuple[Any, ...] = (tools.run_task, tools.submit_task, tools.answer_question, tools.cancel_task)
    for tool in (*changing, tools.get_task, tools.list_tasks, tools.dump_tree):
        server.add_tool(tool, annotations=types.ToolAnnotations(read_only_hint=tool not in changing))
    return server


class _Tools:
    """Tools of one tree."""

    def __init__(self, tree: ServedTree) -> None:
        self._tree = tree

    async def run_task(
        self, ctx: Context[Any, Any], goal: Goal, inputs: Inputs = None, path: At = None, task_id: NewId = None
    ) -> dict[str, Any] | types.InputRequiredResult:
        """Give the tree a goal, wait until it is reached, and return the result. Reports progress.

        The task goes on if you go away: run_task with the same task_id, or get_task, finds it again. Where the status
        is "waiting", a person has to answer the questions: answer_question, then run_task with the same task_id.
        """
        if ctx.request_state is None:
            answered, handle = True, await self._submitted(goal, inputs, path, task_id)
        else:
            answered, handle = await self._take_answers(ctx), await self._found(ctx.request_state)
        can = _can_elicit(ctx) and answered
        modern = (ctx.protocol_version or "") >= FIRST_MODERN
        declined: set[str] = set()
        async for asked in Following(handle, ctx.report_progress).questions():
            open_now = [each for each in asked if each.id not in declined]
            if not can or not open_now:
                return await asyncio.to_thread(_told, handle)
            if modern:
                return types.InputRequiredResult(
                    input_requests={f"{_QUESTION}:{each.id}": _elicitation(each) for each in open_now},
                    request_state=handle.id,
                )
            declined |= await self._ask(ctx, handle, open_now)
            if (still := handle.escalations) and all(each.id in declined for each in still):
                return await asyncio.to_thread(_told, handle)  # nothing more may happen before somebody answers
        return await self._ended(handle)

    async def submit_task(
        self, goal: Goal, inputs: Inputs = None, path: At = None, task_id: NewId = None
    ) -> dict[str, Any]:
        """Give the tree a goal and return at once, with the id of the task. See get_task for what became of it."""
        handle = await self._submitted(goal, inputs, path, task_id)
        return {"task": handle.id, "status": str(handle.status)}

    async def get_task(self, task_id: Id) -> dict[str, Any]:
        """Return how a task stands: status, result or error, open questions, and its graph with each subtask."""
        handle = await self._found(task_id)
        return await asyncio.to_thread(lambda: _told(handle) | {"graph": sendable(handle.dump())})

    async def list_tasks(
        self, status: Annotated[str | None, Field(description="Only those that stand so, such as running.")] = None
    ) -> dict[str, Any]:
        """List the tasks of the tree, with what they are about and how they stand."""

        def listed() -> list[dict[str, Any]]:
            found = self._tree.tasks(status)
            return [{"task": each.id, "status": str(each.status), "goal": each.task.goal} for each in found]

        try:
            return {"tasks": await asyncio.to_thread(listed)}
        except (ActorsError, ValueError) as error:
            raise ToolError(str(error)) from None

    async def answer_question(
        self,
        question_id: Annotated[str, Field(description="Id of the question.")],
        answer: Annotated[
            Word,
            Field(
                description="approve: go on as it is; edit: take value as the result; respond: try again with value as "
                "feedback; reject: it has failed, value says why."
            ),
        ],
        value: Annotated[Any, Field(description="Of edit the result, any JSON; of respond and reject a text.")] = None,
    ) -> dict[str, Any]:
        """Answer an open question of a task, as a person would."""
        self._respond(question_id, answer, value)
        return {"question": question_id, "answer": answer}

    async def cancel_task(
        self, task_id: Id, reason: Annotated[str, Field(description="Why; it stands in the report.")] = ""
    ) -> dict[str, Any]:
        """Cancel a task: what waits does not start, what runs is ended, what was done is undone where it can be."""
        handle = await self._found(task_id)
        handle.cancel(reason)
        with suppress(TaskError, asyncio.TimeoutError):
            await asyncio.wait_for(_end_of(handle), 5.0)
        return {"task": handle.id, "status": str(handle.status)}

    async def dump_tree(
        self,
        path: Annotated[str | None, Field(description="Only the child at this path.")] = None,
        format: Literal["text", "json", "mermaid"] = "text",
    ) -> str:
        """Show the tree: every supervisor and worker, how it is, how often it was restarted, and its tasks."""
        try:
            return str(sendable(await asyncio.to_thread(lambda: self._tree.dump(path, format))))
        except ActorsError as error:
            raise ToolError(str(error)) from None

    # -- what they share -----------------------------------------------------------------------------------

    async def _submitted(self, goal: str, inputs: dict[str, Any] | None, path: str | None, id_: str | None) -> Any:
        try:
            task = Task(goal=goal, inputs=inputs or {}, id=id_ or f"mcp-{uuid4().hex[:12]}")
            return await self._tree.asubmit(task, path)
        except (ActorsError, ValueError) as error:
            raise ToolError(str(error)) from None

    async def _found(self, id_: str) -> Any:
        try:
            return await asyncio.to_thread(self._tree.task, id_)
        except ActorsError as error:
            raise ToolError(str(error)) from None

    async def _ended(self, handle: Any) -> dict[str, Any]:
        try:
            await _end_of(handle)
        except ActorsError as error:
            raise ToolError(str(error)) from None
        return await asyncio.to_thread(_told, handle)

    def _respond(self, question: str, word: str, value: Any) -> None:
        if word == "respond" and not (isinstance(value, str) and value):
            raise ToolError("respond needs a value: the text that goes back as feedback.")
        try:
            self._tree.respond(question, answer_of(word, value or "" if word == "reject" else value))
        except (ActorsError, ValueError) as error:
            raise ToolError(str(error)) from None

    async def _take_answers(self, ctx: Context[Any, Any]) -> bool:
        """Give the answers that the client's retry brings to their questions; False where it has declined all."""
        took = False
        for key, response in (ctx.input_responses or {}).items():
            if getattr(response, "action", "") == "accept":
                took = True
                self._give(key.partition(":")[2], getattr(response, "content", None) or {})
        return took

    def _give(self, question: str, content: dict[str, Any]) -> None:
        """Give the answer of a form; one that somebody else has given meanwhile counts."""
        try:
            form = AnswerForm.model_validate(content)
        except ValidationError as error:
            raise ToolError(f"{question}: {_sentence(error)}") from None
        if any(each.id == question for each in self._tree.escalations()):
            value: Any = form.value
            if form.answer == "edit":
                with suppress(ValueError, RecursionError):  # nested as deep as no value is meant to be: a text
                    value = json.loads(form.value)
            self._respond(question, form.answer, value)

    async def _ask(self, ctx: Context[Any, Any], handle: Any, questions: Collection[Escalation]) -> set[str]:
        """Ask the client, one question after the other, while the task lasts; the ids of those that it declined."""
        ended, declined = asyncio.ensure_future(_end_of(handle)), set[str]()
        try:
            for each in questions:
                asking = asyncio.ensure_future(ctx.elicit(_text_of(each), AnswerForm))
                try:
                    await asyncio.wait({asking, ended}, return_when=asyncio.FIRST_COMPLETED)
                    if not asking.done():
                        return declined
                    try:
                        said = asking.result()
                    except ValueError as error:
                        raise ToolError(f"{each.id}: {error}") from None
                finally:
                    asking.cancel()
                if said.action == "accept":
                    self._give(each.id, said.data.model_dump())
                else:
                    declined.add(each.id)
        finally:
            ended.cancel()
            with suppress(ActorsError, asyncio.CancelledError):
                await ended
        return declined


async def _end_of(handle: Any) -> Report:
    report: Report = await handle
    return report


def _told(handle: Any) -> dict[str, Any]:
    """Tell how a task stands, as plain values."""
    report: Report | None = handle.report
    said: dict[str, Any] = {"task": handle.id, "status": str(handle.status), "goal": handle.task.goal}
    if report is not None:
        said |= {"status": str(report.status), "output": report.output, "failed": report.failed}
        said |= {"skipped": report.skipped, "error": None if report.error is None else str(report.error)}
    elif questions := handle.escalations:
        said |= {"status": "waiting", "questions": [_question(each) for each in questions]}
        said["next"] = "A person answers each with answer_question; then run_task with this task_id, or get_task."
    return dict(sendable(said))


def _question(asked: Escalation) -> dict[str, Any]:
    return {"id": asked.id, "subtask": asked.subtask, "question": asked.question, "answers": list(asked.answers)}


def _text_of(asked: Escalation) -> str:
    return str(sendable(f"{asked.question or asked.error} (task {asked.task}, {asked.subtask or asked.step})"))


def _elicitation(asked: Escalation) -> types.ElicitRequest:
    schema = AnswerForm.model_json_schema()
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=_text_of(asked), requested_schema=schema))


def _can_elicit(ctx: Context[Any, Any]) -> bool:
    """True where the client shows forms to a person. A bare ``elicitation: {}`` is from before there were modes."""
    capabilities = ctx.client_capabilities
    elicits = None if capabilities is None else capabilities.elicitation
    return elicits is not None and (elicits.form is not None or elicits.url is None)
