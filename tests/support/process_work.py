"""Work of tasks for processes: a process imports this, and nothing else of the tests."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import actors
from tests.support.process_workers import Explosive, OddError, spin
from trees import Done, Usage


def work(task: Any, context: Any) -> Any:
    """Do what the instruction says."""
    match task.instruction:
        case "ask":
            return context.ask_sync("o", "see")
        case "ask oddly":
            return context.ask_sync("o", "see", {"odd": Explosive()})
        case "later":
            if not Path(context.inputs["once"]).exists():
                Path(context.inputs["once"]).touch()
                raise actors.Later(0.01)
            return f"done in attempt {context.attempt}"
        case "done":
            return Done("done", usage=Usage(tokens=5))
        case "fail":
            raise actors.Failed("no luck")
        case "hang":
            context.progress(0.5, "half")
            spin()
        case "die once":
            if context.attempt == 1:
                os.kill(os.getpid(), signal.SIGSEGV)
            return f"done in attempt {context.attempt}"
    context.progress(0.5, "half")
    context.stream("text")
    context.heartbeat()
    context.use(tokens=3)
    return {
        "pid": os.getpid(),
        "inputs": context.inputs,
        "goal": context.goal,
        "path": context.path,
        "attempt": context.attempt,
        "key": bool(context.idempotency_key),
        "tools": [],
        "remaining": context.remaining_s,
        "token": context.token,
    }


async def async_work(task: Any, context: Any) -> Any:
    """Do what the instruction says."""
    match task.instruction:
        case "ask":
            return await context.ask("o", "see")
        case "odd":
            raise OddError(1, 2)
    await asyncio.sleep(600)
    return None


class Working(actors.Worker):
    """An object that takes work."""

    def execute(self, task: Any, context: Any) -> Any:
        return {"of": "o", "pid": os.getpid()}
