"""Context of an attempt: its goal, its own inputs, the results of what it depends on, and nothing else.

One that is sent back sees its work as well: its last result, what is to be better, and what was said before. It also
carries what an attempt may say while it runs: how far it is, what it used up, and what it needs from others.

A team's part has the context of the attempt that it stands for: its members see the results, the
feedback and the answers that the team was given, beside their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from actors.messaging.blocking import require_thread
from actors.tasks.execution.attempt_steps import AttemptSteps, Keep
from actors.tasks.execution.packing import NO_NOTES, Notes
from actors.tasks.model import (
    STREAM_KINDS,
    Answer,
    StreamKind,
    Subtask,
    SubtaskFailedError,
    Usage,
    copied,
    is_small,
    plain_text,
    same_instruction,
)
from actors.validation.validation_messages import (
    fraction_of,
    listed,
    nearest,
    require_seconds,
    type_phrase,
    value_phrase,
)

if TYPE_CHECKING:
    from actors.messaging.reply import Reply
    from actors.tasks.execution.attempt import Attempt
    from actors.tasks.execution.work_elsewhere import AttemptElsewhere, WorkElsewhere
    from actors.tasks.model import ToolInfo


class Revision(NamedTuple):
    """Facts about a subtask that was done, or asked about, before."""

    number: int = 0
    """How often it was sent back, or what it needs was."""
    feedback: str = ""
    history: tuple[str, ...] = ()
    """Feedbacks before that, the oldest first."""
    previous: Any = None
    """Last result of the subtask, as JSON; None: it has none."""
    state: Any = None
    """State that its worker has asked a person with, as JSON; None: it has asked with none."""
    answers: tuple[Answer, ...] = ()
    """Answers of people to the questions about it, the oldest first."""
    answer: Answer | None = None
    """The one among them to the question that came with ``state``; None: that has no answer."""


NO_REVISION: Final = Revision()


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


class ContextValues(NamedTuple):
    """Values that an attempt is to see. Nobody changes them: the worker's code gets copies (``Context``)."""

    goal: str
    number: int
    idempotency_key: str
    inputs: dict[str, Any]
    results: dict[str, Any]
    metadata: Mapping[str, Any]
    revision: Revision = NO_REVISION
    part: str = ""
    """Goal of the team that it is done in; empty: the whole task."""
    notes: Notes = NO_NOTES
    """Notes on results, by id."""

    @property
    def is_light(self) -> bool:
        """True if copying them for the worker's code takes no time to speak of."""
        revision = self.revision
        if revision is NO_REVISION and not (self.inputs or self.results):
            return True
        return is_small([*self.inputs.values(), *self.results.values(), revision.previous, revision.state])


class MissingResultError(KeyError):
    """An attempt looked up the result of a subtask that it does not depend on, or an input that does not exist."""

    def __str__(self) -> str:  # that of a KeyError has quotes around its text
        return str(self.args[0])


def _missing(name: object, results: Iterable[str], inputs: Iterable[str] = ()) -> MissingResultError:
    results, inputs = sorted(results), sorted(inputs)
    there = f"It has those of {listed(results, 'and')}" if results else "It has none"
    if inputs:
        there = f"{there}, and the inputs {listed(inputs, 'and')}"
    what = f"no result of {name!r} is given to this attempt. {there}. {nearest(str(name), (*results, *inputs))}"
    return MissingResultError(f"{what}An attempt sees what its subtask depends on: Subtask(..., depends_on=[...]).")


class GivenResults(dict[str, Any]):
    """Results by id: a dict like any other, but for the error of a missing one."""

    def __missing__(self, id_: str) -> Any:
        raise _missing(id_, self)


