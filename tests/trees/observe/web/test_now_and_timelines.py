"""What happens now, the timeline of a task in all its colours, probes and the description of the API: of real trees."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import httpx

from actors import ActorStoppedError
from actors.testing import settle
from tests.support.asking import LONG_S
from tests.support.hardening import Gate, eventually
from trees import (
    Check,
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
from trees.observe.web.web_app import Handlers


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


def test_a_row_has_the_last_error_of_before_the_first_look() -> None:
    with start(SupervisorSpec(id="shop", children=[WorkerSpec(id="a", handle=faulty)])) as tree:
        tree.ref("shop/a").tell(ValueError())
        settle(tree)
        with closing(TreeSource(tree)) as source:
            rows = {row["path"]: row["last_error"] for row in source.snapshot()["rows"]}
    assert rows == {"shop": None, "shop/a": "ValueError"}


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


def test_of_a_large_tree_the_first_level_is_drawn_and_all_of_it_is_counted() -> None:
    """[60 groups of 60] A root with many children was one row, and a tree was as large as its first level."""
    groups = [
        SupervisorSpec(id=f"g{at}", children=[WorkerSpec(id=f"w{no}", handle=faulty) for no in range(60)])
        for at in range(60)
    ]
    spec = SupervisorSpec(id="shop", children=[*groups, WorkerSpec(id="pool", handle=faulty, pool=70)])
    with start(spec) as tree, closing(TreeSource(tree)) as source:
        whole, opened, small = source.snapshot(), source.snapshot(["shop/g3"]), source.snapshot(limit=40)
    first = ["shop", *(f"shop/g{at}" for at in range(60)), "shop/pool"]
    assert [row["path"] for row in whole["rows"]] == first
    assert {row["path"] for row in opened["rows"]} == {*first, *(f"shop/g3/w{no}" for no in range(60))}
    assert [row["path"] for row in small["rows"]] == ["shop"]
    assert [(each["total"], each["cut"]) for each in (whole, opened, small)] == [(1 + 60 + 60 * 60 + 1, True)] * 3


# -- timelines -----------------------------------------------------------------------------------------------


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
