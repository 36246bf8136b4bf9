"""What follows from a failed attempt: the next rung of the ladder.

Comes in: the ladder, where the subtask stands on it, and how the attempt failed. Goes out: try again (with whom, and
after how long), ask a person, or give up. Pure: randomness is passed in, and who could take over is asked of a
function.

The rules (orchestration.md, point 15 and its rulings): attempts include the first; ``Failover`` starts the next worker
with fresh tries, at the first rung; after a person's ``Approve`` or ``Respond`` one attempt is made and then it is the
next rung's turn; a recursion is never tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from actors.spec import Uniform
from actors.tasks.events import Standing
from actors.tasks.outcome import Failure, Kind, is_one_of
from actors.tasks.policy import Escalate, Failover, Ladder, Retry

_NEVER: Final = frozenset({Kind.RECURSION, Kind.NOBODY, Kind.DENIED, Kind.REJECTED})
"""Nothing else comes of trying these again."""
MAX_LATERS: Final = 10
"""How often one subtask may be put off with ``Later``."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Another attempt, after ``delay_s``."""

    delay_s: float
    standing: Standing


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Somebody is to be asked; without an answer it goes on from ``standing``."""

    question: str
    timeout_s: float | None
    standing: Standing


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Nothing is left to try."""


Decision: TypeAlias = TryAgain | AskPerson | GiveUp
NextWorker: TypeAlias = Callable[[tuple[str, ...]], str | None]
"""Given workers that are out of the question, another one that can do it."""


def decide(
    ladder: Ladder, standing: Standing, failure: Failure, worker: str | None, next_worker: NextWorker, uniform: Uniform
) -> Decision:
    """What follows from ``failure`` of an attempt that ``worker`` had."""
    if standing.last_chance:
        standing = replace(standing, last_chance=False, rung=standing.rung + 1, tries=0)
    for number in range(standing.rung, len(ladder)):
        rung = ladder[number]
        if isinstance(rung, Retry):
            tries = standing.tries + 1 if number == standing.rung else 1
            if tries < rung.max_attempts and _may_retry(rung, failure):
                return TryAgain(delay_s(rung, tries, uniform), replace(standing, rung=number, tries=tries))
        elif isinstance(rung, Failover):
            tried = standing.tried if worker is None or worker in standing.tried else (*standing.tried, worker)
            hopeless = failure.over_budget or failure.kind is Kind.RECURSION
            other = None if hopeless else next_worker(tried)
            if other is not None:
                return TryAgain(0.0, replace(standing, rung=0, tries=0, target=other, tried=tried))
        else:
            return AskPerson(rung.question or failure.question, rung.timeout_s, replace(standing, rung=number, tries=0))
    return GiveUp()


def asked_for(ladder: Ladder, standing: Standing, question: str) -> AskPerson | None:
    """What follows where a worker asked for a person itself: the next ``Escalate`` there is; None: there is none."""
    first = standing.rung + standing.last_chance
    for number, rung in enumerate(ladder):
        if number >= first and isinstance(rung, Escalate):
            standing = replace(standing, rung=number, tries=0, last_chance=False)
            return AskPerson(rung.question or question, rung.timeout_s, standing)
    return None


def delay_s(rung: Retry, tries: int, uniform: Uniform) -> float:
    """Seconds before the next attempt, when ``tries`` have failed."""
    try:
        base = min(rung.initial_s * rung.factor ** min(tries - 1, 1024), rung.max_s)
    except OverflowError:
        base = rung.max_s
    return base + base * rung.jitter * uniform.random()


def _may_retry(rung: Retry, failure: Failure) -> bool:
    if failure.over_budget or not failure.retryable or failure.kind in _NEVER:
        return False
    types = [each for each in failure.types or _types(failure.error) if issubclass(each, Exception)]
    # What is no ``Exception`` (SystemExit and its like) can be named by nobody: it goes with everything else.
    wanted = any(is_one_of(each, rung.retry_on) for each in types) or (not types and Exception in rung.retry_on)
    return wanted and not any(is_one_of(each, rung.give_up_on) for each in types)


def _types(error: BaseException) -> tuple[type[BaseException], ...]:
    """Of an error of ours: its type, and that of the error that it has come from."""
    inner = getattr(error, "error", None)
    return (type(error), type(inner)) if isinstance(inner, BaseException) else (type(error),)
