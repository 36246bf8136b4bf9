"""Targets of a batch: where an item goes, how many of them at a time, and what ends one that takes too long.

``to`` is a path or a capability. A worker that takes messages gets each item as the message of an ask; what takes tasks
(a worker with ``execute=``, a team, whoever has a capability) gets a task of one subtask, with the ladder, the breaker
and the journal that every task has.

=====================  =========================================  ===============================================
                       messages                                   tasks
=====================  =========================================  ===============================================
given at a time        as many as there are members, so that      as many as wanted: time in the queue does not
                       no ask waits out its time in a queue       count, a subtask's time begins with its attempt
its time begins        when its handler begins                    when its attempt begins
its time is up         the ask has failed; a worker that still    its attempt is ended, and its ladder decides
                       handles it is replaced, uncounted
it raises              a crash, which counts in no window          a failed attempt: its ladder decides
nobody wants it        what waits is not handled                   the task is cancelled; one with a key goes on
=====================  =========================================  ===============================================

Messages of others may wait before an item: another batch on the same pool, say. So an item that has not begun goes on
waiting as long as its target gets on: it is given up where for the whole of its time nothing was begun there, and no
worker came up.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import sha256
from secrets import token_hex
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_jsonable_python

from actors.messaging.batch_request import give_item, give_item_async
from actors.messaging.envelope import CurrentMessage, own_error
from actors.messaging.mailbox import Mailbox
from actors.messaging.message_errors import ActorStoppedError
from actors.messaging.pool_address import PoolAddress
from actors.messaging.ref import ref_of
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.model.errors import RecursionDetectedError, UnknownPathError
from actors.runtime.system import System
from actors.supervision.supervisor_incarnation import ReplaceChild
from actors.tasks.model.executable import ExecutableInfo
from actors.tasks.model.task import Plan, Subtask, Task
from actors.tasks.model.task_errors import TaskError
from actors.tasks.model.task_events import TaskSubmitted
from actors.tasks.model.task_ids import MARK, require_own
from actors.tasks.orchestration.delegation_calls import join_task
from actors.tasks.orchestration.messages import Cancel
from actors.tasks.orchestration.task_runtime import OrchestratorPort
from actors.tasks.orchestration.waits_across_trees import TaskWaits, waiting
from actors.validation.spec_model import copy_with
from actors.validation.validation_messages import TASK_ID, require_seconds, value_phrase
from trees.host.bulk import own_copy
from trees.host.task_api import TaskApi

MESSAGE_S: Final = 10.0
"""Seconds that a message may take: longer than for an ask, because a worker that takes longer is given up."""
TASK_S: Final = 60.0
"""Seconds that one attempt may take where its worker declares nothing: a batch must come to an end."""
AHEAD: Final = 4
"""Tasks given at a time, for each slot of their orchestrator: those that wait for a retry take none."""
MAX_HUNG: Final = 256
"""Threads that a worker may leave behind in hung items; one more parks it."""
ITEM: Final = "item"
_REPLACED: Final = "Its worker is replaced. Give items more time: map(..., timeout_s=30)"
_NOT_BEGUN: Final = "It is not begun any more. Give the worker a pool, or items more time: map(..., timeout_s=30)"


@dataclass(slots=True, eq=False)
class GivenItem:
    """An item that was given, up to its end."""

    item: Any
    reply: Reply
    """Completed at its end."""
    result: Callable[[], Any]
    """Return what has come of it; raises what it failed with. Only at its end."""
    leave: Callable[[], object]
    """Note that nobody wants it any more."""
    time_is_up: Callable[[], float] = lambda: math.inf
    """End it, unless it has more time; return when to call this again."""
    expires: float | None = None
    """When somebody has to call ``time_is_up``, as ``monotonic`` counts; None: never, and so for the whole batch."""


def target_of(api: TaskApi, to: str, timeout_s: float | None, max_in_flight: int | None) -> MessageTarget | TaskTarget:
    """Find the target that a path or a capability names.

    Raises:
        UnknownPathError: nothing of this path is listed now, and no worker has such a capability.
        TaskError: it is a supervisor without an orchestrator.
        TypeError: it is no text.
        ValueError: a number is wrong.
    """
    system = api.system
    if not isinstance(to, str):
        raise TypeError(
            f"map: to={value_phrase(to)} is not a path. Give the path, or a capability, of a worker as a text"
        )
    require_seconds("map", timeout_s)
    if max_in_flight is not None and (type(max_in_flight) is not int or max_in_flight < 1):
        raise ValueError(f"map: max_in_flight={value_phrase(max_in_flight)} is not a number of items. Give 1 or more")
    owner, _, name = to.rpartition("/")
    ports = api.runtime.ports
    child = name.partition("#")[0]
    if owner in ports and any(row.id == child for row in ports[owner].registry()):
        return TaskTarget(api, ports[owner], _subtask(ports[owner], child, timeout_s), max_in_flight)
    if to in system.supervisors:
        return TaskTarget(api, api.port(to), None, max_in_flight)
    if to in system.boxes:
        return MessageTarget(system, to, timeout_s, max_in_flight)
    for port in ports.values():
        if any(_can(row, to) for row in port.registry()):
            return TaskTarget(api, port, _subtask(port, to, timeout_s), max_in_flight)
    words = {word for port in ports.values() for row in port.registry() for word in (row.id, *row.capabilities)}
    raise UnknownPathError(to, (*get_close_matches(to, words), *system.near(to)) or tuple(sorted(words)[:5]))


def _subtask(port: OrchestratorPort, to: str, timeout_s: float | None) -> Subtask:
    """Make the one subtask of an item: for a worker by its id, else for whoever has the capability."""
    able = [row for row in port.registry() if _can(row, to)]
    is_worker = any(row.id == to for row in able)
    if timeout_s is None:
        entries = [port.workers.get(row.id) for row in able]
        declared = all(entry is not None and entry.executable.timeout_s is not None for entry in entries)
        timeout_s = None if declared else TASK_S
    limit = None if timeout_s == math.inf else timeout_s
    return Subtask(ITEM, worker=to, timeout_s=limit) if is_worker else Subtask(ITEM, capability=to, timeout_s=limit)


def _can(row: ExecutableInfo, to: str) -> bool:
    return row.id == to or to in row.capabilities


class _InTree:
    """A target in a tree."""

    path: str
    _system: System

    def down(self) -> ActorStoppedError | None:
        """Return why nothing more can be given; None while the tree is up."""
        return self._system.down_error(self.path) if self._system.is_down else None

    def progress_raised(self, error: Exception) -> None:
        """Report it."""
        self._system.reports.callback_raised(self.path, error)


class MessageTarget(_InTree):
    """A worker or a pool that takes messages."""

    def __init__(self, system: System, path: str, timeout_s: float | None, max_in_flight: int | None) -> None:
        self.path = path
        self._system = system
        self._ref = ref_of(system, path)
        self._timeout_s = MESSAGE_S if timeout_s is None else None if timeout_s == math.inf else timeout_s
        self._most = max_in_flight

    @property
    def limit(self) -> int:
        """As many as are handled at once, and no more than its mailbox has room for."""
        box = self._system.boxes.get(self.path)
        members = len(box.members) if isinstance(box, PoolAddress) else 1
        room = box.bounds.capacity if isinstance(box, (PoolAddress, Mailbox)) else None
        return max(1, min(each for each in (members, room, self._most) if each is not None))

    def prepared(self, item: Any, _id: str | None = None) -> Any:
        """The item itself."""
        return item

    def give(self, item: Any, prepared: Any) -> GivenItem:
        """Ask for it."""
        return self._given(item, *give_item(self._ref, prepared))

    async def give_async(self, item: Any, prepared: Any) -> GivenItem:
        """Ask for it, and await room: messages of others may fill its mailbox."""
        return self._given(item, *await give_item_async(self._ref, prepared))

    def _given(self, item: Any, reply: Reply, left: Callable[[], None]) -> GivenItem:
        if self._timeout_s is None and reply.expires is None:
            return GivenItem(item, reply, reply.outcome, left)
        time = _MessageTime(self._system, self.path, reply, self._timeout_s)
        return GivenItem(item, reply, reply.outcome, left, time.is_up, time.first)


class _MessageTime:
    """Time that the message of one item has: see above."""

    __slots__ = ("_end", "_limit_s", "_looked", "_path", "_reply", "_system", "first")

    def __init__(self, system: System, path: str, reply: Reply, limit_s: float | None) -> None:
        self._system = system
        self._path = path
        self._reply = reply
        self._end = math.inf if reply.expires is None else reply.expires
        """When the request ends for which the batch works."""
        self._limit_s = math.inf if limit_s is None else limit_s
        self._looked = system.now()
        self.first = min(self._end, monotonic() + self._limit_s)
        """When to look for the first time."""

    def is_up(self) -> float:
        """End the item, unless it has more time; return when to look again."""
        request, now = self._reply.handled_by, monotonic()
        more_s = self._waits_for() if request is None else self._left_of(request)
        if more_s > 0 and now < self._end:
            return min(self._end, now + more_s)
        self._reply.abandon()  # what has not begun is not to begin any more
        self._reply.expire(None if self._limit_s == math.inf else self._limit_s, _REPLACED if request else _NOT_BEGUN)
        if request is not None:  # a worker that still handles it hangs: the others must not wait for it
            incarnation: Any = request.incarnation
            incarnation.owner.post(ReplaceChild(incarnation, MAX_HUNG, self._reply))
        return math.inf

    def _left_of(self, request: CurrentMessage) -> float:
        """Seconds that are left of an item that has begun."""
        incarnation: Any = request.incarnation
        current = incarnation.current  # first: what is read after it is never the time of an older message
        since = incarnation.since
        is_at_work = current is not None and current[1] is self._reply
        return since + self._limit_s - self._system.now() if is_at_work else 0.0

    def _waits_for(self) -> float:
        """Seconds that one that has not begun may wait on: all its time, where its target has got on meanwhile."""
        looked, self._looked = self._looked, self._system.now()
        box = self._system.boxes.get(self._path)
        boxes = box.members if isinstance(box, PoolAddress) else (box,) if isinstance(box, Mailbox) else ()
        attached: list[Any] = [incarnation for box in boxes if (incarnation := box.attached) is not None]
        has_got_on = any(each.since > looked or each.since == 0.0 for each in attached)  # 0.0: it has just come up
        return self._limit_s if has_got_on else 0.0


class TaskTarget(_InTree):
    """An orchestrator, and the one subtask of each task; without one its planner makes the plans."""

    def __init__(
        self, api: TaskApi, port: OrchestratorPort, subtask: Subtask | None, max_in_flight: int | None
    ) -> None:
        self.path = port.path
        self._api = api
        self._port = port
        self._system = port.system
        self._plan = None if subtask is None else Plan([subtask])
        self.has_keys = False
        """True: the ids of its tasks are made of keys. What was given goes on when its batch is left."""
        self.limit = AHEAD * port.settings.max_parallel if max_in_flight is None else max_in_flight

    def prepared(self, item: Any, id_: str | None = None) -> Task:
        """Make a task of an item, with an id: so it may be submitted again, and starts nothing twice.

        ``id_`` is that of its key; None: it has none.

        Raises:
            ConfigError: no JSON can be made of it.
        """
        if isinstance(item, Task):
            require_own(item.id)
            own = own_copy(item)
            if id_ is not None:
                own = copy_with(own, id=id_)
            return own if own.plan is not None or self._plan is None else copy_with(own, plan=self._plan)
        inputs = {ITEM: item}
        if isinstance(item, Mapping) and all(isinstance(key, str) for key in item):
            inputs.update(item)
        return Task(_words(item), inputs=inputs, plan=self._plan, id=id_ or token_hex(6))

    def give(self, item: Any, prepared: Any) -> GivenItem:
        """Submit its task."""
        submission = self._api.submission_of([prepared], self.path, joined=True)
        with waiting(submission.across):
            new = submission.run()
            if self.has_keys and not new:
                self._require_same(prepared)
            return self._given(item, prepared, new, submission.across)

    async def give_async(self, item: Any, prepared: Any) -> GivenItem:
        """Do this on an event loop, without holding it up."""
        submission = self._api.submission_of([prepared], self.path, joined=True)
        with waiting(submission.across):
            new = await submission.arun()
            if self.has_keys and not new:
                await asyncio.to_thread(self._require_same, prepared)
            return self._given(item, prepared, new, submission.across)

    def _require_same(self, task: Task) -> None:
        """Refuse the result of other work: the key of an item is the id of a task that somebody else does.

        Raises:
            TaskError: it is.
        """
        id_ = str(task.id)
        first = self._port.runtime.store.firsts([id_]).get(id_)
        if isinstance(first, TaskSubmitted) and (first.path, _aims_of(first.spec)) != (self.path, _aims_of(task)):
            had = " ".join(_aims_of(first.spec)) or first.path
            what = f"map: task {id_!r} was given to {had} before, so it cannot be the key of an item here"
            raise TaskError(f"{what}. Give each step keys of its own: key=lambda item: f'summary-{{item}}'")

    def _given(self, item: Any, task: Task, new: Mapping[str, Reply], across: TaskWaits | None) -> GivenItem:
        id_ = str(task.id)
        done = new[id_] if id_ in new else self._port.waiting(id_)
        if across is not None:
            done.when_done(across.enter())

        def drop() -> None:
            if not done.done and not self.has_keys:
                self._port.tell(Cancel(id_, "its batch was given up"))

        try:
            wait, leave_wait = join_task(self._port, id_, done)
        except RecursionDetectedError:
            if id_ in new:
                drop()
            raise

        def result() -> Any:
            if wait is not None:
                wait.outcome()
            report = done.outcome()
            if report.error is not None:
                raise own_error(report.error.with_traceback(None))
            return report.output if task.plan is not self._plan or self._plan is None else report.results[ITEM]

        def leave() -> None:
            leave_wait()
            drop()

        return GivenItem(item, done if wait is None else _joined(wait, done), result, leave)


def id_of_key(key: Any, item: Any) -> str:
    """Return the id of the task of an item: its key, or if that has other letters than an id, a text made of it.

    Raises:
        TypeError: it is no text.
        ValueError: it is empty.
    """
    if not isinstance(key, str):
        what = f"map: key: expected a text, got {value_phrase(key)} for the item {value_phrase(item)}"
        raise TypeError(f"{what}. Write key=lambda item: str(item['id'])")
    if not key:
        raise ValueError(f"map: key: the text for the item {value_phrase(item)} is empty. Give each item a key")
    if re.fullmatch(TASK_ID, key) and MARK not in key:
        return key
    words = re.sub(r"[^A-Za-z0-9_.:/-]+", "-", key)[:100]
    return f"{words}~{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _aims_of(task: Task) -> tuple[str, ...]:
    """Return who is to do the subtasks of its plan; nothing where a planner makes that."""
    return tuple(each.worker or each.capability or "" for each in task.plan.subtasks) if task.plan is not None else ()


def _joined(wait: Reply, done: Reply) -> Reply:
    """Completed at the end of a task, or where the worker cannot wait for that. Code may outlive the wait."""
    ended = Reply()
    wait.when_done(lambda: done.when_done(ended.complete) if wait.succeeded else ended.complete())
    return ended


def _words(item: Any) -> str:
    """The item as the text that a worker is told."""
    if isinstance(item, str):
        return item or '""'
    try:
        return json.dumps(to_jsonable_python(item), ensure_ascii=False)
    except (PydanticSerializationError, ValueError, RecursionError):
        return type(item).__name__  # the task says what is wrong with it
