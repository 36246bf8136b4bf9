"""``python -m tests.trees.ha.cluster_candidate URL ADDRESS NOTES``: a leader whose workers run in a cluster of Ray.

It submits a plan of many parts, and prints a line for each that has succeeded. It ends when its input does.
"""

from __future__ import annotations

import sys

from loguru import logger

from actors import Event
from tests.support.clusters import on_ray
from tests.tasks.execution import process_work as there
from trees import HA, Retry, StaticPlan, Subtask, SubtaskSucceeded, SupervisorSpec, Task, Tasks, WorkerSpec, start

PARTS = 200
POOL = 2
TASK = "long"
LEASE_S = 8.0


def spec(address: str) -> SupervisorSpec:
    """Return the tree of each candidate: a pool of actors in the cluster."""
    plan = StaticPlan([Subtask(f"n{at}", worker="w") for at in range(PARTS)])
    limits = {"max_subtasks": PARTS, "max_parallel": POOL}
    tasks = Tasks(planner=plan, on_failure=[Retry(initial_s=0.1, max_attempts=5)], **limits)
    place = on_ray(address=address)
    return SupervisorSpec(
        id="t",
        tasks=tasks,
        children=[WorkerSpec(id="w", execute=there.part, dispatch=place, pool=POOL, start_timeout_s=300.0)],
    )


def main(url: str, address: str, notes: str) -> None:
    """Lead, until the input ends."""
    logger.remove()

    def hear(event: Event) -> None:
        if isinstance(event, SubtaskSucceeded):
            print(event.subtask, flush=True)

    with start(spec(address), store=url, ha=HA(lease_s=LEASE_S, name="first")) as tree:
        tree.subscribe(hear)
        tree.submit(Task("go", id=TASK, inputs={"notes": notes}))
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
