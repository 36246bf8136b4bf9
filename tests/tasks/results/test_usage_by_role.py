"""Usage by role: planner, reviewer, synthesizer and workers each by itself; together the usage of the task."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from actors.tasks.journal.reporting import usage_by_role
from actors.tasks.journal.store import decode
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model import task_events
from actors.tasks.model.model_call import report_usage
from tests.support.attempts import AT_ONCE, LONG_S
from tests.tasks.resuming import NotingStore
from trees import (
    Budget,
    BudgetExceededError,
    Check,
    Done,
    ModelPlanner,
    ModelReviewer,
    ModelSynthesizer,
    Plan,
    Report,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    Tasks,
    Usage,
    Verdict,
    WorkerSpec,
    start,
)

PLAN = {"subtasks": [{"id": "x", "worker": "w"}]}
HANGS = object()
VERDICT = {"x": {"c1": {"feedback": "", "passed": True}}}


def worker() -> WorkerSpec:
    def execute(task: Any, context: Any) -> str:
        context.use(tokens=7)
        return "done"

    return WorkerSpec(id="w", execute=execute)


def tree_of(**tasks: Any) -> SupervisorSpec:
    tasks = {"planner": StaticPlan([Subtask("x", worker="w")]), "step_retry": AT_ONCE, **tasks}
    return SupervisorSpec(id="p", tasks=Tasks(**tasks), children=[worker()])


def ended(spec: SupervisorSpec, store: Any = None, **words: Any) -> Report:
    with start(spec, store=store) as tree:
        handle = tree.submit(Task("go", **words))
        try:
            report: Report = handle.result(timeout=LONG_S)
        except TaskError:
            report = report_of(handle)
        return report


def report_of(handle: Any) -> Report:
    assert handle.report is not None
    found: Report = handle.report
    return found


def tokens(report: Report) -> dict[str, int]:
    return {role: used.tokens for role, used in report.usage_by_role.items()}


def pair(value: Any, used: int) -> Callable[..., Any]:
    return lambda *_: (value, Usage(tokens=used, cost=used / 100))


def done(value: Any, used: int) -> Callable[..., Any]:
    return lambda *_: Done(value, usage=Usage(tokens=used, cost=used / 100))


def async_pair(value: Any, used: int) -> Callable[..., Any]:
    async def call(*_: Any) -> Any:
        return value, Usage(tokens=used, cost=used / 100)

    return call


def reports(value: Any, used: int) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        assert report_usage(Usage(tokens=used - 1, cost=used / 100))
        return value, Usage(tokens=1)

    return call


def async_reports(value: Any, used: int) -> Callable[..., Any]:
    async def call(*_: Any) -> Any:
        assert report_usage(Usage(tokens=used - 1, cost=used / 100))
        return value, Usage(tokens=1)

    return call


FORMS = {"pair": pair, "Done": done, "async pair": async_pair, "reports": reports, "async reports": async_reports}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("with_model", [True, False], ids=["models", "plain functions"])
def test_usage_of_every_role_counts_for_the_task_and_stands_in_the_report_by_role(
    form: Callable[..., Any], *, with_model: bool
) -> None:
    roles: dict[str, Any] = {
        "planner": ModelPlanner(form(PLAN, 100)),
        "reviewer": ModelReviewer(form(VERDICT, 20)),
        "synthesizer": ModelSynthesizer(form("text", 3)),
    }
    if not with_model:
        checks = [Check("x", passed=True)]
        roles = {
            "planner": form(Plan([Subtask("x", worker="w")]), 100),
            "reviewer": form(Verdict(passed=True, checks=checks), 20),
            "synthesizer": form("text", 3),
        }
    report = ended(tree_of(**roles))

    assert tokens(report) == {"planner": 100, "reviewer": 20, "synthesizer": 3, "workers": 7}
    assert (report.usage.tokens, report.usage.cost, report.output) == (130, pytest.approx(1.23), "text")
    whole = sum(report.usage_by_role.values(), Usage())
    assert whole.tokens == report.usage.tokens
    assert whole.cost == pytest.approx(report.usage.cost)
    assert whole.seconds == pytest.approx(report.usage.seconds)


class Asks(ModelPlanner):
    """A planner of the user's that goes by way of ours."""

    async def plan(self, task: Any, catalogue: Any, feedback: str = "") -> Any:
        return await super().plan(task, catalogue, feedback)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_usage_of_a_model_counts_also_where_a_planner_of_the_users_asks_it(form: Callable[..., Any]) -> None:
    assert tokens(ended(tree_of(planner=Asks(form(PLAN, 100))))) == {"planner": 100, "workers": 7}


def failing(first: Any, value: Any) -> Callable[..., Any]:
    """A call that uses up 50 tokens each time; the first one ends badly."""
    calls = list[int]()

    async def call(*_: Any) -> Any:
        calls.append(1)
        report_usage(Usage(tokens=50))
        if len(calls) == 1:
            if first is HANGS:
                await never()
            if isinstance(first, BaseException):
                raise first
            return first
        return value

    return call


async def never() -> None:
    await asyncio.Event().wait()


ROLES: dict[str, tuple[str, Callable[[Any], Any], Any]] = {
    "planner": ("planner", ModelPlanner, PLAN),
    "reviewer": ("reviewer", ModelReviewer, VERDICT),
    "synthesizer": ("synthesizer", ModelSynthesizer, "text"),
}


