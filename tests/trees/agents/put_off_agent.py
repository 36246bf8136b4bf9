"""``python -m tests.trees.agents.put_off_agent URL FOLDER DIES``: a life of an agent that a busy provider puts off.

Its sixth request is refused once, with the time when to come back. DIES is ``yes`` where the process kills itself with
SIGKILL when it comes back. Every request that any life makes is noted in the folder, and the result.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loguru import logger
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.agents import PydanticAI

REQUESTS, BUSY = 10, 6
LONG_S = 60.0


def busy_agent(note: Callable[[int], int]) -> Agent[None, str]:
    """Make the agent; ``note`` is told the number of each request, and says how often it was made by now."""

    def answer(messages: list[Any], _: Any) -> ModelResponse:
        number = 1 + sum(isinstance(message, ModelResponse) for message in messages)
        if note(number) == 1 and number == BUSY:
            raise ModelHTTPError(429, "busy", headers={"retry-after": "0"})
        said = TextPart("done") if number == REQUESTS else ToolCallPart("double", {"number": number})
        return ModelResponse(parts=[said], usage=RequestUsage(input_tokens=6, output_tokens=1))

    agent: Agent[None, str] = Agent(FunctionModel(answer))

    @agent.tool_plain
    def double(number: int) -> int:
        return 2 * number

    return agent


def tree_of(executable: Any) -> SupervisorSpec:
    """Make a tree of one worker, whose ladder tries nothing again."""
    tasks = Tasks(planner=StaticPlan([Subtask("x")]), on_failure=[])
    return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="x", execute=executable)])


def main() -> None:
    """Live one life."""
    logger.remove()
    url, place, dies = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "yes"

    def note(number: int) -> int:
        with (place / "notes").open("a") as file:
            file.write(f"{number}\n")
        made = (place / "notes").read_text().split().count(str(number))
        if dies and number == BUSY and made > 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return made

    with start(tree_of(PydanticAI(busy_agent(note), stream=False)), store=url) as tree:
        report = tree.submit(Task(goal="add up", id="t")).result(LONG_S)
    (place / "result").write_text(f"{report.results['x']} {report.usage.tokens}")


if __name__ == "__main__":
    main()
