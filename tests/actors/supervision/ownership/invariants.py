"""What must hold of a supervisor whenever nothing moves, whatever was done to it and in whatever order.

``check`` looks at the tables from inside, as ``actors.supervision.child_ownership`` describes them, and at what runs
from outside. ``check_end`` looks when nothing is held any more: by then everything has ended, and everybody has an
answer.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from actors import ChildExited, ChildStarted, InternalError
from actors.messaging.mailbox import Mailbox, Refusal
from actors.messaging.supervisor_mailbox import SupervisorMailbox
from actors.supervision.child import Child, ChildState
from actors.supervision.procedures import RestartProcedure
from tests.actors.supervision.ownership.stage import LONG_S, Stage, outcome


def check(stage: Stage) -> None:
    """At any quiet moment."""
    wrong = list(stage.world.overlaps)
    system: Any = stage.tree._system
    if not system.is_down:
        wrong += unlisted_runs(stage)
        for supervisor in list(system.supervisors.values()):
            if not supervisor.incarnation.is_over:
                wrong += [f"{supervisor.path}: {fault}" for fault in wrong_tables(supervisor)]
                wrong += [str(fault) for child in supervisor.table for fault in wrong_child(supervisor, child)]
                wrong += [f"{plan} of {supervisor.path} waits for nothing" for plan in idle_plans(supervisor)]
    system.bus.flush(LONG_S)
    wrong += [str(event) for event in stage.events if isinstance(event, InternalError)]
    wrong += unmatched_exits(stage)
    assert not wrong, f"{wrong} after {stage.log}"


def unlisted_runs(stage: Stage) -> list[str]:
    """What runs is the present life of the child that is listed at its path."""
    system: Any = stage.tree._system
    wrong = []
    for run in stage.world.runs:
        listed = system.children.get(run.path)
        if run.lives and (listed is None or listed.incarnation is not run.incarnation):
            wrong.append(f"{run.path} runs and is not listed")
    return wrong


def wrong_tables(supervisor: Any) -> list[str]:
    """All tables of a supervisor and of its system name the same children, under their own ids."""
    roster, system = supervisor.table, supervisor.system
    wrong = []
    for id_, child in roster.children.items():
        if child.id != id_ or system.children.get(child.path) is not child:
            wrong.append(f"{id_} is not the child at {child.path}")
        if system.boxes.get(child.path) is not child.mailbox:
            wrong.append(f"{id_} has not the mailbox at {child.path}")
    listed = set(roster)
    wrong += [
        f"{id_} is significant and not listed" for id_, child in roster.significant.items() if child not in listed
    ]
    for id_, pool in roster.pools.items():
        members = {child.mailbox for child in listed if child.pool == id_}
        if set(pool.members) != members or len(pool.members) != len(members) or not members:
            wrong.append(f"pool {id_} has not the members that are listed")
        if system.boxes.get(pool.path) is not pool:
            wrong.append(f"pool {id_} is not at {pool.path}")
    prefix = f"{supervisor.path}/"
    at_home = {path for path in system.children if path.startswith(prefix) and "/" not in path[len(prefix) :]}
    wrong += [f"{path} is registered and not listed" for path in at_home - {child.path for child in listed}]
    return wrong


def wrong_child(supervisor: Any, child: Child) -> list[str]:
    """It stands as the table in ``actors.supervision.child_ownership`` says."""
    plan, standing, refusal = child.plan, child.standing, child.mailbox.refusal
    refuses = refusal in {Refusal.STOPPED, Refusal.PARKED, Refusal.FORGOTTEN}
    starts = plan is not None and plan.starts_again(child)
    worker = not child.spec.is_supervisor
    ends = supervisor.shutdown is not None  # then what becomes of its children is decided with its own fate
    rules = {
        "is listed and gone": standing is not ChildState.GONE,
        "belongs to a plan that is over": plan is None or not plan.over,
        "is down for good, and a restart has it": not (
            standing is ChildState.DOWN and isinstance(plan, RestartProcedure) and not starts
        ),
        "is stopped, and its mailbox is open": ends
        or not (worker and standing is ChildState.DOWN and not plan)
        or refuses,
        "waits for its start, and its mailbox is closed": not (standing is ChildState.DOWN and starts) or not refuses,
        "starts or stops and has no owner": standing not in {ChildState.STARTING, ChildState.STOPPING}
        or plan is not None,
        "runs, and its mailbox is closed": not (worker and standing is ChildState.UP) or not refuses,
        "is parked, and its mailbox is open": not (worker and standing is ChildState.PARKED) or refuses,
        "is parked, and to be started": not (standing is ChildState.PARKED and starts),
        "is down, and has a life": (child.incarnation is None) is child.is_down,
        "is down, and has a limit": not child.is_down or child not in supervisor.control.limits,
        "is awaited by a plan that does not know": all(child in each.busy for each in child.waiters or ()),
        "is a supervisor, and takes calls without an incarnation, or none with one": worker
        or (refusal is None) is (child.mailbox.attached is not None),
        "belongs to a call that has ended": ends or child.added_by in {None, *supervisor.starting},
    }
    return [f"{child} {rule}" for rule, holds in rules.items() if not holds]


def idle_plans(supervisor: Any) -> list[Any]:
    """Plans that are not over and that nothing will ever call again."""
    plans = {supervisor.first, supervisor.shutdown, supervisor.restarts.group, *supervisor.starting}
    for child in list(supervisor.table):
        plans |= {child.plan, *(child.waiters or ())}
    idle = []
    for plan in plans - {None}:
        acts = any(child.plan is plan or plan in (child.waiters or ()) for child in plan.busy)
        if not plan.over and not acts and plan.timer is None:
            idle.append(plan)
    return idle


def unmatched_exits(stage: Stage) -> list[str]:
    """At each path starts and ends take turns."""
    up: dict[str, bool] = defaultdict(bool)
    wrong = []
    for event in list(stage.events):
        if isinstance(event, ChildStarted) or (isinstance(event, ChildExited) and event.started):
            begins = isinstance(event, ChildStarted)
            if up[event.path] is begins:
                wrong.append(f"{event.path} {'started' if begins else 'ended'} twice")
            up[event.path] = begins
    return wrong


def check_end(stage: Stage) -> None:
    """Nothing is held any more and all times are over: everything has ended, and everybody has an answer."""
    system: Any = stage.tree._system
    stage.play(["free_all", "wait 1000"], check)
    while owned(system) and stage.log.count("wait 1000") <= len(stage.sent):
        stage.play(["wait 1000"], check)  # for the next backoff: each crash that was sent makes one
    assert [line for line in stage.results() if line.endswith("no answer")] == [], stage.log
    if not system.is_down:
        assert owned(system) == [], stage.log
        for path, box in list(system.boxes.items()):
            if not isinstance(box, SupervisorMailbox):
                answers(stage, path, box)
    stage.tree.stop()
    check(stage)
    assert not any(run.lives for run in stage.world.runs), stage.log
    assert [path for path, reply in stage.sent if outcome(reply) == "no answer"] == [], stage.log


def owned(system: Any) -> list[Child]:
    """Children with which something is going on."""
    return [child for sup in list(system.supervisors.values()) for child in sup.table if child.plan is not None]


def answers(stage: Stage, path: str, box: Any) -> None:
    """A mailbox answers: a worker does, or the mailbox says that nobody is there."""
    members = [box.path] if isinstance(box, Mailbox) else [member.path for member in box.members]
    states = [stage.tree.child(member).state for member in members]
    reply = stage.tree.ref(path).ask("anybody?", timeout=None, block=False)
    assert reply.wait(LONG_S), f"{path} is {states} and does not answer after {stage.log}"
    refusals = {"ActorStoppedError"} | ({"ParkedError"} if "parked" in states else set())
    assert outcome(reply) in ({"ok"} if "running" in states else refusals), (path, states, stage.log)
