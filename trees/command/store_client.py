"""Tasks of a store, seen from another process than that of their tree: what ``regrow tasks`` does.

Comes in: the URL of a store, and what is wanted. Goes out: what is there (read, and nothing else), and commands to the
tree: these are put into the store, where a tree that runs finds them within a second, and one that is down when it is
started again. Whether a command was carried out is read from the store as well.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.tasks.journal.view import CANCEL, PRIORITY, RESPOND, RETRY, Escalation, TaskView, fold, has_metadata
from actors.tasks.model import EscalationAnswered, EscalationExpired, StoreError, TaskFinished, TaskStatus
from actors.validation.validation_messages import PlacedError, nearest
from trees.host.answers import fitting
from trees.host.store_binding import REMOVE
from trees.observe.task_search import MOST_LOOKS, goal_of

if TYPE_CHECKING:
    from actors.tasks.journal.view import RemoteCommand
    from trees.store.reader import StoredRoot, StoredTask

LOOK_S: Final = 0.1
"""How often somebody who waits for a tree looks."""


class StoreClientError(PlacedError):
    """Raised where there is no such task or question, or it cannot be done any more."""


class UnfitAnswerError(StoreClientError):
    """Raised where a question is open, and what was given is no answer to it."""


@dataclass(frozen=True, slots=True)
class TaskListing:
    """Contents of a store."""

    tasks: list[TaskView]
    """With the teams' parts of each."""
    left_out: int
    """Finished ones, older than those."""
    damaged: list[str]
    """Damage of the streams that cannot be read."""
    shared: frozenset[str]
    """Ids that several of the roots that were looked at have, whatever is listed here."""


