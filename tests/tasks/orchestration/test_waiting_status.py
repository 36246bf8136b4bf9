"""A status that only waits for a person says so, wherever it is shown; questions are shown; a task knows its id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors import Escalated, Failed, Worker
from actors.model.clock import SystemClock
from actors.tasks.journal.fold import fold
from actors.tasks.model.task_events import TaskSubmitted
from actors.testing import settle
from tests.support.asking import LONG_S
from tests.support.hardening import Gate, eventually, in_thread
from tests.tasks.resuming import settle_orchestrators
from trees import (
    Approve,
    Escalate,
    EscalationRaised,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskHandle,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.command.store_client import StoreClient
from trees.host.task_source import TaskSource
from trees.store import MemoryStore
from trees.views.task_views import listing, shown


def person(_: Any, context: Any) -> str:
    """Worker that needs a person's yes."""
    if not context.answers:
        raise Escalated("Publish?")
    return "published"


def does(task: Any, _: Any) -> str:
    return f"did {task.id}"


async def asks_a_sibling(_: Any, context: Any) -> Any:
    return await context.ask("person", "say yes")


def fails(_: Any, __: Any) -> None:
    raise Failed("it cannot be done", retryable=False)


def stuck(_: Any, __: Any, ___: Any) -> None:
    raise Failed("it stays done", retryable=False)


PERSON = WorkerSpec(id="person", execute=person, on_failure=[Escalate()])
DOES = WorkerSpec(id="does", execute=does)


def tree(plan: list[Subtask], *children: WorkerSpec | SupervisorSpec) -> SupervisorSpec:
    return SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan(plan), on_failure=[]), children=children)


def team(plan: list[Subtask], *children: WorkerSpec) -> SupervisorSpec:
    return SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan(plan), on_failure=[]), children=children)


WAITING: dict[str, SupervisorSpec] = {
    "a subtask": tree([Subtask("person")], PERSON),
    "one that others depend on": tree([Subtask("person"), Subtask("does", depends_on=["person"])], PERSON, DOES),
    "one beside what is done": tree([Subtask("does"), Subtask("person")], PERSON, DOES),
    "a member of a team": tree([Subtask("team")], team([Subtask("person")], PERSON)),
    "a member of a team that others depend on": tree(
        [Subtask("team"), Subtask("does", depends_on=["team"])],
        team([Subtask("does"), Subtask("person"), Subtask("end", worker="does", depends_on=["person"])], PERSON, DOES),
        DOES,
    ),
    "a subtask that was asked for": tree(
        [Subtask("asks"), Subtask("does", depends_on=["asks"])],
        WorkerSpec(id="asks", execute=asks_a_sibling),
        PERSON,
        DOES,
    ),
    "a subtask that a member of a team has asked for above": tree(
        [Subtask("team")], team([Subtask("asks")], WorkerSpec(id="asks", execute=asks_a_sibling)), PERSON
    ),
    "an undo": tree(
        [Subtask("done", worker="does"), Subtask("fails", depends_on=["done"])],
        WorkerSpec(id="does", execute=does, undo=stuck),
        WorkerSpec(id="fails", execute=fails),
    ),
}


@contextmanager
def waiting(spec: SupervisorSpec, **options: Any) -> Iterator[tuple[Tree, TaskHandle]]:
    """A task of it that has asked somebody, and does nothing more by itself."""
    with start(spec, **options) as running:
        handle = running.submit("publish it")
        for event in handle.events():
            if isinstance(event, EscalationRaised):
                break
        settle_orchestrators(running)
        kept = running._system.services["tasks"].flush()
        assert kept is None or kept.wait(LONG_S)
        yield running, handle


