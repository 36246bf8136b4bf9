"""What a dump says of a parked child, and a printed report of its results."""

from __future__ import annotations

from actors.testing import ManualClock, settle
from trees import Plan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start


def test_a_parked_child_says_how_often_it_was_restarted_also_long_after_its_period() -> None:
    clock = ManualClock()
    worker = WorkerSpec(id="count", handle=int, on_exhausted="park")
    with start(SupervisorSpec(id="shop", max_restarts=5, period_s=10.0, children=[worker]), clock=clock) as tree:
        for _ in range(6):
            tree.ref("shop/count").tell("no number")
            settle(tree)
        clock.advance(3600.0)
        shown = tree.dump()
    assert "parked after 6 restarts in 10 s" in shown
    assert "0/5 in 10 s" not in shown.splitlines()[1]


def test_a_printed_report_has_the_results_each_of_them_cut() -> None:
    def long(task: Task, context: object) -> str:
        return "begin" + "x" * 100_000

    def short(task: Task, context: object) -> dict[str, int]:
        return {"rows": 3}

    office = SupervisorSpec(
        id="office",
        tasks=Tasks(),
        children=[WorkerSpec(id="long", execute=long), WorkerSpec(id="short", execute=short)],
    )
    with start(office) as tree:
        report = tree.submit(Task("look", id="look", plan=Plan([Subtask("long"), Subtask("short")]))).result()
    for text in (repr(report), str(report)):
        assert "'short': {'rows': 3}" in text
        assert "'long': 'begin" in text
        assert ("look" in text, "succeeded" in text) == (True, True)
        assert len(text) < 1000