class StoreClient:
    """One store, looked at from outside. Raises ``StoreError`` where it cannot be read."""

    def __init__(self, url: str) -> None:
        from trees.store import SqlStore  # noqa: PLC0415 - needs the extra, and says so

        self._store = SqlStore.look(url)
        self._statuses: dict[StoredTask, str] = {}
        """How finished tasks have ended. Each change is one step of C; who counts at the same time reads one twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the store, without its secrets."""
        return self._store.name

    def roots(self) -> list[StoredRoot]:
        """Every tree of the store, and who leads it."""
        return self._store.roots()

    def waiting(self) -> list[tuple[str, str]]:
        """Orders that no tree has carried out yet, the oldest first: root, and command without its content."""
        return [(row.root, _ordered(each)) for row in self._store.roots() for each in self._store.waiting(row.root)]

    def mark(self) -> int:
        """Return a number that changes with what is in the store."""
        return self._store.mark()

    def tasks(
        self, finished: int | None, metadata: Mapping[str, Any] | None = None, root: str | None = None
    ) -> TaskListing:
        """All that is not finished, and of the rest the newest so many; None: all. Of one root, or of all.

        With ``metadata`` only those that have it, which a damaged one has not.
        """
        rows = every = self._store.all_tasks(root)
        if metadata:
            had = {(row.root, row.id) for row, first in self._store.firsts(rows) if has_metadata(first, metadata)}
            rows = [row for row in rows if (row.root, row.id) in had]
        ended = _newest_ended(rows)
        shown = ended if finished is None else ended[:finished]
        return self._listing(rows, shown, len(ended) - len(shown), _shared(every))

    def ends(self, root: str | None = None) -> tuple[Counter[str], float]:
        """Count the finished tasks by status; with the time at which the last one ended, 0 if there is none."""
        ended = _newest_ended(self._store.all_tasks(root))
        unknown = [row for row in ended if row not in self._statuses]
        ends = self._store.ends(unknown)
        self._statuses.update((row, str(end.status)) for row, end in ends if isinstance(end, TaskFinished))
        counts = Counter(self._statuses.get(row, "damaged") for row in ended)
        return counts, max((row.finished_at or 0.0 for row in ended), default=0.0)

    def search(self, status: str | None, text: str, limit: int, root: str | None = None) -> TaskListing:
        """All that is not finished, and of the rest the newest that ended so and have this text in id or goal.

        ``left_out`` is 1 where there may be more.
        """
        rows = self._store.all_tasks(root)
        newest, wanted = _newest_ended(rows), text.casefold()
        shown = newest[:MOST_LOOKS]
        if status is not None:
            ends = self._store.ends(shown)
            shown = [row for row, end in ends if isinstance(end, TaskFinished) and end.status == status]
        if wanted:
            goals = {row: goal_of(first) for row, first in self._store.firsts(shown)}
            shown = [row for row in shown if wanted in f"{row.id} {goals.get(row, '')}".casefold()]
        is_cut = len(shown) > limit or len(newest) > MOST_LOOKS
        return self._listing(rows, shown[:limit], int(is_cut), _shared(rows))

    def _listing(
        self, rows: list[StoredTask], shown: list[StoredTask], left_out: int, shared: frozenset[str]
    ) -> TaskListing:
        wanted = {(row.root, row.id) for row in [*shown, *(row for row in rows if row.finished_at is None)]}
        tasks, damaged = [], []
        for row, view in self._views(row for row in rows if (row.root, row.id) in wanted):
            if isinstance(view, StoreError):
                damaged.append(f"task {row.id} of {row.root}: {view}")
            else:
                tasks.append(view)
        return TaskListing(tasks, left_out, damaged, shared)

    def task(self, id_: str, root: str | None = None) -> TaskView:
        """A task.

        Raises:
            StoreClientError: there is none, or one in each of several trees.
        """
        return self._seen(_the_one(self._store.all_tasks(root), id_))

    def question(self, id_: str, root: str | None = None) -> tuple[TaskView, Escalation]:
        """An open question, and whose it is.

        Raises:
            StoreClientError: there is none, or it is not open any more.
        """
        rows = self._store.all_tasks(root)
        # The id of a question begins with that of its task.
        rows = [row for row in rows if id_.startswith(f"{row.id}:")]
        read = list(self._views(rows))
        tasks = [view for _, view in read if not isinstance(view, StoreError)]
        found = [(task, asked) for task in tasks if (asked := task.state.questions.get(id_)) is not None]
        if len(found) > 1:
            where = ", ".join(task.root for task, _ in found)
            raise StoreClientError(f"escalation {id_}", f"is open in each of {where}", "Say which with --root.")
        if found:
            return found[0]
        became = next((word for task in tasks if (word := _became(task, id_))), None)
        if became is not None:
            raise StoreClientError(
                f"escalation {id_}", f"is not open any more: {became}", "There is nothing to be done."
            )
        for row in rows[len(read) :]:  # one that its tree has forgotten since is left out, and is said to be so
            self._seen(row)
        damage = next((str(view) for _, view in read if isinstance(view, StoreError)), None)
        if damage is not None:
            raise StoreClientError(
                f"escalation {id_}", f"cannot be found: {damage}", "'regrow tasks' lists all others."
            )
        raise StoreClientError(f"escalation {id_}", "is not in this store", "'regrow tasks' lists those that are open.")

    def _views(self, rows: Iterable[StoredTask]) -> Iterator[tuple[StoredTask, TaskView | StoreError]]:
        """Each of these tasks as it is now; of one whose journal cannot be read, or makes no sense, what is wrong."""
        for row, records in self._store.journals(rows):
            try:
                yield (
                    row,
                    records if isinstance(records, StoreError) else TaskView(row.root, fold(row.id, records), records),
                )
            except StoreError as error:
                yield row, error

    def _seen(self, row: StoredTask) -> TaskView:
        return self._read(row.root, row.id)

    def _read(self, root: str, id_: str) -> TaskView:
        """As it is now. Its tree may have forgotten it since it was found."""
        records = self._store.read(id_, root=root)
        if not records:
            what = "is not in this store any more: it was finished, and its time there was over"
            raise StoreClientError(f"task {id_}", what, "start(keep=...) says how long finished tasks stay.")
        return TaskView(root, fold(id_, records), records)

    # -- commands ------------------------------------------------------------------------------------------

    def cancel(self, task: TaskView, reason: str, wait_s: float, by: str = "") -> str:
        """Have a task cancelled; what came of it. ``by``: who wants that, as far as this process knows.

        Raises:
            StoreClientError: it has ended.
        """
        if task.ended is not None:
            raise StoreClientError(f"task {task.id}", f"has ended: {task.ended}", "There is nothing to cancel.")
        if not self._carried_out(task, CANCEL, {"reason": reason}, wait_s, by):
            return f"task {task.id}: {_waits(task)}"
        return f"task {task.id}: {self._again(task).ended or 'is being cancelled'}"

    def retry(self, task: TaskView, wait_s: float, by: str = "") -> str:
        """Have a task tried again that has failed, or was cancelled; what came of it.

        Raises:
            StoreClientError: it has succeeded, or has not ended.
        """
        if task.ended in {None, TaskStatus.SUCCEEDED}:
            what = "has not ended" if task.ended is None else "has succeeded"
            raise StoreClientError(f"task {task.id}", what, "Only what failed or was cancelled can be tried again.")
        if not self._carried_out(task, RETRY, {}, wait_s, by):
            return f"task {task.id}: {_waits(task)}"
        return f"task {task.id}: {self._again(task).ended or 'is tried again'}"

    def set_priority(self, task: TaskView, priority: int, wait_s: float) -> str:
        """Have a task given another priority; what came of it.

        Raises:
            StoreClientError: it has ended.
        """
        if task.ended is not None:
            raise StoreClientError(f"task {task.id}", f"has ended: {task.ended}", "Nothing of it waits any more.")
        if not self._carried_out(task, PRIORITY, {"priority": priority}, wait_s):
            return f"task {task.id}: {_waits(task)}"
        return f"task {task.id}: priority {self._again(task).state.task.priority}"

    def respond(self, task: TaskView, asked: Escalation, word: str, value: Any, wait_s: float, by: str = "") -> str:
        """Have a question answered; what came of it. ``by``: who answers, as far as this process knows.

        Raises:
            StoreClientError: it is no answer to this question, somebody else was faster, or its time was up.
        """
        try:
            value = fitting(word, value, asked, task.state)
        except ValueError as error:
            raise UnfitAnswerError(f"escalation {asked.id}", str(error), "Give another value.") from None
        body = {"escalation": asked.id, "answer": word, "value": value}
        if not self._carried_out(task, RESPOND, body, wait_s, by):
            return f"escalation {asked.id}: {_waits(task)}"
        answered = _answer_to(self._again(task), asked.id)
        if isinstance(answered, EscalationAnswered) and (answered.answer, answered.value or "") == (word, value or ""):
            return f"escalation {asked.id}: answered: {word}"
        became = _became(self._again(task), asked.id) or "its tree has refused this answer"
        raise StoreClientError(f"escalation {asked.id}", became, "This answer changed nothing.")

    def remove(self, id_: str, root: str | None, wait_s: float) -> str:
        """Have a task deleted that does not go on; what came of it. Its journal is not read.

        Raises:
            StoreClientError: there is none, or its tree has refused.
        """
        task = _the_one(self._store.all_tasks(root), id_)
        if not self._carried_out(task, REMOVE, {}, wait_s):
            return f"task {id_}: {_waits(task)}"
        if any(row.id == id_ and row.number == task.number for row in self._store.all_tasks(task.root)):
            raise StoreClientError(f"task {id_}", "has not ended, and is not damaged", "Cancel it first.")
        return f"task {id_}: removed"

    def _carried_out(
        self, task: TaskView | StoredTask, kind: str, body: dict[str, Any], wait_s: float, by: str = ""
    ) -> bool:
        """Leave a command in the store, and wait for a tree to take it; False where none did in time."""
        order = self._store.post_command(task.root, task.id, kind, {**body, "by": _who(by)})
        if order is None:
            return True  # the task is gone: whoever looks for what came of it finds that
        end, nothing = monotonic() + wait_s, Reply()
        while self._store.is_waiting(task.root, order):
            if monotonic() >= end:
                return False
            nothing.wait(min(LOOK_S, max(0.0, end - monotonic())))  # nobody can wake us: the tree is elsewhere
        return True

    def _again(self, task: TaskView) -> TaskView:
        return self._read(task.root, task.id)


