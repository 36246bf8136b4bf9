"""``Batch``: what ``tree.map`` returns, an iterator, sync or async, of ``(item, result or error)``; and its targets.

A batch has no thread of its own. Everything is done when its consumer asks for the next result: an item that has ended
is handed out, the first that ended first; else, if there is room, the next item is taken and given; else the consumer
waits. So at most as many items as the limit are in memory, and the source may have no end.

A batch has one consumer at a time. Other threads only put into ``_ended``, which does not know the batch: a batch that
nobody holds any more is closed at once.

A worker that takes messages gets each item as the message of an ask. What takes tasks (a worker with ``execute=``, a
team, a capability) gets a task of one subtask, with the ladder, the breaker and the journal that every task has.

=====================  =========================================  ===============================================
                       messages                                   tasks
=====================  =========================================  ===============================================
given at a time        as many as there are members                ``max_in_flight``, else 4 x ``max_parallel``
its time begins        when it is given: its wait counts           when its attempt begins
its time is up         the ask has failed; a worker that still     its attempt is ended, and its ladder decides
                       handles it is replaced, uncounted
it raises              a crash, which counts in no window          a failed attempt: its ladder decides
its batch is left      what waits is not handled                   the task is cancelled; one with a key goes on
=====================  =========================================  ===============================================
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from hashlib import sha256
from secrets import token_hex
from types import TracebackType
from typing import Any, Final, Generic, Literal, Self, TypeAlias, TypeVar

from pydantic_core import to_jsonable_python

from actors.messaging.batch_request import give_item, give_item_async
from actors.messaging.blocking import require_thread
from actors.messaging.mailbox import Mailbox
from actors.messaging.pool_address import PoolAddress
from actors.messaging.ref import ref_of
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import enter, leave
from actors.model.clock import monotonic
from actors.model.errors import ConfigError, UnknownPathError
from actors.runtime.system import System
from actors.supervision.supervisor_incarnation import ReplaceChild
from actors.tasks.engine.scope import Scope
from actors.tasks.engine.service import service_of
from actors.tasks.engine.task_waits import wait_for_task
from actors.tasks.model import MARK, Plan, Subtask, Task, TaskError
from actors.validation.spec_model import copy_with
from actors.validation.validation_messages import (
    TASK_ID,
    is_one_of,
    require_callback,
    require_seconds,
    type_phrase,
    value_phrase,
)
from trees.host.submission import Submission, own_task, scope_at
from trees.host.task_handle import TaskHandle

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")
OnError: TypeAlias = Literal["keep", "raise"]
MESSAGE_S: Final = 10.0
"""Seconds that a message may take: longer than for an ask, because a worker that takes longer is replaced."""
TASK_S: Final = 60.0
"""Seconds that one attempt may take if its worker declares nothing: a batch must come to an end."""
AHEAD: Final = 4
"""Tasks given at a time, for each slot of their supervisor: tasks that wait for a retry take no slot."""
MAX_HUNG: Final = 256
"""Threads that a worker may leave behind in hung items; one more parks it."""
ITEM: Final = "item"
_REPLACED: Final = "Its worker is replaced. Give items more time: map(..., timeout_s=30)"
_NOT_BEGUN: Final = "It is not begun any more. Give the worker a pool, or items more time: map(..., timeout_s=30)"

Key = Callable[[Any], Any]


@dataclass(slots=True, eq=False)
class GivenItem:
    """An item that was given, up to its end."""

    item: Any
    reply: Reply
    """Completed when the item has ended."""
    result: Callable[[], Any]
    """Return the item's result, or raise its error. Call this when it has ended."""
    leave: Callable[[], object] = lambda: None
    """Note that the batch does not want the item any more."""


