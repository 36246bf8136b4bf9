"""Walk through the page of real trees at 1280 and 390 pixels: a dead store, a question, a failed task, a phone."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors import Context, Escalated
from trees import (
    Escalate,
    Plan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    Web,
    WorkerSpec,
    start,
)

pytestmark = pytest.mark.slow

WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 800}
QUESTION = "May the summary be sent to the board, although nobody has read it yet?"
ERROR = "no route to the printer, which is on the third floor of the other building"


def research(task: Task, context: Context) -> dict[str, str]:
    return {"cheapest": "pgvector"}


def send(task: Task, context: Context) -> str:
    raise Escalated(QUESTION)


def print_it(task: Task, context: Context) -> str:
    raise ConnectionError(ERROR)


OFFICE = SupervisorSpec(
    id="office",
    tasks=Tasks(on_failure=[]),
    children=[
        WorkerSpec(id="research", execute=research),
        WorkerSpec(id="send", execute=send, on_failure=[Escalate()]),
        WorkerSpec(id="print", execute=print_it),
        WorkerSpec(id="count", handle=int),
    ],
)


def busy(tree: Tree) -> None:
    """Leave a task that waits for a person, one that has failed, and a crash."""
    sending = Subtask(
        "send", instruction="send the summary", depends_on=["research"], inputs={"to": "board@example.com"}
    )
    board = Task("tell the board", id="board", inputs={"budget": 5000}, plan=Plan([Subtask("research"), sending]))
    next(iter(tree.submit(board).questions()))
    printing = Plan([Subtask("research"), Subtask("print", depends_on=["research"])])
    with pytest.raises(TaskFailedError):
        tree.submit(Task("print the prices", id="prices", inputs={"copies": 12}, plan=printing)).result()
    tree.ref("office/count").tell("no number")


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a view of the page of a busy tree."""
    with start(OFFICE, web=Web(port=0)) as tree, closing(browser.new_page()) as page:
        busy(tree)
        assert tree.page is not None
        page.goto(tree.page.url)

        def go(view: str, ready: str, size: dict[str, int] = WIDE) -> Any:
            page.set_viewport_size(size)
            page.evaluate("view => { location.hash = `#/${view}` }", view)
            page.wait_for_selector(ready)
            return page

        yield go


def test_a_card_has_the_question_goal_inputs_and_results_and_says_what_each_button_does(
    opened: Callable[..., Any],
) -> None:
    for view in ("questions", "tasks/board"):
        card = opened(view, "article.card").query_selector("article.card")
        for text in (QUESTION, "tell the board", "send the summary", "5000", "board@example.com"):
            assert text in card.inner_text()
        assert "pgvector" not in card.inner_text()  # folded
        card.query_selector("details summary").click()
        assert "pgvector" in card.inner_text()
        buttons = card.query_selector_all("button")
        assert [each.inner_text() for each in buttons] == ["Approve", "Edit", "Respond", "Reject"]
        looks = {each.evaluate("button => getComputedStyle(button).backgroundColor") for each in buttons[1:]}
        assert looks == {buttons[0].evaluate("button => getComputedStyle(button).backgroundColor")}
        for each in buttons:
            assert each.evaluate("button => button.nextElementSibling.textContent").endswith(".")


def test_errors_come_first_on_the_page_of_a_failed_task_and_have_a_column_in_the_tree(
    opened: Callable[..., Any],
) -> None:
    shown = opened("tasks/prices", ".dag .node").inner_text("article.task")
    places = [shown.index(text) for text in ("prices", ERROR, "copies", "Report", "pgvector", "Timeline")]
    assert places == sorted(places)
    row = opened("tree", "th >> text=Last error").wait_for_selector("tr[data-path='office/count']")
    assert "invalid literal for int()" in row.inner_text()


def test_on_a_phone_no_cell_of_a_table_is_cut_or_narrower_than_a_word(opened: Callable[..., Any]) -> None:
    for view, ready in (("tasks/prices", ".dag .node"), ("now", ".now td >> text=office/count")):
        page = opened(view, ready, PHONE)
        cells = page.evaluate(
            "[...document.querySelectorAll('.part td')].filter(cell => cell.textContent && cell.offsetParent)"
            ".map(cell => [cell.textContent, cell.getBoundingClientRect().left, cell.getBoundingClientRect().right])"
        )
        assert len(cells) > 5
        for text, left, right in cells:
            assert (left >= 0, right <= 390, right - left >= 200) == (True, True, True), text
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_page_of_a_store_whose_tree_is_dead_says_stopped_and_shows_its_tasks(
    browser: Any, tmp_path: Path, size: dict[str, int]
) -> None:
    url = f"sqlite:///{tmp_path / 'office.db'}"
    with start(OFFICE, store=url) as tree:
        busy(tree)
    command = [sys.executable, "-c", "from trees.cli import main; main()", "observe", "--store", url, "--web", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served, closing(browser.new_page()) as page:
        try:
            assert served.stdout is not None
            link = re.search(r"http\S+", served.stdout.readline())
            assert link is not None
            page.set_viewport_size(size)
            page.goto(link.group())
            page.wait_for_selector("#live[data-live=stopped]")
            head = page.inner_text("header.top")
            assert re.search(r"stopped, as of .*\d\d:\d\d:\d\d", head)
            for word in ("healthy", "ready", "live"):
                assert word not in head.split()
            page.evaluate("location.hash = '#/tasks'")
            page.wait_for_selector("tr[data-id=prices] >> text=failed")
            page.wait_for_selector("tr[data-id=board] >> text=waiting")
            page.evaluate("location.hash = '#/now'")
            page.wait_for_selector(".now td >> text=failed")
            assert "No tasks" not in page.inner_text(".now")
        finally:
            served.kill()