def _newest_ended(rows: list[StoredTask]) -> list[StoredTask]:
    """Finished tasks, the newest first."""
    ended = [row for row in rows if row.finished_at is not None]
    return sorted(ended, key=lambda row: row.finished_at or 0.0, reverse=True)


def _answer_to(task: TaskView, id_: str) -> EscalationAnswered | EscalationExpired | None:
    """How a question was closed."""
    closings = (EscalationAnswered, EscalationExpired)
    return next((each for each in task.records if isinstance(each, closings) and each.escalation == id_), None)


def _became(task: TaskView, id_: str) -> str | None:
    """Outcome of a question; None: nothing is known of it."""
    closed = _answer_to(task, id_)
    if closed is not None:
        return f"it was answered: {closed.answer}" if isinstance(closed, EscalationAnswered) else "its time was up"
    return f"task {task.id} has ended: {task.ended}" if task.ended is not None else None


def _shared(rows: list[StoredTask]) -> frozenset[str]:
    """Ids that several roots have; a root has each of its own once."""
    return frozenset(id_ for id_, number in Counter(row.id for row in rows).items() if number > 1)


def _the_one(rows: list[StoredTask], id_: str) -> StoredTask:
    """The task of this id.

    Raises:
        StoreClientError: there is none, or one in each of several trees.
    """
    found = [row for row in rows if row.id == id_]
    if not found:
        known = nearest(id_, [row.id for row in rows])
        raise StoreClientError(f"task {id_}", "is not in this store", f"{known}'regrow tasks' lists those that are.")
    if len(found) > 1:
        where = ", ".join(row.root for row in found)
        raise StoreClientError(f"task {id_}", f"is in each of {where}", "Say which with --root.")
    return found[0]


def _who(by: str) -> str:
    """Name of whoever leaves a command: the user of this process, and where it runs; then whom it acts for."""
    from trees.store.lock import this_process  # noqa: PLC0415 - as above, needs the extra

    me = f"store uid {os.geteuid()}, {this_process()}"
    return f"{me}: {by}" if by else me


def _waits(task: TaskView | StoredTask) -> str:
    return f"no tree has taken this yet. It waits in the store, and is done when {task.root!r} runs"


def _ordered(order: RemoteCommand) -> str:
    """A command as it is typed."""
    if order.kind == RESPOND:
        return f"respond {order.body.get('escalation')} {order.body.get('answer')}"
    priority = f" {order.body.get('priority')}" if order.kind == PRIORITY else ""
    return f"{order.kind} {order.task}{priority}"
