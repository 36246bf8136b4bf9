"""What happens now, the timeline of a task in all its colours, probes and the description of the API: of real trees."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import httpx
import pytest

from actors import ActorStoppedError, Context, Event, Later, Rejected
from actors.tasks.model import task_events
from actors.testing import ManualClock, settle
from tests.support.asking import LONG_S
from tests.support.hardening import Gate, eventually
from trees import (
    Check,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    Tree,
    Usage,
    Verdict,
    WorkerSpec,
    start,
)
from trees.host.tree_source import TreeSource
from trees.observe.child_history import ChildHistory
from trees.observe.timeline import bars_of as bars_of_records
from trees.observe.web.web_app import Handlers
from trees.store import MemoryStore


@contextmanager
def looked_at(spec: SupervisorSpec, **words: Any) -> Iterator[tuple[Tree, httpx.Client]]:
    with start(spec) as tree:
        page = tree.serve(port=0, **words)
        headers = {"Authorization": f"Bearer {page.token}"}
        with httpx.Client(base_url=page.address, headers=headers, timeout=LONG_S) as client:
            yield tree, client


def now_of(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/snapshot").json()["now"]
    return found


def bars_of(client: httpx.Client, task: str) -> list[tuple[str, str, int, str]]:
    bars = client.get(f"/api/tasks/{task}").json()["bars"]
    assert all(bar["to"] is None or bar["from"] <= bar["to"] for bar in bars)
    return [(bar["subtask"], bar["kind"], bar["attempt"], bar["status"]) for bar in bars]


# -- now -----------------------------------------------------------------------------------------------------


def faulty(message: Any) -> Any:
    if isinstance(message, Exception):
        raise message
    return message


def test_now_groups_crashes_by_path_and_type_and_counts_dead_letters_by_reason() -> None:
    children = [WorkerSpec(id="a", handle=faulty), WorkerSpec(id="b", handle=faulty)]
    with looked_at(SupervisorSpec(id="shop", max_restarts=10, children=children)) as (tree, client):
        assert (now_of(client)["crashes"], now_of(client)["dead_letters"]) == ([], {})
        for path, error in (("a", ValueError()), ("a", ValueError("other")), ("a", KeyError()), ("b", ValueError())):
            tree.ref(f"shop/{path}").tell(error)
            settle(tree)
        tree.terminate_child("shop/b")
        for _ in range(3):
            with suppress(ActorStoppedError):
                tree.ref("shop/b").tell("nobody")
        settle(tree)

        now = now_of(client)
        assert sorted((each["path"], each["type"], each["count"]) for each in now["crashes"]) == [
            ("shop/a", "KeyError", 1),
            ("shop/a", "ValueError", 2),
            ("shop/b", "ValueError", 1),
        ]
        assert sum(now["dead_letters"].values()) >= 3
        assert set(now["dead_letters"]) == set(tree.snapshot().dead_letters)


def test_crashes_of_the_members_of_a_pool_are_those_of_the_pool() -> None:
    pool = WorkerSpec(id="parse", handle=faulty, pool=3)
    with looked_at(SupervisorSpec(id="shop", max_restarts=10, children=[pool])) as (tree, client):
        now_of(client)
        for member in (0, 2, 2):
            tree.ref(f"shop/parse#{member}").tell(ValueError())
            settle(tree)
        (crash,) = now_of(client)["crashes"]
        assert (crash["path"], crash["type"], crash["count"]) == ("shop/parse", "ValueError", 3)
        exits = client.get("/api/child", params={"path": "shop/parse#2"}).json()["exits"]
        assert len(exits) == 2


def test_crashes_of_before_the_first_look_are_shown_once() -> None:
    children = [WorkerSpec(id="a", handle=faulty), WorkerSpec(id="b", handle=faulty)]
    with start(SupervisorSpec(id="shop", max_restarts=10, children=children)) as tree:
        for error in (KeyError(), ValueError("secret")):
            tree.ref("shop/a").tell(error)
            settle(tree)
        with closing(TreeSource(tree._system, tree._leadership, [])) as source:
            tree.ref("shop/b").tell(ValueError())
            settle(tree)
            crashes = source.snapshot()["now"]["crashes"]
            exits = source.child("shop/a")["exits"]
    assert [(each["path"], each["type"], each["count"]) for each in crashes] == [
        ("shop/b", "ValueError", 1),
        ("shop/a", "ValueError", 1),
    ]
    assert [(each["reason"], each["type"], each["frames"]) for each in exits] == [("crashed", "ValueError", [])]
    assert abs(exits[0]["at"] - time.time()) < LONG_S


@pytest.mark.parametrize("crashes", ["before", "after", "after, told late"])
def test_a_crash_while_the_first_look_begins_is_shown_once(crashes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is heard: it is taken over. After that: it is heard and taken over, in this order or the other."""
    taken_over = threading.Event()
    hear, recall = ChildHistory.hear, TreeSource._recall

    def heard(history: ChildHistory, event: Event) -> None:
        if crashes == "after, told late":
            assert taken_over.wait(LONG_S)
        hear(history, event)

    def recalled(source: TreeSource) -> None:
        if crashes == "after":
            settle(tree)
        recall(source)
        taken_over.set()

    monkeypatch.setattr(ChildHistory, "hear", heard)
    monkeypatch.setattr(TreeSource, "_recall", recalled)
    with start(SupervisorSpec(id="shop", children=[WorkerSpec(id="a", handle=faulty)])) as tree:
        bus = tree._system.bus
        subscribe = bus.subscribe

        def crash() -> None:
            tree.ref("shop/a").tell(ValueError("so"))
            eventually(lambda: tree.child("shop/a").incarnation == 2)

        def subscribing(callback: Any, **more: Any) -> Any:
            if crashes == "before":
                crash()
            ending = subscribe(callback, **more)
            if crashes != "before":
                crash()
            return ending

        monkeypatch.setattr(bus, "subscribe", subscribing)
        with closing(TreeSource(tree._system, tree._leadership, [])) as source:
            monkeypatch.setattr(bus, "subscribe", subscribe)
            settle(tree)
            (shown,) = source.snapshot()["now"]["crashes"]
            (exit_,) = source.child("shop/a")["exits"]
    assert (shown["path"], shown["type"], shown["count"]) == ("shop/a", "ValueError", 1)
    assert exit_["text"] == ("ValueError" if crashes == "before" else "ValueError: so")


