"""The text of an error in a log line: with its traceback, and with as much of what it says as may be shown.

``texts`` says whether the texts of exceptions may be shown. Some never are: those of errors that carry what a person
was asked or has answered (``private_text`` on their class). Of such an error there is its type, and where it was born.
No values of frames are ever shown: the error itself is not given to the log.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import TracebackType

from actors.model.event_dict import is_private
from actors.model.log_lines import from_users
from actors.model.raised import cause_of, context_of, frames_of, members_of, told_context_of
from actors.validation.introspection import type_name
from actors.validation.stack_text import exception_text, stack_of

MOST = 50
"""Errors of one chain that are shown."""
MOST_CHARS = 300
"""Characters of an error's text on one line."""


def is_secret(error: BaseException) -> bool:
    """True if the text of this error, or of one that led to it, is shown to nobody."""
    return any(is_private(each) for each in _related(error))


def described(error: BaseException, frames: TracebackType | None, *, texts: bool = True, is_whole: bool = False) -> str:
    """The error with its traceback, from the user's frame on; ``is_whole``: with the frames of this library above it.

    Its own code may run here, and raise: then its type has to do.
    """
    kind = type(error)
    try:
        if not texts or is_secret(error):
            return "".join(_with_types(error, frames, texts=texts)).rstrip()
        return exception_text(error, frames, is_whole=is_whole).rstrip()
    except BaseException as second:  # noqa: BLE001 - it is user code, and a line is all that is wanted
        name, why = type_name(kind), type_name(type(second))
        where = "".join(traceback.format_tb(frames))
        return f"{where}{name}: <no text: its own code raised {why} when it was to be formatted>"


def in_brief(error: BaseException, *, texts: bool = True) -> str:
    """The type of an error and what it says, on one line. Its own code may run here, and raise."""
    name = type_name(type(error))
    try:
        if not texts or is_private(error):
            return name
        said = " ".join(str.__str__(str(error))[: 2 * MOST_CHARS].split())
    except BaseException as second:  # noqa: BLE001 - it is user code, and a line is all that is wanted
        return f"{name}: <no text: its own code raised {type_name(type(second))}>"
    return f"{name}: {said if len(said) <= MOST_CHARS else f'{said[:MOST_CHARS]} ...'}" if said else name


def _related(error: BaseException) -> Iterator[BaseException]:
    """Return this error and all that a traceback tells with it, each once."""
    left, seen = [error], set[int]()
    while left and len(seen) < MOST:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        left += [other for other in (cause_of(each), context_of(each)) if other is not None]
        left += members_of(each)


def _with_types(error: BaseException, frames: TracebackType | None, *, texts: bool) -> Iterator[str]:
    """The chain of an error, the first cause first, each with its type in place of a text that is not shown."""
    chain, seen = list[BaseException](), set[int]()
    following: BaseException | None = error
    while following is not None and id(following) not in seen and len(chain) < MOST:
        chain.append(following)
        seen.add(id(following))
        cause = cause_of(following)
        following = told_context_of(following) if cause is None else cause
    for each in reversed(chain):
        where = frames if each is error and frames is not None else frames_of(each)
        where = from_users(where)
        if where is not None:
            yield "Traceback (most recent call last):\n"
            yield from stack_of(where).format()
        yield _line(each, texts=texts)
        if each is not error:
            yield "\nwhich led to:\n\n"


def _line(error: BaseException, *, texts: bool) -> str:
    name = type_name(type(error))
    if members := members_of(error)[:MOST]:
        return f"{name} of {', '.join(_line(each, texts=texts).rstrip() for each in members)}\n"
    if texts and not is_private(error):
        return "".join(traceback.format_exception_only(type(error), error))
    return f"{name}\n"
