"""``regrow top`` by its keys, headless, on a source that is told what to answer."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, DataTable, Input, Static

from tests.support.asking import LONG_S
from tests.support.command import SHOP, file
from tests.support.hardening import eventually
from tests.trees.observe.scripted_source import ScriptedSource
from trees.command.top.app import Top
from trees.command.top.screens import AnswerScreen, ConfirmScreen, TextScreen, goes_with_answer
from trees.command.top.target_run import run_target
from trees.host.console import Console, ConsoleSource
from trees.observe.source import Source, SourceError

AT = 1_900_000_000.0


def row(path: str, kind: str = "worker", **more: Any) -> dict[str, Any]:
    depth = path.count("/")
    id_ = path.rpartition("/")[2]
    known = {"path": path, "id": id_, "depth": depth, "kind": kind, "state": "running", "restarts": 0, "mailbox": 0}
    limit = {"max_restarts": 3, "within_s": 5.0} if kind == "supervisor" else {}
    return known | limit | {"folded": False} | more


ROWS = [
    row("shop", "supervisor"),
    row("shop/parse", "pool", size=8, busy=2, mailbox=5, folded=True),
    row("shop/mail", state="restarting", restarts=2, breaker="open", last_error="OSError: no wire"),
    row("shop/team", "supervisor"),
    row("shop/team/[red]helper", state="parked", restarts=1, current_s=3.25),
]
TREE = {
    "at": AT,
    "name": "shop",
    "role": "leader",
    "health": {"ok": True, "ready": False, "problems": [{"path": "shop/mail", "what": "restarting"}]},
    "rows": ROWS,
    "total": 12,
    "cut": False,
    "now": {
        "tasks": {"running": 1},
        "crashes": [{"path": "shop/mail", "type": "OSError", "count": 4, "last_at": AT - 61}],
        "dead_letters": {"stopped": 2},
        "alerts": [{"name": "parked", "since": AT}],
    },
}
TASKS = {
    "tasks": [
        {
            "id": "t1",
            "path": "shop",
            "status": "waiting",
            "goal": "sell \x1b[31mit",
            "created_at": AT - 120,
            "subtasks": {"succeeded": 2, "waiting": 1},
        }
    ]
}
QUESTIONS = {
    "questions": [
        {
            "id": "t1:q1",
            "task": "t1",
            "path": "shop",
            "subtask": "pay",
            "text": "Pay [b]all[/b]?",
            "asked_at": AT - 30,
            "answers": ["approve", "edit", "respond", "reject"],
        }
    ]
}


def source(**answers: Any) -> ScriptedSource:
    known = {
        "snapshot": TREE,
        "tasks": TASKS,
        "questions": QUESTIONS,
        "stack": {"frames": ['  File "mail.py", line 7, in send\n    wire.send([1])\n']},
        "child": {"row": ROWS[2], "settings": {"backoff": "1 s"}, "exits": [{"at": AT, "reason": "crashed"}]},
        "task": {"id": "t1", "status": "waiting", "log": [{"at": AT, "kind": "task_submitted", "text": ""}]},
    }
    return ScriptedSource(**known | answers)


Walk = Callable[["Walked"], Awaitable[None]]


class Walked:
    """A program under test, and its keys."""

    def __init__(self, app: Top, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until all that follows from them is done and drawn."""
        for key in keys:
            await self.pilot.press(key)
            await self.settled()

    async def settled(self) -> None:
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()

    def lines(self, pane: str = "tree") -> list[list[str]]:
        table = self.app.query_one(f"#{pane}-rows", DataTable)
        return [[str(cell) for cell in table.get_row_at(n)] for n in range(table.row_count)]

    def names(self) -> list[str]:
        return [cells[0] for cells in self.lines()]

    @property
    def head(self) -> str:
        return str(self.app.query_one("#head", Static).content)

    def to(self, path: str) -> None:
        """Put the cursor on a row."""
        table = self.app.query_one("#tree-rows", DataTable)
        table.move_cursor(row=table.get_row_index(path), animate=False)