def test_now_has_the_slowest_attempt_the_busy_threads_and_what_is_queued() -> None:
    gate = Gate()
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), max_parallel=1)
    spec = SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="w", execute=lambda _: gate())])
    with looked_at(spec) as (tree, client):
        try:
            first = tree.submit(Task("go", id="t-1"))
            gate.wait_reached()
            idle = now_of(client)
            second = tree.submit(Task("go", id="t-2"))
            eventually(lambda: now_of(client)["ready_queue"] == 1)
            now = now_of(client)
            assert (idle["ready_queue"], idle["tasks"]) == (0, {"running": 1})
            (slowest,) = now["slowest"]
            assert (slowest["path"], slowest["task"], slowest["subtask"]) == ("shop/w", "t-1", "a")
            assert slowest["since_s"] >= 0
            assert now["busy_threads"] >= 1
            assert now["tasks"] == {"running": 2}
        finally:
            gate.open.set()
        for handle in (first, second):
            handle.result(LONG_S)
        eventually(lambda: now_of(client)["tasks"] == {"succeeded": 2})
        assert (now_of(client)["slowest"], now_of(client)["ready_queue"]) == ([], 0)


def test_now_tells_of_tasks_wherever_their_supervisor_stands_and_however_few_rows_are_drawn() -> None:
    gate = Gate()
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    office = SupervisorSpec(id="office", tasks=tasks, children=[WorkerSpec(id="w", execute=lambda _: gate())])
    many = [WorkerSpec(id=f"w{n}", handle=str) for n in range(60)]  # so many are folded
    with looked_at(SupervisorSpec(id="shop", children=[*many, office])) as (tree, client):
        try:
            handle = tree.submit(Task("go", id="t-1"), "shop/office")
            gate.wait_reached()
            for limit in (1, 500):
                now = client.get("/api/snapshot", params={"limit": limit}).json()["now"]
                assert now["tasks"] == {"running": 1}
                assert [each["path"] for each in now["slowest"]] == ["shop/office/w"]
        finally:
            gate.open.set()
        handle.result(LONG_S)


