"""The program of ``regrow top``: looks at a ``Source`` again and again, draws it, and does what keys say.

Everything that asks the source runs on a daemon thread (``_apart``), so neither the screen nor the end of the program
waits for a tree. One look is under way at a time; a key or an event that wants another one while it is, has one follow
it. A source that does not answer (a process that is stopped or busy, a store that is away) is asked again with the next
look. Only what the source says itself is its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Input, Static, TabbedContent, TabPane

from actors.concurrency.thread_state import in_background
from actors.messaging.reply import Reply
from trees.command.top import picture
from trees.command.top.picture import Cells, Chosen
from trees.command.top.screens import AnswerScreen, ConfirmScreen, TextScreen
from trees.observe.source import Act, Shape, Source, SourceError

EVERY_S: Final = 1.0
SOON_S: Final = 0.2
"""How long after an event there is a look at the earliest."""
_STYLES: Final = {
    "running": "green",
    "succeeded": "green",
    "restarting": "yellow",
    "waiting": "yellow",
    "stopped": "bright_black",
    "parked": "red",
    "failed": "red",
}
_PANES: Final = (
    ("tree", "Tree", picture.TREE_HEADS),
    ("tasks", "Tasks", picture.TASK_HEADS),
    ("questions", "Questions", ("Task", "Subtask", "Waits", "Text")),
    ("crashes", "Crashes", picture.CRASH_HEADS),
)
T = TypeVar("T")


class Top(App[None]):
    """A tree on a terminal.

    Args:
        source: what is looked at. It is closed by whoever made it.
        every_s: seconds between two looks. None: only when a key or an event says so.
    """

    CSS = (
        "#head { height: auto; padding: 0 1; } #keys { dock: bottom; height: auto; padding: 0 1; } "
        "#filter { display: none; } #filter.shown { display: block; }"
    )
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "pane('tree')", "Tree", show=False),
        Binding("2", "pane('tasks')", "Tasks", show=False),
        Binding("3", "pane('questions')", "Questions", show=False),
        Binding("4", "pane('crashes')", "Crashes", show=False),
        Binding("s", "sort", "Sort"),
        Binding("slash", "filter", "Filter"),
        Binding("f,space", "fold", "Fold"),
        Binding("r", "act('restart')", "Restart"),
        Binding("t", "act('terminate')", "Terminate"),
        Binding("u", "act('unpark')", "Unpark"),
        Binding("k", "stack", "Stack"),
        Binding("a", "answer", "Answer"),
        Binding("c", "cancel", "Cancel task"),
        Binding("escape", "unfilter", "All", show=False),
        Binding("q", "quit", "Quit"),
    ]
    KEYS: Final = "   ".join(
        f"{each.key.partition(',')[0].replace('slash', '/')} {each.description}"
        for each in BINDINGS
        if isinstance(each, Binding) and each.show
    )
    """What stands at the bottom: it takes a second line if the terminal is narrow."""

    def __init__(self, source: Source, every_s: float | None = EVERY_S) -> None:
        super().__init__()
        self.source = source
        self.chosen = Chosen()
        self.ended = ""
        """Why there is nothing more to see; empty while there is."""
        self.silent = ""
        """Why the last look has found nothing; empty where it has."""
        self._every_s = every_s
        self._tree: Shape = {"name": source.name, "rows": [], "total": 0}
        self._tasks: Shape = {}
        self._questions: Shape = {}
        self._looking = self._again = self._soon = False
        self._unsubscribe: Callable[[], None] = lambda: None

    # -- drawing -------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Draw the frame."""
        yield Static(id="head", markup=False)
        yield Input(placeholder="part of a path, a state, an id", id="filter")
        with TabbedContent(initial="tree"):
            for id_, name, _ in _PANES:
                with TabPane(name, id=id_):
                    yield DataTable[Text](id=f"{id_}-rows", cursor_type="row", zebra_stripes=True)
        yield Static(self.KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to look."""
        for id_, _, heads in _PANES:
            for head in heads:
                self._rows(id_).add_column(head, key=head)
        self._rows("tree").focus()
        if self._every_s is not None:
            self.set_interval(self._every_s, self.look)
        self.run_worker(self._subscribe())
        self.look()

    def on_resize(self) -> None:
        """Wrap questions at the width that there is now."""
        if self._rows("questions").columns:
            self._draw()

    def on_unmount(self) -> None:
        """Hear of nothing more."""
        self._unsubscribe()

    def _rows(self, id_: str) -> DataTable[Text]:
        return self.query_one(f"#{id_}-rows", DataTable)

    def _draw(self) -> None:
        """Draw what the last look has found."""
        at, text, tree = self._tree.get("at") or 0.0, self.chosen.text, self._tree
        rows = picture.children(tree["rows"], self.chosen)
        self._fill("tree", ((row["path"], picture.child_cells(row, self.chosen)) for row in rows))
        self._fill("tasks", picture.tasks(self._tasks, at, text))
        asked = list(picture.questions(self._questions, at, text))
        self._wrap(sum(max([len(cells[at]) for _, cells in asked] + [7]) + 2 for at in (1, 2, 3)))
        self._fill("questions", ((key, (*cells[1:4], cells[5])) for key, cells in asked), height=None)
        self._fill("crashes", picture.crashes(tree, at, text))
        waiting = len(self._questions.get("questions") or ())
        how = [f"sorted by {self.chosen.sort}" if self.chosen.sort != "tree" else "", f"filter {text}" if text else ""]
        asks = [f"questions {waiting}" if waiting else "", self.ended or self.silent]
        self.query_one("#head", Static).update("   ".join(filter(None, [picture.head_line(tree), *asks, *how])))

    def _wrap(self, taken: int) -> None:
        """Give the text of questions the width that the other columns leave; as many lines as it needs are drawn."""
        last = self._rows("questions").ordered_columns[-1]
        last.auto_width, last.width = False, max(20, self.size.width - taken - 4)

    def _fill(self, id_: str, lines: Iterable[tuple[str, Cells]], height: int | None = 1) -> None:
        """Put lines into a table; the cursor stays on the line of its key."""
        table = self._rows(id_)
        under, at = self._key(table), table.cursor_row
        table.clear()
        for key, cells in dict(lines).items():
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in cells), key=key, height=height)
        if under in table.rows:
            at = table.get_row_index(under)
        table.move_cursor(row=min(at, max(0, table.row_count - 1)), animate=False)

    @staticmethod
    def _key(table: DataTable[Text]) -> str:
        if not table.row_count:
            return ""
        found = list(table.rows)[min(table.cursor_row, table.row_count - 1)]
        return found.value or ""

    # -- looking -------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look again, as soon as the look that is under way is over."""
        self._soon = False
        self._again = True
        if not self._looking and not self.ended:
            self._looking, self._again = True, False
            self.run_worker(self._ask())

    async def _apart(self, ask: Callable[[], T]) -> T:
        """Ask the source on a thread, which may hang there longer than anybody waits for it."""
        reply = Reply()

        def run() -> None:
            try:
                reply.complete(ask())
            except Exception as error:  # noqa: BLE001 - raised where it is awaited
                reply.fail(error)

        in_background("regrow-top", run)
        found: T = await reply
        return found

    async def _ask(self) -> None:
        """Ask the source for all that is drawn."""
        unfolded, text = sorted(self.chosen.unfolded), self.chosen.text
        try:
            found = await self._apart(
                lambda: (self.source.snapshot(unfolded, text=text), self.source.tasks(), self.source.questions())
            )
        except SourceError as error:
            self._failed(error)
        else:
            self._seen(*found)

    def _seen(self, tree: Shape, tasks: Shape, questions: Shape) -> None:
        self._tree, self._tasks, self._questions = tree, tasks, questions
        self._looking, self.silent = False, ""
        self._draw()
        if self._again:
            self.look()

    def _failed(self, error: SourceError) -> None:
        self._looking = False
        if error.status == 503:  # noqa: PLR2004 - it is gone, or does not answer: whoever subscribes is told which
            self.silent = f"NO ANSWER: {picture.plain(str(error))}"
            self._draw()
        else:
            self._tell(str(error))

    async def _subscribe(self) -> None:
        try:
            self._unsubscribe = await self._apart(lambda: self.source.subscribe(self._heard))
        except SourceError as error:
            self._failed(error)

    def _heard(self, event: Shape) -> None:
        """Look soon, on the thread of whoever tells."""
        if not self.is_running:
            return
        if event.get("name") == "source_ended":
            self.call_later(self._end, str(event.get("text") or "the tree has ended."))
        elif not self._soon:
            self._soon = True
            self.call_later(self.set_timer, SOON_S, self.look)

    def _end(self, why: str) -> None:
        """Keep the last picture, and say why there is no newer one."""
        self.ended = self.ended or f"ENDED: {picture.plain(why)}"
        self._draw()

    def _tell(self, text: str) -> None:
        self.notify(picture.plain(text), severity="error", markup=False)

    # -- keys ----------------------------------------------------------------------------------------------

    def action_pane(self, id_: str) -> None:
        """Show one of the four."""
        self.query_one(TabbedContent).active = id_
        self._rows(id_).focus()

    def action_sort(self) -> None:
        """Sort by the next of the orders."""
        self.chosen = self.chosen.sorted_next()
        self._draw()

    def action_filter(self) -> None:
        """Ask what to filter by."""
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.focus()

    def action_unfilter(self) -> None:
        """Show everything again."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("shown")
        self.action_pane(self._pane)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        if event.input.id == "filter":
            self.chosen = replace(self.chosen, text=event.value)
            self._draw()
            self.look()  # for what is folded, which only the source can search

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go back to the rows, which stay filtered."""
        if event.input.id == "filter":
            event.input.remove_class("shown")
            self.action_pane(self._pane)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Fold a supervisor, show a child or a task, answer a question."""
        key = event.row_key.value or ""
        if self._pane == "tree":
            row = self._child(key)
            if row is not None and row["kind"] in {"supervisor", "pool"}:
                self.action_fold()
            else:
                self._read(key, lambda: picture.details(self.source.child(key)))
        elif self._pane == "tasks":
            self._read(key, lambda: picture.details(self.source.task(key)))
        elif self._pane == "questions":
            self.action_answer()

    def action_fold(self) -> None:
        """Fold what is open, open what is folded."""
        row = self._child(self._under) if self._pane == "tree" else None
        if row is not None and row["kind"] in {"supervisor", "pool"}:
            self.chosen = self.chosen.toggled(row)
            self._draw()
            self.look()

    def action_act(self, act: Act) -> None:
        """Restart, terminate or unpark the child under the cursor, once that is confirmed."""
        path = self._under
        if self._pane == "tree" and path:
            self._confirmed(f"{act} {path}?", lambda: self.source.act(path, act))

    def action_cancel(self) -> None:
        """Cancel the task under the cursor, once that is confirmed."""
        id_ = self._under
        if self._pane == "tasks" and id_:
            self._confirmed(f"cancel task {id_}?", lambda: self.source.cancel(id_, "cancelled in regrow top"))

    def action_stack(self) -> None:
        """Show where the code of the child under the cursor stands."""
        path = self._under
        if self._pane == "tree" and path:
            self._read(path, lambda: picture.stack_text(self.source.stack(path)))

    def action_answer(self) -> None:
        """Answer the question under the cursor; from another pane, the first there is."""
        asked = self._questions.get("questions") or []
        wanted = [each for each in asked if each["id"] == self._under] if self._pane == "questions" else asked
        if not wanted:
            self.notify("No question waits.", markup=False)
            return
        question = wanted[0]

        def answered(given: tuple[str, str | None, Any] | None) -> None:
            if given is not None:
                word, text, value = given
                self._do(lambda: self.source.answer(question["id"], word, text, value))

        self.push_screen(AnswerScreen(question), answered)

    @property
    def _pane(self) -> str:
        return self.query_one(TabbedContent).active

    @property
    def _under(self) -> str:
        """Key of the row under the cursor."""
        return self._key(self._rows(self._pane))

    def _child(self, path: str) -> Shape | None:
        return next((row for row in self._tree["rows"] if row["path"] == path), None)

    def _confirmed(self, text: str, act: Callable[[], Shape]) -> None:
        self.push_screen(ConfirmScreen(text), lambda yes: self._do(act) if yes else None)

    def _do(self, act: Callable[[], Shape]) -> None:
        """Do something, and look what came of it."""

        async def done() -> None:
            try:
                said = (await self._apart(act)).get("text")
            except SourceError as error:
                self._tell(str(error))
            else:
                if said:  # by a store, where the tree is yet to take it
                    self.notify(picture.plain(said), markup=False)
            self.look()

        self.run_worker(done())

    def _read(self, heading: str, read: Callable[[], str]) -> None:
        """Show a text, when it is there."""

        async def done() -> None:
            try:
                text = await self._apart(read)
            except SourceError as error:
                self._tell(str(error))
            else:
                self.push_screen(TextScreen(heading, text))

        self.run_worker(done())