def walked(given: Source, walk: Walk) -> Top:
    """Run a walk through the program, which looks only when something says so."""
    app = Top(given, every_s=None)
    app.NOTIFICATION_TIMEOUT = 3600.0  # type: ignore[misc] # a notification is looked at while it is shown

    async def main() -> None:
        async with app.run_test(size=(160, 40)) as pilot:
            there = Walked(app, pilot)
            await there.settled()
            await walk(there)

    asyncio.run(main())
    return app


def test_the_tree_is_drawn_with_states_counts_and_what_is_wrong() -> None:
    async def walk(top: Walked) -> None:
        assert top.lines() == [
            ["▾ shop", "running", "", "0", "0", "", ""],
            ["  ▸ parse ×8", "running", "", "0", "5", "", "busy 2"],
            ["    mail", "restarting", "OSError: no wire", "2", "0", "", "breaker open"],
            ["  ▾ team", "running", "", "0", "0", "", ""],
            ["      [red]helper", "parked", "", "parked after 1 restart", "0", "3.2 s", ""],
        ]
        assert top.head == (
            "shop (leader)   not ready   12 children   tasks: running 1   dead letters 2   alert parked   "
            "shop/mail: restarting   questions 1"
        )

    walked(source(), walk)


def test_tasks_questions_and_crashes_have_a_pane_each_and_no_text_is_obeyed() -> None:
    async def walk(top: Walked) -> None:
        await top.press("2")
        assert top.lines("tasks") == [["t1", "waiting", "shop", "succeeded 2, waiting 1", "2 min", "sell  [31mit"]]
        await top.press("3")
        assert top.lines("questions") == [["t1", "pay", "30 s", "Pay [b]all[/b]?"]]
        await top.press("4")
        assert top.lines("crashes") == [["shop/mail", "OSError", "4", "1 min ago"]]

    walked(source(), walk)


ORDERS = [
    ["shop/team/[red]helper", "shop/mail", "shop/parse ×8"],
    ["shop/mail", "shop/team/[red]helper", "shop/parse ×8"],
    ["shop/parse ×8", "shop/mail", "shop/team/[red]helper"],
    ["shop/team/[red]helper", "shop/parse ×8", "shop/mail"],
    ["▾ shop", "  ▸ parse ×8", "    mail", "  ▾ team", "      [red]helper"],
]
"""Sorted by trouble, restarts, mailbox, age of the current message, and as the tree is declared again."""


def test_s_sorts_by_the_next_order() -> None:
    async def walk(top: Walked) -> None:
        for order in ORDERS:
            await top.press("s")
            assert top.names() == order

    walked(source(), walk)


def test_slash_filters_while_it_is_typed_and_keeps_what_stands_above() -> None:
    async def walk(top: Walked) -> None:
        await top.press("slash", "h", "e", "l", "p")
        assert top.names() == ["▾ shop", "  ▾ team", "      [red]helper"]
        await top.press("enter", "s")
        assert top.names() == ["shop/team/[red]helper"]
        assert "filter help" in top.head
        await top.press("escape")
        assert len(top.names()) == 3
        assert top.app.query_one("#filter", Input).value == ""

    walked(source(), walk)


def test_f_folds_what_is_open_and_has_the_source_unfold_what_it_has_folded() -> None:
    given = source()

    async def walk(top: Walked) -> None:
        top.to("shop/team")
        await top.press("f")
        assert top.names()[-1] == "  ▸ team"
        await top.press("f")
        assert top.names()[-1] == "      [red]helper"
        top.to("shop/parse")
        await top.press("enter")
        assert ("snapshot", {"unfold": ("shop/parse",), "limit": 500, "text": "", "troubled": False}) in given.asked

    walked(given, walk)


