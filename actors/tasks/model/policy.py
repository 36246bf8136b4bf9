"""Policies for what fails or is not good enough, as data: ladders, breakers, answers, verdicts.

Comes in: what a user writes. Goes out: frozen words. A rung says itself what follows from a failure (``Rung.next``);
which rung is asked is decided in ``actors.tasks.decide.attempt``. What follows from the rest is decided in
``actors.tasks.scheduling.circuit_breaker`` and ``actors.tasks.decide``. This module must never import threads, a clock
or Pykka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from actors.model.errors import ConfigError, Problem
from actors.model.spec import Backoff, RandomSource
from actors.tasks.model.outcome import FOR_GOOD, Failure, FailureKind, is_one_of, recorded_name
from actors.validation import field_types
from actors.validation.delay_bounds import LONGEST_S, delay_problems, with_longest
from actors.validation.spec_model import SpecModel
from actors.validation.validation_messages import listed, nearest, type_phrase, validation_error, validation_errors

# -- types of errors that a rung names -------------------------------------------------------------------------


def _error_types(value: object) -> tuple[type[Exception] | str, ...]:
    """Exception types, or their recorded names."""
    given = value if isinstance(value, (list, tuple)) else (value,)
    field_types.exception_types([each for each in given if not (isinstance(each, str) and ":" in each)])
    return tuple(given)


def _names(types: Sequence[type[Exception] | str]) -> list[str]:
    return [each if isinstance(each, str) else recorded_name(each) for each in types]


ErrorTypes: TypeAlias = Annotated[
    Sequence[type[Exception] | str], PlainValidator(_error_types), PlainSerializer(_names)
]
"""Types of exceptions. They are recorded, and read back, as ``module:name`` of where a class is defined: a process that
reads a ladder need not have the code."""

# -- rungs of a ladder ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LadderPosition:
    """Position of a subtask on its ladder; what the next attempt needs to know."""

    rung: int = 0
    tries: int = 0
    """Attempts with the present rung and worker."""
    target: str | None = None
    """The worker that it failed over to."""
    tried: tuple[str, ...] = ()
    """Workers that have used up their tries."""
    rejected: tuple[str, ...] = ()
    """Workers that said it is not theirs."""
    laters: int = 0
    last_chance: bool = False
    """A person let it run once more: the rung that has asked does not ask again."""
    questions: int = 0
    """Questions that the present rung has asked a person."""
    asked: tuple[int, int] = (0, 0)
    """Rung by which its worker itself has asked a person, and how often."""


class TryAgain(NamedTuple):
    """Another attempt, after ``delay_s``."""

    delay_s: float
    standing: LadderPosition


class AskPerson(NamedTuple):
    """A question to a person; without an answer it goes on from ``standing``."""

    question: str
    timeout_s: float | None
    standing: LadderPosition


Decision: TypeAlias = TryAgain | AskPerson
NextWorker: TypeAlias = Callable[[tuple[str, ...]], str | None]
"""Given workers that are out of the question, another one that can do it."""


class RungFacts(NamedTuple):
    """Facts that a rung may know besides the position of the subtask and how it failed."""

    worker: str | None
    """Worker that had the attempt; None: no worker had it."""
    next_worker: NextWorker
    uniform: RandomSource


class Rung(SpecModel, frozen=True, kw_only=False):
    """Base of all rungs. Pure: a rung decides, and others act."""

    def next(self, position: LadderPosition, failure: Failure, facts: RungFacts) -> Decision | None:
        """Decide what follows from a failed attempt.

        Args:
            position: of the subtask: ``position.rung`` is the number of this rung, ``position.tries`` how many attempts
                have failed on it, before this one.
            failure: of the attempt.
            facts: who had it, who else could, and a source of randomness.

        Returns:
            What is to be done, and from where it goes on then; None: it is the next rung's turn.
        """
        raise NotImplementedError

    def ask(self, position: LadderPosition, question: str) -> AskPerson | None:  # noqa: ARG002 - of a rung that asks
        """Ask a person because the worker itself wants it; None: this rung asks no person."""
        return None


_NEVER: Final = FOR_GOOD | {FailureKind.NOBODY, FailureKind.REJECTED}
"""Trying these again leads to the same."""


class Retry(Rung, frozen=True, kw_only=False):
    """Rung: try again, up to ``max_attempts`` attempts with the first, each after a longer delay."""

    max_attempts: Annotated[int, Field(ge=1)] = 3
    """Attempts, the first one included."""
    initial_s: field_types.Delay = 0.5
    """Seconds before the second attempt."""
    factor: field_types.Factor = 2.0
    """Each further delay is this many times the one before."""
    max_s: field_types.Delay = LONGEST_S
    """Seconds. No delay is longer, jitter apart. Not given: at least ``initial_s``."""
    jitter: field_types.Share = 0.2
    """0 to 1. Up to this share of the delay is added at random."""
    retry_on: ErrorTypes = (Exception,)
    """Only errors of these types are tried again."""
    give_up_on: ErrorTypes = ()
    """Errors of these types are not tried again, also where ``retry_on`` names them."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        return with_longest(given)

    @classmethod
    def _cross_field_problems(cls, data: Mapping[str, Any]) -> list[Problem]:
        return delay_problems("Retry", data)

    def next(self, position: LadderPosition, failure: Failure, facts: RungFacts) -> Decision | None:
        """Try again, unless there were enough attempts, or it would fail all the same."""
        tries = position.tries + 1
        if tries >= self.max_attempts or not self._may_retry(failure):
            return None
        return TryAgain(self.delay_s(tries, facts.uniform), replace(position, tries=tries))

    def delay_s(self, tries: int, uniform: RandomSource) -> float:
        """Seconds before the next attempt, when ``tries`` have failed."""
        return Backoff(self.initial_s, self.factor, self.max_s, self.jitter).delay_s(tries, uniform)

    def _may_retry(self, failure: Failure) -> bool:
        if failure.over_budget or not failure.retryable or failure.kind in _NEVER:
            return False
        # SystemExit and its like are named by no rung: they count as an Exception.
        types = [each if issubclass(each, Exception) else Exception for each in failure.types or (type(failure.error),)]
        wanted = any(is_one_of(each, self.retry_on) for each in types)
        return wanted and not any(is_one_of(each, self.give_up_on) for each in types)


