"""Random programs of steps, whose process dies at a random record: against a model of what may be called again.

The model: a program is a list of steps, each with a name, an argument, how often it raises before it succeeds, whether
it is kept for the subtask, and whether it runs beside the one before. Its result depends on the arguments only. The
first attempt fails at its end, so there is a second one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors import Failed
from tests.tasks.resuming import Books, NotingStore, Scenario
from trees import Retry, StaticPlan, Subtask, SubtaskStepped, SupervisorSpec, Tasks, WorkerSpec


class Op(NamedTuple):
    name: str
    arg: int
    raises: int
    keep: Any
    beside: bool


OPS = st.builds(
    Op,
    st.sampled_from("ab"),
    st.integers(0, 2),
    st.sampled_from([0, 0, 1, 2]),
    st.sampled_from(["attempt", "attempt", "subtask"]),
    st.booleans(),
)


def groups(program: list[Op]) -> list[list[Op]]:
    """Steps that run at once."""
    found: list[list[Op]] = []
    for op in program:
        if op.beside and found:
            found[-1].append(op)
        else:
            found.append([op])
    return found


def given_to(op: Op) -> Any:
    """Argument of a step: some are so large that their fingerprints are made off the loop."""
    return op.arg or [op.arg] * 1_001


class Process:
    """Code of one process: it raises as often as each of them does."""

    def __init__(self, books: Books, program: list[Op]) -> None:
        self.books, self.program = books, program
        self.raised: Counter[Any] = Counter()

    def act(self, context: Any, op: Op, at: int) -> int:
        key = (context.attempt, at)
        if self.raised[key] < op.raises:
            self.raised[key] += 1
            raise OSError("once more")
        self.books.note("step", context.attempt, context.step_key)
        return op.arg * 10

    async def one(self, context: Any, op: Op, at: int) -> Any:
        async def call(_: Any) -> int:
            await asyncio.sleep(0)
            return self.act(context, op, at)

        while True:
            try:
                return await context.step(op.name, call, given_to(op), keep=op.keep)
            except OSError:
                await asyncio.sleep(0)

    def one_on_a_thread(self, context: Any, op: Op, at: int) -> Any:
        while True:
            try:
                return context.step_sync(op.name, lambda _: self.act(context, op, at), given_to(op), keep=op.keep)
            except OSError:
                assert op.raises

    async def on_the_loop(self, _: Any, context: Any) -> Any:
        found, at = list[Any](), 0
        for group in groups(self.program):
            found += await asyncio.gather(*(self.one(context, op, at + n) for n, op in enumerate(group)))
            at += len(group)
        return self.ends(context, found)

    def on_a_thread(self, _: Any, context: Any) -> Any:
        return self.ends(context, [self.one_on_a_thread(context, op, at) for at, op in enumerate(self.program)])

    def ends(self, context: Any, found: list[Any]) -> list[Any]:
        assert found == [op.arg * 10 for op in self.program]
        if context.attempt == 1:
            raise Failed("once more")
        return found


class Programmed(Scenario):
    def __init__(self, program: list[Op], *, threads: bool) -> None:
        self.program, self.threads = program, threads

    def spec(self, books: Books) -> SupervisorSpec:
        process = Process(books, self.program)
        code = process.on_a_thread if self.threads else process.on_the_loop
        again = Retry(max_attempts=2, initial_s=0.0, max_s=0.0, jitter=0.0)
        worker = WorkerSpec(id="w", execute=code, on_failure=[again])
        tasks = Tasks(planner=StaticPlan([Subtask("x", worker="w")]), on_failure=[], max_losses=9)
        return SupervisorSpec(id="p", tasks=tasks, children=[worker])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quiet_log")
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(program=st.lists(OPS, min_size=1, max_size=7), threads=st.booleans(), where=st.floats(0, 1))
def test_a_random_program_repeats_what_was_in_flight_only(program: list[Op], *, threads: bool, where: float) -> None:
    scenario = Programmed(program, threads=threads)
    first, reports = scenario.run(NotingStore())
    changes = list(first.store.changes)  # type: ignore[attr-defined]
    assert set(first.counts.values()) == {1}
    at = 1 + int(where * (len(changes) - 1))
    store = NotingStore(changes[:at])
    kept = Counter(
        (record.attempt, f"t/x/1/{record.step}#{record.number}")
        for stream in store.owners()
        for record in store.read(stream)
        if isinstance(record, SubtaskStepped)
    )
    assert set(kept.values()) <= {1}

    second, found = scenario.resume(store, [])

    assert {id_: each["results"] for id_, each in found.items()} == {
        id_: each["results"] for id_, each in reports.items()
    }
    called = {entry[1:3] for entry in second.counts}
    assert not called & kept.keys()
    assert set(second.counts.values()) <= {1}
    records = [each for each in second.store.read("t") if isinstance(each, SubtaskStepped)]  # type: ignore[attr-defined]
    assert len({(each.attempt, each.step, each.number) for each in records}) == len(records)