@pytest.mark.parametrize(("role", "made", "value"), ROLES.values(), ids=ROLES)
@pytest.mark.parametrize("first", [ValueError("429"), HANGS, ""], ids=["raises", "hangs", "answers nothing"])
def test_usage_of_a_call_that_came_to_nothing_counts_for_its_role(
    role: str, made: Callable[[Any], Any], value: Any, first: Any
) -> None:
    limits = {"step_timeout_s": 3.0} if first is HANGS else {}
    report = ended(tree_of(**{role: made(failing(first, value))}, **limits))

    assert report.error is None
    assert tokens(report) == {role: 100, "workers": 7}


@pytest.mark.parametrize(("role", "made", "value"), ROLES.values(), ids=ROLES)
def test_usage_of_a_call_that_is_cancelled_counts(role: str, made: Callable[[Any], Any], value: Any) -> None:
    entered = threading.Event()

    async def call(*_: Any) -> Any:
        report_usage(Usage(tokens=50))
        entered.set()
        await never()

    with start(tree_of(**{role: made(call)})) as tree:
        handle = tree.submit("go")
        assert entered.wait(LONG_S)
        handle.cancel()
        with pytest.raises(TaskError) as caught:
            handle.result(timeout=LONG_S)

    assert caught.value.report is not None
    assert caught.value.report.usage_by_role[role].tokens == 50


@pytest.mark.parametrize(("role", "made", "value"), ROLES.values(), ids=ROLES)
def test_a_role_that_uses_up_the_budget_ends_the_task_before_anything_new_begins(
    role: str, made: Callable[[Any], Any], value: Any
) -> None:
    rejects = {"x": {"c1": {"feedback": "no", "passed": False}}}
    answer = rejects if role == "reviewer" else value
    report = ended(tree_of(**{role: made(pair(answer, 500))}), budget=Budget(tokens=100))

    assert report.usage_by_role[role].tokens == 500
    if role == "synthesizer":  # all was done: it is noted
        assert any(note.startswith("budget exceeded") for note in report.notes)
    else:
        assert isinstance(report.error, BudgetExceededError)
    assert report.usage_by_role.get("workers", Usage()).tokens == (0 if role == "planner" else 7)


def test_a_resumed_task_has_the_usage_of_each_role_once_whichever_record_was_the_last() -> None:
    whole = {"planner": 100, "reviewer": 20, "synthesizer": 3, "workers": 7}
    store = NotingStore()
    spec = tree_of(
        planner=ModelPlanner(reports(PLAN, 100)),
        reviewer=ModelReviewer(async_reports(VERDICT, 20)),
        synthesizer=ModelSynthesizer(pair("text", 3)),
    )
    assert tokens(ended(spec, store, id="t")) == whole
    changes = [change for change in store.changes if change.what != "finish"]
    for cut in range(1, len(changes) + 1):
        kept = changes[:cut]
        told = _told(kept)
        with start(spec, store=NotingStore(kept)) as tree:
            handle = tree.task("t")
            report = handle.result(timeout=LONG_S)
        again = {role: tokens(report)[role] - whole[role] for role in whole}
        # what was told of a call that was then lost is paid again, and counts as well
        assert all(again[role] in {0, told.get(role, 0)} for role in whole), (cut, again, told)


def _told(changes: list[Any]) -> dict[str, int]:
    roles = {"plan": "planner", "review": "reviewer", "combine": "synthesizer", "": "workers"}
    told: dict[str, int] = {}
    for change in changes:
        record = decode(*change.record) if change.record is not None else None
        if isinstance(record, task_events.UsageTold):
            told[roles[record.step]] = told.get(roles[record.step], 0) + record.usage.tokens
    return told


def test_a_journal_that_does_not_say_whose_usage_it_was_goes_by_the_step_that_had_begun() -> None:
    store = NotingStore()
    spec = tree_of(planner=ModelPlanner(reports(PLAN, 100)))
    with start(spec, store=store) as tree:
        handle = tree.submit(Task("go", id="t"))
        handle.result(timeout=LONG_S)
        events = [event for event in handle.events() if isinstance(event, task_events.TaskEvent)]
    state = TaskState("t")
    for event in events:
        if isinstance(event, task_events.UsageTold) and not event.subtask:
            event = task_events.UsageTold(event.path, event.task, event.at, event.usage)  # noqa: PLW2901
        if event.journalled:
            state.apply(event)

    assert {role: used.tokens for role, used in usage_by_role(state).items()} == {"planner": 100, "workers": 7}


def test_a_task_whose_steps_use_nothing_has_workers_alone() -> None:
    assert list(ended(tree_of()).usage_by_role) == ["workers"]


def test_a_run_that_is_drawn_shows_who_has_used_what() -> None:
    with start(tree_of(planner=ModelPlanner(pair(PLAN, 100)))) as tree:
        handle = tree.submit("go")
        handle.result(timeout=LONG_S)

        assert "used by planner: tokens 100, cost 1; workers: tokens 7" in handle.dump()
        assert '"planner": {"tokens": 100' in handle.dump("json").replace("\n", "").replace("  ", "")