class Failover(Rung, frozen=True, kw_only=False):
    """Rung: go on with another worker that can do it, then with the worker's ``backup``, each with fresh tries.

    Of a subtask that names its worker (``worker=``) only the ``backup`` can take over.
    """

    def next(self, position: LadderPosition, failure: Failure, facts: RungFacts) -> Decision | None:
        """Begin the ladder anew with another worker, if there is one for which it would not fail all the same."""
        if failure.over_budget or failure.kind in FOR_GOOD:
            return None
        worker, tried = facts.worker, position.tried
        if worker is not None and worker not in tried:
            tried = (*tried, worker)
        other = facts.next_worker(tried)
        return None if other is None else TryAgain(0.0, replace(position, rung=0, tries=0, target=other, tried=tried))


class Escalate(Rung, frozen=True, kw_only=False):
    """Rung: ask a person."""

    question: str | None = None
    """The question. ``None``: the one of the worker, or the error."""
    timeout_s: field_types.StartTimeout = None
    """Seconds. Without an answer in time it is the next rung's turn. ``None``: as long as it takes; of an undo that has
    failed 300 s, so that its task is not held open for ever."""
    max_questions: Annotated[int, Field(ge=1)] = 5
    """Questions about one subtask. The rung stays: a worker may raise ``Escalated`` again, about something else."""

    def next(self, position: LadderPosition, failure: Failure, facts: RungFacts) -> Decision | None:  # noqa: ARG002 - a person
        """Ask a person, whatever it was."""
        return self.ask(position, failure.question) if failure.may_ask else None

    def ask(self, position: LadderPosition, question: str) -> AskPerson | None:
        """Ask a person, unless that was done often enough: its own question comes first."""
        if position.questions >= self.max_questions:
            return None
        standing = replace(position, tries=0, questions=position.questions + 1)
        return AskPerson(self.question or question, self.timeout_s, standing)


# -- ladders -------------------------------------------------------------------------------------------------

Ladder: TypeAlias = tuple[Rung, ...]
_RUNGS: Final[dict[str, type[Rung]]] = {cls.__name__: cls for cls in (Retry, Failover, Escalate)}
_HINT: Final = "Write [Retry(), Failover(), Escalate()]."


