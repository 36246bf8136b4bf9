"""From whatever a user gives as ``execute=`` to one callable, ``call(subtask, context)``.

Comes in: a function, an object with ``execute``, or an agent object of a framework. Goes out: an ``AdaptedCall``. No
framework is imported: an object is known by its methods.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.tasks.execution.agent_results import unwrap_result
from actors.tasks.execution.prompt import prompt_of, render_prompt
from actors.validation.introspection import binds, is_async, signature_of
from actors.validation.validation_messages import type_phrase

AGENT_METHODS = ("ainvoke", "invoke", "arun", "run")
"""Methods by which agent objects of frameworks are called, the first that there is; each takes a prompt."""

_CONTEXT_NAMES = frozenset({"", "c", "cx", "ctx"})
_SOME = object()
"""Stands for an argument when signatures are tried."""


@dataclass(frozen=True, slots=True)
class AdaptedCall:
    """One way to call what was given as ``execute=``, whatever it was."""

    call: Callable[..., Any]
    """``call(subtask, context, *args, **kwargs)``; what comes after the first two is handed on."""
    is_async: bool
    """True where calling it gives a coroutine."""
    name: str
    """Name of the code behind it."""


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """Where the work of a target begins."""

    code: Callable[..., Any]
    """The function or method that is called."""
    method: str = ""
    """Method of an agent by which it is called: it takes a prompt, and its result is that of a framework."""


def is_executable(target: object) -> bool:
    """True for what ``adapt`` takes. A class is one if it has ``execute``; each incarnation is then an object of it."""
    return entry_of(target) is not None


def entry_of(target: object) -> EntryPoint | None:
    """Where its work begins, or None where it has no such place; of a class its (unbound) ``execute``."""
    execute = getattr(target, "execute", None)
    if callable(execute):
        return EntryPoint(execute)
    if isinstance(target, type):
        return None
    if inspect.isroutine(target) or isinstance(target, functools.partial):
        return EntryPoint(target)
    for name in AGENT_METHODS:
        method = getattr(target, name, None)
        if callable(method):
            return EntryPoint(method, name)
    return EntryPoint(target) if callable(target) else None


def is_unbound(target: object) -> bool:
    """True for a class whose ``execute`` takes ``self`` first, as an object's method does not."""
    if not isinstance(target, type):
        return False
    found = inspect.getattr_static(target, "execute", None)
    return not isinstance(found, (staticmethod, classmethod))


def takes_prompt(code: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> bool:
    """True where it takes one thing, the instruction, and False where it takes a task and its context.

    ``args`` and ``kwargs`` follow these. A second parameter with a default is the context only if it is called so.
    """
    signature = signature_of(code)
    if signature is None:
        return False
    more = dict(kwargs or {})
    if not binds(signature, _SOME, *args, **more):
        return False
    if not binds(signature, _SOME, _SOME, *args, **more):
        return True
    positional = [each for each in signature.parameters.values() if each.kind < each.VAR_POSITIONAL]
    return len(positional) > 1 and not is_context(positional[1])


def is_context(parameter: inspect.Parameter) -> bool:
    """True for a parameter that is called like a context (``context``, ``ctx``, ``_``), or annotated as one."""
    name = parameter.name.casefold().strip("_0123456789")
    if name in _CONTEXT_NAMES or "context" in name or name.endswith(("_ctx", "_cx")):
        return True
    said = parameter.annotation
    return "Context" in (said if isinstance(said, str) else getattr(said, "__name__", None) or str(said))


def adapt(target: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> AdaptedCall:
    """One callable for it; ``args`` and ``kwargs`` are what each call gets besides, and only looked at here.

    An object's ``execute`` comes first, then what is a function, then ``ainvoke``, ``invoke``, ``arun`` or ``run``,
    which get a prompt (``render_prompt``), then its ``__call__``. Code that takes only one thing gets the instruction.

    Raises:
        TypeError: there is no way to call it, or it is a class.
    """
    entry = entry_of(target)
    if isinstance(target, type):
        raise TypeError(f"{type_phrase(target)} is not adapted, its objects are")
    if entry is None:
        raise TypeError(f"{type_phrase(target)} has no execute, and cannot be called")
    code, name = entry.code, name_of(target)
    if entry.method:
        asynchronous = is_async(code) or entry.method in {"ainvoke", "arun"}
        return AdaptedCall(_ask_async(code) if asynchronous else _ask(code), asynchronous, name)
    if takes_prompt(code, args, kwargs):
        return AdaptedCall(_prompt_async(code) if is_async(code) else _prompt(code), is_async(code), name)
    return AdaptedCall(code, is_async(code), name)


def name_of(target: object) -> str:
    """The name of a function or a class, of an object that of its class."""
    while isinstance(target, functools.partial):
        target = target.func
    return getattr(target, "__name__", None) or type(target).__name__


# -- the ways to call it --------------------------------------------------------------------------------------


def _prompt(code: Callable[..., Any]) -> Callable[..., Any]:
    def call(subtask: Any, _context: Any, /, *args: Any, **kwargs: Any) -> Any:
        return code(str(subtask), *args, **kwargs)

    return call


def _prompt_async(code: Callable[..., Any]) -> Callable[..., Any]:
    async def call(subtask: Any, _context: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await code(str(subtask), *args, **kwargs)

    return call


def _ask(code: Callable[..., Any]) -> Callable[..., Any]:
    def call(subtask: Any, context: Any, /, *args: Any, **kwargs: Any) -> Any:
        return unwrap_result(code(render_prompt(subtask, context), *args, **kwargs))

    return call


def _ask_async(code: Callable[..., Any]) -> Callable[..., Any]:
    async def call(subtask: Any, context: Any, /, *args: Any, **kwargs: Any) -> Any:
        answer = code(await prompt_of(subtask, context), *args, **kwargs)
        # Some frameworks choose between a coroutine and a value by an argument.
        return unwrap_result(await answer if inspect.isawaitable(answer) else answer)

    return call
