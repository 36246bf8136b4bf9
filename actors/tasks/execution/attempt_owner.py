"""Orchestrator's side of an attempt, as the code that runs it sees it: narrow protocols, and what it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actors.tasks.model.task import Subtask, same_instruction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.messaging.envelope import CurrentMessage
    from actors.messaging.reply import Reply
    from actors.runtime.system import System
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.attempt_steps import StepCall
    from actors.tasks.execution.attempt_stream import Piece
    from actors.tasks.execution.detached_call import DetachedCall
    from actors.tasks.model.executable import ToolInfo


class AskedWork(NamedTuple):
    """Work that an attempt asks somebody else for (``context.ask``)."""

    to: str
    """A capability, or the id of a worker or team."""
    instruction: str
    inputs: dict[str, Any]
    tool: str | None = None
    """Tool of a worker that has several."""

    @property
    def words(self) -> str:
        """Key that two requests share that ask for the same thing."""
        words = same_instruction(self.instruction, self.inputs)
        return words if self.tool is None else f"{words} tool={self.tool}"

    def subtask(self, id_: str, *, is_worker: bool) -> Subtask:
        """Return it as a subtask; ``is_worker``: its target is the id of a worker, and no capability."""
        return Subtask(
            id=id_,
            instruction=self.instruction,
            worker=self.to if is_worker else None,
            capability=None if is_worker else self.to,
            tool=self.tool,
            inputs=self.inputs,
            required=False,
        )


class AttemptWaits(Protocol):
    """Requests that wait for the attempts of a tree, and the attempts of its tasks."""

    def above(self, attempt: Attempt) -> set[CurrentMessage]:
        """Return the requests that wait for what an attempt is for."""

    def attempts_of(self, task: str) -> Sequence[Attempt]:
        """Return all attempts of a task, or of a part."""


class StreamSink(Protocol):
    """Teller of the events of a tree that are in no journal."""

    def tell(self, attempt: Attempt, pieces: Sequence[Piece]) -> None:
        """Tell what an attempt has streamed, in this order."""

    def tell_progress(self, attempt: Attempt, fraction: float, text: str) -> None:
        """Tell how far an attempt says that it is."""


class AttemptOwner(Protocol):
    """Port of the orchestrator that an attempt belongs to."""

    @property
    def path(self) -> str:
        """Path of its supervisor."""

    @property
    def system(self) -> System:
        """Tree that it is in."""

    @property
    def streams(self) -> StreamSink:
        """Teller of its stream, and of its progress."""

    @property
    def waits(self) -> AttemptWaits:
        """Requests that wait for its attempts."""

    @property
    def step_timeout_s(self) -> float | None:
        """Seconds that code of the user's may take beside the work of an attempt; None: no limit."""

    @property
    def context_tokens(self) -> int:
        """Tokens that what an attempt sees may be worth in a prompt."""

    def time(self) -> float:
        """Seconds since 1970, by the tree's clock."""

    def may_start(self) -> bool:
        """True if something may be started now."""

    def token(self) -> int:
        """Fencing token that effects outside should carry."""

    def latest_number(self, task: str) -> int:
        """Number of the last event of a task."""

    def post(self, message: Any) -> bool:
        """Tell it that an attempt has ended."""

    def tell_usage(self, attempt: Attempt) -> None:
        """Tell it that an attempt has used up something."""

    def tell_overdue(self, attempt: Attempt) -> None:
        """Tell it that code beside the work of an attempt takes too long."""

    def keep_step(self, attempt: Attempt, step: StepCall, value: Any) -> Reply | None:
        """Have a step recorded. None: it is kept; else what is returned is completed when it is."""

    def delegate(self, attempt: Attempt, asked: AskedWork, limit: float | None) -> Reply:
        """Carry out ``context.ask``."""

    def tools(self, attempt: Attempt, of: str) -> tuple[ToolInfo, ...]:
        """Tools of a worker."""


class CallHost(Protocol):
    """Tree that has code run which belongs to no worker."""

    @property
    def system(self) -> System:
        """Tree."""

    @property
    def detached_calls(self) -> set[DetachedCall]:
        """Calls that run."""

    def may_start(self) -> bool:
        """True if something may be started now."""
