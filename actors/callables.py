"""What can be told of a callable without calling it.

Comes in: any object. Goes out: whether calling it gives a coroutine, and its signature. Nothing of the user's is called
here. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def is_async(call: object) -> bool:
    """True where calling it gives a coroutine: async functions, methods and objects, also behind partials.

    A sync function that returns a coroutine made elsewhere is taken for sync.
    """
    while isinstance(call, (functools.partial, functools.partialmethod)):
        call = call.func
    if isinstance(call, (staticmethod, classmethod)):
        call = call.__func__
    if inspect.iscoroutinefunction(call):
        return True
    return callable(call) and inspect.iscoroutinefunction(type(call).__call__)


def type_name(kind: type[Any]) -> str:
    """The name of a class, past whatever its metaclass makes of ``__name__``: no code of a user runs."""
    name: str = _NAME.__get__(kind)
    return name


_NAME: Any = vars(type)["__name__"]


def signature_of(call: Callable[..., Any]) -> inspect.Signature | None:
    """Its signature, or None where it cannot be told."""
    try:
        return inspect.signature(call)
    except (TypeError, ValueError):  # some builtins and extension types have none
        return None


def binds(signature: inspect.Signature, *args: object, **kwargs: object) -> bool:
    """Whether a call with these arguments could be made."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True