def _ladder(value: object) -> Ladder:
    if not isinstance(value, (list, tuple)):
        raise validation_error(f"expected a list of rungs, got {type_phrase(value)}", _HINT)
    return tuple(_rung(each, f"[{at}]") for at, each in enumerate(value))


def _rung(value: object, at: str) -> Rung:
    """Return a rung; also one as it is recorded, by its name and the fields that were given."""
    if isinstance(value, Rung):
        return value
    if not isinstance(value, Mapping):
        raise validation_error(f"expected a rung, got {type_phrase(value)}", _HINT, at)
    fields = {str(name): each for name, each in value.items()}
    word = str(fields.pop("rung", ""))
    if word not in _RUNGS:
        raise validation_error("names no rung", f"{nearest(word, _RUNGS)}Use {listed(_RUNGS)}.", at)
    try:
        return _RUNGS[word](**fields)
    except ConfigError as error:
        raise validation_errors([(f"{at}: {one.path}", one.what, one.hint) for one in error.problems]) from None


def _recorded(ladder: Sequence[Rung]) -> list[dict[str, Any]]:
    return [{"rung": type(rung).__name__} | rung.model_dump(exclude_unset=True) for rung in ladder]


LadderField = Annotated[Sequence[Rung], PlainValidator(_ladder), PlainSerializer(_recorded)]
"""A list of rungs, tried one after the other; kept as a tuple."""

# -- breakers ------------------------------------------------------------------------------------------------


class Breaker(SpecModel, frozen=True, kw_only=False):
    """When a worker gets no more work for a while."""

    failure_threshold: Annotated[int, Field(ge=1)] = 5
    """Failures within ``window_s`` that open it, if they are at least ``failure_rate`` of the subtasks that ended.

    It counts how a subtask ended with the worker: a failure that a ``Retry`` mends is none. Crashes, timeouts and
    exceptions count. An end that says that the request was at fault does not: ``Failed``, ``Rejected``, a result of
    the wrong type, exceptions named in ``expected=``.
    """
    window_s: field_types.Period = 60.0
    """Seconds."""
    cooldown_s: field_types.Period = 30.0
    """Seconds until one probe is let through. Its success closes the breaker."""
    failure_rate: field_types.Share = 0.5
    """0 to 1, of the newest thousand ends at most. 0: the number of failures alone decides."""


# -- what a person answers -----------------------------------------------------------------------------------


class Approve(SpecModel, frozen=True, kw_only=False):
    """Run it again as it is; I vouch for it."""


class Edit(SpecModel, frozen=True, kw_only=False):
    """Take this value as its result."""

    value: Any


class Respond(SpecModel, frozen=True, kw_only=False):
    """Run it again, with this text as ``context.feedback``."""

    text: str


class Reject(SpecModel, frozen=True, kw_only=False):
    """Answer: it has failed."""

    reason: str = ""


Answer: TypeAlias = Approve | Edit | Respond | Reject
ANSWERS: Final[dict[str, tuple[Callable[..., Any], str | None]]] = {
    "approve": (Approve, None),
    "edit": (Edit, "value"),
    "respond": (Respond, "text"),
    "reject": (Reject, "reason"),
}
"""By the word of a record: the answer, and its field, where it has one."""


def answer_of(word: str, value: Any) -> Answer:
    """Return the answer that a record speaks of."""
    kind, field = ANSWERS[word]
    answer: Answer = kind(**({} if field is None else {field: value}))
    return answer


# -- what a reviewer says ------------------------------------------------------------------------------------


class Check(SpecModel, frozen=True, kw_only=False):
    """Judgement of a reviewer on one subtask's result."""

    subtask: str
    """Id of the subtask."""
    passed: bool
    feedback: str = ""
    """Feedback: what is to be better; the subtask sees it when it runs again."""
    criterion: str = ""
    """Criterion that it is about, where there are several. It stands before the feedback."""


class Verdict(SpecModel, frozen=True, kw_only=False):
    """Judgement of a reviewer on all results. Only subtasks whose check has not passed run again."""

    passed: bool
    checks: Annotated[list[Check], Field(strict=False)] = Field(default_factory=list)
