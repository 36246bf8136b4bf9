"""A contextvar that a test sets for a while."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def setting(variable: contextvars.ContextVar[str], value: str) -> Iterator[None]:
    """Set a contextvar here, and reset it afterwards."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