def test_a_part_of_a_team_that_has_ended_is_no_task_that_has_ended() -> None:
    tasks = Tasks(planner=StaticPlan([Subtask("part", worker="team"), Subtask("own", worker="w")]))
    inner = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    worker = WorkerSpec(id="w", execute=lambda _: "done")
    team = SupervisorSpec(id="team", tasks=inner, description="A team.", children=[worker])
    with looked_at(SupervisorSpec(id="shop", tasks=tasks, children=[worker, team])) as (tree, client):
        assert tree.run("go", timeout=LONG_S).status == "succeeded"
        tree.submit(Task("go", id="t-2"), "shop/team").result(LONG_S)
        settle(tree)
        assert now_of(client)["tasks"] == {"succeeded": 2}


def test_restarts_of_the_last_minute_stand_in_the_row_of_a_child_and_of_a_pool() -> None:
    clock = ManualClock(2000.0)
    children = [WorkerSpec(id="a", handle=faulty), WorkerSpec(id="pool", handle=faulty, pool=2)]
    spec = SupervisorSpec(id="shop", max_restarts=10, children=children)
    with start(spec, clock=clock) as tree, closing(TreeSource(tree._system, tree._leadership, [])) as source:
        for path in ("a", "pool#0", "pool#1"):
            tree.ref(f"shop/{path}").tell(ValueError())
            settle(tree)
            clock.advance(25.0)
        rows = {row["path"]: row["restarted_at"] for row in source.snapshot()["rows"]}
    assert rows == {"shop": [], "shop/a": [], "shop/pool": [2025.0, 2050.0]}


def test_a_row_tells_how_often_a_child_was_restarted_and_how_much_of_a_limit_is_used_up() -> None:
    """[3 of 10] A supervisor that is about to give up was never restarted itself."""
    parks = WorkerSpec(id="parks", handle=faulty, on_exhausted="park")
    spec = SupervisorSpec(
        id="shop", max_restarts=10, period_s=60.0, children=[WorkerSpec(id="a", handle=faulty), parks]
    )
    with start(spec) as tree, closing(TreeSource(tree._system, tree._leadership, [])) as source:
        for path in ("a", "a", "a", "parks"):
            tree.ref(f"shop/{path}").tell(ValueError())
            settle(tree)
        names = ("restarts", "restarts_used", "max_restarts", "within_s")
        rows = {row["path"]: tuple(row[name] for name in names) for row in source.snapshot()["rows"]}
    assert rows == {"shop": (0, 3, 10, 60.0), "shop/a": (3, None, None, None), "shop/parks": (1, 1, 10, 60.0)}


def test_of_a_large_tree_the_first_level_is_drawn_and_all_of_it_is_counted() -> None:
    """[60 groups of 60] A root with many children was one row, and a tree was as large as its first level."""
    groups = [
        SupervisorSpec(id=f"g{at}", children=[WorkerSpec(id=f"w{no}", handle=faulty) for no in range(60)])
        for at in range(60)
    ]
    spec = SupervisorSpec(id="shop", children=[*groups, WorkerSpec(id="pool", handle=faulty, pool=70)])
    with start(spec) as tree, closing(TreeSource(tree._system, tree._leadership, [])) as source:
        whole, opened, small = source.snapshot(), source.snapshot(["shop/g3"]), source.snapshot(limit=40)
    first = ["shop", *(f"shop/g{at}" for at in range(60)), "shop/pool"]
    assert [row["path"] for row in whole["rows"]] == first
    assert {row["path"] for row in opened["rows"]} == {*first, *(f"shop/g3/w{no}" for no in range(60))}
    assert [row["path"] for row in small["rows"]] == ["shop"]
    assert [(each["total"], each["cut"]) for each in (whole, opened, small)] == [(1 + 60 + 60 * 60 + 1, True)] * 3


