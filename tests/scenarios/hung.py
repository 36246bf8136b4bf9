"""``python -m tests.scenarios.hung``: a tool that hangs is replaced, and its slot is free again."""

from __future__ import annotations

import threading

from actors import Context
from trees import Retry, StaticPlan, Subtask, SubtaskRetrying, SupervisorSpec, Tasks, WorkerSpec, start

PATIENCE_S = 60.0


def main() -> None:
    released = threading.Event()

    def tool(task: Subtask, context: Context) -> str:
        if context.attempt == 1:
            released.wait(PATIENCE_S)  # a thread: nobody can end it
        return f"done in attempt {context.attempt}"

    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("tool")]), max_parallel=1, on_failure=[Retry(initial_s=0.01)]),
        children=[WorkerSpec(id="tool", execute=tool, timeout_s=2.0)],
    )
    with start(team) as tree:
        handle = tree.submit("use the tool")  # there is one slot: a second attempt shows that it is free
        report = handle.result(PATIENCE_S)
        for event in handle.events():
            if isinstance(event, SubtaskRetrying):
                print(f"attempt {event.attempt}: {event.error}")
        print(f"tool: {report.results['tool']}")
        print(tree.dump())
        released.set()


if __name__ == "__main__":
    main()
