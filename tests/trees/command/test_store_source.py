"""A store as a source: trees that are down or run elsewhere, who leads them, and the fleet of all roots in it."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.testing import ScriptedExecutable
from tests.support.command import regrow, runtime
from tests.support.crew import LONG_S
from tests.support.databases import postgres, postgres_url
from tests.support.hardening import eventually
from tests.trees.store.stores import asked
from trees import (
    HA,
    Escalate,
    Operated,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.command import store_source
from trees.command.store_client import StoreClient
from trees.command.store_source import StoreSource
from trees.command.top.picture import Chosen, child_cells
from trees.observe.source import SourceError
from trees.store.lock import this_process

__all__ = ["postgres", "postgres_url", "runtime"]
pytestmark = pytest.mark.usefixtures("runtime")
PLAN = StaticPlan([Subtask("a"), Subtask("b", depends_on=["a"])])


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'regrow.db'}"
    found: str = request.getfixturevalue("postgres_url")
    return found


def spec(root: str, *results: Any) -> SupervisorSpec:
    b = ScriptedExecutable(*(results or ("done",)), by="call")
    children = [
        WorkerSpec(id="a", execute=ScriptedExecutable("one").execute),
        WorkerSpec(id="b", execute=b.execute, on_failure=[Escalate(question=f"{root} is stuck. What now?")]),
    ]
    return SupervisorSpec(id=root, tasks=Tasks(planner=PLAN), children=children)


@contextmanager
def fleet(url: str) -> Iterator[Tree]:
    """A bank that is down and asks, with a task that has ended; and a shop that runs and asks."""
    with start(spec("bank", "done", OSError("disk"), "done"), store=url) as bank:
        bank.submit(Task("count", id="t-0")).result(LONG_S)
        asked(bank.submit(Task("lend money", id="t-1")), bank)
    with ExitStack() as stack:
        shop = stack.enter_context(start(spec("shop", OSError("disk"), "done"), store=url))
        asked(shop.submit(Task("sell tea", id="t-1", metadata={"customer": 7})), shop)
        yield shop


def refused(error: pytest.ExceptionInfo[SourceError]) -> tuple[int, str]:
    return error.value.status, str(error.value)


@pytest.mark.slow
def test_a_fleet_is_all_roots_of_a_store_with_who_leads_each_and_their_tasks_and_questions(url: str) -> None:
    with fleet(url) as shop, closing(StoreSource(url)) as source, closing(StoreSource(url, "bank")) as bank:
        seen, tasks, asks = source.snapshot(), source.tasks(), source.questions()
        part = [each["id"] for each in bank.tasks()["tasks"]], [each["path"] for each in bank.snapshot()["rows"]]
        page = source.task("shop:t-1")

        assert [(row["path"], row["state"], row["holder"]) for row in seen["rows"]] == [
            ("bank", "stopped", this_process()),
            ("shop", "running", this_process()),
        ]
        one = source.snapshot(limit=1, text="sho")
        assert ([row["path"] for row in one["rows"]], one["found"], one["cut"]) == (["shop"], 1, True)
        assert seen["now"]["tasks"] == {"waiting": 2, "succeeded": 1}
        nobody = {"path": "bank", "what": "nobody runs it, and 1 of its tasks wait"}
        assert seen["health"] == {"ok": True, "ready": False, "problems": [nobody]}
        assert [(task["id"], task["root"], task["status"], task["goal"]) for task in tasks["tasks"]] == [
            ("shop:t-1", "shop", "waiting", "sell tea"),
            ("bank:t-1", "bank", "waiting", "lend money"),
            ("t-0", "bank", "succeeded", "count"),
        ]
        assert not tasks["cut"]
        assert part == (["t-1", "t-0"], ["bank"])
        assert sorted(each["text"] for each in asks["questions"]) == [
            "bank is stuck. What now?",
            "shop is stuck. What now?",
        ]
        assert (page["root"], page["goal"], page["status"]) == ("shop", "sell tea", "waiting")
        assert {node["id"] for node in page["nodes"]} == {"a", "b"}

        told = source.answer(next(e["id"] for e in asks["questions"] if e["root"] == "shop"), "respond", "again")
        assert told["ok"]
        assert shop.task("t-1").result(LONG_S).status == "succeeded"
        assert [each["root"] for each in source.questions()["questions"]] == ["bank"]


def test_an_id_that_two_roots_have_leads_to_its_task_wherever_it_stands_in_a_list(url: str) -> None:
    """[one of them has ended, and the list is of those that have not] The whole store decides how it is called."""
    with start(spec("bank", "done"), store=url) as bank:
        bank.submit(Task("count", id="t-1")).result(LONG_S)
    with start(spec("shop", OSError("disk"), "done"), store=url) as shop, closing(StoreSource(url)) as source:
        asked(shop.submit(Task("sell tea", id="t-1")), shop)
        (waiting,) = source.tasks("waiting")["tasks"]
        (ended,) = source.tasks("succeeded")["tasks"]
        (question,) = source.questions()["questions"]
        pages = [source.task(id_) for id_ in (waiting["id"], ended["id"], question["task"])]
        source.answer(question["id"], "edit", value="by hand")
        assert shop.task("t-1").result(LONG_S).results["b"] == "by hand"
        with closing(StoreSource(url, "shop")) as alone:
            assert [each["id"] for each in alone.tasks()["tasks"]] == ["t-1"]
    assert (waiting["id"], ended["id"], question["task"]) == ("shop:t-1", "bank:t-1", "shop:t-1")
    assert [(page["id"], page["root"]) for page in pages] == [
        ("shop:t-1", "shop"),
        ("bank:t-1", "bank"),
        ("shop:t-1", "shop"),
    ]


@pytest.mark.slow
def test_a_root_that_is_not_in_the_store_is_said_to_be_so_and_not_to_be_ready(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'regrow.db'}"
    with start(spec("bank"), store=url), start(spec("shop"), store=url):
        pass
    with closing(StoreSource(url, "shup")) as source:
        for look in (source.snapshot, lambda: source.child("shup")):
            with pytest.raises(SourceError) as error:
                look()
            assert refused(error) == (
                404,
                "root shup: is not in this store. Did you mean 'shop'? It has bank, shop.",
            )
    shown = regrow("observe", "--store", url, "--root", "shup")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "root shup: is not in this store. Did you mean 'shop'?" in shown.stderr


def test_what_a_person_wants_of_a_tree_that_is_down_waits_until_it_comes_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_source, "TAKEN_S", 0.0)
    with start(spec("bank", OSError("disk"), "done"), store=url) as bank:
        question = asked(bank.submit(Task("lend money", id="t-1")), bank)
    with closing(StoreSource(url)) as source:
        said = source.answer(question, "approve")
    with start(spec("bank", "done"), store=url) as bank:
        assert bank.task("t-1").result(LONG_S).status == "succeeded"

    assert "is done when 'bank' runs" in said["text"]


def test_each_act_by_way_of_a_store_is_an_event_of_its_tree_with_who_did_it(url: str) -> None:
    heard = queue.Queue[Operated]()
    shop_spec = spec("shop", OSError("disk"), "done", OSError("disk"))
    with start(shop_spec, store=url) as shop, closing(StoreSource(url)) as source, StoreClient(url) as client:
        shop.subscribe(lambda event: heard.put(event) if isinstance(event, Operated) else None)
        question = asked(shop.submit(Task("sell tea", id="t-1")), shop)
        source.answer(question, "respond", "again", by="page 10.0.0.7")
        shop.task("t-1").result(LONG_S)
        asked(shop.submit(Task("sell milk", id="t-2")), shop)
        client.set_priority(client.task("t-2"), 7, LONG_S)
        source.cancel("t-2", "no more", by="page 10.0.0.7")
        with pytest.raises(TaskCancelledError, match=r": no more \(page 10\.0\.0\.7\)$"):  # the journal keeps no events
            shop.task("t-2").result(LONG_S)
        client.remove("t-1", "shop", LONG_S)
        acts = [heard.get(timeout=LONG_S) for _ in range(4)]
    me = f"store uid {os.geteuid()}, {this_process()}"
    assert [(each.act, each.path, each.about, each.by) for each in acts] == [
        ("respond", "shop", question, f"{me}: page 10.0.0.7"),
        ("priority", "shop", "t-2", me),
        ("cancel", "shop", "t-2", f"{me}: page 10.0.0.7"),
        ("remove", "shop", "t-1", me),
    ]


def test_a_tree_that_may_move_is_led_while_its_lease_lasts(url: str) -> None:
    with (
        start(spec("shop"), store=url, ha=HA(lease_s=30.0, name="alpha")) as shop,
        closing(StoreSource(url)) as source,
    ):
        assert shop.wait_for_role("leader", LONG_S)
        (led,) = source.snapshot()["rows"]
        shop.stop()
        (left,) = source.snapshot()["rows"]

    assert (led["state"], led["holder"], 0.0 < led["lease_left_s"] <= 30.0) == ("running", "alpha", True)
    assert (left["state"], left["lease_left_s"] <= 0.0) == ("stopped", True)


def test_a_root_that_is_down_is_shown_as_one_that_was_led_and_without_a_lease(url: str) -> None:
    def shown() -> tuple[str, str, dict[str, str]]:
        (row,) = source.snapshot()["rows"]
        return row["state"], child_cells(row, Chosen())[-1], source.child(row["path"])["settings"]

    with (
        start(spec("shop"), store=url, ha=HA(lease_s=30.0, name="alpha")) as shop,
        closing(StoreSource(url)) as source,
    ):
        assert shop.wait_for_role("leader", LONG_S)
        state, notes, settings = shown()
        assert (state, notes.partition(", lease ")[:2], settings["led by"]) == (
            "running",
            ("led by alpha", ", lease "),
            "alpha",
        )
        shop.stop()
        state, notes, settings = shown()

    assert (state, notes, settings["was led by"]) == ("stopped", "was led by alpha", "alpha")
    assert "led by" not in settings


def test_what_a_store_cannot_tell_or_do_is_refused_with_one_sentence(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'regrow.db'}"
    with start(spec("bank"), store=url) as bank:
        bank.submit(Task("count", id="t-0")).result(LONG_S)
    with closing(StoreSource(url)) as source:
        table = {
            "stack": (lambda: source.stack("bank/a"), 409, "regrow top --pid"),
            "act": (lambda: source.act("bank/a", "restart"), 409, "regrow top --pid"),
            "child": (lambda: source.child("bank/a"), 409, "regrow top --pid"),
            "root": (lambda: source.child("shop"), 404, ""),
            "task": (lambda: source.task("t-9"), 404, "is not in this store"),
            "cancel": (lambda: source.cancel("t-0"), 409, "has ended: succeeded"),
            "question": (lambda: source.answer("t-0:b:1", "approve"), 409, "task t-0 has ended: succeeded"),
            "no question": (lambda: source.answer("t-9:b:1", "approve"), 404, "is not in this store"),
            "answer": (lambda: source.answer("t-0:b:1", "maybe"), 400, "approve, edit, respond or reject"),
            "respond": (lambda: source.answer("t-0:b:1", "respond"), 400, "needs a text"),
            "status": (lambda: source.tasks("odd"), 400, "There is no status"),
        }
        found = {}
        for name, (call, _, _) in table.items():
            with pytest.raises(SourceError) as caught:
                call()
            found[name] = refused(caught)
        assert source.child("bank")["settings"]["tasks finished"] == "1"
        assert [source.tasks(*given)["tasks"] for given in (("running",), (None, "nowhere"))] == [[], []]
        assert [each["id"] for each in source.tasks("succeeded", "COUNT")["tasks"]] == ["t-0"]

    for name, (_, status, text) in table.items():
        assert found[name][0] == status, (name, found[name])
        assert text in found[name][1], name


def ended(tree: Tree, count: int) -> None:
    """Tasks ``t-0`` .. have ended; ``t-0`` has failed, and its goal is another one."""
    goals = ["a Needle breaks", *["hay"] * (count - 1)]
    for number, goal in enumerate(goals):
        handle = tree.submit(Task(goal, id=f"t-{number}"))
        eventually(lambda handle=handle: handle.report is not None, handle.id)


def test_an_answer_that_cannot_be_stored_is_refused_by_a_store_before_it_is_left_there(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'regrow.db'}"
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with start(spec("shop", OSError("disk"), "done"), store=url) as shop, closing(StoreSource(url)) as source:
        question = asked(shop.submit(Task("sell tea", id="t-1")), shop)
        with pytest.raises(SourceError, match=r"nested too deeply, cannot be stored") as caught:
            source.answer(question, "edit", value=deep)
        assert caught.value.status == 400
        assert source.answer(question, "edit", value=[1])["ok"]
        assert shop.task("t-1").result(LONG_S).results["b"] == [1]


# -- the command -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_observe_prints_the_fleet_where_there_is_no_terminal(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'regrow.db'}"
    with start(spec("bank", OSError("disk")), store=url) as bank:
        question = asked(bank.submit(Task("lend money", id="t-1")), bank)
    shown = regrow("observe", "--store", url)

    assert (shown.returncode, shown.stderr) == (0, "")
    head, roots, tasks, questions = shown.stdout.strip().split("\n\n")
    assert "stopped, as of 20" in head
    assert "bank: nobody runs it, and 1 of its tasks wait" in head
    assert roots.splitlines()[1].split()[:3] == ["▾", "bank", "stopped"]
    assert tasks.splitlines()[1].split()[:4] == ["t-1", "waiting", "bank:", "bank"]
    assert questions.splitlines()[1].split()[:3] == [question, "t-1", "b"]
    assert questions.endswith("bank is stuck. What now?")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (("--pid", "1"), 1, "process 1: has no open console"),
        (("--store", "sqlite:///{folder}/none.db"), 1, "none.db"),
    ],
)
def test_what_cannot_be_observed_is_said(given: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    ended = regrow("observe", *(each.format(folder=tmp_path) for each in given))

    assert ended.returncode == code
    assert said in " ".join(ended.stderr.replace("│", " ").split())
