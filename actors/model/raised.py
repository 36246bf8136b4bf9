"""Attributes of an exception, read past whatever its class makes of these names: no code of a user runs here.

A class of a user may answer for ``__class__``, ``__traceback__``, ``__cause__`` and ``with_traceback`` itself, and
raise there or block. ``isinstance`` reads ``__class__`` of each object whose type is not the one that is looked for. An
exception of a user comes to threads of supervisors too, so there it is looked at by these functions only.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, TypeGuard, TypeVar

ErrorT = TypeVar("ErrorT", bound=BaseException)
KindT = TypeVar("KindT")

_OWN: Final = vars(BaseException)
_TRACEBACK: Final[Any] = _OWN["__traceback__"]
_CAUSE: Final[Any] = _OWN["__cause__"]
_CONTEXT: Final[Any] = _OWN["__context__"]
_SUPPRESSES: Final[Any] = _OWN["__suppress_context__"]
_MRO: Final[Any] = vars(type)["__mro__"]
_EXCEPTIONS: Final[Any] = vars(BaseExceptionGroup)["exceptions"]


def is_a(value: object, kinds: type[KindT] | tuple[type[KindT], ...]) -> TypeGuard[KindT]:
    """True if it was made by one of these classes of ours, or by one that is derived from them.

    ``isinstance`` would ask the value for its class.
    """
    return issubclass(type(value), kinds)


class StandIn:
    """Mixin of exceptions that stand for one that could not be had here, of a class that is known."""

    stands_for: type[BaseException] | None = None
    """Class of that one; None: nobody knows."""


def kind_of(error: BaseException) -> type[BaseException]:
    """Return the class that an exception counts as where a declaration names classes: that of the one it stands for."""
    stands_for = error.stands_for if is_a(error, StandIn) else None
    return stands_for or type(error)


def is_caught_by(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """True where ``except kinds`` would catch it, or the one it stands for: no metaclass of theirs is asked."""
    bases = _MRO.__get__(type(error))
    if (stands_for := kind_of(error)) is not type(error):
        bases += _MRO.__get__(stands_for)
    return not set(bases).isdisjoint(kinds)


def is_exception(kind: type) -> TypeGuard[type[BaseException]]:
    """True for a class of exceptions; its metaclass is not asked."""
    return any(base is BaseException for base in _MRO.__get__(kind))


def frames_of(error: BaseException) -> TracebackType | None:
    """Return its traceback."""
    found: TracebackType | None = _TRACEBACK.__get__(error)
    return found


def with_frames(error: ErrorT, frames: TracebackType | None) -> ErrorT:
    """Return the same exception, with this traceback."""
    _TRACEBACK.__set__(error, frames)
    return error


def cause_of(error: BaseException) -> BaseException | None:
    """Return its cause: what it was raised from."""
    found: BaseException | None = _CAUSE.__get__(error)
    return found


def context_of(error: BaseException) -> BaseException | None:
    """Return its context: what was being handled when it was raised."""
    found: BaseException | None = _CONTEXT.__get__(error)
    return found


def told_context_of(error: BaseException) -> BaseException | None:
    """Return its context, where a traceback tells of it."""
    return None if _SUPPRESSES.__get__(error) else context_of(error)


def members_of(error: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions of a group; none where it is no group."""
    if not is_a(error, BaseExceptionGroup):
        return ()
    found: tuple[BaseException, ...] = _EXCEPTIONS.__get__(error)
    return found


def origins_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and all that it stems from: causes, contexts and members of groups, each once."""
    todo, seen = [error], set[int]()
    while todo:
        each = todo.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            todo += [other for other in (cause_of(each), context_of(each), *members_of(each)) if other is not None]


def with_cause(error: ErrorT, cause: BaseException) -> ErrorT:
    """Return the same exception, with this cause."""
    _CAUSE.__set__(error, cause)
    return error
