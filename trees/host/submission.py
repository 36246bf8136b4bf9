"""The way of a task into the journal: create, wait until it is kept, and only then say so.

Comes in: a task that is right, and the orchestrator it is for. Goes out: whether it is new, once the store has it; or a
``StoreError`` that says whether it may have been taken all the same. What is refused is taken back, so that it never
runs; what may be kept will run. Whoever submits an id that somebody else is just submitting waits for what becomes of
that: ``Ground.submitting`` has a Reply for each of those.

``run`` waits in the caller's thread, ``arun`` on an event loop.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.messaging.caller_variables import caller_variables
from actors.messaging.envelope import CURRENT
from actors.messaging.message_errors import ReplyTimeoutError
from actors.messaging.reply import Reply, require_thread
from actors.model.clock import monotonic
from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.task_events import TaskSubmitted
from actors.tasks.orchestration.messages import TaskArrived
from actors.tasks.orchestration.task_runtime import OrchestratorPort

STORE_WAIT_S = 10.0
"""How long a submission waits for the store."""


class Submission:
    """One task on its way into the journal."""

    def __init__(self, desk: OrchestratorPort, event: TaskSubmitted) -> None:
        self._desk = desk
        self._store = desk.ground.store
        self._event = event
        self._variables = caller_variables(CURRENT)
        self._mine = Reply()
        """Completed when the task is kept, failed where it was not taken."""
        self._until = monotonic() + STORE_WAIT_S

    def run(self) -> bool:
        """Wait in this thread; True where the task is new, False where its id was known.

        Raises:
            StoreError: it could not be written; ``may_be_taken`` says whether it may be kept all the same.
        """
        steps = self._steps()
        try:
            reply = next(steps)
            while True:
                require_thread(self._desk.path, "await tree.asubmit(...)")
                reply = steps.send(reply.wait(self._left()))
        except StopIteration as end:
            return bool(end.value)
        finally:
            steps.close()

    async def arun(self) -> bool:
        """Do this on an event loop, without holding it up. Cancelled, it gives up like one that took too long."""
        steps = self._steps()
        try:
            reply = next(steps)
            while True:
                reply = steps.send(await came(reply, self._left()))
        except StopIteration as end:
            return bool(end.value)
        finally:
            steps.close()

    def _left(self) -> float:
        return max(0.0, self._until - monotonic())

    def _steps(self) -> Generator[Reply, bool, bool]:
        """Yields what to wait for, is sent whether that came in time, and returns whether the task is new."""
        id_, submitting = self._event.task, self._desk.ground.submitting
        # One step of C: of those who come at once with one id, one writes, and the others wait for it.
        while (other := submitting.setdefault(id_, self._mine)) is not self._mine:
            if not (yield other):
                raise self._refusal(f"somebody else has been submitting it for {STORE_WAIT_S:g} s", maybe=True)
            if other.succeeded:
                return False
        try:
            new = self._store.create(id_, self._desk.path, self._event)
        except BaseException:
            self._settle(StoreError(self._desk.ground.store_name, f"task {id_} was refused"))
            raise
        if not new:
            self._settle()
            return False
        for desk in self._desk.ground.all_desks():
            desk.reports.forget(id_)  # of a task of this id that the store has forgotten: this one is a new one
        try:
            kept = self._desk.ground.flush(id_)
            in_time = kept is None or (yield kept)
        except BaseException:  # Ctrl-C, or cancelled: nobody hears of it any more
            self._take_back()
            raise
        if not in_time:
            raise self._refusal(f"is not written after {STORE_WAIT_S:g} s", maybe=not self._take_back())
        if kept is not None and not kept.succeeded:
            self._settle(self._refusal("was refused by the store", maybe=True))
            self._raise(kept)
        self._begin()
        return True

    def _begin(self) -> None:
        """Note that the task is kept: from now on it is the orchestrator's."""
        self._desk.ground.numbers.begun(self._event.task)
        self._settle()
        self._desk.ground.carry(self._event.task, self._variables)
        self._desk.system.publish(self._event)
        self._desk.tell(TaskArrived(self._event.task))

    def _take_back(self) -> bool:
        """Forget a task that no one waits for any more; where it is being written, have it begun when that is done."""
        if self._store.withdraw(self._event.task):
            self._settle(self._refusal("was withdrawn", maybe=False))
            return True
        kept = self._desk.ground.flush(self._event.task)
        if kept is None:
            self._begin()
        else:
            lost = self._refusal("was refused by the store", maybe=True)
            kept.when_done(lambda: self._begin() if kept.succeeded else self._settle(lost))
        return False

    def _settle(self, error: StoreError | None = None) -> None:
        """Note that it is not under way any more; those who wait for it look again."""
        submitting, id_ = self._desk.ground.submitting, self._event.task
        if submitting.get(id_) is self._mine:
            del submitting[id_]
        if error is None:
            self._mine.complete()
        else:
            self._mine.fail(error)

    def _raise(self, kept: Reply) -> None:
        try:
            kept.get()
        except StoreError as error:
            raise self._refusal(f"was refused by the store ({error})", maybe=True) from error

    def _refusal(self, what: str, *, maybe: bool) -> StoreError:
        id_ = self._event.task
        then = (
            f"It may have been taken: submit it again as {id_!r}, which starts nothing twice"
            if maybe
            else "It was not taken and will not run: submit it again when the store can be written"
        )
        error = StoreError(self._desk.ground.store_name, f"task {id_} {what}. {then}")
        error.may_be_taken = maybe
        return error


async def came(reply: Reply, wait_s: float | None) -> bool:
    """True if it is completed in time; waits on an event loop."""
    timed = Reply(timeout_s=wait_s)
    reply.when_done(timed.complete)
    try:
        await timed
    except ReplyTimeoutError:
        return reply.done
    return True
