"""Inspection of callables, without calling them.

Comes in: any object. Goes out: whether calling it gives a coroutine, and its signature. Nothing of the user's is called
here. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import CodeType, CoroutineType, FunctionType
from typing import Any, Final, TypeVar

from actors.model.weak_tables import WeakKeys

T = TypeVar("T")

NEVER_AWAITED: Final = "is async, and nobody awaits it there"
PLAIN_HINT: Final = "Give a plain function; in it asyncio.run(...) may await."


def is_async(call: object) -> bool:
    """True where calling it gives a coroutine: async functions, methods and objects, also behind partials.

    A sync function that returns a coroutine made elsewhere is taken for sync.
    """
    return _is_made_by(inspect.iscoroutinefunction, call)


def is_generator(call: object) -> bool:
    """True where calling it gives a generator, sync or async, and runs nothing."""
    return _is_made_by(inspect.isgeneratorfunction, call) or _is_made_by(inspect.isasyncgenfunction, call)


def _is_made_by(is_such: Callable[[object], bool], call: object) -> bool:
    while isinstance(call, (functools.partial, functools.partialmethod)):
        call = call.func
    if isinstance(call, (staticmethod, classmethod)):
        call = call.__func__
    return is_such(call) or (callable(call) and is_such(type(call).__call__))


def not_awaited(result: T) -> T:
    """Return what a callback has given, where nobody awaits that.

    Raises:
        TypeError: it is a coroutine: nothing of it would ever run.
    """
    if type(result) is CoroutineType:
        coroutine: Any = result
        coroutine.close()
        raise TypeError(f"what it returns {NEVER_AWAITED}. {PLAIN_HINT}")
    return result


def type_name(kind: type[Any]) -> str:
    """The name of a class, past whatever its metaclass makes of ``__name__``: no code of a user runs."""
    name: str = _NAME.__get__(kind)
    return name


_NAME: Any = vars(type)["__name__"]


_SIGNATURES: Final[WeakKeys[FunctionType, tuple[CodeType, inspect.Signature]]] = WeakKeys()
"""Signatures of plain functions that hold no object which could hold the function: looked up for each child."""


def signature_of(call: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature, or None where it cannot be told."""
    if type(call) is not FunctionType or not _holds_nothing(call):
        return _looked_up(call)
    known = _SIGNATURES.get(call)
    if known is not None and known[0] is call.__code__:
        return known[1]
    signature = _looked_up(call)
    if signature is not None:
        _SIGNATURES.put(call, (call.__code__, signature))
    return signature


def _holds_nothing(call: FunctionType) -> bool:
    annotations = call.__annotations__
    plain = not annotations or all(type(each) is str for each in annotations.values())
    return plain and not call.__dict__ and call.__defaults__ is None and call.__kwdefaults__ is None


def _looked_up(call: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(call)
    except (TypeError, ValueError):  # some builtins and extension types have none
        return None


def names_of(signature: inspect.Signature) -> str:
    """The parameters without defaults and annotations, which may show values."""
    parameters = signature.parameters.values()
    return str(inspect.Signature([each.replace(annotation=each.empty, default=each.empty) for each in parameters]))


def binds(signature: inspect.Signature, *args: object, **kwargs: object) -> bool:
    """True if a call with these arguments could be made."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True
