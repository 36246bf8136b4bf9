"""``python -m tests.faults.errands URL EFFECTS``: one process with the plan that ``kill9`` kills it in the middle of.

Fifty subtasks in layers: some fail once and are tried again, three have an undo, one asks a person, and the last one
fails for good, so that all three are undone. Everything that its workers do is a line in EFFECTS, written before
anything is told of it; so what was done twice, or without being recorded, can be read there. It says ``up`` when its
tree is, waits for a line on its input before it starts that, and prints the report as JSON at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import sys

from loguru import logger

from actors import Context, Escalated, EscalationRaised, Event, Failed
from trees import (
    Approve,
    Escalate,
    EscalationError,
    Report,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)

TASK = "fifty"
LAYERS, WIDTH = 9, 5
WORK_S = 0.012
"""What a piece of work takes: a task has to last for something to happen in the middle of it."""
SOON = Retry(max_attempts=3, initial_s=0.03, max_s=0.06, jitter=0.0)
PAID = ("pay0", "pay1", "pay2")
WAIT_S = 120.0


class Effects:
    """Lines in a file, whole ones, in the order in which they were written; by several processes."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: str, key: str) -> None:
        """One line, by one call, so a kill leaves all of it or nothing."""
        os.write(self._file, f"{what} {key}\n".encode())


def plan() -> list[Subtask]:
    """45 pieces of work in nine layers, three payments, a question and the end that fails: fifty."""
    work = [
        Subtask(
            f"w{layer}{column}",
            worker="flaky" if (layer + column) % 4 == 0 else "work",
            depends_on=[f"w{layer - 1}{column}", f"w{layer - 1}{(column + 1) % WIDTH}"] if layer else [],
        )
        for layer in range(LAYERS)
        for column in range(WIDTH)
    ]
    pays = [Subtask(id_, worker="pay", depends_on=[f"w{2 + at}0"]) for at, id_ in enumerate(PAID)]
    question = Subtask("ask", worker="careful", depends_on=["w30"])
    last = Subtask("last", worker="breaks", depends_on=[*(f"w{LAYERS - 1}{at}" for at in range(WIDTH)), *PAID, "ask"])
    return [*work, *pays, question, last]


def tree_of(effects: Effects) -> SupervisorSpec:
    """One supervisor, five workers."""

    async def work(task: Subtask, context: Context) -> str:
        effects.note("did", context.idempotency_key)
        await asyncio.sleep(WORK_S)
        return f"{task.id}: {len(context.results)} before it"

    async def flaky(task: Subtask, context: Context) -> str:
        effects.note("did", context.idempotency_key)
        await asyncio.sleep(WORK_S)
        if context.attempt == 1:
            raise ConnectionError("the first time never works")
        return f"{task.id}: at last"

    async def undo(_: Subtask, result: object, context: Context) -> None:
        await asyncio.sleep(WORK_S)
        effects.note(f"undid {result}", context.idempotency_key)

    async def careful(_: Subtask, context: Context) -> str:
        effects.note("did", context.idempotency_key)
        await asyncio.sleep(WORK_S)
        if context.idempotency_key.endswith(":1"):
            raise Escalated("may I?")
        return "I may"

    async def breaks(_: Subtask, context: Context) -> str:
        effects.note("did", context.idempotency_key)
        await asyncio.sleep(WORK_S)
        raise Failed("it comes to nothing")

    often = {"pool": 4, "on_failure": [SOON], "breaker": None}
    return SupervisorSpec(
        id="errands",
        tasks=Tasks(planner=StaticPlan(plan()), max_parallel=6),
        children=[
            WorkerSpec(id="work", execute=work, **often),
            WorkerSpec(id="flaky", execute=flaky, **often),
            WorkerSpec(id="pay", execute=work, undo=undo, **often),
            WorkerSpec(id="careful", execute=careful, on_failure=[Escalate()]),
            WorkerSpec(id="breaks", execute=breaks, on_failure=[SOON], breaker=None),
        ],
    )


def says_yes(tree: Tree) -> None:
    """Somebody who approves of every question: those that are open, and those to come."""

    def answer(id_: str) -> None:
        with contextlib.suppress(EscalationError):  # it was raised between the two looks, and is answered already
            tree.respond(id_, Approve())

    def hear(event: Event) -> None:
        if isinstance(event, EscalationRaised):
            answer(event.escalation)

    tree.subscribe(hear)
    for each in tree.escalations():
        answer(each.id)


def told(report: Report) -> dict[str, object]:
    """What must be the same however often it was killed."""
    return {
        "status": report.status,
        "error": str(report.error),
        "results": dict(sorted(report.results.items())),
        "failed": report.failed,
        "skipped": report.skipped,
        "compensated": report.compensated,
        "iterations": report.iterations,
        "best_effort": report.best_effort,
    }


def main() -> None:
    """Run the plan, or what is left of it, to its end."""
    url, path = sys.argv[1:]
    logger.remove()
    spec = tree_of(Effects(path))
    for name in ("trees.store.sql", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg"):
        importlib.import_module(name)  # so that the life that is measured, and cut short, is that of the tree
    print("ready", flush=True)
    sys.stdin.readline()
    with start(spec, store=url) as tree:
        says_yes(tree)
        print("up", flush=True)
        handle = tree.submit(Task(goal="fifty errands", id=TASK))
        try:
            report = handle.result(WAIT_S)
        except TaskFailedError as error:
            report = error.report
        print(json.dumps(told(report)), flush=True)


if __name__ == "__main__":
    main()