class Context(Mapping[str, Any]):
    """Given to ``execute(task, context)`` and ``undo(task, result, context)``. May be used from any thread.

    It is a read-only mapping as well: ``context["draft"]`` is the result of the subtask ``draft``, where this one
    depends on it, else the input of that name. It is always true.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, attempt: Attempt | AttemptElsewhere) -> None:
        values = attempt.spec.values
        self._attempt = attempt
        self._values = values
        self._regrow_notes = values.notes
        self.goal = values.goal
        """Goal of the whole task."""
        self.attempt = values.number
        """1 is the first."""
        self.idempotency_key = values.idempotency_key
        """Key of one effect: it stays the same however often that has to be tried."""
        self.task_id = attempt.task
        """Id of the task, as its events have it."""
        self.path = attempt.spec.path
        """Path of the worker, such as ``office/research``."""
        self.part = values.part
        """Goal of the part of the task that its team has; empty where it is in no team."""
        self.context_tokens = attempt.context_tokens
        """Tokens that all it sees may be worth in a prompt: ``context_tokens`` of its supervisor's ``Tasks``."""
        said = values.revision
        self.revision = said.number
        """How often it was sent back, or what it depends on was. 0 the first time, also where it is tried again."""
        self.feedback = said.feedback
        """Feedback: what is to be better than last time; empty the first time. In a team that of the team counts."""
        self.history = list(said.history)
        """Feedbacks before the present one, the oldest first."""
        self.answers = list(said.answers)
        """Answers of people to all questions about it, the oldest first: ``Approve()``, ``Respond(text)`` ..."""
        self.answer = said.answer
        """Answer to the question that ``state`` came with; None: nobody has answered that one.

        What people have said since to other questions, such as one of its ladder, is in ``answers`` only.
        """

    def __repr__(self) -> str:
        return f"<Context of {self.idempotency_key}>"

    def __getitem__(self, name: str) -> Any:
        for values in (self.results, self.inputs):
            if name in values:
                return values[name]
        raise _missing(name, self.results, self.inputs)

    def __iter__(self) -> Iterator[str]:
        return iter({**self.results, **self.inputs})

    def __len__(self) -> int:
        return len(self.results.keys() | self.inputs.keys())

    def __bool__(self) -> bool:
        return True

    def _regrow_crossing(self, task: Any) -> tuple[WorkElsewhere, Attempt]:
        """Return the work as it crosses to a worker in another process, and its attempt."""
        from actors.tasks.execution.work_elsewhere import WorkElsewhere  # noqa: PLC0415 - it needs Context

        attempt, values = cast("Attempt", self._attempt), self._values
        stays: dict[str, Any] = {"owner": None, "chain": (), "adapter": None, "form": None, "variables": None}
        spec = attempt.spec._replace(values=values._replace(metadata=dict(values.metadata)), **stays)
        return WorkElsewhere(task, spec, attempt.context_tokens, attempt.remaining_s), attempt

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Inputs of the task, and over them those of the subtask."""
        return copied(self._values.inputs)  # type: ignore[no-any-return]

    @cached_property
    def results(self) -> dict[str, Any]:
        """Results of the subtasks that this one depends on, by id, as JSON; in a team also those that the team got."""
        return GivenResults(copied(self._values.results))

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the task, and over it that of the subtask: small JSON, also in teams."""
        return copied(dict(self._values.metadata))  # type: ignore[no-any-return]

    @cached_property
    def previous(self) -> Any:
        """Last result of this subtask, as JSON: the work that is to be revised. None where it has had none."""
        return copied(self._values.revision.previous)

    @cached_property
    def state(self) -> Any:
        """State of the last ``Escalated(..., state=...)`` of this worker about this subtask, as JSON; else None.

        It holds for every attempt of this worker up to the result: after the answer, after a crash of the process,
        where it is tried again. A revision begins without.
        """
        return copied(self._values.revision.state)

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
        return self._attempt.token()

    @property
    def remaining_s(self) -> float | None:
        """Seconds that this attempt has left, on the tree's clock; None: no limit."""
        return self._attempt.remaining_s

    def progress(self, fraction: float, text: str = "") -> None:
        """Say how far it is, from 0 to 1, and what it does; also a sign of life."""
        self._attempt.tell_progress(fraction_of(fraction), plain_text(text))

    def stream(self, text: str, kind: StreamKind = "text") -> None:
        """Show what it is just saying or doing, as it comes; also a sign of life. For ``handle.stream()`` and events.

        It is told as it is, and kept nowhere: pieces that come within 50 ms are one ``SubtaskStreamed``, and what comes
        faster than 65,536 characters in that time is dropped, which the next event says.

        Args:
            text: as it comes; it need be no whole word.
            kind: ``"text"``, ``"tool_call"`` or ``"tool_result"``.

        Raises:
            TypeError: this is no text.
            ValueError: there is no such kind.
        """
        if kind not in STREAM_KINDS:
            what = f"context.stream: kind={value_phrase(kind)} is not a kind"
            raise ValueError(f"{what}. Use 'text', 'tool_call' or 'tool_result'")
        if not isinstance(text, str):
            raise TypeError(f"context.stream: {type_phrase(text)} is not a text. Give a str")
        self._attempt.tell_stream(str(text), kind)

    def heartbeat(self) -> None:
        """A sign of life: ``idle_timeout_s`` counts from here."""
        self._attempt.shows_life()

    def use(self, tokens: int = 0, cost: float = 0.0) -> None:
        """Say what was used up; it counts for the budgets of the subtask, the task and the team.

        It counts however this attempt ends. Budgets are looked at when an attempt ends. Nobody waits for the journal
        here: where the process dies, what was said in the last milliseconds before that can be lost. What a step has
        used up is recorded with its result.
        """
        self._attempt.count(Usage(tokens=tokens, cost=cost))  # which refuses, here, what is no number

    def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, keep: Keep = "attempt", **kwargs: Any
    ) -> Awaitable[Any]:
        """Call a function once for this attempt, also where the tree's process dies: the result is recorded.

        In sync code write ``step_sync``.

        Where the same attempt runs again, a step that is recorded returns its record and calls nothing. One that was
        under way when its process died is called again: its effect can be told by ``context.step_key``. One that
        raises records nothing.

        Args:
            name: together with how often it came before in this attempt, the key of the step. What goes on side by side
                and makes several steps each needs names of its own.
            function: sync or async, called here: what blocks does not belong on a loop.
            args: its arguments; a fingerprint of them is recorded.
            keep: ``"subtask"``: later attempts of the subtask (a retry, a failover, a revision) have it, too.
            kwargs: the same by name.

        Returns:
            The result as JSON, in every run alike: models as dicts, tuples as lists. Of the result of a framework's run
            the answer; what it has used up counts.

        Raises:
            StepMismatchError: it is recorded under this key with other arguments. The attempt is not tried again.
            InvalidResultError: the result is no JSON.
        """
        _require_loop("step")
        return self._steps.call(name, function, args, kwargs, keep)

    def step_sync(
        self, name: str, function: Callable[..., Any], /, *args: Any, keep: Keep = "attempt", **kwargs: Any
    ) -> Any:
        """As ``step``, for sync code."""
        return self._steps.call_sync(name, function, args, kwargs, keep)

    @property
    def step_key(self) -> str:
        """Key of the effect of the step that runs here: the same however often the step has to be called.

        Raises:
            RuntimeError: no step runs here.
        """
        return self._steps.key_here()

    @property
    def _steps(self) -> AttemptSteps:
        made: AttemptSteps | None = self.__dict__.get("_made")
        return made or self.__dict__.setdefault("_made", AttemptSteps(self._attempt))

    def ask(
        self,
        to: str,
        instruction: str,
        inputs: dict[str, Any] | None = None,
        *,
        tool: str | None = None,
        timeout: float | None = None,
    ) -> Awaitable[Any]:
        """Have somebody else do something, and wait for the result. In sync code write ``ask_sync``.

        Args:
            to: a capability, or the id of a worker or team; looked up among the siblings, then above.
            instruction: what to do.
            inputs: as JSON.
            tool: the tool that is to be called, of a worker that has several.
            timeout: seconds; None: the time that this attempt has left.

        Raises:
            RecursionDetectedError: whoever could do it waits for this attempt, or is asked the same thing already.
            NoCapableWorkerError: nobody can do it.
            SubtaskFailedError: it has failed, after all that could be tried, or took too long; or this is an undo.
        """
        _require_loop("ask")
        return self._asked(to, instruction, inputs, tool, timeout)

    async def _asked(self, *asked: Any) -> Any:
        with self._asking(*asked) as reply:
            return copied(await reply)

    def ask_sync(
        self,
        to: str,
        instruction: str,
        inputs: dict[str, Any] | None = None,
        *,
        tool: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """As ``ask``, for sync code."""
        require_thread(to, "await context.ask(...)")
        with self._asking(to, instruction, inputs, tool, timeout) as reply:
            return copied(reply.get())

    def tools(self, of: str) -> tuple[ToolInfo, ...]:
        """Return the tools of a worker that has several, such as an MCP server; it is looked up as ``ask`` does.

        Raises:
            NoCapableWorkerError: there is no such worker.
        """
        return self._attempt.tools(of)

    @contextmanager
    def _asking(
        self, to: str, instruction: str, inputs: dict[str, Any] | None, tool: str | None, timeout: float | None
    ) -> Iterator[Reply]:
        """Have somebody else do something. If its asker was cancelled, that is ended."""
        require_seconds(f"ask {to!r}", timeout)
        for said, name, kind in ((to, "to", str), (instruction, "instruction", str), (inputs or {}, "inputs", Mapping)):
            if not isinstance(said, kind):
                what = "a text" if kind is str else "a dict"
                raise TypeError(f"context.ask: {name} is {type_phrase(said)}. Give {what}")
        left = self.remaining_s
        limit = left if timeout is None else timeout if left is None else min(left, timeout)
        reply = self._attempt.delegate(AskedWork(to, instruction, dict(inputs or {}), tool), limit)
        try:
            yield reply
        finally:
            if not reply.done:
                reply.fail(SubtaskFailedError(self.task_id, to, "nobody waits for it"))  # the asker has its slot again

    def _regrow_unpack(self) -> None:
        """Make the copies for the worker's code now, on this thread."""
        _ = self.inputs, self.results, self.previous, self.state


def _require_loop(method: str) -> None:
    """Refuse to make a coroutine that nobody awaits: nothing would be done, and nobody would notice."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise TypeError(
            f"context.{method} is awaited, and this code is not async. Write context.{method}_sync(...), or async def"
        ) from None
