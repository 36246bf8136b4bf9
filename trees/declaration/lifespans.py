"""Lifespans of workers, as the check looks at them: what ``lifespan=`` names, without calling it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from actors.model.errors import Problem
from actors.validation.introspection import binds, is_async, names_of, signature_of
from actors.validation.validation_messages import type_phrase
from trees.declaration.resolve import ResolveError, resolve
from trees.declaration.specs import WorkerSpec

_DECORATE = "Decorate it with @contextlib.asynccontextmanager or @contextlib.contextmanager, and yield once."


def lifespan_problems(spec: WorkerSpec, at: str) -> Iterator[Problem]:
    """Yield what is wrong with the lifespan of a worker: it leads nowhere, or cannot be called without arguments."""
    if spec.lifespan is None:
        return
    at = f"{at}.lifespan"
    try:
        found = resolve(spec.lifespan)
    except ResolveError as error:
        yield Problem(at, error.what, error.hint)
        return
    if not callable(found):
        yield Problem(at, f"expected a factory of context managers, got {type_phrase(found)}", _DECORATE)
        return
    if is_async(found):
        yield Problem(at, "expected a context manager, got a coroutine: it has no yield", _DECORATE)
    signature = signature_of(found)
    if signature is not None and not binds(signature):
        what = f"expected a factory without arguments, got one that takes {names_of(signature)}"
        yield Problem(at, what, "Give the arguments with functools.partial, or in a lambda.")
    if inspect.isclass(found) and not any(hasattr(found, name) for name in ("__enter__", "__aenter__")):
        yield Problem(at, f"expected a context manager, got {type_phrase(found)}", _DECORATE)
