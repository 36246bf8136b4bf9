"""Asks that cannot be answered before their asker has ended, or has started.

A child is started when those before it are up. One of these that waits for its reply in ``on_start``, directly or not,
would wait until its own time is up. So such an ask fails at once. (In OTP all asks of one that is not up do.)

A child that is stopped in order to come back keeps its messages: it comes back when the others of its group have
stopped, too, and its supervisor with it. Where one of these others waits for its reply, directly or not, each would
wait for the other until the asker's time is up, or until it is killed for not stopping. So such an ask fails at once.
(In OTP all asks of one that is down do.) A tell, and an ask of anybody else, waits for the next incarnation.

Such an ask may come before the child goes down, or after:

* *before*: the message stands in its mailbox. Its supervisor looks there when the child is down (``refuse_dead_ends``).
* *after*: whoever asks looks, once its message is in the mailbox (``actors.messaging.wait_graph.look_again``).
* *while*: the asker enters its wait, puts its message, and then looks. The supervisor notes that the child is down, and
  then looks. So at least one of the two sees both, and that an ask fails twice changes nothing.

Whoever waits for a task waits for its orchestrator, and is listed with its mailbox (``wait_graph.list_wait``).
An ask that waits for room in a full mailbox is not in it yet: the supervisor has all in line look again
(``actors.messaging.room_waits``). A group may grow: the supervisor then looks again at those that are down already.
A supervisor whose start fails ends in the middle of that: it looks at those that are started after it.
Nothing is locked: what is read of another supervisor's children is right at some moment during the look, and while an
asker runs it has not ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from actors.messaging.mailbox import Mailbox
from actors.messaging.message_errors import ActorStoppedError
from actors.messaging.pool_address import PoolAddress
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import look_again
from actors.model.spec import SupervisorRecipe
from actors.supervision.child import Child, ChildState

if TYPE_CHECKING:
    from actors.messaging.envelope import Address, CurrentMessage
    from actors.supervision.registry import Registry
    from actors.supervision.supervisor import Supervisor


Late: TypeAlias = Literal["start", "end"]
"""After what of its asker a child is started: his start, or his end."""
_RUNS: Final = (ChildState.STARTING, ChildState.UP, ChildState.STOPPING)


def dead_end(system: Registry, target: Address, current: CurrentMessage) -> ActorStoppedError | None:
    """Return why a reply of ``target`` will not come while code of this request waits for it; None: it may come.

    Nobody of another tree is started, or stopped, after anybody of this one.
    """
    if not isinstance(target, PoolAddress):
        if target.attached is not None:
            return None  # as most often
        members = [target]
    else:
        members = [member for member in tuple(target.members) if member.refusal is None]  # a closed one takes nothing
        if not members or any(member.attached is not None for member in members):
            return None
    if system.boxes.get(target.path) is not target:
        return None
    late: list[tuple[str, Late]] = []
    for asker in current.held_up():
        paths = _running(system, asker) if system.boxes.get(asker.path) is asker else []
        what = {_comes_after(system, member.path, path) for member in members for path in paths}
        if None not in what:
            late += [(path, "start" if what == {"start"} else "end") for path in paths]
    if not late:
        return None
    path, what_first = late[0]
    if what_first == "start":
        why = f"is not started before {path!r} has started"
    else:
        why = f"is stopped, and not started again before {path!r} has ended"
    error = ActorStoppedError(target.path, why)
    error.stop_first = tuple(path for path, each in late if each == "end")
    return error


def _running(system: Registry, asker: Address) -> list[str]:
    """Return the path of an asker; of a pool, one of which asks, those of all members that run."""
    if not isinstance(asker, PoolAddress):
        return [asker.path]
    members = [(path := member.path, system.children.get(path)) for member in tuple(asker.members)]
    return [path for path, child in members if child is not None and child.standing in _RUNS]


def _comes_after(system: Registry, path: str, asker: str) -> Late | None:
    """Say whether the child at ``path`` is down, and starts after the asker's start or its end; None: after neither."""
    parts, others = path.split("/"), asker.split("/")
    shared = next((n for n, (one, other) in enumerate(zip(parts, others, strict=False)) if one != other), 0)
    supervisor = system.supervisors.get("/".join(parts[:shared]))
    child = system.children.get("/".join(parts[: shared + 1]))
    sibling = system.children.get("/".join(others[: shared + 1]))
    if supervisor is None or child is None or sibling is None or not child.is_down or sibling.standing not in _RUNS:
        return None
    if supervisor.shutdown is not None:
        return "end"
    plan = child.plan
    if plan is None or plan is not sibling.plan:
        return None
    starts = sibling.standing is ChildState.STARTING
    if plan.stops_first and (not starts or plan.is_to_stop(sibling) or sibling.standing is ChildState.STOPPING):
        return "end"  # the last look finds one that has had its turn since the first
    return _comes_after_its_start(system, sibling, others, shared + 1) if starts and not sibling.is_up else None


