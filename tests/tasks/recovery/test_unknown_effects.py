"""CONTRACT 4, MCP servers: a crash in the middle of what must not be done twice is tried again by nobody."""

from __future__ import annotations

from typing import Any

import pytest

from actors import UnknownEffectError, Worker
from tests.support.hardening import eventually
from trees import Failover, Plan, Retry, Subtask, SupervisorSpec, Task, TaskFailedError, Tasks, WorkerSpec, start

AT_ONCE = Retry(max_attempts=5, initial_s=0.0, max_s=0.0)


@pytest.mark.parametrize(("error", "calls"), [(UnknownEffectError, ["a"]), (ConnectionError, ["a"] * 5 + ["b"] * 5)])
@pytest.mark.parametrize("is_async", [False, True])
def test_neither_retry_nor_failover_does_it_a_second_time(
    error: type[Exception], calls: list[str], is_async: bool
) -> None:
    seen: list[str] = []

    class Pays(Worker):
        def execute(self, task: Any, context: Any) -> Any:
            seen.append(context.path.rpartition("/")[2])
            raise error("the line went dead")

    class PaysAsync(Worker):
        async def execute(self, task: Any, context: Any) -> Any:
            seen.append(context.path.rpartition("/")[2])
            raise error("the line went dead")

    actor = PaysAsync if is_async else Pays
    workers = [
        WorkerSpec(id=id_, actor=actor, capabilities={"pay"}, on_failure=[AT_ONCE, Failover()], breaker=None)
        for id_ in "ab"
    ]
    spec = SupervisorSpec(id="office", tasks=Tasks(), children=workers, max_restarts=100)
    with start(spec) as tree:
        with pytest.raises(TaskFailedError, match="the line went dead"):
            tree.run(Task("g", plan=Plan([Subtask("s", capability="pay")])), timeout=60)

        assert seen == calls
        eventually(lambda: tree.child("office/a").incarnation == 1 + calls.count("a"))  # the report may come before