def test_the_log_of_a_task_shows_times_as_times_of_day() -> None:
    def flaky(_: Any, context: Context) -> str:
        if context.attempt == 1:
            raise OSError("gone")
        return "done"

    worker = WorkerSpec(id="w", execute=flaky, on_failure=[Retry(initial_s=0.01)])
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    with looked_at(SupervisorSpec(id="shop", tasks=tasks, children=[worker])) as (tree, client):
        tree.submit(Task("go", id="t")).result(LONG_S)
        log = client.get("/api/tasks/t").json()["log"]
    (retried,) = (line["text"] for line in log if line["kind"] == "subtask_retrying")
    assert re.search(r"\bdue=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", retried)
    assert "e+" not in "".join(line["text"] for line in log)


# -- timelines -----------------------------------------------------------------------------------------------


def test_the_log_of_a_task_shows_a_plan_as_json_without_what_was_not_given() -> None:
    plan = [Subtask("a", "find them", worker="w"), Subtask("b", "compare", worker="w", depends_on=["a"])]
    children = [WorkerSpec(id="w", execute=lambda *_: "done")]
    spec = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan(plan)), children=children)
    with looked_at(spec, content=True) as (tree, client):
        tree.submit(Task("go", id="t-1")).result(LONG_S)
        log = client.get("/api/tasks/t-1").json()["log"]
    (text,) = [each["text"] for each in log if each["kind"] == "planned"]
    shown = json.loads(text.partition("plan=")[2].rpartition("}")[0] + "}")
    assert [each["id"] for each in shown["subtasks"]] == ["a", "b"]
    assert shown["subtasks"][1]["depends_on"] == ["a"]
    assert "depends_on" not in shown["subtasks"][0]
    assert "budget" not in text


def test_a_timeline_has_a_bar_for_an_undo_and_says_which_attempt_has_failed() -> None:
    def breaks(_: Any) -> None:
        raise OSError("gone")

    plan = [Subtask("pay", worker="pay"), Subtask("ship", worker="ship", depends_on=["pay"])]
    children = [
        WorkerSpec(id="pay", execute=lambda _: "paid", undo=lambda *_: None),
        WorkerSpec(id="ship", execute=breaks),
    ]
    spec = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan(plan), on_failure=[]), children=children)
    with looked_at(spec) as (tree, client):
        handle = tree.submit(Task("go", id="t"))
        eventually(lambda: handle.report is not None)

        bars = bars_of(client, "t")
        assert [bar for bar in bars if bar[1] in {"running", "undo"} and not bar[0].startswith("(")] == [
            ("pay", "running", 1, "succeeded"),
            ("ship", "running", 1, "failed"),
            ("pay", "undo", 1, "undone"),
        ]
        assert client.get("/api/tasks/t").json()["status"] == "failed"


def test_an_undo_that_was_cut_off_by_the_stop_of_its_tree_is_put_back_on_the_timeline_and_has_not_failed() -> None:
    begun = threading.Event()

    async def undo(*_: Any) -> None:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()  # until its tree is stopped

    def breaks(_: Any) -> None:
        raise OSError("gone")

    plan = [Subtask("pay", worker="pay"), Subtask("ship", worker="ship", depends_on=["pay"])]
    children = [
        WorkerSpec(id="pay", execute=lambda _: "paid", undo=undo),
        WorkerSpec(id="ship", execute=breaks),
    ]
    spec = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan(plan), on_failure=[]), children=children)
    store = MemoryStore()
    with start(spec, store=store) as tree:
        tree.submit(Task("go", id="t"))
        assert begun.wait(LONG_S)
    with start(spec, store=store) as tree:
        eventually(lambda: tree.task("t").report is not None)
        bars = bars_of_records(tree.task("t").events())

    assert [(bar["subtask"], bar["status"]) for bar in bars if bar["kind"] == "undo"] == [
        ("pay", "put back"),
        ("pay", "undone"),
    ]