@pytest.mark.slow
def test_a_child_is_operated_once_that_is_confirmed() -> None:
    given = source()

    async def walk(top: Walked) -> None:
        top.to("shop/mail")
        for key, act in (("r", "restart"), ("t", "terminate"), ("u", "unpark")):
            await top.press(key)
            assert isinstance(top.app.screen, ConfirmScreen)
            assert top.app.screen.text == f"{act} shop/mail?"
            await top.press("y" if key != "t" else "n")

    walked(given, walk)
    assert [(done["path"], done["act"]) for _, done in given.acts()] == [
        ("shop/mail", "restart"),
        ("shop/mail", "unpark"),
    ]


@pytest.mark.slow
def test_k_shows_a_stack_and_enter_shows_a_child_and_a_task() -> None:
    async def walk(top: Walked) -> None:
        top.to("shop/mail")
        await top.press("k")
        assert isinstance(top.app.screen, TextScreen)
        assert top.app.screen.text == '  File "mail.py", line 7, in send\n    wire.send([1])'
        await top.press("escape", "enter")
        assert isinstance(top.app.screen, TextScreen)
        assert "backoff: 1 s" in top.app.screen.text
        await top.press("escape", "2", "enter")
        assert isinstance(top.app.screen, TextScreen)
        assert "task_submitted" in top.app.screen.text

    walked(source(), walk)


def test_c_cancels_the_task_under_the_cursor() -> None:
    given = source()

    async def walk(top: Walked) -> None:
        await top.press("c", "2", "c", "y")

    walked(given, walk)
    assert given.acts() == [("cancel", {"id": "t1", "reason": "cancelled in regrow top", "by": ""})]


ANSWERS = [
    ("approve", "", (None, None), ""),
    ("approve", "typed by mistake", (None, None), ""),
    ("edit", '{"paid": 7}', (None, {"paid": 7}), ""),
    ("edit", "seven", (), "JSON"),
    ("edit", "", (), "JSON"),
    ("respond", "only half", ("only half", None), ""),
    ("respond", "", (), "needs a text"),
    ("reject", "too dear", ("too dear", None), ""),
    ("reject", "", (None, None), ""),
]


@pytest.mark.parametrize(("word", "typed", "goes_with", "problem"), ANSWERS)
def test_what_goes_with_an_answer_is_checked(word: str, typed: str, goes_with: tuple[Any, ...], problem: str) -> None:
    if problem:
        with pytest.raises(ValueError, match=problem):
            goes_with_answer(word, typed)
    else:
        assert goes_with_answer(word, typed) == goes_with


def test_a_question_is_answered_and_a_mistake_is_said_before_it_is_sent() -> None:
    given = source()

    async def walk(top: Walked) -> None:
        await top.press("3", "a")
        screen = top.app.screen
        assert isinstance(screen, AnswerScreen)
        assert "Pay [b]all[/b]?" in str(screen.query_one("#asked", Static).content)
        await top.pilot.click("#edit")
        assert top.app.screen is screen
        screen.query_one("#given", Input).value = '{"paid": 7}'
        screen.query_one("#edit", Button).press()
        await top.settled()
        assert top.app.screen is not screen

    walked(given, walk)
    answered = {"id": "t1:q1", "answer": "edit", "text": None, "value": {"paid": 7}, "by": ""}
    assert given.acts() == [("answer", answered)]


def test_without_a_question_there_is_nothing_to_answer() -> None:
    async def walk(top: Walked) -> None:
        await top.press("a")
        assert not isinstance(top.app.screen, AnswerScreen)

    walked(source(questions={"questions": []}), walk)


def test_what_is_refused_is_said_and_the_program_goes_on() -> None:
    given = source(act=SourceError(409, "shop/mail: is running."))

    async def walk(top: Walked) -> None:
        top.to("shop/mail")
        await top.press("r", "y")
        assert [note.message for note in top.app._notifications] == ["shop/mail: is running."]
        assert top.app.is_running

    walked(given, walk)


