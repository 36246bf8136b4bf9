"""A store as a ``Source``: the tasks of trees that run elsewhere, or are down, and who leads each of them.

Comes in: the URL of a store, and one root or all of them (the fleet). Its rows are roots; children and stacks live in
the process of their tree, and nothing listens between hosts, so they are refused. What a person does is a command that
is left in the store (``StoreClient``): a tree that runs takes it within a second, one that is down when it comes up.

What tasks are about is shown: who can read the store may see it. Where several roots have a task of one id, each is
called ``ROOT:ID``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from actors.concurrency.thread_state import in_background
from actors.messaging.reply import Reply
from actors.model.clock import SystemClock
from actors.tasks.model import StoreError, TaskStatus
from actors.validation.validation_messages import nearest
from trees.command.store_client import StoreClient, StoreClientError, TaskListing, UnfitAnswerError
from trees.observe.source import METRICS_ELSEWHERE, ROWS, TASKS, VERSION, Shape, SourceError, Status
from trees.observe.task_search import require_status
from trees.observe.task_shapes import in_a_list, question_row, task_page, task_row
from trees.observe.tree_shapes import BLANK_ROW, found_by

if TYPE_CHECKING:
    from trees.store.reader import StoredRoot

Found = TypeVar("Found")
LOOK_S: Final = 1.0
"""How often a subscriber has the store looked at."""
TAKEN_S: Final = 2.0
"""How long a command waits for a tree to take it; one that is down takes it later."""
MOST_NAMES: Final = 10
"""Roots that are named where one is looked for that is not there."""
_ELSEWHERE: Final = "children live in the process of their tree: look there, with 'regrow top --pid PID'."


class StoreSource:
    """The trees of one store, looked at from outside."""

    def __init__(self, url: str, root: str | None = None) -> None:
        self._client = StoreClient(url)
        self._root = root
        self._ends: list[Reply] = []
        self.name = self._client.name if root is None else root

    def __repr__(self) -> str:
        return f"<StoreSource {self.name}>"

    # -- looking -------------------------------------------------------------------------------------------

    def snapshot(
        self,
        unfold: Collection[str] = (),  # noqa: ARG002 - nothing is folded
        limit: int = ROWS,
        text: str = "",
        troubled: bool = False,  # noqa: ARG002 - nothing is folded; as in a query
    ) -> Shape:
        """The roots as rows, with who leads each; and how many tasks there are in each status.

        ``state``: running if one of the trees runs, else unknown or stopped. ``as_of``: of trees that all have stopped,
        when the last of them wrote something.
        """
        with _refusing():
            roots = self._roots()
        keep, hits = found_by([root.root for root in roots], text, limit) if text else (frozenset[str](), None)
        if len(roots) > limit:
            roots.sort(key=lambda root: root.root not in keep)  # so that those which are found are shown
        with _refusing():
            going = self._client.tasks(0, root=self._root).tasks
            ended, last = self._client.ends(self._root)
        counts = Counter(task_row(task)["status"] for task in going)
        problems = [problem for root in roots for problem in _problems(root)]
        states = {_state(root) for root in roots}
        state = next((each for each in ("running", "unknown", "stopped") if each in states), "stopped")
        last = max([last, *(task.records[-1].at for task in going)])
        return {
            "version": VERSION,
            "at": SystemClock().wall(),
            "name": self.name,
            "role": "store",
            "state": state,
            "as_of": last if last and state == "stopped" else None,
            "health": {"ok": True, "ready": state == "running" and not problems, "problems": problems},
            "rows": [_row(root) for root in roots[:limit]],
            "total": len(roots),
            "cut": len(roots) > limit,
            "found": hits,
            "now": {
                "tasks": dict(counts + ended),
                "crashes": [],
                "dead_letters": {},
                "alerts": [],
                "busy_threads": 0,
                "ready_queue": counts[str(TaskStatus.PENDING)],
                "slowest": [],
            },
        }

    def child(self, path: str) -> Shape:
        """One root; what is below it lives elsewhere."""
        with _refusing():
            found = next((root for root in self._roots() if root.root == path), None)
        if found is None:
            raise SourceError(409 if "/" in path else 404, _ELSEWHERE)
        settings = {"tasks unfinished": str(found.unfinished), "tasks finished": str(found.finished)}
        led = "was led by" if found.led is False else "led by"
        settings |= {led: found.holder or "nobody", "token": str(found.token)}
        return {
            "version": VERSION,
            "row": _row(found),
            "settings": settings,
            "exits": [],
            "restarts": [],
            "attempts": [],
        }

    def stack(self, path: str) -> Shape:
        """Nothing: refused."""
        self._refuse(path)

    def tasks(self, status: str | None = None, text: str = "", limit: int = TASKS) -> Shape:
        """All that is not finished, and the newest of what is; or those that stand so, or have this text."""
        require_status(status)
        with _refusing():
            listed = self._client.search(status, text, limit, self._root)
        found = [row for row in _rows(listed) if status in {None, row["status"]} and _has(row, text)]
        found = _told_apart(sorted(found, key=lambda row: row["created_at"], reverse=True), listed.shared, "id")
        cut = listed.left_out > 0 or len(found) > limit
        return {"version": VERSION, "tasks": [in_a_list(row) for row in found[:limit]], "cut": cut}

    def task(self, id: str) -> Shape:
        """One task, with the parts of it that teams have."""
        with _refusing():
            view = self._found(self._client.task, id)
        return task_page(view, content=True) | {"id": id, "root": view.root}

    def questions(self) -> Shape:
        """All that waits for a person, in all trees."""
        with _refusing():
            going = self._client.tasks(0, root=self._root)
        found = [
            question_row(asked, view, content=True) | {"root": view.root}
            for view in going.tasks
            for asked in view.questions
        ]
        found.sort(key=lambda row: row["asked_at"])
        return {"version": VERSION, "questions": _told_apart(found, going.shared, "task", "id")}

    def subscribe(self, callback: Callable[[Shape], object]) -> Callable[[], None]:
        """Have the store looked at every second, and ``{"name": "changed"}`` told where there is something new."""
        over = Reply()
        self._ends.append(over)
        with _refusing():
            before = self._client.mark()

        def look() -> None:
            seen = before
            while not over.wait(LOOK_S):
                with suppress(StoreError):  # it may be down for a while: the next look tells
                    now = self._client.mark()
                    if now != seen:
                        seen = now
                        callback({"version": VERSION, "name": "changed", "at": SystemClock().wall(), "path": self.name})

        in_background(f"{self.name}-store-looks", look)
        return lambda: self._end(over)

    def metrics(self) -> str:
        """Refused: a program tells its metrics itself."""
        raise SourceError(404, METRICS_ELSEWHERE)

    # -- operating -----------------------------------------------------------------------------------------

    def cancel(self, id: str, reason: str = "", by: str = "") -> Shape:
        """Have a task cancelled by its tree."""
        with _refusing():
            view = self._found(self._client.task, id)
            because = " ".join(filter(None, (reason, by and f"({by})")))  # the journal keeps it, and no event
            said = self._client.cancel(view, because, TAKEN_S, by)
        return {"version": VERSION, "ok": True, "text": said}

    def answer(self, id: str, answer: str, text: str | None = None, value: Any = None, by: str = "") -> Shape:
        """Have a question answered by its tree."""
        if answer not in {"approve", "edit", "respond", "reject"}:
            raise SourceError(400, "an answer is approve, edit, respond or reject.")
        given = value if answer == "edit" else None if answer == "approve" else text
        if answer == "respond" and not given:
            raise SourceError(400, "respond needs a text.")
        with _refusing():
            view, asked = self._found(self._client.question, id)
            said = self._client.respond(view, asked, answer, given, TAKEN_S, by)
        return {"version": VERSION, "ok": True, "text": said}

    def act(self, path: str, act: str, by: str = "") -> Shape:  # noqa: ARG002 - refused
        """Nothing: refused."""
        self._refuse(path)

    def close(self) -> None:
        """Let go of the store."""
        for over in self._ends:
            over.complete()
        self._client.close()

    # -- within --------------------------------------------------------------------------------------------

    def _roots(self) -> list[StoredRoot]:
        """Return the roots that are looked at: one that is not there, misspelt say, is no root at which all is well."""
        every = self._client.roots()
        found = [each for each in every if self._root in {None, each.root}]
        if self._root is not None and not found:
            names = [each.root for each in every]
            listed = f"It has {', '.join(names[:MOST_NAMES])}." if names else "It has none yet."
            raise StoreClientError(f"root {self._root}", "is not in this store", nearest(self._root, names) + listed)
        return found

    def _found(self, look: Callable[[str, str | None], Found], id_: str) -> Found:
        """Look for a plain id; then, in a fleet, for one with the name of its root before it."""
        try:
            return look(id_, self._root)
        except StoreClientError:
            named = [each.root for each in self._roots() if id_.startswith(f"{each.root}:")]
            if self._root is not None or not named:
                raise
            return look(id_.removeprefix(f"{named[0]}:"), named[0])

    def _end(self, over: Reply) -> None:
        over.complete()
        with suppress(ValueError):
            self._ends.remove(over)

    @staticmethod
    def _refuse(path: str) -> NoReturn:
        raise SourceError(409, f"{path}: {_ELSEWHERE}")


def _row(root: StoredRoot) -> Shape:
    return {
        **BLANK_ROW,
        "path": root.root,
        "root": root.root,
        "id": root.root,
        "depth": 0,
        "kind": "supervisor",
        "state": _state(root),
        "incarnation": root.token,
        "folded": False,
        "holder": root.holder or None,
        "lease_left_s": root.left_s,
        "unfinished": root.unfinished,
    }


def _state(root: StoredRoot) -> str:
    return "unknown" if root.led is None else "running" if root.led else "stopped"


def _problems(root: StoredRoot) -> Iterator[Shape]:
    if root.unfinished and root.led is False:
        yield {"path": root.root, "what": f"nobody runs it, and {root.unfinished} of its tasks wait"}


def _rows(listed: TaskListing) -> Iterator[Shape]:
    for task in listed.tasks:
        yield task_row(task, content=True) | {"root": task.root}


def _told_apart(rows: list[Shape], shared: Collection[str], task: str, *more: str) -> list[Shape]:
    """Put the root before the id of a task that several roots have, which is this field, and before more that begin so.

    What is shared is known from the whole store: the other one may have ended, or stand otherwise than was asked for.
    """
    return [
        row | {name: f"{row['root']}:{row[name]}" for name in (task, *more)} if row[task] in shared else row
        for row in rows
    ]


def _has(row: Shape, text: str) -> bool:
    return text.casefold() in f"{row['id']} {row['goal'] or ''}".casefold()


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn errors of a store into those of a source."""
    try:
        yield
    except StoreClientError as error:
        is_unknown = "not in this store" in error.what
        status: Status = 400 if isinstance(error, UnfitAnswerError) else 404 if is_unknown else 409
        raise SourceError(status, str(error)) from error
    except StoreError as error:
        raise SourceError(503, str(error)) from error
