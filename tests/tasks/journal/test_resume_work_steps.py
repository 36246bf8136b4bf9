"""Steps of attempts in a new process: from every record on, what is recorded is not called again."""

from __future__ import annotations

import asyncio
import enum
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from actors import Failed, StepMismatchError
from actors.tasks.execution.fingerprint import fingerprint
from actors.tasks.model import task_events
from actors.testing import settle
from tests.support.attempts import LONG_S
from tests.support.hardening import eventually
from tests.tasks.resuming import Books, Change, NotingStore, Scenario, same_from_every_change
from trees import Retry, StaticPlan, Subtask, SubtaskStepped, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start

SOON = Retry(max_attempts=2, initial_s=0.001, factor=1.0, max_s=0.001, jitter=0.0)


class Stepping(Scenario):
    """Workers on the loop and on threads, one in a team; the first attempt of each fails after its steps."""

    def spec(self, books: Books) -> SupervisorSpec:
        async def on_the_loop(task: Any, context: Any) -> Any:
            async def act(at: int) -> int:
                books.note("step", f"{context.task_id}/{task.id}", context.attempt, context.step_key)
                await asyncio.sleep(0)
                return at

            one = await context.step("one", act, 1, keep="subtask")
            both = await asyncio.gather(*(context.step("two", act, at) for at in range(2)))
            if context.attempt == 1:
                raise Failed("not yet")
            return [one, *both]

        def on_a_thread(task: Any, context: Any) -> Any:
            def act(at: int) -> int:
                books.note("step", f"{context.task_id}/{task.id}", context.attempt, context.step_key)
                return at

            found = [context.step_sync("one", act, at) for at in range(3)]
            if context.attempt == 1:
                raise Failed("not yet")
            return found

        def worker(id_: str, code: Any) -> WorkerSpec:
            return WorkerSpec(id=id_, execute=code, on_failure=[SOON], breaker=None)

        inner = Tasks(planner=StaticPlan([Subtask("in", worker="m")]), on_failure=[])
        plan = [Subtask(id_, worker=id_) for id_ in ("loop", "pool", "team")]
        return SupervisorSpec(
            id="p",
            tasks=Tasks(planner=StaticPlan(plan), on_failure=[], max_losses=9),
            children=[
                worker("loop", on_the_loop),
                worker("pool", on_a_thread),
                SupervisorSpec(id="team", tasks=inner, children=[worker("m", on_the_loop)]),
            ],
        )


def recorded(changes: list[Change]) -> set[tuple[Any, ...]]:
    """Entries of the books of all steps that these changes have recorded, as far as they hold for a later attempt."""
    store, found = NotingStore(changes), set[tuple[Any, ...]]()
    for stream in store.owners():
        for record in store.read(stream):
            if isinstance(record, SubtaskStepped):
                key = f"{stream}/{record.subtask}/1/{record.step}#{record.number}"
                found.add(("step", f"{stream}/{record.subtask}", record.attempt, key))
    return found


@pytest.mark.slow
def test_no_step_that_is_recorded_is_called_again_from_any_change_on() -> None:
    scenario = Stepping()
    wanted, reports = scenario.run(NotingStore())
    changes = list(wanted.store.changes)  # type: ignore[attr-defined]
    assert len([each for each in changes if each.record is not None and each.record[0] == "SubtaskStepped"]) == 16
    assert all(count == 1 for entry, count in wanted.counts.items())
    for at in range(1, len(changes) + 1):
        done = recorded(changes[:at])
        books, found = scenario.resume(NotingStore(changes[:at]), [])
        assert found.keys() == reports.keys(), at
        assert {id_: each["results"] for id_, each in found.items()} == {
            id_: each["results"] for id_, each in reports.items()
        }, at
        again = {entry for entry in books.counts if entry[0] == "step"} & done
        assert again == set(), f"change {at}: {changes[at - 1]}"
        assert {*books.counts.values()} <= {1}, at


def test_everything_else_goes_on_from_every_change_as_without_steps() -> None:
    class Plain(Scenario):
        def spec(self, books: Books) -> SupervisorSpec:
            async def work(task: Any, context: Any) -> Any:
                books.work(context)
                return [await context.step("s", lambda at: at, at) for at in range(2)]

            plan = [Subtask("x", worker="w"), Subtask("y", worker="w", depends_on=["x"])]
            tasks = Tasks(planner=StaticPlan(plan), on_failure=[])
            return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=work)])

    assert same_from_every_change(Plain()) > 8


# -- on a file ---------------------------------------------------------------------------------------------------


class Work:
    """Makes steps with these arguments, and stops before the ``at``-th until its process has gone."""

    def __init__(self, *args: Any, until: int = 99, size: int = 1) -> None:
        self.args, self.until, self.size = args, until, size
        self.calls: list[Any] = []
        self.waits = threading.Event()

    async def __call__(self, _: Any, context: Any) -> Any:
        lengths = list[Any]()
        for at, arg in enumerate(self.args):
            if at == self.until:
                self.waits.set()
                await asyncio.Event().wait()
            lengths.append(len(await context.step("s", self.act, arg)))
        return lengths

    async def act(self, arg: Any) -> str:
        self.calls.append(arg)
        return "ä" * self.size


@contextmanager
def tree_on(path: Path, *codes: Any) -> Iterator[Tree]:
    workers = [WorkerSpec(id=f"w{at}", execute=code, capabilities=["c"]) for at, code in enumerate(codes)]
    tasks = Tasks(planner=StaticPlan([Subtask("x", capability="c")]), on_failure=[])
    with start(SupervisorSpec(id="p", tasks=tasks, children=workers), store=f"sqlite:///{path}") as tree:
        yield tree