def test_an_event_makes_it_look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trees.command.top.app.SOON_S", 0.001)
    states = ["running"]
    given = source(snapshot=lambda: TREE | {"rows": [row("shop/mail", state=states[0])]})

    async def walk(top: Walked) -> None:
        states[0] = "parked"
        given.tell(name="child_parked", path="shop/mail")
        while top.lines()[0][1] != "parked":
            await top.settled()

    walked(given, walk)
    assert given.subscribers == []


def test_when_the_tree_has_ended_the_last_picture_stays_and_says_so() -> None:
    given = source()

    async def walk(top: Walked) -> None:
        given.answers["snapshot"] = SourceError(503, "nobody listens.")
        given.tell(name="source_ended", text="the tree has ended.")
        await top.settled()
        assert "ENDED: the tree has ended." in top.head
        assert len(top.names()) == len(ROWS)
        await top.press("q")

    assert walked(given, walk).return_code == 0


def test_a_source_that_does_not_answer_is_asked_again_and_the_last_picture_stays_until_it_does() -> None:
    given = source()

    async def walk(top: Walked) -> None:
        given.answers["snapshot"] = SourceError(503, "the store is away.")
        top.app.look()
        await top.settled()
        assert "NO ANSWER: the store is away." in top.head
        assert len(top.names()) == len(ROWS)
        given.answers["snapshot"] = TREE
        top.app.look()
        await top.settled()
        assert "NO ANSWER" not in top.head
        await top.press("q")

    assert walked(given, walk).return_code == 0


def test_q_waits_for_no_answer_of_a_source_that_hangs() -> None:
    given, asked, release, waited_out = source(), threading.Event(), threading.Event(), threading.Event()

    def hangs() -> Any:
        asked.set()
        if not release.wait(LONG_S):
            waited_out.set()
        return TREE

    async def walk(top: Walked) -> None:
        given.answers["snapshot"] = hangs
        top.app.look()
        assert await asyncio.to_thread(asked.wait, LONG_S)
        await top.pilot.press("q")

    try:
        assert walked(given, walk).return_code == 0
        assert not waited_out.is_set()
    finally:
        release.set()


# -- from outside ------------------------------------------------------------------------------------------


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for sockets of its own, with a path short enough for one."""
    place = Path(tempfile.mkdtemp(prefix="rg"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    yield place
    shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.usefixtures("runtime")
def test_a_tree_of_another_program_is_looked_at_and_operated_through_its_socket() -> None:
    given = source()
    console = Console("shop")
    console.serve(given)

    async def walk(top: Walked) -> None:
        while not given.subscribers:
            await top.settled()
        assert len(top.names()) == len(ROWS)
        top.to("shop/mail")
        await top.press("r", "y", "3", "a")
        top.app.screen.query_one("#approve", Button).press()
        await top.settled()
        console.close()
        while "ENDED" not in top.head:
            await top.settled()

    with closing(ConsoleSource(console.path)) as far:
        walked(far, walk)

    assert [done for done, _ in given.acts()] == ["act", "answer"]
    assert all(asked["by"].startswith("console uid ") for _, asked in given.acts())
    assert given.subscribers == []


@pytest.mark.slow
@pytest.mark.usefixtures("runtime")
def test_a_target_runs_in_a_process_of_its_own_and_what_it_prints_comes_afterwards(tmp_path: Path) -> None:
    shown: list[str] = []
    said: list[str] = []
    up = tmp_path / "up"
    shop = file(
        tmp_path, "shop.py", f"{SHOP}\n\ndef main(tree):\n    open({str(up)!r}, 'w').close()\n    tree.wait()\n"
    )

    def show(at: Path) -> None:  # the console is open before all is up
        eventually(up.exists, "the main of the program")
        shown.append(ConsoleSource(at).dump())

    code = run_target([str(shop), "--store", "memory:"], show, said.append)
    broken = run_target([str(tmp_path / "none.py")], lambda _: shown.append("never"), said.append)

    assert code == 0
    assert [text.splitlines()[0].split()[0] for text in shown] == ["shop"]
    assert "shop: stopping" in said[0]
    assert broken == 1
    assert "no such file" in said[1]
