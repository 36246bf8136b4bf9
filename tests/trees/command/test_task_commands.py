"""``regrow tasks``: what is in a store, and orders to a tree that runs elsewhere or is down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.testing import AsyncScriptedExecutable, Hang, ScriptedExecutable
from tests.support.command import regrow, runtime
from tests.support.crew import LONG_S
from tests.support.databases import postgres, postgres_url
from tests.trees.store.stores import asked
from trees import (
    Check,
    Escalate,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    Tasks,
    TaskStatus,
    Tree,
    Verdict,
    WorkerSpec,
    start,
)
from trees.store.database import Database

__all__ = ["postgres", "postgres_url", "runtime"]
pytestmark = pytest.mark.usefixtures("runtime")
PLAN = StaticPlan([Subtask("a"), Subtask("b", depends_on=["a"])])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'regrow.db'}"


def spec_of(b: Any, a: Any = None) -> SupervisorSpec:
    children = [
        WorkerSpec(id="a", execute=(a or ScriptedExecutable("one")).execute),
        WorkerSpec(id="b", execute=b.execute, on_failure=[Escalate(question="b is stuck. What now?")]),
    ]
    return SupervisorSpec(id="shop", tasks=Tasks(planner=PLAN), children=children)


@contextmanager
def asking(url: str, then: Any = "two") -> Iterator[tuple[Tree, str]]:
    """A tree of which a person is asked something; the id of the question."""
    with start(spec_of(ScriptedExecutable(OSError("disk"), then, by="call")), store=url) as tree:
        handle = tree.submit(Task("order two teas and a pot", id="t-1"))
        yield tree, asked(handle, tree)


def tasks(url: str, *args: str) -> tuple[int, str, str]:
    """The command; times as they would be at once."""
    done = regrow("tasks", *args, "--store", url)
    return done.returncode, re.sub(r"\d+ s\b", "0 s", done.stdout), done.stderr


# -- looking ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_list_has_what_is_open_with_its_questions_and_what_has_ended(url: str) -> None:
    with start(spec_of(ScriptedExecutable("two")), store=url) as tree:
        tree.submit(Task("a short one", id="t-0")).result(timeout=LONG_S)
    with asking(url) as (_, id_):
        code, shown, errors = tasks(url)

    assert (code, errors) == (0, "")
    # On a busy machine the seconds are more, and may have two digits: that column is then wider.
    assert re.sub(r"(age|\d+ s) +", lambda age: "age   " if age[1] == "age" else "0 s   ", shown).splitlines() == [
        "task   where   status      done   age   goal",
        "t-0    shop    succeeded   2/2    0 s   a short one",
        "t-1    shop    waiting     1/2    0 s   order two teas and a pot",
        f"  asks {id_}: b is stuck. What now?",
        "    because: OSError: disk",
    ]


@pytest.mark.slow
def test_show_draws_the_graph_and_tells_what_happened_and_when(url: str) -> None:
    with asking(url) as (_, id_):
        code, shown, _ = tasks(url, "show", "t-1")
        _, drawn, _ = tasks(url, "show", "t-1", "--format", "mermaid")
        _, told, _ = tasks(url, "show", "t-1", "--format", "json")

    assert code == 0
    assert re.search(r"^├─ a +a +succeeded", shown, re.MULTILINE)
    assert re.search(r"^└─ b +b +waiting +after a", shown, re.MULTILINE)
    assert f"asks {id_}, about b: b is stuck. What now?" in shown
    log = re.findall(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}   (\S+)(?: (\S+))?", shown, re.MULTILINE)
    assert log == [
        ("TaskSubmitted", ""),
        ("Planned", ""),
        ("SubtaskQueued", "a"),
        ("SubtaskStarted", "a"),
        ("SubtaskSucceeded", "a"),
        ("SubtaskQueued", "b"),
        ("SubtaskStarted", "b"),
        ("EscalationRaised", "b"),
    ]
    assert "error=OSError: disk" in shown.splitlines()[-1]
    assert drawn.startswith("graph TD\n")
    everything = json.loads(told)
    assert (everything["task_id"], everything["root"], everything["results"]) == ("t-1", "shop", {"a": "one"})
    assert [event["event"] for event in everything["events"]] == [name for name, _ in log]


def test_a_task_that_goes_on_is_not_removed(url: str) -> None:
    with asking(url):
        code, _, said = tasks(url, "remove", "t-1")
        _, listed, _ = tasks(url)

    assert code == 1
    assert "task t-1: has not ended, and is not damaged. Cancel it first." in said
    assert "t-1" in listed


def test_show_says_whether_a_review_has_passed_and_what_it_sent_back(url: str) -> None:
    verdicts = iter([[Check("a", passed=False, feedback="too short")], [Check("a", passed=True)]])
    reviewer = lambda task, plan, results: next(verdicts)  # noqa: E731 - it stands with what it answers
    tasks_ = Tasks(planner=StaticPlan([Subtask("a")]), reviewer=reviewer)
    worker = WorkerSpec(id="a", execute=ScriptedExecutable("one", "two", by="call").execute)
    with start(SupervisorSpec(id="shop", tasks=tasks_, children=[worker]), store=url) as tree:
        tree.submit(Task("order", id="t")).result(timeout=LONG_S)
    _, shown, _ = tasks(url, "show", "t")

    reviews = re.findall(r"   (?:Reviewed|SentBack)   .*", shown)
    assert [re.findall(r"(?:passed|rerun)=(?:\(.*?\)|\w+)", each) for each in reviews] == [
        ["passed=False", "rerun=('a',)"],
        ["rerun=('a',)"],
        ["passed=True"],
    ]
    assert "too short" not in "".join(reviews)


@pytest.mark.slow
def test_show_has_the_parts_of_teams(url: str) -> None:
    plan = StaticPlan([Subtask("x")])
    worker = WorkerSpec(id="x", execute=ScriptedExecutable("one").execute)
    team = SupervisorSpec(id="team", tasks=Tasks(planner=plan), children=[worker])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("team")])), children=[team])
    with start(spec, store=url) as tree:
        tree.submit(Task("do it", id="t")).result(timeout=LONG_S)
    _, listed, _ = tasks(url)
    _, shown, _ = tasks(url, "show", "t")

    assert [line.split()[0] for line in listed.splitlines()] == ["task", "t"]
    assert re.search(r"^   └─ x +x +succeeded", shown, re.MULTILINE)
    assert "p/team: SubtaskSucceeded team/x   worker=x attempt=1" in shown


def test_a_task_waits_if_only_its_team_waits_for_a_person(url: str) -> None:
    stuck = WorkerSpec(id="b", execute=ScriptedExecutable(OSError("disk"), by="call").execute, on_failure=[Escalate()])
    team = SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan([Subtask("b")])), children=[stuck])
    shop = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan([Subtask("team")])), children=[team])
    with start(shop, store=url) as tree:
        handle = tree.submit(Task("order", id="t-1"))
        next(handle.questions())
        _, listed, _ = tasks(url)
        _, graph, _ = tasks(url, "show", "t-1", "--format", "json")

    assert listed.splitlines()[1].split()[2] == "waiting"
    assert (json.loads(graph)["status"], json.loads(graph)["subtasks"][0]["status"]) == ("waiting", "waiting")


@pytest.mark.slow
def test_by_default_it_is_the_file_that_run_makes_in_this_folder(url: str, tmp_path: Path) -> None:
    with start(spec_of(ScriptedExecutable("two")), store=url) as tree:
        tree.submit(Task("a short one", id="t-0")).result(timeout=LONG_S)
    listed = regrow("tasks", cwd=tmp_path)
    before = regrow("tasks", "--store", url, "show", "t-0")
    missing = regrow("tasks", cwd=tmp_path.parent)

    assert "t-0" in listed.stdout
    assert "SubtaskSucceeded b" in before.stdout
    assert missing.returncode == 1
    assert "does not exist" in missing.stderr
    assert not (tmp_path.parent / "regrow.db").exists()


@pytest.mark.slow
def test_a_journal_that_is_damaged_is_named_and_hides_no_other(url: str) -> None:
    with start(spec_of(ScriptedExecutable("two")), store=url) as tree:
        for id_ in ("t-0", "t-1"):
            tree.submit(Task("a short one", id=id_)).result(timeout=LONG_S)
    with Database(url).transaction() as connection:
        connection.exec_driver_sql("UPDATE regrow_records SET body = '{' WHERE stream = 't-0'")
    code, listed, errors = tasks(url)
    shown = tasks(url, "show", "t-0")

    assert code == 0
    assert [line.split()[0] for line in listed.splitlines()] == ["task", "t-1"]
    assert errors.startswith("task t-0 of shop: store journal of 't-0': holds a ")
    assert shown[0] == 1
    assert "It is damaged" in shown[2]


# -- orders ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_task_is_given_another_priority_by_the_command(url: str) -> None:
    b = AsyncScriptedExecutable(Hang(), by="call")
    with start(spec_of(b), store=url) as tree:
        handle = tree.submit(Task("order two teas and a pot", id="t-1"))
        b.wait_for_calls(1)
        less = tasks(url, "priority", "t-1", "4", "--wait", "20")
        more = tasks(url, "priority", "t-1", "-2", "--wait", "20")
        odd = tasks(url, "priority", "t-1", "soon")
        now = handle.task.priority
    waits = tasks(url, "priority", "t-1", "1", "--wait", "0")

    assert less == (0, "task t-1: priority 4\n", "")
    assert more == (0, "task t-1: priority -2\n", "")
    assert now == -2
    assert odd[0] == 2
    assert waits[0] == 0


@pytest.mark.slow
def test_a_task_is_cancelled_by_the_command(url: str) -> None:
    hang = Hang()
    b = AsyncScriptedExecutable(hang, by="call")
    with start(spec_of(b), store=url) as tree:
        handle = tree.submit(Task("order two teas and a pot", id="t-1"))
        b.wait_for_calls(1)
        code, said, _ = tasks(url, "cancel", "t-1", "--reason", "no tea left", "--wait", "20")
        with pytest.raises(TaskCancelledError, match="no tea left"):
            handle.result(timeout=LONG_S)
        again = tasks(url, "cancel", "t-1")

    assert code == 0
    assert said in {"task t-1: is being cancelled\n", "task t-1: cancelled\n"}
    assert again[0] == 1
    assert "task t-1: has ended: cancelled. There is nothing to cancel." in again[2]


@pytest.mark.slow
def test_a_question_is_answered_by_the_command_and_the_task_goes_on(postgres_url: str) -> None:
    with asking(postgres_url) as (tree, id_):
        code, said, _ = tasks(postgres_url, "respond", id_, "edit", '{"by": "hand"}', "--wait", "20")
        report = tree.task("t-1").result(timeout=LONG_S)

    assert (code, said) == (0, f"escalation {id_}: answered: edit\n")
    assert report.results == {"a": "one", "b": {"by": "hand"}}


@pytest.mark.slow
def test_an_edit_of_a_review_that_is_no_verdict_is_refused_with_the_reason_and_leaves_the_question_open(
    url: str,
) -> None:
    """Whether a tree runs or not: nothing is put into the store."""
    no = Verdict(passed=False, checks=[Check("a", passed=False, feedback="no")])
    settings = Tasks(planner=PLAN, reviewer=lambda *_: no, max_iterations=1, on_rejected="escalate")
    children = [WorkerSpec(id=id_, execute=ScriptedExecutable("done").execute) for id_ in ("a", "b")]
    with start(SupervisorSpec(id="shop", tasks=settings, children=children), store=url) as tree:
        handle = tree.submit(Task("order", id="t-1"))
        next(event for event in handle.events() if type(event).__name__ == "EscalationRaised")
        (question,) = handle.escalations
        refused = {value: tasks(url, "respond", question.id, "edit", value) for value in ("false", '{"passed": 7}')}
        assert [each.id for each in handle.escalations] == [question.id]
        taken = tasks(url, "respond", question.id, "edit", '{"passed": true}', "--wait", "20")
        handle.result(timeout=LONG_S)

    for code, _, error in refused.values():
        assert code == 1
        assert f"escalation {question.id}: an Edit of a review takes a verdict: " in error
        assert "passed" in error
    assert taken[0] == 0


@pytest.mark.slow
def test_an_answer_for_a_tree_that_is_down_waits_for_its_next_start(url: str) -> None:
    with asking(url) as (_, id_):
        pass
    code, said, _ = tasks(url, "respond", id_, "approve", "--wait", "0")
    listed = tasks(url)[1]
    with start(spec_of(ScriptedExecutable("two")), store=url) as tree:
        status = tree.task("t-1").result(timeout=LONG_S).status

    assert code == 0
    assert (
        said == f"escalation {id_}: no tree has taken this yet. It waits in the store, and is done when 'shop' runs\n"
    )
    assert status is TaskStatus.SUCCEEDED
    assert listed.endswith(f"waits until 'shop' takes it: respond {id_} approve\n")


@pytest.mark.slow
def test_the_list_has_what_was_ordered_and_waits_for_its_tree_and_nothing_that_was_carried_out(url: str) -> None:
    with asking(url):
        pass
    for args in (("priority", "t-1", "2"), ("cancel", "t-1", "--reason", "private")):
        tasks(url, *args, "--wait", "0")
    before = tasks(url)[1].splitlines()
    with start(spec_of(ScriptedExecutable("two")), store=url) as tree, pytest.raises(TaskCancelledError):
        tree.task("t-1").result(timeout=LONG_S)
    after = tasks(url)[1]

    assert before[-2:] == [
        "waits until 'shop' takes it: priority t-1 2",
        "waits until 'shop' takes it: cancel t-1",
    ]
    assert "waits until" not in after


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (
            ("show", "t-2"),
            1,
            "task t-2: is not in this store. Did you mean 't-1'? 'regrow tasks' lists those that are.",
        ),
        (("show", "t-1", "--format", "xml"), 2, "'xml' is none of text, mermaid, json"),
        (("respond", "t-1:b:9", "approve"), 1, "escalation t-1:b:9: is not in this store."),
        (("respond", "ASKED", "edit", "two teas"), 2, "it is not JSON (Expecting value"),
        (("respond", "ASKED", "approve", "yes"), 2, "approve takes no value"),
        (("respond", "ASKED", "perhaps"), 2, "'perhaps' is none of approve, reject, edit, respond"),
    ],
)
def test_what_cannot_be_done_says_why_and_changes_nothing(
    url: str, args: tuple[str, ...], code: int, said: str
) -> None:
    with asking(url) as (tree, id_):
        ended, _, errors = tasks(url, *(id_ if arg == "ASKED" else arg for arg in args))
        still = [each.id for each in tree.escalations()]

    assert ended == code
    assert said in " ".join(errors.replace("│", "").split())
    assert still == [id_]
