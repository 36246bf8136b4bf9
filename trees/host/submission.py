"""The way of tasks into the journal: create them, wait until the store has kept them, and only then say so.

Comes in: tasks, and the supervisor that they are for. Goes out: which of them are new; or a ``StoreError`` that says
whether they may have been taken all the same. Several tasks are kept all together, or none of them. A task that was
refused never runs.

An id that is new stands in ``TaskService.unkept`` from before its task is created until the task is kept or refused.
Until then the engine leaves the task alone, and another submission of the id waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable
from contextlib import closing, suppress
from functools import partial
from secrets import token_hex
from typing import Final, Self

from actors.messaging.blocking import require_thread
from actors.messaging.caller_variables import caller_variables
from actors.messaging.envelope import CURRENT
from actors.messaging.message_errors import ReplyTimeoutError
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.model.errors import ConfigError, Problem
from actors.runtime.system import System
from actors.tasks.engine.scope import Scope
from actors.tasks.engine.service import service_of
from actors.tasks.engine.task_waits import Waiting, waiting_here
from actors.tasks.model import StoreError, Task, TaskError, TaskKnownOtherwise, TaskSubmitted, copied, require_own
from actors.validation.spec_model import copy_with
from actors.validation.validation_messages import require_path, type_phrase

STORE_WAIT_S: Final = 10.0
"""How long a submission waits for the store."""


def scope_at(system: System, path: str | None) -> Scope:
    """Find the scope of the supervisor at ``path``; None: the root.

    Raises:
        UnknownPathError: no supervisor of this path is listed now.
        TaskError: the supervisor has no ``tasks=``.
    """
    scopes, at = service_of(system).scopes, system.root_path if path is None else path
    require_path(at)
    if at in scopes:
        return scopes[at]
    if at not in system.supervisors:
        raise system.no_supervisor(at)
    hint = f"Say with path= which supervisor does it ({', '.join(scopes)}), or declare it" if scopes else "Declare it"
    raise TaskError(f"{at}: has no orchestrator, so it takes no tasks. {hint} with tasks=Tasks().")


def own_task(given: object) -> Task:
    """Return a task with an id: of a goal, or a copy, so that later changes of inputs and metadata have no effect.

    Raises:
        ConfigError: this is no task, or something in it is wrong.
    """
    given = given if isinstance(given, Task) else Task(goal=given)  # type: ignore[arg-type]  # a wrong one is named
    require_own(given.id)
    own = {name: copied(getattr(given, name)) for name in ("inputs", "metadata")}
    return copy_with(given, id=given.id or token_hex(6), **own)


def own_tasks(tasks: object) -> list[Task]:
    """Return many tasks as ``own_task`` does; a task that stands in the list twice is one task.

    Raises:
        ConfigError: some are wrong, or have one id and are not alike; with the places of all of these.
    """
    if isinstance(tasks, (str, bytes, Task)) or not isinstance(tasks, Iterable):
        what = f"{type_phrase(tasks)} is not a list of tasks"
        raise ConfigError((Problem("tasks", what, "Write [Task(...), ...], or submit one with tree.submit(task)."),))
    found, problems = list[Task](), list[Problem]()
    by_id: dict[str | None, Task] = {}
    for place, given in enumerate(tasks):
        try:
            found.append(task := own_task(given))
        except ConfigError as error:
            problems += [Problem(f"tasks[{place}]: {one.path}", one.what, one.hint) for one in error.problems]
            continue
        if by_id.setdefault(task.id, task) != task:
            what = f"is {task.id!r}, as that of another task of the list"
            problems.append(Problem(f"tasks[{place}].id", what, "Give each its own id, or none."))
    if problems:
        raise ConfigError(tuple(problems))
    return found


class Submission:
    """Tasks on their way into the journal of one scope.

    Args:
        scope: of the supervisor that is to have them.
        tasks: as ``own_task`` makes them.
        joined: the present code is about to wait for them.

    Raises:
        TreeDownError: the tree is down.
        RecursionDetectedError: the supervisor waits for the present code, which is about to wait for the supervisor.
    """

    def __init__(self, scope: Scope, tasks: list[Task], *, joined: bool = False) -> None:
        system = scope.system
        if system.is_down:
            raise system.down_error(scope.path)
        self.scope = scope
        self._service, self._store = scope.service, scope.service.store
        self.ids = [task.id or "" for task in tasks]
        self._tasks = dict(zip(self.ids, tasks, strict=True))
        self._waiting = waiting_here(scope) if joined else Waiting()
        self._hops = system.hops_of_here()
        self._variables = caller_variables(CURRENT)
        self._until = monotonic() + STORE_WAIT_S
        self._new_ids: list[str] = []
        self._events: dict[str, TaskSubmitted] = {}
        """The first records of those that are new."""
        self._kept = Reply()
        """Completed when the new tasks are kept, failed if they are refused."""
        self.new: dict[str, Reply] = {}
        """By the id of a new task, once it is kept: completed with its report. All other tasks were known."""
        self.known: dict[str, Task] = {}
        """The tasks of the store whose ids were known. Large inputs are left in the store."""

    def run(self) -> Self:
        """Wait in this thread until the tasks are kept.

        Raises:
            StoreError: they could not be written; ``may_be_taken`` says whether they may be kept all the same. Or the
                journal of a task of this id is damaged; nothing was taken.
            TaskError: an id is in use by another supervisor of the tree.
        """
        with closing(self._steps()) as steps:
            for reply in steps:
                require_thread(self.scope.path, "await tree.asubmit(...)")
                reply.wait(self._until - monotonic())
        if len(self.new) < len(self._tasks):
            self._compare_known()
        return self

    async def arun(self) -> Self:
        """Do this on an event loop, without holding it up. Cancelled, it gives up as if the time were over."""
        with closing(self._steps()) as steps:
            for reply in steps:
                await came(reply, self._until - monotonic())
        if len(self.new) < len(self._tasks):
            await asyncio.to_thread(self._compare_known)
        return self

    def _steps(self) -> Generator[Reply, None, None]:
        """Yields each reply that is to be waited for, and looks afterwards whether it came in time."""
        while (other := self._service.removing.look(self._take)) is not None:
            yield other
            if not other.done:
                raise self._refusal("being submitted by somebody else", may_be_taken=True)
        try:
            self._create()
            kept = self._store.flush() if self._new_ids else None
        except BaseException as error:
            self._refused(error)
            raise
        if kept is not None:
            try:
                yield kept
            except BaseException:  # Ctrl-C, or cancelled
                self._give_up(kept)
                raise
            if not kept.done:
                what = f"not written after {STORE_WAIT_S:g} s"
                raise self._refusal(what, may_be_taken=not self._give_up(kept))
            try:
                kept.outcome()
            except Exception as error:
                lost = self._refusal(f"refused by the store ({error})", may_be_taken=True)
                self._refused(lost)
                raise lost from error
        if self._new_ids:
            self._begin()

    def _take(self) -> Reply | None:
        """Under the lock: note the ids that are new as unkept; or return the reply of who has noted one of them."""
        unkept, self._new_ids = self._service.unkept, []
        for id_ in self._tasks:
            if id_ in unkept:
                return unkept[id_]
            standing = self._store.standing(id_)
            if standing is None:
                self._new_ids.append(id_)
            elif standing.is_ == "damaged":
                self._store.read(id_)  # says what is wrong
            elif standing.owner != self.scope.path:
                what = f"{self.scope.path}: cannot take task {id_!r}: {standing.owner} has a task of this id"
                hint = f"Submit it to that one (path={standing.owner!r}), or give it another id"
                raise TaskError(f"{what}. {hint}.")
        unkept.update(dict.fromkeys(self._new_ids, self._kept))
        return None

    def _create(self) -> None:
        path, now, tracer = self.scope.path, self.scope.service.time(), self.scope.system.tracer
        for id_ in self._new_ids:
            task = self._tasks[id_]
            deadline = None if task.deadline_s is None else now + task.deadline_s
            trace = "" if tracer is None else tracer.submit(id_, path)
            ancestry = self._waiting.chain, self._waiting.lineage, self._hops
            self._events[id_] = TaskSubmitted(
                path, id_, now, task, deadline, *ancestry, trace, seq=1, metadata=task.metadata
            )
            self._service.forget_former(id_)
        self._store.create_all([(id_, path, event) for id_, event in self._events.items()])

    def _begin(self) -> None:
        """The tasks are kept: from now on they are the engine's."""
        service, ids = self._service, self._new_ids
        # Before the engine hears of them: a task may end and be removed before its submitter looks.
        self.new = service.removing.look(partial(service.begin_all, ids))
        for id_, event in self._events.items():
            service.carry(id_, self.scope.path, self._variables, event.trace)
            if self._waiting.addresses:
                service.waiting_for[id_] = [self._waiting.addresses]
            del service.unkept[id_]
            self.scope.system.publish(event)
        self._kept.complete()
        self.scope.port.post(lambda engine: engine.arrived(ids))

    def _give_up(self, kept: Reply) -> bool:
        """Take the tasks back. False: they are being written just now, and begin once they are kept."""
        if self._store.withdraw_all(self._new_ids):
            self._refused(self._refusal("withdrawn", may_be_taken=False))
            return True
        lost = self._refusal("refused by the store", may_be_taken=True)
        kept.when_done(lambda: self._begin() if kept.succeeded else self._refused(lost))
        return False

    def _refused(self, error: BaseException) -> None:
        tracer = self.scope.system.tracer
        for id_ in self._new_ids:
            del self._service.unkept[id_]
        if tracer is not None:
            for event in self._events.values():
                tracer.withdraw(event.trace, "refused")
        self._kept.fail(error)

    def _compare_known(self) -> None:
        """Read the tasks whose ids were known, and publish an event for each that had another goal or other inputs."""
        with suppress(StoreError):  # a store that cannot be read now says so itself
            firsts = self._store.firsts([id_ for id_ in self._tasks if id_ not in self.new])
            self.known = {id_: each.spec for id_, each in firsts.items() if isinstance(each, TaskSubmitted)}
        for id_, before in self.known.items():
            given = self._tasks[id_]
            differs = [name for name in ("goal", "inputs") if getattr(before, name) != getattr(given, name)]
            if differs:
                self.scope.system.publish(TaskKnownOtherwise(self.scope.path, id_, " and ".join(differs)))

    def _refusal(self, what: str, *, may_be_taken: bool) -> StoreError:
        ids = list(self._tasks)
        named = f"task {ids[0]} was" if len(ids) == 1 else f"{len(ids):,} tasks were"
        then = (
            "May have been taken: submit the same again under the same id, which starts nothing twice"
            if may_be_taken
            else "Nothing was taken, and nothing of it will run: submit again when the store can be written"
        )
        error = StoreError(self._service.store_name, f"{named} {what}. {then}")
        error.may_be_taken = may_be_taken
        return error


async def came(reply: Reply, wait_s: float) -> None:
    """Wait on an event loop until a reply is completed, for at most so long; raise none of its errors."""
    timed = Reply(timeout_s=max(0.0, wait_s))
    reply.when_done(timed.complete)
    with suppress(ReplyTimeoutError):
        await timed
