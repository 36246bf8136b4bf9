"""Contextvars of a caller, which its request takes along, as with ``asyncio.create_task``.

An ask, and a task that is submitted, carry a copy of the caller's context (one step of C, whatever is in it); a tell
carries none. Whoever handles the request borrows what is in it: the variables are set in the worker's own context when
the handler begins, and reset when it has ended. So ``Agent.override`` of a test, a ``contextualize`` of a log or a
current span reach the handler, and nothing of the caller stays behind. Variables of the worker's own that the caller
has not set are seen as ever, and what the handler sets besides stays the worker's.

A worker has one context for its whole life and handles one message at a time, in it; so each token is reset in the
context in which it was made. Tasks that a handler starts have a copy, and keep what was borrowed.
"""

from __future__ import annotations

import contextvars
from typing import Any, TypeAlias

Borrowed: TypeAlias = "list[contextvars.Token[Any]]"
"""Tokens by which what was borrowed is given back, in the order in which it was set."""


def caller_variables(own: contextvars.ContextVar[Any]) -> contextvars.Context | None:
    """Return a copy of what code here has set; None where that is nothing of a user's.

    Args:
        own: the library's own variable, which says for whom code runs: no request carries it.
    """
    context = contextvars.copy_context()
    return context if len(context) > (own in context) else None


def borrow(context: contextvars.Context, own: contextvars.ContextVar[Any]) -> Borrowed:
    """Set here what a caller has set."""
    return [each.set(value) for each, value in context.items() if each is not own]


def give_back(borrowed: Borrowed) -> None:
    """Reset it. What the handler has set anew of these variables goes as well: it is the request's."""
    while borrowed:
        token = borrowed.pop()
        token.var.reset(token)
