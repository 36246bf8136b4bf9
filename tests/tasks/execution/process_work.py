"""Work of tasks for processes: a process imports this, and nothing else of the tests."""

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import anyio._backends._asyncio  # now: the first call of a thread would import it, for long on a busy machine
import anyio.to_thread

import actors
from actors.dispatch.ray import node_here
from tests.actors.dispatch.process_workers import Explosive, OddError, below, spin
from trees import Done, Usage


def work(task: Any, context: Any) -> Any:  # noqa: C901 - one instruction, one act
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
        case "hang with a process below":
            Path(context.inputs["notes"]).write_text(str(below()))
            spin()
        case "die once" | "be killed once":
            if context.attempt == 1:
                os.kill(os.getpid(), signal.SIGSEGV if task.instruction == "die once" else signal.SIGKILL)
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


def part(task: Any, context: Any) -> Any:
    """Do one of many parts; its result is its id. Note the node and the key of the attempt."""
    with Path(context.inputs["notes"]).open("a") as file:
        file.write(f"{task.id} {node_here()} {context.idempotency_key}\n")
    threading.Event().wait(0.05)
    return task.id


def give(task: Any, _: Any) -> Any:
    """Return, or raise, what the instruction says: some of it cannot be pickled, or not be rebuilt."""
    match task.instruction:
        case "a generator":
            return (letter for letter in "ab")
        case "a generator in a dict":
            return {"found": (letter for letter in "ab")}
        case "a generator in a Done":
            return Done((letter for letter in "ab"), usage=Usage(tokens=5))
        case "a function":
            return lambda: None
        case "a lock":
            return [threading.Lock()]
    raise OddError(1, 2)


async def give_async(task: Any, context: Any) -> Any:
    """As ``give``."""
    return give(task, context)


async def async_work(task: Any, context: Any) -> Any:
    """Do what the instruction says."""
    match task.instruction:
        case "spin on a thread of asyncio":
            await asyncio.to_thread(spin)
        case "spin on a thread of anyio":
            await anyio.to_thread.run_sync(spin)
        case "wait in C on a thread of asyncio":
            await asyncio.to_thread(time.sleep, 600)
        case "be on a thread until told":
            notes = Path(context.inputs["notes"])
            try:
                return await asyncio.to_thread(_be_until, notes / "told")
            finally:
                (notes / "async part is over").touch()
        case "have threads that are idle":
            await asyncio.to_thread(str)
            await anyio.to_thread.run_sync(str)
        case "ask":
            return await context.ask("o", "see")
        case "odd":
            raise OddError(1, 2)
    await asyncio.sleep(600)
    return None


def _be_until(told: Path) -> None:
    while not told.exists():
        threading.Event().wait(0.01)


def effect(notes: str, at: Any, how: str = "") -> Any:
    """Note that a step was made, and with which key the attempt says so."""
    with Path(notes).open("a") as file:
        file.write(f"{at}\n")
    match how:
        case "odd":
            return object()
        case "lock":
            return threading.Lock()
        case "die" if Path(notes).read_text().count(f"{at}\n") == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        case "large":
            return "ä" * 2_000_000
    return f"made {at}"


def _hold(notes: str) -> None:
    """Say that the first step is made, and wait for a file, or for the end."""
    Path(f"{notes}.waits").touch()
    while not Path(f"{notes}.go").exists() and not actors.stopping():
        actors.sleep(0.01)


def steps(task: Any, context: Any) -> Any:
    """Make two steps of one name; between them do as the inputs say."""
    notes, how, keep = (context.inputs.get(name, "") for name in ("notes", "how", "keep"))
    given = {"keep": keep or "attempt"}
    first = context.step_sync("s", effect, notes, 1, how if how in {"odd", "lock", "die", "large"} else "", **given)
    if how == "hold":
        _hold(notes)
    if how == "die after" and context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    key = context.step_sync("key", lambda: context.step_key, **given)
    return [len(first) if how == "large" else first, context.step_sync("s", effect, notes, 2, **given), key]


class Working(actors.Worker):
    """An object that takes work."""

    def execute(self, task: Any, context: Any) -> Any:
        return {"of": "o", "pid": os.getpid()}