def test_a_task_that_was_sent_back_shows_its_rounds_usage_by_worker_and_its_report() -> None:
    def write(_: Any, context: Any) -> str:
        context.use(tokens=5, cost=0.25)
        return "better" if context.feedback else "first"

    def review(_: Any, __: Any, results: dict[str, Any]) -> tuple[Verdict, Usage]:
        good = results["write"] == "better"
        return Verdict(good, [Check("write", good, "" if good else "Name the licence.")]), Usage(tokens=3)

    tasks = Tasks(planner=StaticPlan([Subtask("write", worker="write")]), reviewer=review)
    spec = SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="write", execute=write)])
    for content in (True, False):
        with looked_at(spec, content=content) as (tree, client):
            tree.run(Task("go", id="t"), LONG_S)
            page = client.get("/api/tasks/t").json()
            bars = bars_of(client, "t")
            assert [bar[3] for bar in bars if bar[1] == "review"] == ["sent back", "accepted"]
            assert [(each["subtask"], each["accepted"], each["feedback"]) for each in page["reviews"]] == [
                ("write", False, "Name the licence." if content else None),
                (None, True, None),
            ]
            assert page["usage"]["reviewer"]["tokens"] == 6
            assert page["usage"]["write"] == {"tokens": 10, "cost": 0.5}
            assert ("better" in str(page["report"])) is content


def test_a_timeline_has_the_attempt_that_gave_way_and_its_wait_until_it_goes_on() -> None:
    begun, urgent_ran = Gate(), asyncio.Event()

    async def work(_: Any, context: Any) -> str:
        begun.reached.set()
        if context.inputs["urgent"]:
            urgent_ran.set()
        await urgent_ran.wait()  # the one that has time would wait for ever, were it not interrupted
        return "done"

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), max_parallel=1)
    spec = SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="w", execute=work, pool=2)])
    with looked_at(spec) as (tree, client):
        patient = tree.submit(Task("go", inputs={"urgent": False}, id="patient", priority=5))
        begun.wait_reached()
        tree.submit(Task("go", inputs={"urgent": True}, id="urgent", priority=0)).result(LONG_S)
        patient.result(LONG_S)

        bars = [bar for bar in bars_of(client, "patient") if bar[0] == "a"]
        assert [(kind, status) for _, kind, _, status in bars] == [
            ("queued", "done"),
            ("running", "preempted"),
            ("queued", "done"),
            ("running", "succeeded"),
        ]


@pytest.mark.parametrize("how", ["queued again", "failed"])
def test_the_bar_of_an_attempt_that_was_lost_ends_with_the_last_record_of_its_process(how: str) -> None:
    lost: Event = task_events.SubtaskQueued("shop", "t", 3600.0, "a", "nothing is known of its attempt")
    if how == "failed":
        error = "it takes its process with it"
        lost = task_events.SubtaskFailed("shop", "t", 3600.0, "a", "a", 1, "lost", error)
    records = [
        task_events.SubtaskQueued("shop", "t", 3.0, "a"),
        task_events.SubtaskStarted("shop", "t", 4.0, "a", "a", 1, 1),
        task_events.SubtaskQueued("shop", "t", 5.0, "b"),  # the last that the process has recorded
        lost,
    ]
    ran = [bar for bar in bars_of_records(records) if bar["kind"] == "running"]
    assert [(bar["from"], bar["to"], bar["status"]) for bar in ran] == [(4.0, 5.0, how)]


@pytest.mark.parametrize(("reason", "to"), [("nothing is known of its attempt", 5.0), ("it was stopped", 3600.0)])
@pytest.mark.parametrize("subtask", ["", "a"], ids=["step", "undo"])
def test_the_bar_of_a_step_or_an_undo_that_was_lost_ends_so_too_and_of_one_that_was_stopped_with_its_stop(
    subtask: str, reason: str, to: float
) -> None:
    begins: Event = task_events.StepStarted("shop", "t", 4.0, "plan", 1)
    if subtask:
        begins = task_events.Compensating("shop", "t", 4.0, subtask, "a", 1, 1)
    records = [
        begins,
        task_events.SubtaskQueued("shop", "t", 5.0, "b"),
        task_events.StepPutBack("shop", "t", 3600.0, "undo" if subtask else "plan", reason, subtask),
    ]
    (ran,) = [bar for bar in bars_of_records(records) if bar["kind"] in {"running", "undo"}]
    assert (ran["from"], ran["to"], ran["status"]) == (4.0, to, "put back")


