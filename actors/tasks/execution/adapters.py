"""Make one callable, ``call(work, context)``, of what a user gives as ``execute=``.

Comes in: a function, an object with ``execute`` or ``process``, or an agent object of a framework. Goes out: the
callable. No framework is imported: an object is known by its methods.

What the code gets first is the work (``Work``, a text). Code whose first parameter is annotated with a pydantic model
gets that model, made of the inputs. ``process`` gets the inputs as a dict. An agent gets a prompt.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from actors.model.errors import Failed
from actors.tasks.execution.agent_results import unwrap_result
from actors.tasks.execution.off_loop import called
from actors.tasks.execution.packing import render_prompt
from actors.tasks.execution.stored_form import wrong_in
from actors.tasks.model import NONE, Subtask, Task
from actors.validation.introspection import binds, is_async, signature_of
from actors.validation.validation_messages import type_phrase

AGENT_METHODS = ("ainvoke", "invoke", "arun", "run")
"""Methods by which agent objects of frameworks are called, the first that there is; each takes a prompt."""

_CONTEXT_NAMES = frozenset({"", "c", "cx", "ctx"})
_SOME = object()
"""Stands for an argument when signatures are tried."""


class EntryPoint(NamedTuple):
    """Where the work of a target begins."""

    code: Callable[..., Any]
    """The function or method that is called."""
    method: str = ""
    """Method of an agent by which it is called: it takes a prompt, and its result is that of a framework."""
    takes_payload: bool = False
    """True for ``process``: its first argument is a dict."""

    @property
    def is_async(self) -> bool:
        """True where calling it gives a coroutine."""
        return is_async(self.code) or self.method in {"ainvoke", "arun"}


def entry_of(target: object) -> EntryPoint | None:
    """Where the work of what ``adapt`` takes begins, and None for all else; of a class its (unbound) method."""
    if inspect.isroutine(target) or isinstance(target, functools.partial):
        return EntryPoint(target)
    is_class = isinstance(target, type)
    for name in ("execute", "process") if is_class else ("execute", "process", *AGENT_METHODS):
        method = getattr(target, name, None)
        if callable(method):
            return EntryPoint(method, name if name in AGENT_METHODS else "", name == "process")
    return EntryPoint(target) if callable(target) and not is_class else None


def is_unbound(target: object) -> bool:
    """True for a class whose method takes ``self`` first, as an object's method does not."""
    if not isinstance(target, type):
        return False
    name = "execute" if callable(getattr(target, "execute", None)) else "process"
    return not isinstance(inspect.getattr_static(target, name, None), (staticmethod, classmethod))


