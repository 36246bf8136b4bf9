"""``python -m tests.scenarios.isolation``: ten sub-agents of which one fails give nine results."""

from __future__ import annotations

import threading

from actors import Context
from trees import StaticPlan, Subtask, SubtaskFailed, SupervisorSpec, TaskFailedError, Tasks, WorkerSpec, start

PATIENCE_S = 60.0
PLAN = [Subtask(f"part-{n}", str(n), capability="search") for n in range(10)]


def main() -> None:
    one_has_failed = threading.Event()

    def agent(task: Subtask, context: Context) -> str:
        if task.id == "part-3":
            raise ValueError("nothing found")
        return "found" if one_has_failed.wait(PATIENCE_S) else "nobody failed"

    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan(PLAN), on_failure=[]),
        children=[WorkerSpec(id="agent", execute=agent, type="agent", capabilities={"search"}, pool=10)],
    )
    with start(team) as tree:
        tree.subscribe(lambda event: one_has_failed.set() if isinstance(event, SubtaskFailed) else None)
        try:
            tree.run("search in ten places", timeout=PATIENCE_S)
        except TaskFailedError as error:
            report = error.report

    assert report is not None
    print(f"{report.status} with {len(report.results)} results: {', '.join(report.results)}")
    for name, why in report.failed.items():
        print(f"{name}: {why}")
    print(f"cut short: {len(report.skipped)}")


if __name__ == "__main__":
    main()
