"""What a dump says of a parked child, and a printed report of its results."""

from __future__ import annotations

from trees import Plan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start


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
