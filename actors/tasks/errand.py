"""An errand: one call of user code that belongs to no worker (a planner, a reviewer, a synthesizer, an undo).

It runs in a life of its own, so in the same crash boundary as every worker: whatever it raises ends only it, it can be
cancelled or given up, its thread stays in the books, and what it asks for carries its ancestry. Its owner is no
supervisor but the attempt that it is for: it is never restarted, because whether to try again is the orchestrator's
decision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.boundary import WorkerLife
from actors.errors import ActorStoppedError, for_asker
from actors.life import Ended
from actors.mailbox import Mailbox, Refusal
from actors.messages import CURRENT, Current, Origin
from actors.reply import Reply
from actors.spec import ChildSpec, Where, WorkerRecipe
from actors.tasks.perform import perform
from actors.worker import BodyWorker

if TYPE_CHECKING:
    from actors.tasks.attempt import Attempt
    from actors.tasks.ground import Desk, Ground

GRACE_S = 0.5
"""How long cancelled code may take to end before it is left to itself."""


class Errand:
    """Runs one attempt in a life of its own."""

    def __init__(self, ground: Ground, attempt: Attempt, call: Callable[[Any, Any], Any], *, is_async: bool) -> None:
        self._ground = ground
        self._attempt = attempt
        run = self._run_async if is_async else self._run
        recipe = WorkerRecipe(
            make=lambda _: BodyWorker(run, (call,), {}),
            where=Where.LOOP if is_async else Where.POOL,
            is_body=True,
            starts_plain=True,
            stops_plain=True,
            fails_plain=True,
            expected=(Exception,),
            actor_class=BodyWorker,
        )
        box = Mailbox(attempt.path)
        box.close(Refusal.BODY)
        self.life = WorkerLife(ground.system, ChildSpec(id=attempt.role, recipe=recipe), box, self)
        attempt.errand = self

    def start(self) -> None:
        """Begin, once."""
        if not self._ground.may_start() or not self._attempt.give_once():
            return
        self._ground.errands.add(self)
        self.life.start()

    def kill(self) -> None:
        """End it: what is async is cancelled, a thread is left to itself."""
        self.life.kill()
        system = self._ground.system
        if not self.life.is_over:
            system.timers.call_at(system.now() + GRACE_S, self.life.abandon)
        else:
            self._over()

    def is_of(self, desk: Desk) -> bool:
        """Whether it is for this desk."""
        return self._attempt.desk is desk

    def post(self, message: Any, reply: Reply | None = None) -> bool:  # noqa: ARG002 - as a supervisor's mailbox
        """What its life tells its owner."""
        if isinstance(message, Ended):
            self._over()
        return True

    def _over(self) -> None:
        self._ground.errands.discard(self)
        self._attempt.fail(ActorStoppedError(self._attempt.path, "was ended"))

    def _enter(self) -> Current:
        """Who waits for it stands in its ancestry, until it ends."""
        current = Current(self.life, self._attempt.origin(Origin))
        CURRENT.set(current)
        return current

    def _run(self, call: Callable[[Any, Any], Any]) -> None:
        current = self._enter()
        try:
            result = perform(call, self._attempt)
        except BaseException as error:
            self._attempt.fail(for_asker(self._attempt.path, error))
            raise
        finally:
            current.end()
        self._attempt.complete(result)

    async def _run_async(self, call: Callable[[Any, Any], Any]) -> None:
        current = self._enter()
        try:
            result = perform(call, self._attempt)
            result = await result if hasattr(type(result), "__await__") else result
        except BaseException as error:
            if not self.life.was_killed:
                self._attempt.fail(for_asker(self._attempt.path, error))
            raise
        finally:
            current.end()
        self._attempt.complete(result)
