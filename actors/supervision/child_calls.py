"""The four child calls, as messages to a supervisor (SEMANTICS.md, "Children at run time").

Each is checked against the table of children when its turn comes, and refused with a code, or becomes a plan that
answers the caller when it is done. A pool's id stands for all its members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.model.errors import ChildError, ChildErrorCode, StartError
from actors.model.record import record
from actors.model.spec import ChildSpec
from actors.supervision.child import Child, ChildState
from actors.supervision.procedures import InitialStart, StartCall, TerminateCall
from actors.validation.introspection import type_name

if TYPE_CHECKING:
    from actors.messaging.reply import Reply
    from actors.supervision.supervisor import Supervisor


@record
class StartChild:
    """Add a child and start it."""

    spec: ChildSpec

    def carry_out(self, supervisor: Supervisor, reply: Reply) -> None:
        """List it at the end and start it; refused where its id is taken or there is no room."""
        table, limit = supervisor.table, supervisor.recipe.max_children
        present = table.find(self.spec.id)
        path = f"{supervisor.path}/{self.spec.id}"
        if present:
            started = any(not child.is_down and not _comes_back(child) for child in present)
            reply.fail(ChildError(path, "already_started" if started else "already_present"))
        elif limit is not None and len(table) + (self.spec.pool or 1) > limit:
            reply.fail(ChildError(path, "max_children"))
        else:
            added = table.add(self.spec, dynamic=True)
            if self.spec.pool is None and self.spec.starts_at_once:
                _start_at_once(supervisor, added[0], reply)
            else:
                _start(supervisor, added, reply, keep=False)


@dataclass(frozen=True, slots=True)
class TerminateChild:
    """Stop a child for good."""

    id: str

    def carry_out(self, supervisor: Supervisor, reply: Reply) -> None:
        """Stop it, whatever it is doing: a pending restart is cancelled for good."""
        children = _found(supervisor, self.id, reply)
        if children:
            supervisor.carry_out(TerminateCall(children, reply))


@dataclass(frozen=True, slots=True)
class RestartChild:
    """Start a child that is stopped or parked."""

    id: str

    def carry_out(self, supervisor: Supervisor, reply: Reply) -> None:
        """Start it with a clean slate; not tried again where it fails."""
        children = _found(supervisor, self.id, reply)
        down = [child for child in children if _is_idle(child)]
        if children and not down:
            reply.fail(_busy_error(supervisor, self.id, children))
        elif down:
            for child in down:
                child.standing = ChildState.DOWN
                child.window = None
                child.consecutive = 0
            _start(supervisor, down, reply, keep=True)


@dataclass(frozen=True, slots=True)
class DeleteChild:
    """Take a child that is stopped or parked off the list."""

    id: str

    def carry_out(self, supervisor: Supervisor, reply: Reply) -> None:
        """Forget it, and answer what is in its mailbox; refused for what belongs to the supervisor, in any state."""
        children = _found(supervisor, self.id, reply)
        if any(child.spec.owned for child in children):
            reply.fail(ChildError(f"{supervisor.path}/{self.id}", "owned"))
        elif children and not all(_is_idle(child) for child in children):
            reply.fail(_busy_error(supervisor, self.id, children))
        elif children:
            for child in children:
                supervisor.forget(child)
            reply.complete()


def _start(supervisor: Supervisor, children: list[Child], reply: Reply, *, keep: bool) -> None:
    call = StartCall(children, reply, keep=keep)
    supervisor.starting.add(call)
    supervisor.carry_out(call)


def _start_at_once(supervisor: Supervisor, child: Child, reply: Reply) -> None:
    """Start a child of whose start nothing has to be waited for: so it needs no plan, which nobody would meet."""
    try:
        supervisor.start_at_once(child)
    except BaseException as error:  # a bug of ours, which ends this supervisor: the caller is not to wait for ever
        reply.fail(StartError(child.path, f"raised {type_name(type(error))} in its supervisor"))
        raise
    reply.complete()


def _found(supervisor: Supervisor, id_: str, reply: Reply) -> list[Child]:
    children = supervisor.table.find(id_)
    if not children:
        reply.fail(ChildError(f"{supervisor.path}/{id_}", "not_found"))
    return children


def _is_idle(child: Child) -> bool:
    """Stopped or parked, and nothing is about to change that."""
    return child.is_down and child.plan is None


def _comes_back(child: Child) -> bool:
    """True if it is being *re*started; a child that starts for the first time counts as started."""
    first = isinstance(child.plan, (StartCall, InitialStart))
    return child.is_restarting and not first


def _busy_error(supervisor: Supervisor, id_: str, children: list[Child]) -> ChildError:
    code: ChildErrorCode = "restarting" if any(child.is_restarting for child in children) else "running"
    return ChildError(f"{supervisor.path}/{id_}", code)