class EndedItems(deque["GivenItem | asyncio.Future[Any]"]):
    """Items that have ended, the first that ended first, and the future of one that was taken from an async source."""

    def __init__(self) -> None:
        super().__init__()
        self._signal = Reply()

    def put(self, ended: GivenItem | asyncio.Future[Any]) -> None:
        """Add one, on any thread."""
        self.append(ended)
        self._signal.complete()

    def news(self) -> Reply:
        """Return what is completed as soon as there are any."""
        if self._signal.done:
            self._signal = Reply()
        if self:  # looked at behind that, so nothing is missed
            self._signal.complete()
        return self._signal


def target_of(
    system: System, to: str, timeout_s: float | None, max_in_flight: int | None, key: Key | None = None
) -> MessageTarget | TaskTarget:
    """Find the target that a path or a capability names.

    A path of a worker with ``execute=`` comes first, then a supervisor (whose planner makes the plans), a path of what
    takes messages, and last a capability.

    Raises:
        UnknownPathError: nothing of this path is listed now, and no worker has such a capability.
        TaskError: it is a supervisor without ``tasks=``.
        TypeError: ``to`` is no text, ``key`` is no function, or the target takes messages and there is a key.
        ValueError: a number is wrong.
    """
    if not isinstance(to, str):
        what = f"map: to={value_phrase(to)} is not a path"
        raise TypeError(f"{what}. Give the path, or a capability, of a worker as a text")
    require_seconds("map", timeout_s)
    if max_in_flight is not None and (type(max_in_flight) is not int or max_in_flight < 1):
        raise ValueError(f"map: max_in_flight={value_phrase(max_in_flight)} is not a number of items. Give 1 or more")
    if key is not None:
        require_callback("map: key:", key, "Give a function of an item that returns a text")
    scopes = service_of(system).scopes
    owner, _, name = to.rpartition("/")
    child = name.partition("#")[0]
    if owner in scopes and any(row.id == child for row in scopes[owner].registry()):
        return TaskTarget(scopes[owner], _plan(scopes[owner], child, timeout_s), max_in_flight, key)
    if to in system.supervisors:
        return TaskTarget(scope_at(system, to), None, max_in_flight, key)
    if to in system.boxes:
        if key is not None:
            what = f"map: key= makes the id of a task, and {to} takes messages, which are recorded nowhere"
            raise TypeError(f"{what}. Leave key= out, or give the items to a worker with execute=")
        return MessageTarget(system, to, timeout_s, max_in_flight)
    words = list[str]()
    for scope in scopes.values():
        words += [word for row in scope.registry() for word in (row.id, *row.capabilities)]
        if to in words:
            return TaskTarget(scope, _plan(scope, to, timeout_s), max_in_flight, key)
    raise UnknownPathError(to, (*get_close_matches(to, words), *system.near(to)) or tuple(sorted(words)[:5]))


def _plan(scope: Scope, to: str, timeout_s: float | None) -> Plan:
    """Make the plan of an item: one subtask for a worker by its id, else for all that have the capability."""
    able = [row.id for row in scope.registry() if to == row.id or to in row.capabilities]
    if timeout_s is None:
        entries = [scope.workers.get(id_) for id_ in able]
        declared = all(entry is not None and entry.executable.timeout_s is not None for entry in entries)
        if not declared:
            timeout_s = TASK_S
    limit = None if timeout_s == math.inf else timeout_s
    is_id = to in able
    return Plan([Subtask(ITEM, worker=to if is_id else None, capability=None if is_id else to, timeout_s=limit)])


