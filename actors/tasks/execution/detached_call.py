"""Detached call: one call of user code that belongs to no worker (a planner, a reviewer, a synthesizer, an undo).

It runs in an incarnation of its own, so in the same crash boundary as every worker: whatever it raises ends only it, it
can be cancelled or given up, its thread stays in the books, and what it asks for carries its ancestry. Its owner is no
supervisor but the attempt that it is for: it is never restarted, because whether to try again is the orchestrator's
decision.

It is a coroutine on the event loop. What is sync in it is called aside (``actors.tasks.execution.off_loop``), and so is
all that is made of what comes back. As many run at once as ``max_steps`` of its scope says, and when one of them begins
is decided in ``actors.tasks.engine.roles``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from actors.execution.incarnation import Exit
from actors.messaging.envelope import MessageContext
from actors.messaging.message_errors import ActorStoppedError
from actors.model.errors import StalledError
from actors.model.process_errors import for_asker
from actors.model.spec import DispatcherKind
from actors.tasks.execution.off_loop import Detached, as_current
from actors.tasks.execution.role_call import ROLE_CALL
from actors.tasks.execution.run_attempt import run_attempt
from actors.tasks.model import InvalidAnswerError

if TYPE_CHECKING:
    from actors.tasks.execution.attempt import Attempt

GRACE_S = 0.5
"""How long cancelled code may take to end before it is left to itself."""


class DetachedCall(Detached):
    """Runs one attempt in an incarnation of its own."""

    def __init__(self, attempt: Attempt, code: Callable[[Any, Any], Coroutine[Any, Any, Any]]) -> None:
        self._host = host = attempt.owner
        self._attempt = attempt
        self._code = code
        super().__init__(host.system, attempt.spec.path, attempt.spec.role, DispatcherKind.LOOP)
        attempt.call = self
        host.service.detached_calls.add(self)

    def kill(self) -> None:
        """End it: what is async is cancelled, a thread is left to itself."""
        self.incarnation.kill()
        system = self._host.system
        if not self.incarnation.is_over:
            system.timers.call_at(system.now() + GRACE_S, self._give_up)
        else:
            self._over()

    def _give_up(self) -> None:
        """Abandon it: it was cancelled and did not end."""
        if self.incarnation.abandon() is not None:
            self._over()  # whoever ends an incarnation at once is not told of it

    def _has_exited(self, end: Exit) -> None:
        if isinstance(end.error, StalledError):  # its code blocks the event loop
            self._attempt.note_crash(end.error)
            self._attempt.fail(end.error)
        self._over()

    def _over(self) -> None:
        """Note that it is over, or was never begun."""
        self._host.service.detached_calls.discard(self)
        self._attempt.fail(ActorStoppedError(self._attempt.spec.path, "was ended"))

    async def _run(self) -> None:
        attempt = self._attempt
        ROLE_CALL.set(attempt)
        try:
            with as_current(self.incarnation, attempt.origin(MessageContext), attempt):
                result = run_attempt(self._code, attempt)
                result = await result if hasattr(type(result), "__await__") else result
        except BaseException as error:
            if not self.incarnation.was_killed:
                path = attempt.spec.path
                if not isinstance(error, InvalidAnswerError):  # which is raised where an answer is read, by us
                    # As of a worker: the records of a task have type and text, and only this says where it was raised.
                    self._host.system.reports.request_failed(path, error, asked=True)
                attempt.fail(for_asker(path, error))
            raise
        attempt.complete(result)
