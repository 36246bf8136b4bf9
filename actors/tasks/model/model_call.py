"""Calls of models by planners, reviewers and synthesizers: how one is called, and what comes back.

A call is ``call(prompt, schema) -> answer``, sync or async. It gets the schema where it has a place for it. It may
return the answer alone, ``Done(answer, usage=Usage(...))``, or ``(answer, Usage(...))``; and what it has used up so far
it may report while it runs (``report_usage``), which counts also where it then raises, is cancelled or takes too long.

Models and agents of frameworks are no such call. Rooms above know them: ``offer_models`` is the door through which they
say which objects they can make a call of. Nothing here knows a framework.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from actors.tasks.model.outcome import Done
from actors.tasks.model.usage import Usage
from actors.validation.introspection import binds, signature_of
from actors.validation.validation_messages import type_phrase

Schema: TypeAlias = dict[str, Any]
Use: TypeAlias = Callable[[Usage], object]

_USE: Final[ContextVar[Use | None]] = ContextVar("use_of_a_step", default=None)


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


async def answer_of(said: Any) -> Any:
    """Return the answer of a call without its usage, which is reported; for a role whose caller takes no ``Done``."""
    said = with_usage(await said if inspect.isawaitable(said) else said)
    if not isinstance(said, Done):
        return said
    report_usage(said.usage)
    return said.value


# -- usage of a step while it runs -----------------------------------------------------------------------------


def report_usage(usage: Usage) -> bool:
    """Count usage of the step that runs here, at once; False: no step does, and nothing is counted."""
    use = _USE.get()
    if use is None:
        return False
    use(usage)
    return True


@contextmanager
def reporting(use: Use) -> Iterator[None]:
    """Have ``report_usage`` count for a step within."""
    token = _USE.set(use)
    try:
        yield
    finally:
        _USE.reset(token)


def name_of_call(call: object) -> str:
    """Only the name: a partial or a bound method would show what is bound."""
    return str(getattr(call, "__qualname__", type_phrase(call)))
