"""Large values that the journal has left in the store: whoever needs one gets it, and nothing else waits for that.

The store here holds no large value at all once a record is written, however small that is, so that every way on which
a value reaches user code, a report or a reader goes through a fetch.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from actors.messaging.reply import Reply
from actors.tasks.journal import dropped
from actors.tasks.journal.dropped import NotHeld
from actors.tasks.model.task_errors import DamagedJournalError
from actors.tasks.model.task_events import SubtaskSucceeded, Synthesized, TaskSubmitted
from tests.faults.cut_points import LONG_S, CuttingStore, World, started, twice
from tests.tasks.orchestration.dropping_store import DroppingStore
from trees import (
    Check,
    Last,
    Plan,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Verbatim,
    Verdict,
    WorkerSpec,
)

TEXT = "a result"
DOCUMENT = {"pages": ["one", "two"]}
FIRST = Subtask("first", worker="first")
THEN = Subtask("then", worker="then", depends_on=["first"])


@pytest.fixture(autouse=True)
def _nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped, "is_small", lambda _: False)


@pytest.fixture
def store() -> Iterator[DroppingStore]:
    store = DroppingStore()
    yield store
    store.close()


class Seen:
    """What user code was given, by the name of that."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.called = threading.Event()
        """The second worker was."""

    def first(self, task: Any, context: Any) -> str:
        self.values["inputs"] = context.inputs
        return TEXT

    def then(self, task: Any, context: Any) -> int:
        self.values["results"] = context.results
        self.called.set()
        return len(context.results)

    def fails(self, task: Any, context: Any) -> None:
        self.then(task, context)
        raise ValueError

    async def asks(self, task: Any, context: Any) -> Any:
        self.values["answer"] = await context.ask("first", "do it")
        return self.values["answer"]

    def undo(self, task: Any, result: Any, context: Any) -> None:
        self.values["undone"] = result

    def plan(self, task: Task, catalogue: Any, feedback: str) -> Any:
        self.values["planned with"] = task.inputs
        return StaticPlan([FIRST, THEN]).plan(task, catalogue, feedback)

    def review(self, task: Task, plan: Any, results: dict[str, Any]) -> Verdict:
        self.values["reviewed"] = task.inputs, results
        return Verdict(passed=True)

    def combine(self, task: Task, results: dict[str, Any]) -> Any:
        self.values["combined"] = task.inputs, results
        return [*results.values()]

    def combine_badly(self, task: Task, results: dict[str, Any]) -> Any:
        raise ValueError

    def spec(self, *plan: Subtask, **settings: Any) -> SupervisorSpec:
        children = [
            WorkerSpec(id="first", execute=self.first, undo=self.undo),
            WorkerSpec(id="then", execute=self.then),
            WorkerSpec(id="fails", execute=self.fails),
            WorkerSpec(id="asks", execute=self.asks),
        ]
        words = {"planner": StaticPlan(plan or [FIRST, THEN]), "on_failure": [], "context_tokens": 1} | settings
        return SupervisorSpec(id="p", tasks=Tasks(**words), children=children)


TASK = Task("the goal", id="t", inputs={"document": DOCUMENT})
INPUTS = {"document": DOCUMENT}


def test_user_code_gets_every_value_whole(store: DroppingStore) -> None:
    seen = Seen()
    with started(seen.spec(planner=seen.plan, reviewer=seen.review, synthesizer=seen.combine), store) as tree:
        report = tree.submit(TASK).result(LONG_S)

    both = {"first": TEXT, "then": 1}
    assert seen.values == {
        "planned with": INPUTS,
        "inputs": INPUTS,
        "results": {"first": TEXT},
        "reviewed": (INPUTS, both),
        "combined": (INPUTS, both),
    }
    assert (report.results, report.output) == (both, [TEXT, 1])
    assert {type(store.journals["t"][number]) for _, number in store.fetched} == {
        TaskSubmitted,
        SubtaskSucceeded,
        Synthesized,
    }


