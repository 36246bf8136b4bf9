"""Calls of models by planners, reviewers and synthesizers: how one is called, and what comes back.

A call is ``call(prompt, schema) -> answer``, sync or async. It gets the schema where it has a place for it. It may
return the answer alone, ``Done(answer, usage=Usage(...))``, or ``(answer, Usage(...))``; and what it has used up so far
it may report while it runs (``actors.tasks.execution.role_call``).

Models and agents of frameworks are no such call. Rooms above know them: ``offer_models`` is the door through which they
say which objects they can make a call of. Nothing here knows a framework.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from actors.tasks.model.outcome import Done
from actors.tasks.model.usage import Usage
from actors.validation.introspection import binds, signature_of

Schema: TypeAlias = dict[str, Any]


# -- models of frameworks --------------------------------------------------------------------------------------

_OFFERED: Final[list[Callable[[object], Callable[..., Any] | None]]] = []


def offer_models(recognise: Callable[[object], Callable[..., Any] | None]) -> None:
    """Have a room above say which objects it can make a call of; it returns None for all others."""
    _OFFERED.append(recognise)


def recognised_model(model: object) -> Callable[..., Any] | None:
    """Return the call of a model, its name, or an agent of a framework; None: it is nothing of the kind."""
    return next((call for recognise in _OFFERED if (call := recognise(model)) is not None), None)


def as_call(model: Any) -> Any:
    """Return the call of a model or an agent; anything else as it is: a declaration is checked later."""
    return recognised_model(model) or model


# -- calling one -----------------------------------------------------------------------------------------------


def ask_for_words(call: Callable[..., Any], prompt: str) -> Any:
    """Call a model whose answer may be anything: without a schema, or with None if it has to be given one."""
    signature = signature_of(call)
    return call(prompt) if signature is None or binds(signature, prompt) else ask(call, prompt, None)


def ask(call: Callable[..., Any], prompt: str, schema: Schema | None) -> Any:
    """Call a model; its answer, or an awaitable of that."""
    return call(prompt, schema=schema) if takes_schema_by_name(call) else call(prompt, schema)


def takes_schema_by_name(call: Callable[..., Any]) -> bool:
    """True if the schema has to be given by its name."""
    signature = signature_of(call)
    return signature is not None and not binds(signature, "", {}) and binds(signature, "", schema={})


def with_usage(said: Any) -> Any:
    """Return what came back, with ``(answer, Usage)`` as a ``Done``."""
    match said:
        case (answer, Usage() as usage) if type(said) is tuple:
            return Done(answer, usage)
    return said
