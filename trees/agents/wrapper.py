"""Base of the wrappers: a worker's code that is an agent, or a tool, of a framework, and says what it is.

A declaration reads these attributes of the objects of this class, and of no others: they stand in the registry where
the spec says nothing else. A wrapper overrides those about which its framework knows something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Literal, TypeAlias

from actors.tasks.model import Respond
from actors.validation.introspection import binds, names_of, signature_of
from actors.validation.validation_messages import type_phrase, value_phrase
from actors.worker import Worker
from trees.agents.packages import package_flaw

Flaw: TypeAlias = "tuple[str, str] | None"
"""Mistake in how an agent is declared, as (what, hint); None: there is none."""

RoleOptions: TypeAlias = "Callable[[], Awaitable[dict[str, Any]]]"
"""Makes the further arguments of one run, where a role asks an agent."""


def class_flaw(agent: object) -> Flaw:
    """Say that a class stands where an object of it should."""
    if not isinstance(agent, type):
        return None
    return f"the class {agent.__name__} is no agent, but makes some", f"Give an object of it: {agent.__name__}(...)."


def call_flaw(name: str, call: object, *takes: str) -> Flaw:
    """Say why an option cannot be called with these arguments; None stands for one that was left out."""
    form = f"({', '.join(takes)})"
    if call is None:
        return None
    if not callable(call):
        return f"{name}= cannot be called: got {type_phrase(call)}", f"Give a function of {form}."
    signature = signature_of(call)
    if signature is None or binds(signature, *takes):
        return None
    return f"{name}= cannot be called with {form}", f"It takes {names_of(signature)}. Write a function of {form}."


def switch_flaw(name: str, value: object) -> Flaw:
    """Say that an option is neither True nor False."""
    return None if isinstance(value, bool) else (f"{name}= got {value_phrase(value)}", "Write True or False.")


async def awaited(value: Any) -> Any:
    """Return what a function of the user's has made, which is async where it has to be; called on its loop.

    It is called there, and not off the loop, since what it makes may belong to the loop: a client, a connection.
    """
    return await value if hasattr(type(value), "__await__") else value


class AgentWrapper:
    """An agent of a framework as ``execute=`` takes it. It has no state of one attempt: incarnations share it."""

    requires: ClassVar[tuple[str, str, str] | None] = None
    """The package that it needs, its extra, and the oldest version that will do; None: none."""
    worker: ClassVar[type[Worker] | None] = None
    """Class of which each incarnation is a new object, made of this and the ``args``; None: it has no state."""
    waits_for: ClassVar[str] = ""
    """Words for what a start that takes too long still waits for; empty: for an ``on_start``."""
    has_tools: ClassVar[bool] = False
    """True where its tools, which become capabilities of its worker, are known when that is up."""

    @property
    def name(self) -> str:
        """Name of the agent; empty: it has none."""
        return ""

    @property
    def description(self) -> str:
        """Words for people and planners; empty: the agent says nothing of itself."""
        return ""

    @property
    def as_role(self) -> tuple[Any, RoleOptions | None] | None:
        """Return what a planner, reviewer or synthesizer asks, and further arguments of its run; None: nothing."""
        return None

    @property
    def capabilities(self) -> frozenset[str]:
        """Words for its abilities, which a plan may ask for."""
        return frozenset()

    @property
    def input_schema(self) -> dict[str, Any] | None:
        """JSON schema of the inputs that it takes; None: it says nothing."""
        return None

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON schema of its results; None: it says nothing."""
        return None

    @property
    def type(self) -> Literal["tool", "workflow", "agent"]:
        """The kind of work, for planners."""
        return "agent"

    def restricted_to(self, tools: frozenset[str]) -> AgentWrapper:
        """Return the same with these tools only."""
        raise TypeError(f"{type(self).__name__} has no tools of its own: {', '.join(sorted(tools))}")

    def flaw(self) -> tuple[str, str] | None:
        """Say why it cannot be used as it is declared, as (what, hint); None: it can. Part of the check of a tree."""
        return None if self.requires is None else package_flaw(*self.requires)

    def execute(self, task: Any, context: Any) -> Any:
        """Do a piece of work, sync or async: ``str(task)`` says what, ``context`` is all that it may know."""
        raise NotImplementedError(f"{type(self).__name__} has no execute(task, context)")


def question_state(context: Any) -> dict[str, Any] | None:
    """Return the state that the last question of the run was asked with; None: the run begins.

    A run that has failed since may be tried again because its ladder has asked, too. Whoever answers that with a text
    wants it heard: the run begins, with the text in its prompt.

    Args:
        context: of the attempt. ``answers`` in its state is the number of answers that there were before.
    """
    state = context.state
    if not isinstance(state, dict) or "answers" not in state:
        return None
    since = context.answers[state["answers"] + (context.answer is not None) :]
    return None if any(isinstance(answer, Respond) for answer in since) else state