@pytest.mark.parametrize("spec", WAITING.values(), ids=WAITING)
def test_a_status_that_only_waits_for_a_person_says_waiting(spec: SupervisorSpec) -> None:
    with waiting(spec) as (running, handle):
        seen = handle.status, handle.dump().splitlines()[0].split()[2], "waiting" in _line_of(running.dump(), handle.id)
        listed = [each.id for each in running.tasks("waiting")]
        json_status = '"status": "waiting"' in handle.dump("json")

        assert seen == ("waiting", "waiting", True)
        assert handle.id in listed
        assert json_status

        [question] = handle.escalations
        handle.respond(question.id, Approve())
        if spec is not WAITING["an undo"]:
            assert handle.result(LONG_S).status == "succeeded"
            assert handle.status == "succeeded"


@pytest.mark.parametrize("name", [name for name in WAITING if "team" in name])
def test_the_subtask_that_a_team_has_waits_where_the_team_does(name: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    # A question above the team is none of the team: its member waits for whom it has asked, and says so.
    status = "running" if "above" in name else "waiting"
    with waiting(WAITING[name], store=url) as (running, handle):
        [line] = [line for line in handle.dump().splitlines() if " team " in line]
        [shallow] = [line for line in handle.dump(deep=False).splitlines() if " team " in line]
        top: Any = running.snapshot().top
        [of_tree] = [each for each in top.tasks[0].subtasks if each.id == "team"]
        [described] = [each for each in json.loads(handle.dump("json"))["subtasks"] if each["id"] == "team"]
        source = TaskSource(running._system, running._leadership, lambda *_: None, content=True)
        [node] = [each for each in source.task(handle.id)["nodes"] if each["id"] == "team"]
        with StoreClient(url) as client:
            outside = shown(*client.task(handle.id), "text", SystemClock().wall())

    assert (line.split()[3], shallow.split()[3], of_tree.status) == (status,) * 3
    assert (described["status"], node["status"]) == (status,) * 2
    assert next(line for line in outside.splitlines() if " team " in line).split()[3] == status


def _line_of(dump: str, task: str) -> str:
    return next(line for line in dump.splitlines() if f"task {task} " in line)


@pytest.mark.slow
@pytest.mark.parametrize("spec", WAITING.values(), ids=WAITING)
def test_another_process_and_the_next_one_see_that_it_waits_for_a_person(spec: SupervisorSpec, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    with waiting(spec, store=url) as (_, handle):
        task = handle.id
        assert _seen_outside(url, task) == ("waiting", "waiting")
    is_asked_for = "asked for" in next(name for name, each in WAITING.items() if each is spec)
    # Whoever had asked was stopped with its tree: it has to run again, and asks again.
    assert _seen_outside(url, task)[0] == ("running" if is_asked_for else "waiting")

    with start(spec, store=url) as again:
        # What had asked for something has to ask again in a new process, and is told nothing new.
        eventually(lambda: again.task(task).status == "waiting")


class Lingers(Worker):
    """Worker whose stop takes as long as the test wants."""

    gate: Gate

    def on_stop(self) -> None:
        self.gate()


def test_a_stop_in_which_the_orchestrator_hears_of_its_team_first_leaves_the_team_what_it_has(tmp_path: Path) -> None:
    """Children stop in reverse order: the team, the one that lingers, the orchestrator."""
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    gate = Gate()
    lingers = WorkerSpec(id="lingers", actor=type("L", (Lingers,), {"gate": gate}))
    spec = tree([Subtask("team")], lingers, team([Subtask("person")], PERSON))
    with waiting(spec, store=url) as (running, handle):
        task = handle.id
        stopped = in_thread(running.stop)
        gate.wait_reached()  # the team has stopped
        settle_orchestrators(running)
        gate.open.set()
        stopped()

    assert _seen_outside(url, task)[0] == "waiting"


def _seen_outside(url: str, task: str) -> tuple[str, str]:
    """Status in the list of ``regrow tasks``, and in what it shows of one."""
    with StoreClient(url) as client:
        listed = listing(client.tasks(None, {}).tasks, SystemClock().wall())
        found, parts = client.task(task)
        row = next(line for line in listed.splitlines() if line.startswith(f"{task} "))
        return row.split()[2], shown(found, parts, "text", SystemClock().wall()).split()[2]


def test_one_of_which_something_else_runs_is_running_until_that_has_ended() -> None:
    async def runs(_: Any, __: Any) -> None:
        await go_on.wait()

    for inside in (False, True):
        go_on = asyncio.Event()
        busy = WorkerSpec(id="busy", execute=runs)
        plan = [Subtask("person"), Subtask("busy")]
        spec = tree([Subtask("team")], team(plan, PERSON, busy)) if inside else tree(plan, PERSON, busy)
        with start(spec) as running:
            handle = running.submit("publish it")
            next(event for event in handle.events() if isinstance(event, EscalationRaised))
            assert handle.status == "running"
            running._system.loop.call(go_on.set)
            settle(running)
            assert handle.status == "waiting"
            handle.cancel()


def test_one_that_will_be_tried_again_is_running() -> None:
    def flaky(_: Any, __: Any) -> None:
        raise Failed("not now", retryable=True)

    later = WorkerSpec(id="flaky", execute=flaky, on_failure=[Retry(max_attempts=2, initial_s=100, max_s=100)])
    with waiting(tree([Subtask("person"), Subtask("flaky")], PERSON, later)) as (_, handle):
        assert handle.status == "running"


def test_one_that_is_undone_is_running() -> None:
    async def undo(_: Any, __: Any, ___: Any) -> None:
        await asyncio.get_running_loop().create_future()

    spec = tree(
        [Subtask("does"), Subtask("fails", depends_on=["does"])],
        WorkerSpec(id="does", execute=does, undo=undo),
        WorkerSpec(id="fails", execute=fails),
    )
    with start(spec) as running:
        handle = running.submit("it")
        next(event for event in handle.events() if type(event).__name__ == "Compensating")
        assert handle.status == "running"


# -- questions -----------------------------------------------------------------------------------------------------


def test_a_question_is_equal_to_itself_in_another_process_and_to_no_other_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    with waiting(WAITING["a subtask"], store=url) as (running, handle):
        [asked] = handle.escalations
        assert [asked] == running.escalations()
    with start(WAITING["a subtask"], store=url) as again:
        other = again.submit("publish it")
        eventually(lambda: len(again.escalations()) == 2)
        [later] = other.escalations
        assert asked in again.escalations()
        assert {asked, *again.escalations()} == {asked, later}
        assert asked != later


def test_printed_escalations_show_the_questions(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting(WAITING["one that others depend on"]) as (running, handle):
        print(running.escalations())
        print(handle.escalations[0])

    printed = capsys.readouterr().out
    assert printed.count("Publish?") == 2
    assert f"{handle.id}:person:1" in printed
    assert "'person'" in printed


def test_a_printed_question_about_an_undo_or_a_failure_says_what_had_failed(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting(WAITING["an undo"]) as (running, _):
        print(running.escalations())
    printed = capsys.readouterr().out

    assert "the undo of 'done'" in printed
    assert "it stays done" in printed


# -- its id --------------------------------------------------------------------------------------------------------


def test_a_task_submitted_without_an_id_has_handle_task_id(tmp_path: Path) -> None:
    given = Task("publish it")
    spec, url = tree([Subtask("does")], DOES), f"sqlite:///{tmp_path / 'tasks.db'}"
    with start(spec, store=url) as running:
        handle = running.submit(given)
        assert handle.task.id == handle.id
        handle.result(LONG_S)
        assert handle.task.id == running.task(handle.id).task.id == handle.id
    with start(spec, store=url) as again:
        assert again.task(handle.id).task == handle.task
    assert given.id is None


def test_a_task_of_an_older_journal_that_lacks_its_id_has_it_too() -> None:
    store = MemoryStore()
    store.create("old", "p", TaskSubmitted("p", "old", 1.0, Task("publish it"), None))

    assert fold("old", store.read("old")).task.id == "old"
