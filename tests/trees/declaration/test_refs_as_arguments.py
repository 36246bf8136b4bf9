"""``Ref.to(path)`` as a value of args= and kwargs=: the code of a worker gets the Ref of that path."""

from __future__ import annotations

from typing import Any

import pykka
import pytest

import actors
from trees import (
    ConfigError,
    Ref,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    UnknownPathError,
    Worker,
    WorkerSpec,
    start,
)

COUNTER = Ref.to("app/counter")


class Counter(Worker):
    def on_start(self) -> None:
        self.count = 0

    def on_receive(self, more: int, /) -> int:
        self.count += more
        return self.count


class Stock(pykka.ThreadingActor):
    """A program of Pykka passes Refs to constructors."""

    def __init__(self, counter: pykka.ActorRef[Any], *, again: pykka.ActorRef[Any]) -> None:
        super().__init__()
        self.counter = counter
        self.again = again

    def on_receive(self, message: Any) -> Any:
        if message == "crash":
            raise RuntimeError(message)
        return self.counter.ask(message), self.again.ask(message)


def handle(message: int, counter: Ref) -> Any:
    return counter.ask(message)


async def handle_async(message: int, *, counter: Ref) -> Any:
    return await counter.ask_async(message)


def work(task: Any, context: Any, counter: Ref) -> Any:
    return counter.ask(1)


class Works:
    def __init__(self, counter: Ref) -> None:
        self.counter = counter

    def execute(self, task: Any, context: Any) -> Any:
        return self.counter.ask(1)


def body(counter: Ref) -> None:
    counter.tell(100)
    while not actors.sleep(60):
        pass


def app(*children: WorkerSpec, **more: Any) -> SupervisorSpec:
    return SupervisorSpec(id="app", children=[*children, WorkerSpec(id="counter", actor=Counter)], **more)


@pytest.mark.parametrize("dispatch", ["auto", "process"])
def test_a_worker_that_is_declared_before_it_gets_the_ref_of_another_one(dispatch: Any) -> None:
    tree = app(
        WorkerSpec(id="sync", handle=handle, args=(COUNTER,), dispatch=dispatch),
        WorkerSpec(id="async", handle=handle_async, kwargs={"counter": COUNTER}, dispatch=dispatch),
    )
    with start(tree) as running:
        assert [running.ref(f"app/{id_}").ask(1, timeout=30) for id_ in ("sync", "async")] == [1, 2]


def test_a_stock_pykka_actor_gets_refs_in_its_constructor_in_each_incarnation() -> None:
    with start(app(WorkerSpec(id="stock", actor=Stock, args=(COUNTER,), kwargs={"again": COUNTER}))) as tree:
        stock = tree.ref("app/stock")
        assert stock.ask(1) == (1, 2)
        with pytest.raises(RuntimeError, match="crash"):
            stock.ask("crash")
        assert stock.ask(1) == (3, 4)


def test_work_and_bodies_get_refs() -> None:
    plan = StaticPlan([Subtask("a", worker="function"), Subtask("b", worker="class", depends_on=["a"])])
    tree = app(
        WorkerSpec(id="function", execute=work, args=(COUNTER,)),
        WorkerSpec(id="class", execute=Works, args=(COUNTER,)),
        tasks=Tasks(planner=plan, on_failure=[]),
    )
    with start(tree) as running:
        assert running.run("count").results == {"a": 1, "b": 2}

    with start(app(WorkerSpec(id="body", run=body, args=(COUNTER,)))) as running:
        counter = running.ref("app/counter")
        while counter.ask(0) < 100:
            pass


def test_a_path_that_nobody_declares_is_a_problem_of_the_start() -> None:
    with pytest.raises(ConfigError) as caught:
        start(
            app(
                WorkerSpec(id="one", handle=handle, args=(Ref.to("app/cuonter"),)),
                WorkerSpec(id="two", handle=handle, kwargs={"counter": Ref.to("counter")}),
            )
        )

    assert [(each.path, each.what) for each in caught.value.problems] == [
        ("app/one.args[0]", "no child is declared at 'app/cuonter'"),
        ("app/two.counter", "no child is declared at 'counter'"),
    ]
    assert "Did you mean 'app/counter'?" in str(caught.value)
    with pytest.raises(UnknownPathError):
        Ref.to(None)  # type: ignore[arg-type]


def test_a_child_that_is_started_later_may_name_what_is_there() -> None:
    with start(app()) as tree:
        late = tree.start_child("app", WorkerSpec(id="late", handle=handle, args=(COUNTER,)))
        assert late.ask(7) == 7
        with pytest.raises(ConfigError, match=r"app/later\.args\[0\]: no child is declared at 'app/nobody'"):
            tree.start_child("app", WorkerSpec(id="later", handle=handle, args=(Ref.to("app/nobody"),)))
