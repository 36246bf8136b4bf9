"""The way of tasks into the journal: create, wait until they are kept, and only then say so.

Comes in: tasks that are right, and the orchestrator they are for. Goes out: which of them are new, once the store has
them; or a ``StoreError`` that says whether they may have been taken all the same. What is refused is taken back, so
that it never runs; what may be kept will run. Many tasks at once are kept all together, or none of them.

Whoever submits an id that somebody else is just submitting waits for what becomes of that:
``TaskService.submitting`` has a Reply for each of those. Many ids are taken in their order by name, so two who submit
the same ones never wait for each other. Whoever has taken an id is the only one who may create it. So ids that the
store does not know then are noted in ``TaskService.unkept``, before they are created and until they are kept or taken
back: an orchestrator leaves them alone. A task that is known is never among them, however often it is submitted again.

``run`` waits in the caller's thread, ``arun`` on an event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from actors.messaging.blocking import require_thread
from actors.messaging.message_errors import ReplyTimeoutError
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.tasks.engine.scope import Scope
from actors.tasks.engine.waits_across_trees import variables_with, waits_from_here
from actors.tasks.execution.task_tracer import tracer_of
from actors.tasks.model.live_events import TaskKnownOtherwise
from actors.tasks.model.task import Task
from actors.tasks.model.task_errors import StoreError, TaskError
from actors.tasks.model.task_events import TaskSubmitted

STORE_WAIT_S = 10.0
"""How long a submission waits for the store."""
_AT_ONCE: Final = 256
"""Tasks that are begun before an event loop may do something else."""


class Submission:
    """Tasks on their way into the journal: all of them are kept, or none."""

    def __init__(self, port: Scope, events: Sequence[TaskSubmitted]) -> None:
        self.port = port
        """Port of the orchestrator that is to have them."""
        self._store = port.service.store
        self._events = {event.task: event for event in events}
        self.across = waits_from_here(port)
        """Waits for them from other trees."""
        self._variables = variables_with(self.across)
        self._mine = Reply()
        """Completed when the tasks are kept, failed where they were not taken."""
        self._waits: dict[str, Reply] = {}
        """By the id of a task that is new: completed with its report. It is put there before anybody may begin the
        task: one that ends at once may be removed, and another one of its id begun, before its submitter looks."""
        self._until = monotonic() + STORE_WAIT_S
        self.known: dict[str, Task] = {}
        """Tasks of the store whose ids were known, by id. Inputs above 64 KB are left in the store."""

    def run(self) -> dict[str, Reply]:
        """Wait in this thread; the ids that are new, each with the Reply of its report. All others were known.

        Raises:
            StoreError: they could not be written; ``may_be_taken`` says whether they may be kept all the same.
        """
        steps = self._steps()
        try:
            reply = next(steps)
            while True:
                if reply is not None:
                    require_thread(self.port.path, "await tree.asubmit(...)")
                reply = steps.send(reply is None or reply.wait(self._left()))
        except StopIteration:
            self._compare_known()
            return self._waits
        finally:
            steps.close()

    async def arun(self) -> dict[str, Reply]:
        """Do this on an event loop, without holding it up. Cancelled, it gives up like one that took too long."""
        steps = self._steps()
        try:
            reply = next(steps)
            while True:
                if reply is None:
                    await let_others_run()
                reply = steps.send(reply is None or await came(reply, self._left()))
        except StopIteration:
            if len(self._waits) < len(self._events):
                await asyncio.to_thread(self._compare_known)
            return self._waits
        finally:
            steps.close()

    def _left(self) -> float:
        return max(0.0, self._until - monotonic())

    def _steps(self) -> Generator[Reply | None, bool, None]:
        """Yields what to wait for, and is sent whether that came in time; None is a moment for others."""
        mine = list[str]()
        try:
            for id_ in sorted(self._events):
                if (yield from self._take(id_)):
                    mine.append(id_)
            self._refuse_ids_of_others()
            wanted = [id_ for id_ in self._events if id_ in set(mine)] if len(mine) > 1 else mine
            new = self._create(wanted)
            if len(new) < len(self._events):
                self._trace_no_more(self._events.keys() - new, "known")
        except BaseException:
            self._trace_no_more(self._events.keys(), "refused")
            self._settle(mine, StoreError(self.port.service.store_name, f"{self._named(mine)} not taken"))
            raise
        if len(new) < len(mine):
            self._settle([id_ for id_ in mine if id_ not in new])
        try:
            kept = self._flush(new)
            in_time = kept is None or (yield kept)
        except BaseException:  # Ctrl-C, or cancelled: nobody hears of it any more
            self._take_back(new)
            raise
        if not in_time:
            raise self._refusal(new, f"not written after {STORE_WAIT_S:g} s", maybe=not self._take_back(new))
        if kept is not None and not kept.succeeded:
            self._settle(new, self._refusal(new, "refused by the store", maybe=True))
            self._raise(new, kept)
        yield from self._begin_in_turn(new)

    def _take(self, id_: str) -> Generator[Reply, bool, bool]:
        """Be the one who submits an id; False where somebody else has."""
        submitting = self.port.service.submitting
        # One step of C: of those who come at once with one id, one writes, and the others wait for it.
        while (other := submitting.setdefault(id_, self._mine)) is not self._mine:
            if not (yield other):
                what = f"being submitted by somebody else for {STORE_WAIT_S:g} s"
                raise self._refusal([id_], what, maybe=True)
            if other.succeeded:
                return False
        return True

    def _refuse_ids_of_others(self) -> None:
        """Refuse ids that are in use by another supervisor of the tree.

        Raises:
            TaskError: one of them is.
        """
        for id_ in self._events:
            standing = self._store.standing(id_)
            if standing is not None and standing.is_ != "damaged" and standing.owner != self.port.path:
                what = f"{self.port.path}: cannot take task {id_!r}: {standing.owner} has a task of this id"
                hint = f"Submit it to that one (path={standing.owner!r}), or give it another id"
                raise TaskError(f"{what}. {hint}.")

    def _compare_known(self) -> None:
        """Read the tasks whose ids were known, and publish an event for each that had another goal or other inputs."""
        ids = [id_ for id_ in self._events if id_ not in self._waits]
        with suppress(StoreError):  # a store that cannot be read now says so itself
            records = self._store.firsts(ids) if ids else {}
            self.known = {id_: first.spec for id_, first in records.items() if isinstance(first, TaskSubmitted)}
        for id_, before in self.known.items():
            given = self._events[id_].spec
            is_same = {"goal": before.goal == given.goal, "inputs": before.inputs == given.inputs}
            if not all(is_same.values()):
                differs = " and ".join(name for name, same in is_same.items() if not same)
                self.port.system.publish(TaskKnownOtherwise(self.port.path, id_, differs))

    def _create(self, ids: list[str]) -> list[str]:
        path, unknown = self.port.path, [id_ for id_ in ids if self._store.standing(id_) is None]
        self.port.service.unkept.update(unknown)
        new = self._store.create_all([(id_, path, self._events[id_]) for id_ in unknown])
        for id_ in new:
            self.port.service.forget_former(id_)
        return new

    def _flush(self, ids: list[str]) -> Reply | None:
        return self.port.service.flush(*ids) if ids else None

    def _begin_in_turn(self, ids: list[str]) -> Generator[None, bool, None]:
        """Begin all of them, whatever becomes of the caller meanwhile."""
        left = deque(ids)
        try:
            while len(left) > _AT_ONCE:
                self._begin([left.popleft() for _ in range(_AT_ONCE)])
                yield None
        finally:
            self._begin(left)

    def _begin(self, ids: Sequence[str]) -> None:
        """Note that tasks are kept: from now on they are the orchestrator's."""
        service = self.port.service
        self._waits |= service.removing.look(partial(service.begin_all, ids))
        for id_ in ids:
            service.carry(id_, self.port.path, self._variables, self._events[id_].trace)
        self._settle(ids)
        for id_ in ids:
            self.port.system.publish(self._events[id_])
        new = tuple(ids)
        self.port.port.post(lambda engine: engine.arrived(new))

    def _take_back(self, ids: list[str]) -> bool:
        """Forget tasks that no one waits for any more; where they are being written, begin them when that is done."""
        if not ids:
            return False
        if self._store.withdraw_all(ids):
            self._settle(ids, self._refusal(ids, "withdrawn", maybe=False))
            return True
        kept = self._flush(ids)
        if kept is None:
            self._begin(ids)
        else:
            lost = self._refusal(ids, "refused by the store", maybe=True)
            kept.when_done(lambda: self._begin(ids) if kept.succeeded else self._settle(ids, lost))
        return False

    def _settle(self, ids: Sequence[str], error: StoreError | None = None) -> None:
        """Note that these are not under way any more; those who wait for them look again."""
        service = self.port.service
        submitting = service.submitting
        for id_ in ids:
            if submitting.get(id_) is self._mine:
                service.unkept.discard(id_)  # first: whoever takes the id next may note it anew
                del submitting[id_]
        if error is not None:
            self._trace_no_more(ids, "refused")
            self._mine.fail(error)
        elif not any(submitting.get(id_) is self._mine for id_ in self._events):
            self._mine.complete()

    def _trace_no_more(self, ids: Iterable[str], status: str) -> None:
        """End the traces of those that become no task here."""
        tracer = tracer_of(self.port.system)
        if tracer is not None:
            for id_ in ids:
                tracer.withdraw(self._events[id_].trace, status)

    def _raise(self, ids: list[str], kept: Reply) -> None:
        try:
            kept.get()
        except StoreError as error:
            raise self._refusal(ids, f"refused by the store ({error})", maybe=True) from error

    def _named(self, ids: Sequence[str]) -> str:
        return f"task {ids[0]} was" if len(ids) == 1 else f"{len(ids):,} tasks were"

    def _refusal(self, ids: Sequence[str], what: str, *, maybe: bool) -> StoreError:
        one, again = len(ids) == 1, repr(ids[0]) if len(ids) == 1 else "the same ids"
        then = (
            f"{'It' if one else 'They'} may have been taken: submit {'it' if one else 'them'} again as {again}, which "
            "starts nothing twice"
            if maybe
            else f"{'It was' if one else 'They were'} not taken and will not run: submit {'it' if one else 'them'} "
            "again when the store can be written"
        )
        error = StoreError(self.port.service.store_name, f"{self._named(ids)} {what}. {then}")
        error.may_be_taken = maybe
        return error


async def let_others_run() -> None:
    """Give an event loop a moment for everything else."""
    await came(Reply(), 0.0)


async def came(reply: Reply, wait_s: float | None) -> bool:
    """True if it is completed in time; waits on an event loop."""
    timed = Reply(timeout_s=wait_s)
    reply.when_done(timed.complete)
    try:
        await timed
    except ReplyTimeoutError:
        return reply.done
    return True