def test_an_undo_gets_the_result_that_it_undoes(store: DroppingStore) -> None:
    seen = Seen()
    plan = [FIRST, Subtask("last", worker="fails", depends_on=["first"])]
    with started(seen.spec(*plan), store) as tree, pytest.raises(TaskFailedError) as caught:
        tree.submit(TASK).result(LONG_S)

    assert seen.values == {"inputs": INPUTS, "results": {"first": TEXT}, "undone": TEXT}
    assert caught.value.report is not None
    assert caught.value.report.results == {"first": TEXT}


def test_one_that_is_sent_back_sees_its_last_result(store: DroppingStore) -> None:
    def review(task: Task, plan: Any, results: dict[str, Any]) -> Verdict:
        done = results["s"] != [None]
        return Verdict(passed=done, checks=[Check("s", passed=done, feedback="once more")])

    spec = Seen().spec(Subtask("s", worker="writes"), reviewer=review)
    writes = WorkerSpec(id="writes", execute=lambda _, context: [context.previous])
    with started(spec.model_copy(update={"children": [*spec.children, writes]}), store) as tree:
        assert tree.submit(TASK).result(LONG_S).results == {"s": [[None]]}


def test_whoever_asks_gets_the_answer(store: DroppingStore) -> None:
    seen = Seen()
    with started(seen.spec(Subtask("s", worker="asks")), store) as tree:
        report = tree.submit(TASK).result(LONG_S)

    assert seen.values["answer"] == TEXT
    assert report.results == {"s": TEXT}


@pytest.mark.parametrize(
    ("synthesizer", "output"),
    [(Verbatim(), {"first": TEXT, "then": 1}), (Last(), 1)],
    ids=["verbatim", "last"],
)
def test_the_output_is_made_of_whole_results(store: DroppingStore, synthesizer: Any, output: Any) -> None:
    with started(Seen().spec(synthesizer=synthesizer, on_step_failure="best_effort"), store) as tree:
        report = tree.submit(TASK).result(LONG_S)

    assert report.output == output
    assert report.results == {"first": TEXT, "then": 1}


def test_the_report_of_a_task_whose_synthesizer_failed_has_whole_results(store: DroppingStore) -> None:
    spec = Seen().spec(synthesizer=Seen().combine_badly)
    with started(spec, store) as tree, pytest.raises(TaskFailedError) as caught:
        tree.submit(TASK).result(LONG_S)

    assert caught.value.report is not None
    assert caught.value.report.results == {"first": TEXT, "then": 1}


def test_a_team_gets_whole_inputs_and_gives_whole_results(store: DroppingStore) -> None:
    seen = Seen()
    inner = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("inner", worker="inner")]), context_tokens=1),
        children=[WorkerSpec(id="inner", execute=lambda _, context: [context.inputs, context.results, TEXT])],
    )
    spec = seen.spec(FIRST, Subtask("part", worker="team", depends_on=["first"]))
    with started(spec.model_copy(update={"children": [*spec.children, inner]}), store) as tree:
        report = tree.submit(TASK).result(LONG_S)

    assert report.results["part"] == {"inner": [INPUTS, {"first": TEXT}, TEXT]}


def test_readers_of_events_get_whole_records_and_so_does_a_handle(store: DroppingStore) -> None:
    async def read(handle: Any) -> list[Any]:
        return [event async for event in handle.events()]

    with started(Seen().spec(synthesizer=Seen().combine), store) as tree:
        handle = tree.submit(TASK)
        live = list(handle.events())
        handle.result(LONG_S)
        assert handle.task.inputs == INPUTS
        late = asyncio.run(read(handle))

    assert live == late == store.journals["t"]
    assert [event.value for event in live if isinstance(event, SubtaskSucceeded)] == [TEXT, 1]
    assert [event.output for event in live if isinstance(event, Synthesized)] == [[TEXT, 1]]
    assert [event.spec for event in live if isinstance(event, TaskSubmitted)] == [TASK]


def test_a_reader_that_is_cancelled_while_a_value_is_fetched_loses_nothing(store: DroppingStore) -> None:
    async def read(handle: Any) -> list[Any]:
        events, found = handle.events().__aiter__(), list[Any]()
        store.gate.clear()
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(events.__anext__(), 0.02)
        store.gate.set()
        async for event in events:
            found.append(event)
        return found

    with started(Seen().spec(), store) as tree:
        handle = tree.submit(TASK)
        handle.result(LONG_S)
        assert asyncio.run(read(handle)) == store.journals["t"]