class MessageTarget:
    """A worker or a pool that takes messages."""

    def __init__(self, system: System, path: str, timeout_s: float | None, max_in_flight: int | None) -> None:
        self.path, self.system = path, system
        self._ref = ref_of(system, path)
        self._timeout_s = MESSAGE_S if timeout_s is None else timeout_s
        self._most = max_in_flight

    @property
    def limit(self) -> int:
        """Items to give at a time: as many as are handled at once, and fit into the mailbox."""
        box = self.system.boxes.get(self.path)
        members = len(box.members) if isinstance(box, PoolAddress) else 1
        room = box.bounds.capacity if isinstance(box, (PoolAddress, Mailbox)) else None
        return max(1, min(each for each in (members, room, self._most) if each is not None))

    def prepared(self, item: Any) -> Any:
        """Return what is given for an item: the item itself."""
        return item

    def give(self, item: Any, prepared: Any) -> GivenItem:
        """Ask for it."""
        return self._given(item, *give_item(self._ref, prepared))

    async def give_async(self, item: Any, prepared: Any) -> GivenItem:
        """Ask for it, and await room: messages of others may fill its mailbox."""
        return self._given(item, *await give_item_async(self._ref, prepared))

    def _given(self, item: Any, reply: Reply, leave: Callable[[], None]) -> GivenItem:
        # With the time of the request that the batch is part of.
        limit = self._timeout_s if reply.expires is None else min(self._timeout_s, reply.expires - monotonic())
        due = self.system.now() + limit
        timer = self.system.timers.call_at(due, partial(_give_up, reply, self._timeout_s))

        def let_go() -> None:
            timer.cancel()
            leave()

        return GivenItem(item, reply, reply.outcome, let_go)


def _give_up(reply: Reply, limit_s: float) -> None:
    """Fail the ask of an item. A worker that still handles the item hangs, and is replaced: other items wait for it."""
    reply.abandon()  # first: an item that has not begun does not begin any more
    request = reply.handled_by
    reply.expire(None if limit_s == math.inf else limit_s, _NOT_BEGUN if request is None else _REPLACED)
    if request is not None:
        incarnation: Any = request.incarnation
        incarnation.owner.post(ReplaceChild(incarnation, MAX_HUNG, reply))


class TaskTarget:
    """A supervisor with ``tasks=``, and the plan of each item; without a plan its planner makes one.

    With a ``key`` the ids of the tasks are made of keys, and what was given goes on when its batch is left.
    """

    def __init__(self, scope: Scope, plan: Plan | None, max_in_flight: int | None, key: Key | None) -> None:
        self.path, self.system = scope.path, scope.system
        self._scope = scope
        self._plan = plan
        self._key = key
        self.limit = AHEAD * scope.settings.max_parallel if max_in_flight is None else max_in_flight

    def prepared(self, item: Any) -> Task:
        """Make a task of an item, with an id, so that it may be submitted again and starts nothing twice.

        Raises:
            ConfigError: no JSON can be made of the item.
            Exception: the key is wrong.
        """
        id_ = None if self._key is None else _id_of(self._key(item), item)
        if isinstance(item, Task):
            own = own_task(item)
            plan = own.plan if own.plan is not None else self._plan
            return copy_with(own, id=id_ or own.id, plan=plan)
        inputs = {ITEM: item}
        if isinstance(item, Mapping) and all(isinstance(key, str) for key in item):
            inputs.update(item)
        return Task(_words(item), inputs=inputs, plan=self._plan, id=id_ or token_hex(6))

    def give(self, item: Any, prepared: Any) -> GivenItem:
        """Submit its task."""
        return self._given(item, prepared, Submission(self._scope, [prepared], joined=True).run())

    async def give_async(self, item: Any, prepared: Any) -> GivenItem:
        """Do this on an event loop, without holding it up."""
        return self._given(item, prepared, await Submission(self._scope, [prepared], joined=True).arun())

    def _given(self, item: Any, task: Task, submission: Submission) -> GivenItem:
        id_, scope = str(task.id), self._scope
        if id_ in submission.known and self._key is not None:
            _require_same_aims(task, submission.known[id_], self.path)
        done = submission.new[id_] if id_ in submission.new else scope.service.waiting(id_)
        handle = TaskHandle(scope, id_, done)
        wait = wait_for_task(scope, id_, done)
        entered = enter(wait) if wait is not None else None

        def result() -> Any:
            if wait is not None:
                wait.outcome()
            report = handle.result()
            return report.output if self._plan is None or task.plan is not self._plan else report.results[ITEM]

        def let_go() -> None:
            if wait is not None:
                leave(wait, entered)
                wait.complete()
            if not done.done and self._key is None:
                handle.cancel("its batch was given up")

        return GivenItem(item, done if wait is None else wait, result, let_go)


