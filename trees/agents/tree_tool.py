"""The tree as a tool of an agent: an async function that gives it a goal and returns the result.

The function is a plain one, so each framework takes it as it is: ``Agent(tools=[as_tool(tree)])`` of pydantic-ai,
``tool(as_tool(tree))`` of LangChain, ``function_tool(as_tool(tree))`` of OpenAI Agents.

* **No circle.** Attempts of the task know who waits for it, also in another tree, as with every wait for a task
  (``actors.tasks.engine.task_waits``). An agent that would wait for itself gets a
  ``RecursionDetectedError`` that names the chain, before anything is submitted.
* **An end for each end.** A task that fails raises what ``tree.run`` raises; its text says what failed and why, in
  words for a model. Where pydantic-ai is loaded that error is a ``ToolFailed`` as well: any other one would end the
  agent's run, and the model would never read it. OpenAI Agents tells a model nothing of an error unless
  ``function_tool(..., failure_error_function=lambda context, error: str(error))`` says so. A caller that is cancelled
  cancels its task: nobody is left who would read the result.
* **Inputs.** A model may give them as an object, or as the text of one: a strict schema, which OpenAI Agents makes,
  knows no object with names that it was not told.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Protocol, TypeAlias
from uuid import uuid4

from pydantic import BeforeValidator, WithJsonSchema

from actors.model.errors import ActorsError, ConfigError, Failed, Problem
from actors.runtime.handle import system_of
from actors.tasks.journal.view import service_of
from actors.tasks.model import ExecutableInfo, Report, Task
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import type_phrase
from trees.agents.tool_names import for_models


class TaskTree(Protocol):
    """A running tree, as a ``trees.Tree`` is one."""

    spec: Any

    async def arun(self, task: Task | str, path: str | None = None) -> Report:
        """Submit a task and wait for its report."""

    def task(self, id: str) -> Any:
        """Return the handle of a task."""

    def registry(self, path: str | None = None) -> list[ExecutableInfo]:
        """List the workers that a supervisor can give work to."""


def _as_object(inputs: object) -> object:
    """Read the text of an object as one."""
    if not isinstance(inputs, str):
        return inputs
    try:
        return json.loads(inputs) if inputs.strip() else None
    except ValueError:
        return inputs  # what is wrong with it is said where it is judged


ToolInputs: TypeAlias = Annotated[
    dict[str, Any] | None,
    BeforeValidator(_as_object),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "object"},
                {"type": "string", "description": "The same as the text of a JSON object."},
                {"type": "null"},
            ],
            "default": None,
        }
    ),
]
TreeTool: TypeAlias = Callable[..., Awaitable[Any]]
"""``async (goal: str, inputs: dict | None = None) -> result``."""


class _Words(SpecModel, frozen=True):
    _called: ClassVar[str] = "as_tool(...)"
    name: str | None
    description: str | None


def as_tool(
    tree: TaskTree, path: str | None = None, name: str | None = None, description: str | None = None
) -> TreeTool:
    """Make a tool of a running tree: an async function of a goal and inputs that returns the result.

    Args:
        tree: what ``start`` has returned.
        path: of the supervisor that gets the goals; None: the root.
        name: of the tool. None: that of the supervisor.
        description: for the model: what the tree is good for. None: that of the supervisor, and what its workers do.

    Raises:
        ConfigError: that is no running tree, or name or description is no text.
        TaskError: the supervisor has no ``tasks=``.
        UnknownPathError: no supervisor of this path is listed now.
    """
    if not callable(getattr(tree, "arun", None)) or not callable(getattr(tree, "registry", None)):
        hint = "Write as_tool(tree) with what start(...) has given."
        raise ConfigError((Problem("as_tool.tree", f"expected a running tree, got {type_phrase(tree)}", hint),))
    _Words(name=name, description=description)
    known = tree.registry(path)
    at = path or str(tree.spec.id)

    async def run_task(goal: str, inputs: ToolInputs = None) -> Any:
        try:
            return await _result(tree, _task(goal, inputs, at), path)
        except ActorsError as error:
            raise for_model(error) from error.__cause__
        except Failed as error:
            raise for_model(error) from None

    run_task.__name__ = run_task.__qualname__ = _name(name, at)
    run_task.__doc__ = _docstring(description or _description_of(tree, path), at, known)
    return run_task


async def _result(tree: TaskTree, task: Task, path: str | None) -> Any:
    """Wait for the result of a task; who is cancelled meanwhile cancels it."""
    try:
        return (await tree.arun(task, path)).output
    except asyncio.CancelledError:
        _cancel(tree, task.id or "")
        raise


def _cancel(tree: Any, id_: str) -> None:
    """Cancel a task that nobody waits for. It may be on its way into the store still: then once it is there."""

    def cancel() -> None:
        with suppress(ActorsError):  # it was never submitted, or is over
            tree.task(id_).cancel("its caller was cancelled")

    service_of(system_of(tree)).when_kept(id_, cancel)


def for_model(error: Exception) -> Exception:
    """Return the error as one that the frameworks that are loaded give to the model; of the same type in any case."""
    module = sys.modules.get("pydantic_ai.exceptions")
    told: Any = getattr(module, "ToolFailed", None) or getattr(module, "ModelRetry", None)
    if told is None or isinstance(error, told):
        return error
    kind = type(error)
    both = type(kind.__name__, (kind, told), {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
    found: Exception = both.__new__(both, *error.args)
    found.args = error.args
    vars(found).update(vars(error) | {"message": str(error)})
    return found


def _task(goal: object, inputs: object, at: str) -> Task:
    """Make the task of a call.

    Raises:
        Failed: a model has called it with something else; the text says what it is to write.
    """
    inputs = _as_object(inputs)
    if not isinstance(goal, str) or not goal.strip():
        raise Failed(f"{at}: goal: expected a text that says what is to be done, got {type_phrase(goal)}")
    if inputs is not None and not isinstance(inputs, dict):
        raise Failed(f"{at}: inputs: expected an object such as {{'name': 'value'}}, got {type_phrase(inputs)}")
    return Task(goal=goal, inputs=inputs or {}, id=f"tool-{uuid4().hex}")


def _name(name: str | None, at: str) -> str:
    """Name that models take: letters, digits, ``_`` and ``-``."""
    return for_models(name or at.rpartition("/")[2]).strip("_") or "run_task"


def _description_of(tree: TaskTree, path: str | None) -> str:
    """Return the description of the supervisor; none where it was added while the tree ran."""
    try:
        return str((tree.spec.find(path) if path else tree.spec).description)
    except ActorsError:
        return ""


def _docstring(description: str, at: str, known: list[ExecutableInfo]) -> str:
    """Describe the tool to a model, in the form that every framework reads: a text, then the arguments."""
    lines = [description.strip() or f"Give a goal to the team {at!r}, which plans it, does it, and returns the result."]
    does = [f"- {each.id}: {said}" for each in known if (said := _does(each))]
    if not description.strip() and does:
        lines += ["", "Its members:", *does]
    lines += [
        "",
        "Args:",
        "    goal: What is to be done, in words; all that is needed to do it stands there or in the inputs.",
        "    inputs: Values that it needs, by name.",
        "",
        "Returns:",
        "    The result. A goal that fails raises an error that says what failed and why.",
    ]
    return "\n".join(lines)


def _does(member: ExecutableInfo) -> str:
    return " ".join(member.description.split()) or ", ".join(sorted(member.capabilities))