def test_a_task_that_goes_on_holds_none_of_its_values(store: DroppingStore) -> None:
    seen = Seen()
    with started(seen.spec(FIRST, Subtask("later", worker="then", depends_on=["first"])), store) as tree:
        store.gate.clear()
        handle = tree.submit(TASK)
        assert store.asked.wait(LONG_S)  # the inputs, for the first
        state = tree._system.services["tasks"].ports["p"].states["t"]
        assert isinstance(state.task.inputs["document"], NotHeld)
        store.gate.set()
        handle.result(LONG_S)

    assert isinstance(state.nodes["first"].value, NotHeld)
    assert isinstance(state.task.inputs["document"], NotHeld)


def test_small_tasks_go_on_while_a_value_of_another_is_fetched(store: DroppingStore) -> None:
    seen = Seen()

    def plan(task: Task, catalogue: Any, feedback: str) -> Plan:
        return Plan([Subtask("only", worker="first" if task.id == "t" else "then")])

    with started(seen.spec(planner=plan), store) as tree:
        store.gate.clear()
        slow = tree.submit(TASK)
        assert store.asked.wait(LONG_S)
        quick = tree.submit(Task("without inputs", id="q"))
        assert seen.called.wait(LONG_S)
        assert not slow.status.is_final
        assert "inputs" not in seen.values
        store.gate.set()
        assert (slow.result(LONG_S).results, quick.result(LONG_S).results) == ({"only": TEXT}, {"only": 0})


def test_attempts_that_run_at_once_share_one_value(store: DroppingStore) -> None:
    together = Reply()
    held: list[int] = []

    async def look(task: Any, context: Any) -> int:
        held.append(id(context._values.results["first"]))
        if len(held) == 5:
            together.complete()
        await together
        return 1

    plan = [FIRST, *(Subtask(f"x{n}", worker="look", depends_on=["first"]) for n in range(5))]
    spec = Seen().spec(*plan)
    look_at = WorkerSpec(id="look", execute=look, pool=5)
    with started(spec.model_copy(update={"children": [*spec.children, look_at]}), store) as tree:
        tree.submit(Task("the goal", id="t")).result(LONG_S)

    assert len(set(held)) == 1


@pytest.mark.parametrize("what", [0, 4], ids=["an input", "a result"])
def test_a_value_that_cannot_be_read_is_the_end_of_its_task_only(store: DroppingStore, what: int) -> None:
    error = DamagedJournalError("journal of 't'", "lacks a value")
    store.damaged = lambda stream, number: error if (stream, number) == ("t", what) else None
    outline = store.outline

    def stumbles(stream: str, start: int = 0) -> Any:
        if stream == "t" and ("t", what) in store.fetched:
            raise error
        return outline(stream, start)

    store.outline = stumbles  # type: ignore[method-assign]
    with started(Seen().spec(), store) as tree:
        bad = tree.submit(TASK)
        with pytest.raises(TaskFailedError):
            bad.result(LONG_S)
        good = tree.submit(Task("the goal", id="u", inputs=INPUTS)).result(LONG_S)

    assert good.results == {"first": TEXT, "then": 1}


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails and is undone"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_an_orchestrator_that_crashes_at_any_record_does_the_same_as_with_every_value_at_hand(
    *, fails: bool, before: bool
) -> None:
    """After a record there is the same journal as before the next one: so every second record, in both ways.

    A sample is one in sixteen of them, others in each row.
    """
    wanted, kept = World(fails=fails), CuttingStore()
    report = wanted.run(kept)
    for at in range(1 + fails + (0 if before else 12), kept.written + 1, 24):
        world = World(fails=fails)
        with closing(DroppingStore(at, before=before)) as store:
            found = world.run(store)

        where = f"record {at} of {kept.written}"
        assert found == report, where
        assert world.books == wanted.books, where
        assert twice(store) == [], where