def _id_of(key: object, item: object) -> str:
    """Return the id of an item's task: its key, or a text made of a key that cannot be an id."""
    if not isinstance(key, str) or not key:
        what = f"map: key: expected a text, got {value_phrase(key)} for the item {value_phrase(item)}"
        raise TypeError(f"{what}. Write key=lambda item: str(item['id'])")
    if re.fullmatch(TASK_ID, key) and MARK not in key:
        return key
    words = re.sub(r"[^A-Za-z0-9_.:/-]+", "-", key)[:100]
    return f"{words}~{sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _require_same_aims(task: Task, known: Task, path: str) -> None:
    """Refuse the result of other work: the key of an item is the id of a task for other workers."""
    if _aims_of(known) != _aims_of(task):
        had = " ".join(_aims_of(known)) or path
        what = f"map: task {task.id!r} was given to {had} before, so it cannot be the key of an item here"
        raise TaskError(f"{what}. Give each step keys of its own: key=lambda item: f'summary-{{item}}'")


def _aims_of(task: Task) -> tuple[str, ...]:
    """Return the workers and capabilities that its plan names; nothing if a planner makes the plan."""
    return tuple(each.worker or each.capability or "" for each in task.plan.subtasks) if task.plan is not None else ()


def _words(item: Any) -> str:
    """Return the item as the text of its task."""
    if isinstance(item, str):
        return item or '""'
    try:
        return json.dumps(to_jsonable_python(item), ensure_ascii=False)
    except Exception:  # noqa: BLE001 - of any kind, from the item: the task says what is wrong with it
        return type(item).__name__