def _comes_after_its_start(system: Registry, sibling: Child, asker: list[str], depth: int) -> Late | None:
    """Say after what of the asker the next one is started: ``sibling``, above him or he himself, is not up yet.

    Once it is up nothing waits for it, also where its supervisor hears of that later, and whatever becomes of it.
    """
    if any(below.shutdown is not None for below in _between(system, asker, depth)):
        return "end"  # the start of one of these has failed, and it ends first
    own, above = system.children.get("/".join(asker)), system.supervisors.get("/".join(asker[:-1]))
    incarnation = None if own is None else own.incarnation
    if own is None or own.plan is None or incarnation is None or incarnation.came_up:
        return None
    is_waited_for = own is sibling or (above is not None and own.plan is above.first)  # and was not added meanwhile
    return "start" if is_waited_for else None


def _between(system: Registry, parts: list[str], first: int) -> Iterator[Supervisor]:
    """Yield the supervisors above a child, from that with so many parts in its path on."""
    for number in range(first, len(parts)):
        below = system.supervisors.get("/".join(parts[:number]))
        if below is not None:
            yield below


def refuse_dead_ends_above(supervisor: Supervisor) -> None:
    """Fail the asks of the children of one that ends in its start, where they wait for one that is started after it."""
    system, path = supervisor.system, supervisor.path
    while (above := system.supervisors.get(path.rpartition("/")[0])) is not None:
        child = system.children.get(path)
        if child is None or child.standing is not ChildState.STARTING or child.is_up or (plan := child.plan) is None:
            return
        for later in plan.starts.copy():
            if later.plan is plan and later.is_down:  # else another plan has it, and perhaps it is at work
                refuse_dead_ends(above, later)
        path = above.path


def refuse_dead_ends(supervisor: Supervisor, child: Child) -> None:
    """A child is down, and is to come back: fail the asks in its mailbox that cannot be answered before that."""
    for box in _inboxes(supervisor, child):
        for reply in _replies(box):
            for current in set(reply.waiters):
                look_again(reply, current)
        if box.places is not None:
            for room in box.places.everybody_in_line():
                room.complete()  # who waits for room tries again, and looks: see ``Ref``


def _replies(box: Mailbox | PoolAddress) -> list[Reply]:
    """Return the replies of the asks that wait there, and what else is waited for.

    Nobody takes messages meanwhile: whoever did is down.
    """
    with box.lock:
        waiting = list(box.queue.copy())
        if isinstance(box, Mailbox) and (batch := list(box.batch)):
            box.batch = iter(batch)
            waiting += batch
    return [*(box.waits or set[Reply]()).copy(), *(reply for _, reply, _ in waiting if reply is not None)]


def _inboxes(supervisor: Supervisor, child: Child) -> Iterator[Mailbox | PoolAddress]:
    """Yield what keeps messages for a child, or for the children of a supervisor."""
    if isinstance(child.spec.recipe, SupervisorRecipe):
        below = supervisor.system.supervisors.get(child.path)
        if below is not None:
            for each in below.table:
                yield from _inboxes(below, each)
        return
    yield child.mailbox
    pool = None if child.pool is None else supervisor.table.pools.get(child.pool)
    if pool is not None:
        yield pool