def test_usage_of_a_member_of_a_team_is_not_that_of_a_worker_of_the_same_name_beside_the_team() -> None:
    def within(_: Any, context: Context) -> str:
        context.use(tokens=25)
        return "done"

    def beside(_: Any, context: Context) -> str:
        context.use(tokens=2)
        return "done"

    members = [WorkerSpec(id="w", execute=within)]
    team = SupervisorSpec(id="team", tasks=Tasks(planner=StaticPlan([Subtask("w")])), children=members)
    tasks = Tasks(planner=StaticPlan([Subtask("team"), Subtask("w")]))
    spec = SupervisorSpec(id="shop", tasks=tasks, children=[WorkerSpec(id="w", execute=beside), team])
    with looked_at(spec) as (tree, client):
        assert tree.submit(Task("go", id="t")).result(LONG_S).usage.tokens == 27
        usage = client.get("/api/tasks/t").json()["usage"]
        assert {name: used["tokens"] for name, used in usage.items()} == {"w": 2, "team": 25, "team/w": 25}


def test_a_timeline_shows_what_was_put_off_or_refused_as_that_and_not_as_failed() -> None:
    left = iter([Later(0.0), "done"])

    def works(_: Any) -> Any:
        end = next(left)
        if isinstance(end, Later):
            raise end
        return end

    def refuses(_: Any) -> Any:
        raise Rejected("not mine")

    children = [WorkerSpec(id=id_, execute=f, capabilities={"work"}) for id_, f in (("x", refuses), ("y", works))]
    tasks = Tasks(planner=StaticPlan([Subtask("a", capability="work")]))
    with looked_at(SupervisorSpec(id="shop", tasks=tasks, children=children)) as (tree, client):
        handle = tree.submit(Task("go", id="t"))
        assert handle.result(LONG_S).results == {"a": "done"}
        ran = [bar for bar in client.get("/api/tasks/t").json()["bars"] if bar["kind"] == "running"]
        assert [(bar["worker"], bar["status"], bar["error"]) for bar in ran] == [
            ("x", "rejected", None),
            ("y", "later", None),
            ("y", "succeeded", None),
        ]


# -- probes, and the description -----------------------------------------------------------------------------


def test_probes_need_no_token_and_tell_alive_from_ready() -> None:
    child = WorkerSpec(id="w", handle=faulty, on_exhausted="park")
    with looked_at(SupervisorSpec(id="shop", max_restarts=0, children=[child])) as (tree, client):
        client.headers.pop("Authorization")
        probes = ("/healthz", "/readyz")
        assert [client.get(probe).status_code for probe in probes] == [200, 200]
        tree.ref("shop/w").tell(ValueError())
        eventually(lambda: tree.child("shop/w").state == "parked")
        assert [client.get(probe).status_code for probe in probes] == [200, 503]
        tree.restart_child("shop/w")
        assert [client.get(probe).status_code for probe in probes] == [200, 200]


def test_the_description_of_the_api_has_each_address_that_there_is() -> None:
    routes = Handlers(None, None, None, None).routes()  # type: ignore[arg-type]
    methods = [(route.path.replace(":path", ""), method) for route in routes for method in route.methods or ()]
    there = {(path, method.lower()) for path, method in methods if method != "HEAD"}
    pages = {"/", "/static/{name}", "/docs", "/openapi.json"}
    with looked_at(SupervisorSpec(id="shop", children=[WorkerSpec(id="w", handle=str)])) as (_, client):
        told = client.get("/openapi.json").json()["paths"]
        text = client.get("/docs").text
    assert {(path, method) for path, methods in told.items() for method in methods} == {
        each for each in there if each[0] not in pages
    }
    assert [path for path in told if path not in text] == []
