"""``python -m tests.scenarios.loop``: three agents that would delegate to each other for ever end in one error."""

from __future__ import annotations

import time
from collections import Counter

from actors import Context
from trees import StaticPlan, Subtask, SupervisorSpec, TaskFailedError, Tasks, WorkerSpec, start

PATIENCE_S = 60.0
NEXT = {"plan": "research", "research": "write", "write": "plan"}


def main() -> None:
    calls: Counter[str] = Counter()

    async def agent(task: Subtask, context: Context, name: str) -> str:
        calls[name] += 1
        answer: str = await context.ask(NEXT[name], f"{name} needs {NEXT[name]}")
        return answer

    agents = [WorkerSpec(id=name, execute=agent, type="agent", kwargs={"name": name}) for name in NEXT]
    with start(SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan([Subtask("plan")])), children=agents)) as tree:
        began = time.perf_counter()
        try:
            tree.run("go round in circles", timeout=PATIENCE_S)
        except TaskFailedError as error:
            print(error)
        took_ms = 1000 * (time.perf_counter() - began)

    print(f"calls: {dict(calls)}")
    print(f"ended after {took_ms:.0f} ms")


if __name__ == "__main__":
    main()
