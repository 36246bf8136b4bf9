"""``python -m tests.trees.agents.mortal_agents KIND FOLDER AT``: an agent of five steps, killed at one of them.

KIND is ``graph`` (LangGraph with a checkpointer in a file) or ``agent`` (OpenAI Agents SDK). The process kills itself
with SIGKILL when the step AT begins; 0: never. Prints the result and the tokens; the steps stand in a file.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from loguru import logger

from tests.trees.agents.one_agent import tree_of
from trees import Task, start

STEPS = 5
folder = Path()
at = 0


def begins(step: int) -> None:
    """Note a step, and die of it where that is wanted."""
    with (folder / "steps").open("a") as books:
        books.write(f"{step}\n")
    if step == at:
        os.kill(os.getpid(), signal.SIGKILL)


def graph() -> Any:  # noqa: C901 - its nodes and its saver stand in it, so that only one framework is loaded
    """A graph of five nodes, one after the other."""
    from langchain_core.messages import AIMessage  # noqa: PLC0415 - only one of the frameworks is loaded
    from langgraph.checkpoint.memory import InMemorySaver  # noqa: PLC0415 - the same
    from langgraph.graph import END, START, MessagesState, StateGraph  # noqa: PLC0415 - the same

    file = folder / "checkpoints"

    class FileSaver(InMemorySaver):
        """Checkpoints in a file, whole after each change."""

        def __init__(self) -> None:
            super().__init__()
            if file.exists():
                storage, writes, blobs = pickle.loads(file.read_bytes())  # noqa: S301 - our own
                for thread, spaces in storage.items():
                    self.storage[thread].update(spaces)
                self.writes.update(writes)
                self.blobs.update(blobs)

        def _keep(self) -> None:
            storage = {thread: dict(spaces) for thread, spaces in self.storage.items()}
            new = file.with_suffix(".new")
            new.write_bytes(pickle.dumps((storage, dict(self.writes), dict(self.blobs))))
            new.replace(file)

        async def aput(self, *args: Any) -> Any:
            found = self.put(*args)
            self._keep()
            return found

        async def aput_writes(self, *args: Any) -> None:
            self.put_writes(*args)
            self._keep()

    def node(step: int) -> Any:
        def run(_state: Any) -> Any:
            begins(step)
            usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
            return {"messages": [AIMessage(f"step {step}", usage_metadata=usage)]}  # type: ignore[arg-type]

        return run

    found = StateGraph(MessagesState)
    names = [START, *(f"n{step}" for step in range(1, STEPS + 1)), END]
    for step, name in enumerate(names[1:-1], 1):
        found.add_node(name, node(step))
    for before, after in pairwise(names):
        found.add_edge(before, after)
    return found.compile(checkpointer=FileSaver())


def agent() -> Any:
    """An agent of five requests, four of which call a tool."""
    from agents import Agent, Model, function_tool  # noqa: PLC0415 - the same

    from tests.trees.agents.openai_fakes import calls, says  # noqa: PLC0415 - the same

    class Counting(Model):
        async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002 - its signature
            step = 1 + sum(item.get("type") == "function_call" for item in input)
            begins(step)
            return calls(("look", {"n": step}), id_=f"c{step}") if step < STEPS else says(f"step {step}")

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    @function_tool
    def look(n: int) -> str:
        """Look."""
        return f"seen {n}"

    return Agent("clerk", model=Counting(), tools=[look])


def main() -> None:
    """Run it, or go on with it."""
    global folder, at
    kind, place, step = sys.argv[1:]
    folder, at = Path(place), int(step)
    logger.remove()
    with start(tree_of({"graph": graph, "agent": agent}[kind]()), store=f"sqlite:///{folder / 'store.db'}") as tree:
        report = tree.submit(Task("go", id="t")).result(60)
    print(json.dumps([report.results["w"], report.usage.tokens]))


if __name__ == "__main__":
    main()
