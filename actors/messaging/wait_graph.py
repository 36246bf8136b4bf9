"""The wait graph, who waits for whom: read when somebody is about to wait, and never copied into messages.

::

    Current --waits--> Reply --handled_by--> Current --waits--> Reply ...     what must end before I can go on
    Current --reply--> Reply --waiters-----> Current --reply--> Reply ...     who cannot go on before I have ended

A node is a request (``actors.messaging.envelope.CurrentMessage``) or the answer that it waits for, or will give
(``Awaited``). An edge exists exactly as long as the wait. So a request that nobody waits for (``block=False``) is in
nobody's way, and a circle is refused at the moment at which the last one of it begins to wait. Who waits for a task is
no part of this graph: attempts carry that in their chain (``actors.tasks.engine.task_waits``).

The race: two requests may close one circle at the same moment. Each first enters its edge and then looks. So at least
one of the two sees the other and is refused; if both are, none of them hangs. An edge is looked at once, when it is
entered: whoever enters one later looks at that. Where a wait is known before what is to bring the answer has begun
(``waiting_for``), a second look would refuse the wait itself, in place of the code that asks there against it.

A request may end, on another thread, at any moment of this: ``CurrentMessage.end`` takes ``waits`` and ``reply`` away.
So each field is read once, and what was read is used.

Locking: none. Sets are changed and copied in one step of C; the first one of a request or a reply is set by
``actors.concurrency.shared_fields.first_of``.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from actors.concurrency.shared_fields import first_of
from actors.messaging.envelope import CURRENT, own_error
from actors.model.errors import RecursionDetectedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.messaging.envelope import Address, CurrentMessage
    from actors.messaging.reply import Reply

NOBODY: Final[Any] = frozenset()  # never changed: a set takes its place
"""Waiters of a reply that nobody has waited for so far."""


class Awaited:
    """An answer that requests wait for: its place in the graph."""

    __slots__ = ("handled_by", "target", "waiters")

    target: Address | None
    """Address that answers, where that is known."""
    waiters: set[CurrentMessage]
    """The requests that wait for it now."""
    handled_by: CurrentMessage | None
    """The request that it will be the answer of, while that is being handled."""


def enter(reply: Reply) -> CurrentMessage | None:
    """The code that runs here is about to wait for this reply.

    Returns:
        What to ``leave`` with; None where that concerns nobody: outside of a request, or for no worker's answer.

    Raises:
        RecursionDetectedError: whoever is to answer waits, directly or not, for the request that is handled here.
    """
    current = CURRENT.get()
    if current is None or reply.target is None or not current.in_request:
        return None
    waiters = _waiters_of(reply)
    if current in waiters:  # ``waiting_for`` has entered it
        look_again(reply, current)
        return None
    if (pulse := current.incarnation.pulse) is not None:
        pulse.enter(current)
    _waits_of(current).add(reply)
    waiters.add(current)
    _check(reply, current)
    look_again(reply, current)
    return current


def enter_new(reply: Reply, current: CurrentMessage) -> CurrentMessage | None:
    """``enter`` for code of this request, before anybody else knows of the reply: so nobody handles it yet.

    Then the target can only be in a circle if it is the asker, or waits for it. Most often nobody else does.
    """
    target = reply.target
    if target is None or not current.in_request:
        return None
    if (pulse := current.incarnation.pulse) is not None:
        pulse.enter(current)
    waits = current.waits
    (_waits_of(current) if waits is None else waits).add(reply)
    reply.waiters = {current}
    origin, answer, own = current.origin, current.reply, current.incarnation.mailbox
    alone = not (origin is not None and origin.chain) and not (answer is not None and answer.waiters)
    if not alone or own is target or (own.pool is not None and own.pool is target.address):
        _check(reply, current)
    return current


def _waits_of(current: CurrentMessage) -> set[Reply]:
    waits = current.waits
    return first_of(current, "waits", set()) if waits is None else waits


def _waiters_of(reply: Reply) -> set[CurrentMessage]:
    waiters = reply.waiters
    return first_of(reply, "waiters", set(), NOBODY) if waiters is NOBODY else waiters


def list_wait(reply: Reply) -> None:
    """List a reply with its target, which is to bring it and has no message of it. Before it is waited for.

    So whoever brings the target down finds it, as an ask in the mailbox (``actors.supervision.dead_ends``).
    """
    box = reply.target
    if box is not None:
        waits = box.waits
        waits = first_of(box, "waits", set()) if waits is None else waits
        waits.add(reply)
        reply.when_done(partial(waits.discard, reply))


def leave(reply: Reply, entered: CurrentMessage | None) -> None:
    """The wait that was entered is over."""
    if entered is not None:
        if (pulse := entered.incarnation.pulse) is not None:
            pulse.leave(entered)
        waiters: Any = reply.waiters
        waiters.discard(entered)
        waits = entered.waits
        if waits is not None:
            waits.discard(reply)


@contextmanager
def waiting_for(reply: Reply) -> Iterator[None]:
    """Wait for a reply in this block. That is known before anything begins there that is to bring it.

    *Who brings it asks somebody, against the wait for it*: what it must not wait for follows from who waits for it.
    """
    entered = enter(reply)
    try:
        yield
    finally:
        leave(reply, entered)


def look_again(reply: Reply, current: CurrentMessage) -> None:
    """Fail a reply that code of this request waits for where it cannot come in time.

    To be called once the message is in the mailbox, because whoever it is for may have gone down before that. See
    ``actors.supervision.dead_ends``.
    """
    target = reply.target
    if target is not None and not reply.done and not reply.is_of_end and current.in_request:
        error = current.incarnation.system.dead_end(target, current)
        if error is not None:
            reply.abandon()
            reply.fail(error)


def redirect(reply: Reply, target: Address) -> None:
    """Check a reply again whose message goes to another target: those who wait for it may wait for themselves now.

    Raises:
        RecursionDetectedError: they do.
    """
    reply.target = target
    for current in set(reply.waiters):
        _check(reply, current)


def _check(reply: Reply, current: CurrentMessage) -> None:
    """Refuse a wait of this request that would be one for itself: that is reported."""
    circle = find_circle(current, reply)
    if circle is not None:
        leave(reply, current)
        current.incarnation.system.recursion_refused(circle[-1].path, circle[:-1])
        # A call aside has the path of its caller.
        paths = (path for path, _ in groupby(address.path for address in circle[:-1]))
        raise own_error(RecursionDetectedError((*paths, circle[-1].path)))


def find_circle(current: CurrentMessage, reply: Reply) -> tuple[Address, ...] | None:
    """Return who would wait for whom if code of this request waited for this reply, where that leads back to the asker.

    The first and the last of what is returned are those who wait for each other. None: there is no circle.
    """
    held_up = current.held_up()
    if not held_up:
        return None
    waiting = tuple(box.address for box in held_up)
    in_vain = {*waiting, *held_up}
    todo: list[tuple[Reply, tuple[Address, ...]]] = [(reply, waiting)]
    seen: set[Reply] = set()
    while todo:
        each, trail = todo.pop()
        if each in seen or each.done:
            continue
        seen.add(each)
        target = each.target
        if target is not None and target.address in in_vain:
            return (*trail, target)
        handler = each.handled_by
        waits = handler.waits if handler is not None and handler.in_request else None
        if waits:
            trail = trail if target is None else (*trail, target)
            todo.extend((further, trail) for further in waits.copy())
    return None
