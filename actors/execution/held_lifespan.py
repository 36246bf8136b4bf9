"""An async lifespan of a worker on a thread: held by a body of its own on the event loop, in one task.

The worker's thread waits while it is entered and while it is left, as for a sync one: who is asked there knows that the
worker waits. The body is an incarnation like any other, so it is in the same crash boundary; its owner is no
supervisor, and it is never restarted. Two ends are not the worker's own:

* The worker is abandoned: its thread may never come to leave anything. Then the body is killed, and the lifespan is
  left with a ``CancelledError``.
* The lifespan ends by itself, because a scope in it was cancelled (a task of its group has failed). The worker has lost
  its resource: it is ordered to end, after the message that it is handling, and has crashed of that
  (``Residence.lost``).
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from actors.execution.crash_boundary import WorkerIncarnation
from actors.execution.incarnation import Exited
from actors.execution.incarnation_ends import EndingIncarnation
from actors.execution.incarnation_orders import PLACE_LOST
from actors.execution.residence import PlaceLostError
from actors.messaging.envelope import CURRENT, CurrentMessage
from actors.messaging.mailbox import Mailbox, Refusal
from actors.messaging.reply import Reply
from actors.messaging.wait_graph import waiting_for
from actors.model.spec import ChildSpec, DispatcherKind, WorkerRecipe

_ENDED: Final = "the lifespan ended by itself while its worker was running"


class HeldLifespan:
    """A sync context manager around an async one."""

    def __init__(self, worker: EndingIncarnation, manager: Any) -> None:
        self._worker = worker
        self._manager = manager
        box = Mailbox(worker.mailbox.path)
        box.close(Refusal.BODY)
        recipe = WorkerRecipe(
            make=lambda _: _Body(self._hold),
            where=DispatcherKind.LOOP,
            is_body=True,
            starts_plain=True,
            stops_plain=True,
            fails_plain=True,
        )
        self._body = WorkerIncarnation(worker.system, ChildSpec(id="lifespan", recipe=recipe), box, self)
        self._entered, self._leaving, self._over = Reply(box), Reply(), Reply(box)

    def __enter__(self) -> Any:
        self._worker.when_over().when_done(self._worker_is_over)
        with waiting_for(self._entered):
            self._body.start()
            return self._entered.get()

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> bool:
        with waiting_for(self._over):
            self._leaving.complete(error)
            raised = self._over.get()
        if raised is not None and raised is not error:
            raise raised
        return error is not None and raised is None

    async def _hold(self) -> None:
        home, request = CURRENT.get(), self._begin(self._entered)
        try:
            async with self._manager as value:
                request.end()
                CURRENT.set(home)
                self._entered.complete(value)
                error: BaseException | None = await self._leaving
                request = self._begin(self._over)
                if error is not None:
                    raise error
        finally:
            request.end()

    def _begin(self, reply: Reply) -> CurrentMessage:
        """Begin what the worker waits for: whoever is asked in it knows that."""
        request = CurrentMessage(self._body, None, reply)
        CURRENT.set(request)
        return request

    def _worker_is_over(self) -> None:
        """The worker has ended: what it has not left itself nobody will leave."""
        if not self._over.done:
            ended = self._body.kill()
            if ended is not None:  # it had not begun, as on a loop that somebody holds up: nobody else says so
                self.post(Exited(self._body, ended))

    def post(self, message: Any, reply: Reply | None = None) -> bool:  # noqa: ARG002 - as a supervisor's mailbox
        """Receive a report of the body."""
        if isinstance(message, Exited):
            is_lost = message.exit.what == PLACE_LOST
            error = PlaceLostError(PLACE_LOST) if is_lost else message.exit.error
            by_itself = not self._leaving.done
            self._entered.fail(error if error is not None else RuntimeError("the lifespan ended before it had begun"))
            self._over.complete(message.exit.error)
            if by_itself:
                self._worker.lose_resource(error if error is not None else RuntimeError(_ENDED))
        return True


class _Body:
    """Body that the incarnation runs."""

    def __init__(self, hold: Callable[[], Any]) -> None:
        self._regrow_body = hold
