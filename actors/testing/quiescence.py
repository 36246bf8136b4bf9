"""Proof that nothing happens any more: a round trip through every mailbox, never a sleep."""

from __future__ import annotations

from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.runtime.handle import Handle, system_of
from actors.runtime.system import System
from actors.supervision.child import Child, ChildState
from actors.supervision.supervisor_incarnation import Ping


def settle(tree: Handle, timeout_s: float = 10.0) -> None:
    """Return when everything that was set off so far has been handled, and every event delivered.

    Then no task could go on by itself: each one has ended, or waits for a time of the clock, a person, or a worker.
    A worker whose handler (or attempt) does not return, or a body that sends for ever, never settles.

    Raises:
        TimeoutError: something was still going on after ``timeout_s`` seconds.
    """
    system = system_of(tree)
    end = monotonic() + timeout_s
    before, quiet = -1, 0
    while True:
        if system.is_down:
            _wait(system.ended, system.root_path, end)
            _flush(system, end)  # also what was sent to a tree that was down already
            return
        _round_trip(system, end)
        moving = any(_is_moving(child) for child in list(system.children.values()))
        moving = moving or any(service.is_moving() for service in system.services.values())
        now = system.activity()
        # Twice: the children are looked at one after the other, and a restart may pass from one that is looked at
        # later to one that was looked at before. The next round trip waits until their supervisor is done with it.
        quiet = quiet + 1 if now == before and not moving else 0
        if quiet == 2:  # noqa: PLR2004 - see above
            return
        if monotonic() > end:
            message = f"{system.root_path}: something still starts or stops; it did not settle in time"
            raise TimeoutError(message)
        before = now


def _is_moving(child: Child) -> bool:
    """True where its supervisor has still to hear of its end, or it is a body (never quiet) on its way up or down."""
    incarnation = child.incarnation
    if incarnation is None:
        return False
    return incarnation.is_over or (child.standing is not ChildState.UP and not child.spec.is_supervisor)


def _round_trip(system: System, end: float) -> None:
    for fired in system.timers.firing:
        _wait(fired, system.root_path, end)
    for path in list(system.supervisors):
        _ping(system, path, end)
    for path, child in system.children.copy().items():
        if not child.spec.is_supervisor:
            _wait(child.mailbox.when_quiet(), path, end)
    for service in system.services.values():
        for what, reply in service.busy():
            _wait(reply, what, end)
    for path in list(system.supervisors):
        _ping(system, path, end)
    _flush(system, end)


def _flush(system: System, end: float) -> None:
    _wait(system.leftovers.when_done(), system.root_path, end)
    if not system.bus.flush(max(0.0, end - monotonic())):
        message = f"{system.root_path}: its events were not delivered in time"
        raise TimeoutError(message)


def _ping(system: System, path: str, end: float) -> None:
    supervisor = system.supervisors.get(path)
    if supervisor is None or supervisor.incarnation.is_over:
        return
    pong = Reply()
    if supervisor.incarnation.mailbox.post(Ping(), pong):
        _wait(pong, path, end)


def _wait(reply: Reply, path: str, end: float) -> None:
    if not reply.wait(max(0.0, end - monotonic())):
        message = f"{path}: still busy; it did not settle in time"
        raise TimeoutError(message)
