"""Children of a running system: looked at and changed from outside, by path, as OTP's ``supervisor`` module does.

A host adds what it knows of declarations (``trees.Tree`` checks and builds the spec of a new child). Changes are calls
to the supervisor: it does one after the other, and the caller waits for the answer.
"""

from __future__ import annotations

from typing import Final

from actors.messaging.blocking import require_thread
from actors.messaging.mailbox import Refusal
from actors.messaging.pool_address import PoolAddress
from actors.messaging.ref import Ref, ref_of
from actors.messaging.reply import Reply
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.model.child_state import WORST_FIRST, ChildCounts
from actors.model.errors import ChildError, UnknownPathError
from actors.model.raised import is_a
from actors.model.spec import ChildSpec, SupervisorRecipe
from actors.runtime.system import System
from actors.supervision.child import Child, ChildInfo
from actors.supervision.child_calls import DeleteChild, RestartChild, StartChild, TerminateChild
from actors.supervision.supervisor import Supervisor
from actors.validation.validation_messages import require_path


def supervisor_of(system: System, path: str) -> Supervisor:
    """Return the present, or last, incarnation of a supervisor.

    Raises:
        UnknownPathError: no supervisor of this path is listed now.
    """
    require_path(path)
    supervisor = system.supervisors.get(path)
    if supervisor is None:
        raise system.no_supervisor(path)
    return supervisor


def recipes_up(system: System, path: str) -> list[SupervisorRecipe]:
    """Return the recipes of a supervisor and of those above it, the root's first."""
    ends = [n for n, each in enumerate(path) if each == "/"]
    return [supervisor_of(system, path[:end]).recipe for end in (*ends, len(path))]


def children_of(system: System, path: str) -> list[Child]:
    """Return the children of a supervisor in start order."""
    return list(supervisor_of(system, path).table.children.values())


def specs_of(system: System, path: str) -> list[ChildSpec]:
    """Return the specs of the children of a supervisor."""
    return [child.spec for child in children_of(system, path)]


def which_children(system: System, path: str) -> list[ChildInfo]:
    """Return the children of a supervisor as they stand now, in start order."""
    return [child.info(system) for child in children_of(system, path)]


def count_children(system: System, path: str) -> ChildCounts:
    """Count the children of a supervisor: listed, running now, and listed by kind."""
    children = children_of(system, path)
    supervisors = sum(child.spec.is_supervisor for child in children)
    active = sum(child.state == "running" for child in children)
    return ChildCounts(len(children), active, supervisors, len(children) - supervisors)


def members_of(system: System, path: str) -> list[Child]:
    """Return the members of a pool that are listed; none where it is no pool."""
    box, listed = system.boxes.get(path), system.children
    members = list(box.members) if isinstance(box, PoolAddress) else []
    return [child for member in members if (child := listed.get(member.path)) is not None]


def child_info(system: System, path: str) -> ChildInfo:
    """Return one child, or a pool as one, as it stands now."""
    require_path(path)
    child = system.children.get(path)
    if child is not None:
        return child.info(system)
    box = system.boxes.get(path)
    if not isinstance(box, PoolAddress):
        raise UnknownPathError(path, system.near(path))
    return _pool_info(box, [member.info(system) for member in members_of(system, path)], system)


def start_child(system: System, path: str, spec: ChildSpec) -> Ref:
    """Add a child to a supervisor, and return when it is up."""
    supervisor = supervisor_of(system, path)
    _call(system, path, StartChild(spec))
    box = system.boxes.get(f"{path}/{spec.id}")
    return Ref(system, box if box is not None else supervisor.table.closed_mailbox(spec.id))


def terminate_child(system: System, path: str) -> None:
    """Stop a child, or all members of a pool, for good."""
    system.refuse_own_end(path)
    _child_call(system, path, TerminateChild)


def restart_child(system: System, path: str) -> Ref:
    """Start a child that is stopped or parked, and return when it is up."""
    _child_call(system, path, RestartChild)
    return ref_of(system, path)


def delete_child(system: System, path: str) -> None:
    """Take a child that is stopped or parked off the list."""
    _child_call(system, path, DeleteChild)


def _child_call(system: System, path: str, call: type[TerminateChild | RestartChild | DeleteChild]) -> None:
    parent, _, id_ = path.rpartition("/") if is_a(path, str) else ("", "", "")  # no path, no child
    if not system.is_down and not isinstance(system.boxes.get(parent), SupervisorMailbox):
        raise ChildError(path, "not_found")
    _call(system, parent, call(id_))


_METHODS: Final[dict[type, str]] = {
    StartChild: "start_child",
    TerminateChild: "terminate_child",
    RestartChild: "restart_child",
    DeleteChild: "delete_child",
}


def _call(system: System, path: str, message: StartChild | TerminateChild | RestartChild | DeleteChild) -> None:
    if system.is_down:
        raise system.down_error(path or system.root_path)
    require_thread(path, f"await asyncio.to_thread(tree.{_METHODS[type(message)]}, ...)")
    reply = Reply()
    reply.arm()
    box = system.boxes.get(path)
    refusal = box.call(message, reply) if isinstance(box, SupervisorMailbox) else Refusal.FORGOTTEN
    if refusal is not None:
        raise system.stopped_error(path, refusal)
    reply.get_armed()


def _pool_info(box: PoolAddress, members: list[ChildInfo], system: System) -> ChildInfo:
    """A pool as one child: the state that most says what is wrong, sums, and the newest exit."""
    states = {member.state for member in members}
    exits = [member.last_exit for member in members if member.last_exit is not None]
    return ChildInfo(
        id=box.path.rpartition("/")[2],
        path=box.path,
        kind="worker",
        state=next((state for state in WORST_FIRST if state in states), "stopped"),
        incarnation=max((member.incarnation for member in members), default=0),
        restarts=sum(member.restarts for member in members),
        restart=members[0].restart if members else "permanent",
        last_exit=max(exits, key=lambda exit_: exit_.at, default=None),
        ref=Ref(system, box),
    )
