"""The tree that is struck."""

from __future__ import annotations

from typing import Any

from tests.faults.kill_workers import crew
from trees import Backoff, Command, Process, Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec

NEVER = {"max_restarts": 10**9, "period_s": 1.0}
SOON = Backoff(initial_s=0.01, max_s=0.05)
OFTEN = [Retry(max_attempts=1_000, initial_s=0.01, max_s=0.05)]
HANGS = "k/hangs"
TARGETS = ("k/pool", "k/sync", "k/async", "k/all/one", "k/all/aside", "k/rest/later", HANGS)
"""Whom messages are sent to."""
VICTIMS = (
    *(f"k/pool#{n}" for n in range(3)),
    *("k/sync", "k/async", HANGS, "k/body", "k/async_body", "k/server"),
    *("k/all/one", "k/all/two", "k/rest/server", "k/rest/later", "k/team/work#0", "k/team/work#1"),
)
"""What has a process."""
PLAN = [
    Subtask("a", "first", worker="work"),
    Subtask("b", "second", worker="work"),
    Subtask("c", "last", worker="work", depends_on=["a", "b"]),
]


def declare(notes: str, *more: SupervisorSpec) -> SupervisorSpec:
    """Every form of work in a process, commands, pools and groups, and more; nothing that ever gives up."""
    process = Process(env={crew.NOTES: notes})
    inside: dict[str, Any] = {"dispatch": process, "shutdown": 1.0, "start_timeout_s": 60.0, "backoff": SOON}
    outside: dict[str, Any] = {"shutdown": 1.0, "start_timeout_s": 60.0, "backoff": SOON}
    server = Command(["/bin/sh", "-c", "echo ready; sleep 600 & wait"], ready="ready")
    return SupervisorSpec(
        id="k",
        **NEVER,
        children=[
            WorkerSpec(id="pool", handle=crew.act, pool=3, **inside),
            WorkerSpec(id="sync", actor=crew.Sync, **inside),
            WorkerSpec(id="async", actor=crew.Async, **inside),
            WorkerSpec(id="hangs", handle=crew.act, stall_s=0.5, **inside),
            WorkerSpec(id="body", run=crew.body, **inside),
            WorkerSpec(id="async_body", run=crew.async_body, **inside),
            WorkerSpec(id="server", command=server, **outside),
            SupervisorSpec(
                id="all",
                strategy="one_for_all",
                **NEVER,
                children=[
                    WorkerSpec(id="one", actor=crew.Sync, **inside),
                    WorkerSpec(id="aside", handle=crew.act, pool=2, **inside | {"shutdown": "brutal_kill"}),
                    WorkerSpec(id="two", handle=crew.act, **inside),
                ],
            ),
            SupervisorSpec(
                id="rest",
                strategy="rest_for_one",
                **NEVER,
                children=[
                    WorkerSpec(id="server", command=server, **outside),
                    WorkerSpec(id="later", actor=crew.Async, **inside),
                ],
            ),
            SupervisorSpec(
                id="team",
                **NEVER,
                tasks=Tasks(planner=StaticPlan(PLAN)),
                children=[WorkerSpec(id="work", execute=crew.execute, pool=2, on_failure=OFTEN, **inside)],
            ),
            *more,
        ],
    )


def renewed_of(spec: SupervisorSpec) -> WorkerSpec:
    """The child that is deleted and declared anew."""
    (found,) = (each for each in spec.children if each.id == "sync")
    assert isinstance(found, WorkerSpec)
    return found
