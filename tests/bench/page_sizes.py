"""How fast the page is where a tree, its history or a task is large: real trees, seen in headless Chromium.

``first paint`` is the time from the beginning of the navigation to the end of the frame in which the first row is
there; ``a look`` is that from the question of a view that looks again to the end of the frame with the answer.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.bench.sides import CRASH, ENDLESS, fragile, logs_to_nowhere
from tests.bench.table import Row, Size, limit
from tests.browser.conftest import FLAGS, WIDE, chromium
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start

WAIT_S = 300.0
FIRST_PAINT_S, UPDATE_S = 2.0, 0.2
LOOKS = 3
DRAWN = """window.drawn = new Promise((drawn) => {
    const watch = new MutationObserver(() => {
        if (!document.querySelector(SELECTOR)) return;
        watch.disconnect();
        requestAnimationFrame(() => setTimeout(() => drawn(performance.now())));
    });
    watch.observe(document, { childList: true, subtree: true });
})"""
LOOK = """async (address) => {
    const answers = () => performance.getEntriesByType("resource").filter(({ name }) => name.includes(address));
    const had = answers().length;
    while (answers().length === had) await new Promise((next) => setTimeout(next, 5));
    await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
    return performance.now() - answers().at(-1).startTime;
}"""
LIT = """(path) => {
    const row = document.querySelector(`tr[data-path="${path}"]`);
    row.classList.remove("flash");
    window.lit = new Promise((lit) => {
        const watch = new MutationObserver(() => {
            if (!row.classList.contains("flash")) return;
            watch.disconnect();
            requestAnimationFrame(() => setTimeout(() => lit(Date.now())));
        });
        watch.observe(row, { attributes: true });
    });
}"""


def milli(value: float) -> str:
    """Seconds, shown as milliseconds."""
    return f"{value * 1e3:,.0f} ms"


@contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium; None where there is none."""
    program = chromium()
    if program is None or importlib.util.find_spec("playwright") is None:
        yield None
        return
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it is optional

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, headless=True, args=FLAGS, chromium_sandbox=False)
        yield opened
        opened.close()


class _Window:
    """The page of a tree, at one view; ``row`` is what it has once it is drawn."""

    def __init__(self, opened: Any, tree: Tree, view: str, row: str) -> None:
        self.page = opened.new_page(viewport=WIDE)
        self.page.set_default_timeout(WAIT_S * 1e3)
        self.page.add_init_script(DRAWN.replace("SELECTOR", repr(row)))
        self.page.goto(f"{tree.serve(0).url}#/{view}")
        self.page.wait_for_selector(row)
        self.painted_s = self.page.evaluate("() => window.drawn") / 1e3

    def look_s(self, address: str) -> float:
        """Seconds of a look at this address of the API."""
        return statistics.median(self.page.evaluate(LOOK, address) for _ in range(LOOKS)) / 1e3

    def flash_s(self, tree: Tree, path: str) -> float:
        """Seconds from a message that crashes a child to its row that lights up."""
        took = []
        for _ in range(LOOKS):
            self.page.evaluate(LIT, path)
            began = time.time()
            tree.ref(path).tell(CRASH)
            took.append(self.page.evaluate("() => window.lit") / 1e3 - began)
        return statistics.median(took)


def sizes(size: Size) -> Iterator[Row]:
    """100,000 children, 10,000 finished tasks, a task of 2,000 subtasks."""
    with browser() as opened:
        if opened is None:
            yield Row("sizes of the page", "no Chromium, or no playwright")
            return
        with logs_to_nowhere():
            yield from _crowd(size.crowd[-1], opened)
            yield from _finished(size.queued, opened)
            yield from _large_task(2 * size.independent, opened)


def _crowd(number: int, opened: Any) -> Iterator[Row]:
    children = [WorkerSpec(id=f"w{at}", handle=fragile) for at in range(number)]
    crowd = SupervisorSpec(id="crowd", max_restarts=ENDLESS, children=children)
    with start(SupervisorSpec(id="bench", children=[crowd])) as tree:
        window = _Window(opened, tree, "tree", "tr[data-path]")
        yield from _rows(f"{number:,} children, folded", window, "/api/snapshot")
        twist = window.page.query_selector("tr[data-path='bench/crowd'][aria-expanded=false] .twist")
        if twist is not None:
            twist.click()
        window.page.wait_for_selector(f"tr[data-path='bench/crowd/w{min(number, 400) - 1}']")
        name = f"{number:,} children, unfolded"
        yield limit(f"{name}: a look", window.look_s("/api/snapshot"), show=milli, floor=UPDATE_S)
        yield limit(f"{name}: a crash, seen", window.flash_s(tree, "bench/crowd/w7"), show=milli, floor=UPDATE_S)


def _finished(number: int, opened: Any) -> Iterator[Row]:
    tasks = Tasks(planner=StaticPlan([Subtask("only", worker="w")]))
    with start(_office(tasks)) as tree:
        for handle in tree.submit_many([Task("go", id=f"t{at}") for at in range(number)]):
            handle.result(WAIT_S)
        window = _Window(opened, tree, "tasks", ".tasks tbody tr")
        yield from _rows(f"{number:,} finished tasks", window, "/api/tasks")


def _large_task(number: int, opened: Any) -> Iterator[Row]:
    plan = [Subtask(f"n{at}", worker="w", depends_on=[f"n{at // 2}"] if at else []) for at in range(number)]
    with start(_office(Tasks(planner=StaticPlan(plan), max_subtasks=number))) as tree:
        tree.run(Task("go", id="large"), WAIT_S)
        window = _Window(opened, tree, "tasks/large", ".dag .node")
        yield from _rows(f"a task of {number:,} subtasks", window, "/api/tasks/large")


async def _work(*_: object) -> str:
    return "done"


def _office(tasks: Tasks) -> SupervisorSpec:
    return SupervisorSpec(id="bench", tasks=tasks, children=[WorkerSpec(id="w", execute=_work, pool=10)])


def _rows(name: str, window: _Window, address: str) -> Iterator[Row]:
    yield limit(f"{name}: first paint", window.painted_s, show=milli, floor=FIRST_PAINT_S)
    yield limit(f"{name}: a look", window.look_s(address), show=milli, floor=UPDATE_S)
