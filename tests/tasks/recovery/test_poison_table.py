"""Whatever comes back from user code, by whatever way, costs its own attempt or step at most: a table of both.

In memory every poison goes through every channel; in a sample every second one, and the others by the next.
On SQLite each channel takes a third of the poisons (in a sample a sixth), another part than the channel before.
Afterwards the task has ended or waits for a person, the orchestrator is the one that it was, another task is done, and
on SQLite the next process reads all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from actors import Escalated, Failed, Later, Rejected
from actors.model.events import InternalError
from actors.tasks.model.task import MOST_TOKENS
from trees import (
    Check,
    Done,
    Edit,
    Escalate,
    EscalationError,
    Plan,
    Respond,
    Retry,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    Tasks,
    TaskStatus,
    TaskTimeoutError,
    Usage,
    Verdict,
    WorkerSpec,
    start,
)

WAIT_S = 60.0


def raises(*_: Any, **__: Any) -> Any:
    raise RuntimeError("poison")


def exits(*_: Any, **__: Any) -> Any:
    raise SystemExit(7)


def hostile(**methods: Any) -> Any:
    """An object some methods of which are as given."""
    return type("Hostile", (), methods)()


class Text(str):
    __slots__ = ()
    __eq__ = __len__ = __str__ = __format__ = __getitem__ = __contains__ = raises
    __hash__ = str.__hash__


class Number(int):
    __eq__ = __lt__ = __le__ = __add__ = __radd__ = __gt__ = __ge__ = __bool__ = raises
    __hash__ = int.__hash__


class Real(float):
    __eq__ = __lt__ = __le__ = __add__ = __radd__ = __gt__ = __ge__ = __bool__ = raises
    __hash__ = float.__hash__


class Names(dict[str, Any]):
    __eq__ = __getitem__ = __contains__ = __bool__ = __len__ = raises  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


def endless() -> Iterator[Any]:
    raise RuntimeError("poison")
    yield


def deep() -> Any:
    value: Any = []
    for _ in range(5000):
        value = [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


POISONS: dict[str, Callable[[], Any]] = {
    "bool raises": lambda: hostile(__bool__=raises),
    "bool exits": lambda: hostile(__bool__=exits),
    "eq raises": lambda: hostile(__eq__=raises, __hash__=raises),
    "str raises": lambda: hostile(__str__=raises, __repr__=raises),
    "str exits": lambda: hostile(__str__=exits, __repr__=exits),
    "str is no text": lambda: hostile(__str__=lambda _: 7),
    "class raises": lambda: hostile(__class__=property(raises)),
    "every attribute raises": lambda: hostile(__getattribute__=raises),
    "every attribute exits": lambda: hostile(__getattribute__=exits),
    "error raises": lambda: hostile(error=property(raises)),
    "len raises": lambda: hostile(__len__=raises, __iter__=raises),
    "a text": lambda: Text("poison"),
    "a number": lambda: Number(3),
    "a real": lambda: Real(3.5),
    "a dict": lambda: Names(a=1),
    "texts within": lambda: {"a": [Text("poison")], Text("b"): Number(4)},
    "bytes that are no text": lambda: b"\xff\xfe",
    "half a character": lambda: "\ud800",
    "nul": lambda: "a\x00b",
    "a huge integer": lambda: 10**5000,
    "nan": lambda: math.nan,
    "infinity": lambda: math.inf,
    "deep": deep,
    "a circle": circle,
    "a generator": endless,
    "a function": lambda: raises,
    "a class": lambda: Text,
    "an exception": lambda: ValueError("which port?"),
    "a set of strange things": lambda: {object()},
    "NotImplemented": lambda: NotImplemented,
    "a long text": lambda: "x" * 1_000_000,
}


def saying(value: Any) -> Exception:
    """An error with it in every place that anybody looks at."""

    class Said(Exception):  # noqa: N818 - a stand-in
        error = kind = retryable = after_s = question = property(lambda _: value)

        def __str__(self) -> str:
            return value  # type: ignore[no-any-return]  # that is the poison

    return Said(value)


def constructed(value: Any) -> Usage:
    return Usage.model_construct(tokens=value, cost=value, seconds=value)


def raised(error: BaseException) -> Any:
    raise error


WORK: dict[str, Callable[[Any, Any], Any]] = {
    "result": lambda value, _: value,
    "result of Done": lambda value, _: Done(value),
    "usage": lambda value, _: Done(1, usage=value),
    "usage within": lambda value, _: Done(1, usage=constructed(value)),
    "usage on the way": lambda value, context: context.use(tokens=value, cost=value),
    "question": lambda value, _: raised(Escalated(value)),
    "question that is returned": lambda value, _: Escalated(value),
    "error": lambda value, _: raised(saying(value)),
    "text of a failure": lambda value, _: raised(Failed(value)),
    "whether to retry": lambda value, _: raised(Failed("no", retryable=value)),
    "how much later": lambda value, _: raised(Later(value)),
    "rejection": lambda value, _: raised(Rejected(value)),
    "progress": lambda value, context: context.progress(0.5, value),
    "progress so far": lambda value, context: context.progress(value, "so far"),
}
STEPS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "plan": lambda value: {"planner": lambda *_: value},
    "subtasks of a plan": lambda value: {"planner": lambda *_: Plan.model_construct(subtasks=value)},
    "words of a subtask": lambda value: {
        "planner": lambda *_: Plan.model_construct(
            subtasks=[Subtask.model_construct(id=value, worker=value, instruction=value, depends_on=value)]
        )
    },
    "error of a planner": lambda value: {"planner": lambda *_: raised(saying(value))},
    "verdict": lambda value: {"reviewer": lambda *_: value},
    "feedback": lambda value: {
        "reviewer": lambda *_: Verdict.model_construct(
            passed=False, checks=[Check.model_construct(subtask="a", passed=False, feedback=value)]
        )
    },
    "error of a reviewer": lambda value: {"reviewer": lambda *_: raised(saying(value))},
    "synthesis": lambda value: {"synthesizer": lambda *_: value},
    "error of a synthesizer": lambda value: {"synthesizer": lambda *_: raised(saying(value))},
}


def planned(task: Any, *_: Any) -> Plan:
    return Plan([Subtask("a", worker="good" if task.goal == "good" else "w")])


def chosen(channel: str, store: str | None) -> list[str]:
    """The poisons of a channel: all of them in memory, a third of them on a disk; half of these in a sample."""
    one_in = 2 if store is None else 6
    return list(POISONS)[[*WORK, *STEPS].index(channel) % one_in :: one_in]


def play(channel: str, store: str | None, execute: Callable[[Any, Any], Any], **steps: Any) -> None:
    """A task for each poison, and whether everything else lives on; twice, where there is something to read."""
    again = Retry(2, initial_s=0.0, jitter=0.0)
    common = {"planner": planned, "on_failure": [again, Escalate()], "max_iterations": 2, "step_retry": again}
    tasks = Tasks(**{**common, **steps})
    children = [
        WorkerSpec(id="w", execute=execute, breaker=None),
        WorkerSpec(id="good", execute=lambda task, context: "good"),
    ]
    for process in range(2 if store else 1):
        bugs: list[Any] = []
        with start(SupervisorSpec(id="p", tasks=tasks, children=children), store=store) as tree:
            tree.subscribe(lambda event: bugs.append(event) if isinstance(event, InternalError) else None)  # noqa: B023
            handles = [
                tree.submit(Task(poison, id=f"t{number}")) for number, poison in enumerate(chosen(channel, store))
            ]
            for handle in handles:
                _ends_or_asks(handle)
                assert handle.dump()
            assert tree.run(Task("good", id=f"good{process}"), timeout=WAIT_S).results == {"a": "good"}
            assert tree.child("p/orchestrator").incarnation == 1
            assert {each.id for each in handles} < {each.id for each in tree.tasks()}
        assert bugs == []


def _ends_or_asks(handle: Any) -> None:
    for _ in range(400):
        try:
            handle.result(timeout=0.05)
        except TaskTimeoutError:
            if handle.escalations:
                return
        except TaskError:
            return
        else:
            return
    raise AssertionError(handle.dump())


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, sqlite_url: str) -> str | None:
    return sqlite_url if request.param == "sqlite" else None


@pytest.mark.slow
@pytest.mark.parametrize("channel", WORK)
def test_whatever_a_worker_says_costs_its_own_attempt(channel: str, store: str | None) -> None:
    play(channel, store, lambda task, context: WORK[channel](POISONS[context.goal](), context))


@pytest.mark.slow
@pytest.mark.parametrize("channel", STEPS)
def test_whatever_a_step_says_costs_its_own_step(channel: str, store: str | None) -> None:
    plain = {"planner": planned, "reviewer": lambda *_: True, "synthesizer": lambda _, results: results}
    (role,) = STEPS[channel](None)

    def step(task: Any, *more: Any) -> Any:
        code = plain[role] if task.goal == "good" else STEPS[channel](POISONS[task.goal]())[role]
        return code(task, *more)

    play(channel, store, lambda task, context: "ok", **{role: step})


def test_whatever_an_attempt_asks_for_and_a_person_answers_is_refused_or_plain(store: str | None) -> None:
    async def asks(task: Any, context: Any) -> Any:
        value = POISONS[context.goal]()
        for to, words, inputs in (
            (value, "x", {}),
            ("good", value, {}),
            ("good", "x", value),
            ("good", "x", {"a": value}),
        ):
            try:
                await context.ask(to, words, inputs, timeout=5)
            except Exception:  # noqa: BLE001, S112 - refused is fine
                continue
        raise Escalated("what now?")

    tasks = Tasks(planner=planned, on_failure=[Escalate()])
    children = [
        WorkerSpec(id="w", execute=asks, breaker=None),
        WorkerSpec(id="good", execute=lambda task, context: "good"),
    ]
    with start(SupervisorSpec(id="p", tasks=tasks, children=children), store=store) as tree:
        for poison, make in POISONS.items():
            handle = tree.submit(poison)
            _ends_or_asks(handle)
            (question,) = handle.escalations
            try:
                handle.respond(question.id, Edit(make()))
            except EscalationError:
                handle.respond(question.id, Edit("plain"))
            assert handle.result(timeout=WAIT_S).status is TaskStatus.SUCCEEDED
        assert tree.child("p/orchestrator").incarnation == 1


@pytest.mark.parametrize("usage", [Usage(cost=6e8), Usage(cost=1e300), Usage(tokens=MOST_TOKENS), Usage(seconds=1e300)])
def test_sums_of_usage_never_overflow(usage: Usage, store: str | None) -> None:
    plan = Plan([Subtask("a", worker="w"), Subtask("b", worker="w", depends_on=["a"])])
    tasks = Tasks(planner=lambda *_: plan)
    spec = SupervisorSpec(
        id="p", tasks=tasks, children=[WorkerSpec(id="w", execute=lambda task, context: Done(1, usage=usage))]
    )
    for _ in range(2):
        with start(spec, store=store) as tree:
            report = tree.run(Task("go", id="t"), timeout=WAIT_S)

            assert report.usage.cost == min(1e300, 2 * usage.cost)
            assert report.usage.tokens == min(MOST_TOKENS, 2 * usage.tokens)
            assert report.usage.seconds >= usage.seconds


def test_a_question_that_is_no_text_is_asked_as_its_text() -> None:
    asked = []
    for question in ({"field": "port"}, ValueError("which port?"), 5, Text("which one?")):
        tasks = Tasks(planner=planned, on_failure=[Escalate()])
        worker = WorkerSpec(id="w", execute=lambda task, context, q=question: raised(Escalated(q)))
        with start(SupervisorSpec(id="p", tasks=tasks, children=[worker])) as tree:
            handle = tree.submit("bad")
            _ends_or_asks(handle)
            asked += [each.question for each in handle.escalations]
            handle.respond(handle.escalations[0].id, Respond("8080"))

    assert asked == ["{'field': 'port'}", "which port?", "5", "which one?"]
    assert {type(each) for each in asked} == {str}
