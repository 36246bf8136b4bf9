"""User code of the task side never runs on the tree's event loop: a table of every place, each probed and blocked.

An async function of a user's is the exception, as an async worker is: it runs on the loop, and what it must not do
there is its own affair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.crew import LONG_S
from tests.tasks.dispatching import one
from trees import (
    StaticPlan,
    SupervisorSpec,
    Tasks,
    WorkerSpec,
    start,
)

PLAN = [one("w")]


async def work(_: Any, __: Any) -> Any:
    return {"number": 1}


def answering(result: Any) -> Callable[..., Any]:
    async def execute(_: Any, __: Any) -> Any:
        return result

    return execute


def tree_of(settings: dict[str, Any], words: dict[str, Any], *more: WorkerSpec) -> SupervisorSpec:
    settings = {"planner": StaticPlan(PLAN), "on_failure": [], **settings}
    workers = [WorkerSpec(**{"id": "w", "execute": work, **words}), *more]
    return SupervisorSpec(id="shop", tasks=Tasks(**settings), children=workers)


def test_a_large_plain_result_is_nobodys_code_and_has_no_limit() -> None:
    rows = [{"number": number, "of": (number, None)} for number in range(100_000)]
    with start(tree_of({"step_timeout_s": 0.001}, {"execute": answering(rows)})) as tree:
        assert len(tree.submit("go").result(LONG_S).results["w"]) == len(rows)