def begun(tree: Tree, *codes: Work) -> None:
    """Begin, and wait until one of these has made its steps."""
    tree.submit(Task(goal="go", id="t"))
    eventually(lambda: any(code.waits.is_set() for code in codes))


@pytest.mark.parametrize("size", [1, 2_000_000])
def test_steps_of_any_size_are_there_in_a_new_process(tmp_path: Path, size: int) -> None:
    first = Work(1, 2, 3, until=2, size=size)
    with tree_on(tmp_path / "db", first) as tree:
        begun(tree, first)
    code = Work(1, 2, 3, size=size)
    with tree_on(tmp_path / "db", code) as tree:
        assert tree.task("t").result(LONG_S).results == {"x": [size] * 3}
    assert code.calls == [3]


def test_other_arguments_under_a_known_key_fail_the_attempt_which_is_not_tried_again(tmp_path: Path) -> None:
    first = Work("secret one", "two", until=1)
    with tree_on(tmp_path / "db", first) as tree:
        begun(tree, first)
    code = Work("secret other", "two")
    with tree_on(tmp_path / "db", code) as tree:
        settle(tree)
        report = tree.task("t").report
        assert report is not None
        text = report.failed["x"]
    assert "StepMismatchError" in text
    assert fingerprint(("secret one",), {}) in text
    assert fingerprint(("secret other",), {}) in text
    assert "secret" not in text
    assert code.calls == []


def test_the_worker_that_has_the_steps_goes_on_and_another_one_begins_anew(tmp_path: Path) -> None:
    first = [Work(1, 2, until=1), Work(1, 2, until=1)]
    with tree_on(tmp_path / "db", *first) as tree:
        begun(tree, *first)
    at = next(at for at, code in enumerate(first) if code.calls)
    codes = [Work(1, 2), Work(1, 2)]
    with tree_on(tmp_path / "db", *codes) as tree:
        assert tree.task("t").result(LONG_S).results == {"x": [1, 1]}
    assert (codes[at].calls, codes[1 - at].calls) == ([2], [])


def test_a_worker_that_is_gone_leaves_its_steps_to_nobody(tmp_path: Path) -> None:
    first = Work(1, 2, until=1)
    with tree_on(tmp_path / "db", first) as tree:
        begun(tree, first)
    code = Work("other", "arguments")
    with start(
        SupervisorSpec(
            id="p",
            tasks=Tasks(planner=StaticPlan([Subtask("x", capability="c")]), on_failure=[]),
            children=[WorkerSpec(id="new", execute=code, capabilities=["c"])],
        ),
        store=f"sqlite:///{tmp_path / 'db'}",
    ) as tree:
        assert tree.task("t").result(LONG_S).results == {"x": [1, 1]}
    assert code.calls == ["other", "arguments"]


def test_a_process_that_makes_a_step_before_it_dies_has_not_lost_one_after_the_other(tmp_path: Path) -> None:
    for until in range(1, 8):  # more than max_losses
        code = Work(*range(9), until=until)
        with tree_on(tmp_path / "db", code) as tree:
            if until == 1:
                tree.submit(Task(goal="go", id="t"))
            assert code.waits.wait(LONG_S)
    with tree_on(tmp_path / "db", Work(*range(9))) as tree:
        assert tree.task("t").result(LONG_S).results == {"x": [1] * 9}


# -- fingerprints ------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1


class Model(BaseModel):
    tags: frozenset[str]


@dataclass
class Data:
    at: datetime
    of: uuid.UUID


def some() -> list[Any]:
    return [
        {"b": 1, "a": [1.5, None, True, "ä\ud800"]},
        {"x", "y", "z", "aa", "bb"},
        {(1, "a"): {2: {3}}},
        Colour.RED,
        Model(tags=frozenset("qwertz")),
        Data(datetime(2026, 1, 1, tzinfo=UTC), uuid.UUID(int=7)),
        b"bytes\xff",
        Path("a/b"),
        print,
        int,
        object(),
        10**5000,
        [10**5000 + 1],
        float("nan"),
    ]


@pytest.mark.slow
def test_fingerprints_are_the_same_in_every_process_and_differ_for_other_arguments() -> None:
    here = [fingerprint((each,), {}) for each in some()]
    assert len({*here}) == len(here)
    code = "import json\nfrom tests.tasks.journal.test_resume_work_steps import *\n"
    code += "print(json.dumps([fingerprint((each,), {}) for each in some()]))"
    other = {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    told = subprocess.run([sys.executable, "-c", code], env=other, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(here).replace("'", '"')


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (((1,), {}), ((1.0,), {})),
        (((1,), {}), ((True,), {})),
        ((("1",), {}), ((1,), {})),
        (((1, 2), {}), (((1, 2),), {})),
        (((), {"a": 1}), ((), {"b": 1})),
        ((([1],), {}), (({1},), {})),
        ((({"a": None},), {}), (({},), {})),
    ],
)
def test_what_looks_alike_has_another_fingerprint(one: Any, other: Any) -> None:
    assert fingerprint(*one) != fingerprint(*other)


def test_what_has_no_json_form_counts_by_its_type_and_no_generator_is_used_up() -> None:
    class Client:
        pass

    assert fingerprint((Client(), 1), {}) == fingerprint((Client(), 1), {})
    numbers = (each for each in range(3))
    fingerprint((numbers,), {})
    assert list(numbers) == [0, 1, 2]
    deep: list[Any] = []
    deep.append(deep)
    assert fingerprint((deep,), {}) == fingerprint((deep,), {})


def test_a_step_event_shows_neither_result_nor_arguments() -> None:
    event = task_events.SubtaskStepped("p", "t", 1.0, "x", "w", 1, "s", 1, "f" * 16, {"secret": 1})
    assert "secret" not in repr(event) + str(event.as_dict())
    assert issubclass(StepMismatchError, Failed)