class Batch(Generic[ItemT, ResultT]):
    """Results of many items: iterate over it with ``for`` or ``async for``. Each is ``(item, result or error)``."""

    def __init__(
        self,
        target: MessageTarget | TaskTarget,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        on_error: OnError,
        progress: Callable[..., object] | None,
    ) -> None:
        self._given: dict[GivenItem, None] = {}
        """Items that were given and not handed out yet, the oldest first."""
        self._pull: asyncio.Future[Any] | None = None
        """Takes the next item of an async source."""
        if not is_one_of({"keep", "raise"}, on_error):
            raise ValueError(f"map: on_error={value_phrase(on_error)} is unknown. Use 'keep' or 'raise'")
        if progress is not None:
            require_callback("map: progress:", progress, "Give a function of (done, total)")
        if isinstance(items, (str, bytes)) or not isinstance(items, (Iterable, AsyncIterable)):
            raise TypeError(f"map: {type_phrase(items)} is not a collection of items. Give a list, a generator, ...")
        self._source: Iterator[ItemT] | AsyncIterator[ItemT]
        self._source = iter(items) if isinstance(items, Iterable) else aiter(items)
        self._on_error = on_error
        self._progress = progress
        self._total = len(items) if isinstance(items, Sized) else None
        self._target = target
        self._ended = EndedItems()
        self._pending: tuple[Any, Any] | None = None
        """An item that was taken and is yet to be given, with what is given for it."""
        self._end: BaseException | None = None
        """Error to raise when all that was taken is handed out. ``StopIteration``: the source has ended."""
        self.done = 0
        """Results that were handed out."""

    def __repr__(self) -> str:
        total = "" if self._total is None else f" of {self._total}"
        return f"<Batch {self._target.path} {self.done}{total} done, {len(self._given)} under way>"

    def __del__(self) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[ItemT, ResultT]:
        if isinstance(self._source, AsyncIterator):
            raise TypeError("map: these items are async. Write: async for item, result in tree.map(...)")
        require_thread(self._target.path, "async for item, result in tree.map(...)")
        try:
            while (found := self._first_ended()) is None:
                if self._pending is not None:
                    with self._failing(self._pending[0], Exception):
                        self._is_given(self._target.give(*self._pending))
                elif not self._takes_one():
                    self._ended.news().wait(None)
            return self._handed_out(found)
        except BaseException:
            self.close()
            raise

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[ItemT, ResultT]:
        try:
            while (found := self._first_ended()) is None:
                if self._pending is not None:
                    with self._failing(self._pending[0], Exception):
                        self._is_given(await self._target.give_async(*self._pending))
                elif not self._takes_one():
                    await self._ended.news()
            return self._handed_out(found)
        except asyncio.CancelledError:
            raise  # nothing is lost: the next call goes on, and gives the item that was not given yet
        except StopIteration:
            self.close()
            raise StopAsyncIteration from None
        except BaseException:
            self.close()
            raise

    def _takes_one(self) -> bool:
        """Take the next item of the source, or begin to; False if it has ended or there is no room."""
        if self._pull is not None or self._end is not None or len(self._given) >= self._target.limit:
            return False
        if isinstance(self._source, AsyncIterator):
            self._pull = asyncio.ensure_future(anext(self._source))
            self._pull.add_done_callback(self._ended.put)
        else:
            self._taken(partial(next, self._source))
        return True

    def _taken(self, take: Callable[[], Any]) -> None:
        """Take an item of the source, and make what is given for it."""
        try:
            item = take()
            with self._failing(item, ConfigError):
                self._pending = item, self._target.prepared(item)
        except (StopIteration, StopAsyncIteration):
            self._end = StopIteration()
        except Exception as error:  # noqa: BLE001 - of the source or the key: raised when all is handed out
            self._end = error

    @contextmanager
    def _failing(self, item: Any, of_item: type[Exception]) -> Iterator[None]:
        """Make an error of this kind the end of an item that cannot be given."""
        try:
            yield
        except of_item as error:
            reply = Reply()
            reply.fail(error)
            self._is_given(GivenItem(item, reply, reply.outcome))

    def _is_given(self, given: GivenItem) -> None:
        self._given[given] = self._pending = None
        given.reply.when_done(partial(self._ended.put, given))

    def _first_ended(self) -> GivenItem | None:
        """Return an item that has ended, None if none has yet. Raises the error of the end if all is handed out."""
        while self._ended:
            found = self._ended.popleft()
            if isinstance(found, GivenItem):
                return found
            self._pull = None
            self._taken(found.result)
        if self._end is not None and not self._given and self._pending is None:
            raise self._end
        return None

    def _handed_out(self, given: GivenItem) -> tuple[ItemT, Any]:
        del self._given[given]
        given.leave()
        self.done += 1
        failure: Exception | None = None
        try:
            result = given.result()
        except Exception as error:  # noqa: BLE001 - kept, or raised
            # Without its first two frames, of the batch, which they would keep in memory, and of its reply. No variable
            # names them here: it would be part of the frame that it keeps.
            result = failure = error.with_traceback(error.__traceback__.tb_next.tb_next)  # type: ignore[union-attr]
            system = self._target.system
            if self._end is None and system.is_down:
                self._end = system.down_error(self._target.path)
        if self._progress is not None:
            try:
                self._progress(self.done, self._total)
            except Exception as error:  # noqa: BLE001 - what shows the work must not end it
                self._progress = None
                self._target.system.reports.callback_raised(self._target.path, error)
        if failure is not None and self._on_error == "raise":
            raise failure
        return given.item, result

    def close(self) -> None:
        """Let go of what is under way, and take no more. Never waits; may be called again."""
        given, self._given = self._given, {}
        for each in given:
            each.leave()
        if self._pull is not None and not self._pull.done():
            with suppress(RuntimeError):  # its loop is closed, so the pull has ended
                self._pull.get_loop().call_soon_threadsafe(self._pull.cancel)
        self._ended, self._pending, self._end = EndedItems(), None, StopIteration()
        self._source = iter(())  # a generator that has no other reference is closed by this

    async def aclose(self) -> None:
        """``close``, under the name that async iterators have."""
        self.close()
        if self._pull is not None:
            await asyncio.wait([self._pull])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        self.close()
