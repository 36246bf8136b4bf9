"""``python -m tests.trees.agents.agent_of_ten URL AT HOW FOLDER``: a life of an agent of ten requests.

URL is that of its store, AT the event at which the process kills itself with SIGKILL: ``request 7``, ``tool 3`` or
nothing, HOW ``streamed`` or ``whole``. Leaves in the folder what it has reported, and every request and call of a tool
that any life has begun.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
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


def main() -> None:
    """Live one life, and write down its result."""
    logger.remove()
    url, at, streamed, place = sys.argv[1:]
    Path(place, "result").write_text(live(url, at, streamed == "streamed", Path(place, "notes")))


if __name__ == "__main__":
    main()
