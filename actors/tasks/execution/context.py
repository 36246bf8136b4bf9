"""Context of an attempt: its goal, its own inputs, the results of what it depends on, and nothing else.

It also carries what an attempt may say while it runs: how far it is, what it used up, and what it needs from others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.messaging.message_errors import ReplyTimeoutError
from actors.messaging.reply import require_thread
from actors.tasks.model.outcome import plain_text
from actors.tasks.model.shared_values import copied, is_small
from actors.tasks.model.task import Usage
from actors.tasks.model.task_errors import LeaseLostError, SubtaskFailedError
from actors.tasks.model.task_events import SubtaskProgressed
from actors.tasks.orchestration.messages import UsageReported
from actors.validation.validation_messages import require_seconds

if TYPE_CHECKING:
    from actors.messaging.reply import Reply
    from actors.tasks.execution.attempt import Attempt


class Context:
    """Given to ``execute(task, context)`` and ``undo(task, result, context)``. May be used from any thread."""

    __slots__ = ("_attempt", "_own", "_shared", "attempt", "feedback", "goal", "idempotency_key")

    def __init__(
        self,
        attempt: Attempt,
        *,
        goal: str,
        inputs: dict[str, Any],
        results: dict[str, Any],
        feedback: str,
        number: int,
        idempotency_key: str,
    ) -> None:
        self._attempt = attempt
        self._shared = {"inputs": inputs, "results": results}
        self._own: dict[str, dict[str, Any]] = {}
        """Copies for the worker's code, which may change them; made when that asks for it."""
        self.goal = goal
        """Goal of the whole task."""
        self.feedback = feedback
        """Feedback: what is to be better than last time; empty the first time."""
        self.attempt = number
        """1 is the first."""
        self.idempotency_key = idempotency_key
        """Key of one effect: it stays the same however often that has to be tried."""

    def __repr__(self) -> str:
        return f"<Context of {self._attempt.key}>"

    @property
    def inputs(self) -> dict[str, Any]:
        """Inputs of the task, and over them those of the subtask."""
        return self._owned("inputs")

    @property
    def results(self) -> dict[str, Any]:
        """Results of the subtasks that this one depends on, by id, as JSON."""
        return self._owned("results")

    def _owned(self, name: str) -> dict[str, Any]:
        found = self._own.get(name)
        if found is None:
            found = self._own.setdefault(name, copied(self._shared[name]))  # one step of C: of two threads one wins
        return found

    @property
    def token(self) -> int:
        """The fencing token of the process that runs this: it grows with every process that takes the tree over.

        Read it right before an effect on something outside, and give it along. What receives the effect refuses a token
        that is smaller than the largest one that it has seen: then nothing that a process does that was frozen, and is
        followed by another one, comes too late unnoticed. 0 where the tree has no durable store.

        Raises:
            LeaseLostError: this process does not lead any more, or may not. Leaving the worker's code it is nobody's
                failure: whoever leads runs the attempt again.
        """
        desk = self._attempt.desk
        try:
            return desk.ground.token
        except LeaseLostError as error:
            raise desk.noted(error) from None

    @property
    def remaining_s(self) -> float | None:
        """Seconds that this attempt has left, on the tree's clock; None: no limit."""
        attempt = self._attempt
        limits = [limit for limit in (attempt.deadline, self._runs_until) if limit is not None]
        return max(0.0, min(limits) - attempt.desk.system.now()) if limits else None

    @property
    def _runs_until(self) -> float | None:
        attempt = self._attempt
        if attempt.timeout_s is None or attempt.started is None:
            return None
        return attempt.started + attempt.timeout_s

    def progress(self, fraction: float, text: str = "") -> None:
        """Say how far it is, from 0 to 1; also a sign of life."""
        attempt = self._attempt
        said = text if type(text) is str else plain_text(text, otherwise="its text cannot be told")
        attempt.progress = (min(1.0, max(0.0, float(fraction))), said)
        self.heartbeat()
        desk = attempt.desk
        seq = desk.ground.numbers.latest_of(attempt.task)
        event = SubtaskProgressed(desk.path, attempt.task, desk.time(), attempt.subtask.id, *attempt.progress, seq=seq)
        desk.system.publish(event)

    def heartbeat(self) -> None:
        """A sign of life: ``idle_timeout_s`` counts from here."""
        self._attempt.last_sign = self._attempt.desk.system.now()

    def use(self, tokens: int = 0, cost: float = 0.0) -> None:
        """Say what was used up; it counts for the budgets of the subtask, the task and the team.

        It counts however this attempt ends, and where its process dies. Budgets are looked at when an attempt ends.
        """
        attempt = self._attempt
        if attempt.use(Usage(tokens=tokens, cost=cost)):  # which refuses, here, what is no number
            attempt.desk.tell(UsageReported(attempt, attempt.task))

    async def ask(
        self,
        to: str,
        instruction: str,
        inputs: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as ref.ask_async
    ) -> Any:
        """Have somebody else do something, and wait for the result.

        Args:
            to: a capability, or the id of a worker or team; looked up among the siblings, then above.
            instruction: what to do.
            inputs: as JSON.
            timeout: seconds; None: the time that this attempt has left.

        Raises:
            RecursionDetectedError: whoever could do it waits for this attempt, or is asked the same thing already.
            NoCapableWorkerError: nobody can do it.
            SubtaskFailedError: it has failed, after all that could be tried, or took too long.
        """
        reply = self._delegate(to, instruction, inputs, timeout)
        try:
            return copied(await reply)
        except ReplyTimeoutError as error:
            raise self._too_late(to, error) from error

    def ask_sync(
        self, to: str, instruction: str, inputs: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> Any:
        """As ``ask``, for sync code."""
        require_thread(to, "await context.ask(...)")
        reply = self._delegate(to, instruction, inputs, timeout)
        try:
            return copied(reply.get())
        except ReplyTimeoutError as error:
            raise self._too_late(to, error) from error

    def _delegate(self, to: str, instruction: str, inputs: dict[str, Any] | None, timeout: float | None) -> Reply:
        require_seconds(f"ask {to!r}", timeout)
        left = self.remaining_s
        limit = left if timeout is None else timeout if left is None else min(left, timeout)
        return self._attempt.desk.delegate(self._attempt, to, instruction, dict(inputs or {}), limit)

    def _too_late(self, to: str, error: ReplyTimeoutError) -> SubtaskFailedError:
        failure = SubtaskFailedError(self._attempt.task, to, f"no result in {error.timeout_s:.3g} s")
        self._attempt.desk.noted(failure)
        return failure


def is_light(context: Context) -> bool:
    """True where copying what it has for the worker's code takes no time to speak of."""
    shared = context._shared  # noqa: SLF001 - a friend
    inputs, results = shared["inputs"], shared["results"]
    return (not results or is_small(results)) and (not inputs or is_small(inputs))


def unpack(context: Context) -> None:
    """Make the copies for the worker's code now, on this thread."""
    for name in ("inputs", "results"):
        context._owned(name)  # noqa: SLF001 - a friend
