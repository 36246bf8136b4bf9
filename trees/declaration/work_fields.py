"""Types of the fields of a declaration that say what a worker offers: its code, and the rules of its attempts.

Comes in: whatever a user wrote. Goes out: the value in the form in which a spec keeps it, or a refusal in our words.
Nothing here runs, imports or inspects the user's code. This module must never import the specs themselves, threads, a
clock or Pykka.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, InstanceOf, PlainValidator

from actors.model.errors import ConfigError
from actors.tasks.execution.adapters import entry_of
from actors.tasks.model import MOST_TOKENS, Breaker, Budget, LadderField
from actors.validation import field_types
from actors.validation.validation_messages import type_phrase, validation_error, validation_errors, value_phrase
from trees.agents.recognise import is_agent

TEAM_FIELDS = (
    "capabilities",
    "consumes",
    "produces",
    "timeout_s",
    "idle_timeout_s",
    "on_failure",
    "breaker",
    "backup",
    "undo",
    "estimate",
)
"""Fields that only have a meaning for a supervisor with an orchestrator."""

SET_FIELDS = ("capabilities", "consumes", "produces")
"""Fields with sets of words."""

TASK_FIELDS = ("type", "output", "tools", *TEAM_FIELDS)
"""Fields that only have a meaning for a worker that can be given work."""


def execute_flaw(value: object) -> tuple[str, str] | None:
    """Why a value is nothing for ``execute=``, as (what, hint); None if it may be."""
    if entry_of(value) is not None or is_agent(value):
        return None
    if isinstance(value, type):
        hint = "Add execute(self, task, context), or give a function."
        if any(callable(getattr(value, each, None)) for each in ("run", "arun", "invoke", "ainvoke")):
            hint = f"Give an object of it: {value.__name__}(...)."
        return f"{type_phrase(value)} has no method execute", hint
    hint = "Give a function of (task, context), an object with a method execute, or an agent with invoke or run."
    if inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
        hint = "Give the function itself, without calling it."
    return f"{type_phrase(value)} can neither be called nor has it a method execute, invoke or run", hint


def _execute(value: object) -> object:
    flaw = None if value is None or isinstance(value, str) else execute_flaw(value)
    if flaw is not None:
        raise validation_error(*flaw)
    return value


def _capabilities(value: object) -> frozenset[str]:
    hint = "Write {'search', 'summarize'}."
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise validation_error(f"expected a set of words, got {value_phrase(value)}", hint)
    words = list(value)
    wrong = next((word for word in words if not isinstance(word, str) or not word.strip()), None)
    if wrong is not None:
        raise validation_error(f"expected a capability, got {value_phrase(wrong)}", hint)
    return frozenset(words)


def _tools(value: object) -> frozenset[str] | None:
    return None if value is None else _capabilities(value)


def _output(value: object) -> object:
    if isinstance(value, str):
        raise validation_error(
            "expected a type, got a str", "Give the type itself, such as a pydantic model, dict[str, int] or bool."
        )
    return value


def _undo(value: object) -> object:
    if value is None or isinstance(value, str) or callable(value):
        return value
    hint = "Give a function of (task, result, context), 'module:attr', or the id of a sibling."
    raise validation_error(f"{type_phrase(value)} cannot be called", hint)


def _estimate(value: object) -> object:
    if value is None or isinstance(value, Budget) or callable(value):
        return value
    hint = "Give tokens as a number, Budget(tokens=, cost=, seconds=), a dict of these, or a function of the subtask."
    if isinstance(value, Mapping):
        return _budget(value, hint)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise validation_error(f"expected an estimate, got {type_phrase(value)}", hint)
    if not 0 <= value <= MOST_TOKENS:
        raise validation_error(f"{value_phrase(value)} is out of range", hint)
    return value


def _budget(value: Mapping[Any, Any], hint: str) -> Budget:
    if not all(isinstance(key, str) for key in value):
        raise validation_error("expected words as keys", hint)
    found: list[tuple[str, str, str]] = []
    try:
        return Budget(**value)
    except ConfigError as error:
        found = [(each.path.removeprefix("Budget"), each.what, each.hint) for each in error.problems]
    raise validation_errors(found)


def _type(value: str) -> str:
    return "workflow" if value == "skill" else value


ExecuteTarget: TypeAlias = Annotated[Any, PlainValidator(_execute), field_types.WORK]
TypeWord: TypeAlias = Annotated[Literal["tool", "workflow", "skill", "agent"], AfterValidator(_type)]
"""Skill is another word for workflow, and is kept as that."""
Capabilities: TypeAlias = Annotated[Collection[str], PlainValidator(_capabilities)]
"""Any iterable of words, kept as a frozenset."""
Tools: TypeAlias = Annotated[Collection[str] | None, PlainValidator(_tools)]
"""Likewise; None: no choice was made."""
Output: TypeAlias = Annotated[Any, PlainValidator(_output)]
OnFailure: TypeAlias = LadderField | None
BreakerField: TypeAlias = InstanceOf[Breaker] | None
Backup: TypeAlias = field_types.Id | None
Undo: TypeAlias = Annotated[Callable[..., Any] | str | None, PlainValidator(_undo)]
Estimate: TypeAlias = Annotated[
    float | Budget | Mapping[str, float] | Callable[..., Any] | None, PlainValidator(_estimate)
]