def takes_prompt(code: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """True where it takes one thing, the instruction, and False where it takes a task and its context.

    ``args`` and ``kwargs`` follow these. A second parameter with a default is the context only if it is called so.
    """
    signature = signature_of(code)
    if signature is None:
        return False
    if not binds(signature, _SOME, *args, **kwargs):
        return False
    if not binds(signature, _SOME, _SOME, *args, **kwargs):
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


def first_hint(code: Callable[..., Any], skipped: int = 0) -> Any:
    """Return the annotation of the first parameter after those that are skipped; None: it has none."""
    signature = signature_of(code)
    parameters = list(signature.parameters.values())[skipped:] if signature is not None else []
    return hints_of(code).get(parameters[0].name) if parameters else None


def hints_of(code: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations, evaluated one by one: a name that only a type checker knows spoils no other one."""
    while isinstance(code, functools.partial):
        code = code.func
    if not inspect.isroutine(code):
        code = type(code).__call__
    code = inspect.unwrap(code)
    names = getattr(code, "__globals__", {})
    found: dict[str, Any] = {}
    for name, annotation in getattr(code, "__annotations__", {}).items():
        alone = SimpleNamespace(__annotations__={name: annotation})
        with contextlib.suppress(Exception):  # an annotation may do anything when it is evaluated
            found |= typing.get_type_hints(alone, names, include_extras=True)
    return found


def adapt(target: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = NONE) -> Callable[..., Any]:
    """Return ``call(work, context, *args, **kwargs)`` for it.

    ``args`` and ``kwargs`` are what each call gets besides; they are only looked at here.

    A function is called. Of an object ``execute`` comes first, then ``process``, then ``ainvoke``, ``invoke``, ``arun``
    or ``run``, which get a prompt (``render_prompt``), then ``__call__``. Code that takes only one thing gets no
    context.

    Raises:
        TypeError: there is no way to call it.
    """
    entry = entry_of(target)
    if entry is None:
        raise TypeError(f"{type_phrase(target)} has neither execute nor process, and cannot be called")
    code, asynchronous = entry.code, entry.is_async
    if entry.method:
        return _ask_async(code) if asynchronous else _ask(code)
    model = _model(first_hint(code))
    call = _without_context(code) if takes_prompt(code, args, kwargs) else code
    if model is not None:
        call = _with_inputs(call, functools.partial(_validated, model, name_of(target)), asynchronous)
    elif entry.takes_payload:
        call = _with_inputs(call, _payload, asynchronous)
    return call


def execute_of(worker: Any) -> Callable[..., Any]:
    """Return the ``execute`` of a worker object, which takes the work and its context."""
    execute: Callable[..., Any] = worker.execute
    model = model_of_class(type(worker))  # type: ignore[arg-type]  # a type is hashable
    if model is None:
        return execute
    return _with_inputs(execute, functools.partial(_validated, model, type(worker).__name__), is_async(execute))


@functools.lru_cache(maxsize=256)
def model_of_class(cls: type[Any]) -> type[BaseModel] | None:
    """Return the model that ``execute`` of this class takes in place of the work; None: it takes the work."""
    return _model(first_hint(getattr(cls, "execute", None), is_unbound(cls)))  # type: ignore[arg-type]


def _model(hint: Any) -> type[BaseModel] | None:
    """Return the model that an annotation names, also as ``Annotated[Model, ...]`` or ``Model | None``."""
    if typing.get_origin(hint) in {typing.Annotated, typing.Union, types.UnionType}:
        hint = typing.get_args(hint)[0]
    is_model = isinstance(hint, type) and issubclass(hint, BaseModel) and not issubclass(hint, (Subtask, Task))
    return hint if is_model else None


def name_of(target: object) -> str:
    """The name of a function or a class, of an object that of its class."""
    while isinstance(target, functools.partial):
        target = target.func
    return getattr(target, "__name__", None) or type(target).__name__


# -- the ways to call it --------------------------------------------------------------------------------------


def _without_context(code: Callable[..., Any]) -> Callable[..., Any]:
    def call(work: Any, _context: Any, /, *args: Any, **kwargs: Any) -> Any:
        return code(work, *args, **kwargs)

    return call


def _with_inputs(code: Callable[..., Any], first: Callable[[Any, Any], Any], asynchronous: bool) -> Callable[..., Any]:
    """Call code with what ``first(work, context)`` makes of the inputs in place of the work."""

    def call(work: Any, context: Any, /, *args: Any, **kwargs: Any) -> Any:
        return code(first(work, context), context, *args, **kwargs)

    async def call_async(work: Any, context: Any, /, *args: Any, **kwargs: Any) -> Any:
        return await code(await called(first, work, context), context, *args, **kwargs)

    return call_async if asynchronous else call


def _payload(work: Any, context: Any) -> dict[str, Any]:
    return {"task": str(work), **context.inputs}


def _validated(model: type[BaseModel], name: str, _work: Any, context: Any) -> BaseModel:
    """Make the model that the code takes.

    Raises:
        Failed: the inputs do not fit. They are the same at every attempt, so there is no other one.
    """
    try:
        return model.model_validate(context.inputs)
    except ValidationError as error:
        what = wrong_in(error, "inputs")
        said = f"{name} takes {model.__name__}, and the inputs of the task do not fit: {what}. Mend inputs="
        raise Failed(said, retryable=False) from None


def _ask(code: Callable[..., Any]) -> Callable[..., Any]:
    def call(work: Any, context: Any, /, *args: Any, **kwargs: Any) -> Any:
        return unwrap_result(code(render_prompt(work, context), *args, **kwargs))

    return call


def _ask_async(code: Callable[..., Any]) -> Callable[..., Any]:
    async def call(work: Any, context: Any, /, *args: Any, **kwargs: Any) -> Any:
        answer = code(await called(render_prompt, work, context), *args, **kwargs)
        # Some frameworks choose between a coroutine and a value by an argument.
        return unwrap_result(await answer if inspect.isawaitable(answer) else answer)

    return call
