"""``python -m tests.trees.agents.agent_of_ten``: an agent of ten requests, in processes that are killed on the way.

Reads lines of JSON, ``[url, at, streamed]``: a new store, and the event at which the process of the first life kills
itself with SIGKILL: ``request 7``, ``tool 3`` or nothing. Says for each of them what the last life has reported, and
every request and call of a tool that any life has begun. Each life is a fork of this process, which has loaded all.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loguru import logger
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.agents.pydantic_ai_steps import durable_model, durable_toolset

REQUESTS = 10
LONG_S = 60.0


def agent_of(note: Callable[[str], None]) -> Agent[None, str]:
    """Make the agent: nine requests end with the call of a tool, and the tenth with the sum."""

    def answer(messages: list[Any], _: Any) -> ModelResponse:
        number = 1 + sum(isinstance(message, ModelResponse) for message in messages)
        note(f"request {number}")
        if number < REQUESTS:
            return ModelResponse(parts=[ToolCallPart("double", {"number": number}, tool_call_id=f"call {number}")])
        returned = [part.content for message in messages for part in message.parts if part.part_kind == "tool-return"]
        return ModelResponse(parts=[TextPart(f"{sum(returned)} of {returned}")])

    async def pieces(messages: list[Any], info: Any) -> Any:
        for part in answer(messages, info).parts:
            if isinstance(part, ToolCallPart):
                call = DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)
                yield {0: call}
            elif isinstance(part, TextPart):
                for at in range(0, len(part.content), 5):
                    await asyncio.sleep(0)
                    yield part.content[at : at + 5]

    agent: Agent[None, str] = Agent(FunctionModel(answer, stream_function=pieces))

    @agent.tool_plain
    def double(number: int) -> int:
        note(f"tool {number}")
        return 2 * number

    return agent


def live(url: str, at: str, streamed: bool, notes: Path) -> str:
    """Live one life: begin the task, or go on with it; its result."""

    def note(what: str) -> None:
        with notes.open("a") as file:
            file.write(f"{what}\n")
        if what == at:
            os.kill(os.getpid(), signal.SIGKILL)

    agent = agent_of(note)

    async def look(_: Any, events: Any) -> None:
        async for _event in events:
            pass

    async def work(_: Any, context: Any) -> str:
        tools = [durable_toolset(each, context) for each in agent.toolsets]
        with agent.override(toolsets=tools, tools=[]):
            model = durable_model(agent.model, context)
            run = await agent.run("add up", model=model, event_stream_handler=look if streamed else None)
        return run.output

    plan = Tasks(planner=StaticPlan([Subtask("x", worker="w")]), on_failure=[])
    spec = SupervisorSpec(id="p", tasks=plan, children=[WorkerSpec(id="w", execute=work)])
    with start(spec, store=url) as tree:
        return str(tree.submit(Task(goal="add up", id="t")).result(LONG_S).results["x"])


def forked(place: Path, *incarnation: Any) -> int:
    """Live a life in a process of its own; how that has ended."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        (place / "result").write_text(live(*incarnation, place / "notes"))
    except BaseException:  # noqa: BLE001 - it must not come back from here
        traceback.print_exc()
    os._exit(0)


def main() -> None:
    """Answer each line."""
    logger.remove()
    for line in sys.stdin:
        url, at, streamed = json.loads(line)
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            first = forked(place, url, at, streamed)
            if os.WIFSIGNALED(first) and os.WTERMSIG(first) == signal.SIGKILL:
                forked(place, url, "", streamed)
            done = (place / "notes").read_text().splitlines()
            print(json.dumps([(place / "result").read_text(), done, os.WIFSIGNALED(first)]), flush=True)


if __name__ == "__main__":
    main()
