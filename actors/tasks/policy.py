"""What is to be done when something fails or is not good enough, as data: ladders, breakers, answers, verdicts.

Comes in: what a user writes. Goes out: frozen words. What follows from them is decided in ``actors.tasks.ladder``,
``actors.tasks.breaker`` and ``actors.tasks.review``. This module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from actors import fields
from actors.errors import Problem
from actors.words import Words


class Retry(Words, frozen=True, kw_only=False):
    """Rung: try again, up to ``max_attempts`` attempts with the first, each after a longer delay."""

    max_attempts: Annotated[int, Field(ge=1)] = 3
    """Attempts, the first one included."""
    initial_s: fields.Delay = 0.5
    """Seconds before the second attempt."""
    factor: fields.Factor = 2.0
    """Each further delay is this many times the one before."""
    max_s: fields.Delay = 30.0
    """Seconds. No delay is longer, jitter apart."""
    jitter: fields.Share = 0.2
    """0 to 1. Up to this share of the delay is added at random."""
    retry_on: fields.Expected = (Exception,)
    """Only errors of these types are tried again."""
    give_up_on: fields.Expected = ()
    """Errors of these types are not tried again, also where ``retry_on`` names them."""

    @classmethod
    def _misfits(cls, data: Mapping[str, Any]) -> list[Problem]:
        first, most = data.get("initial_s", 0.5), data.get("max_s", 30.0)
        if isinstance(first, (int, float)) and isinstance(most, (int, float)) and 0 <= most < first:
            what = f"{most!r} is less than initial_s={first!r}"
            return [Problem("Retry.max_s", what, "Raise max_s: no delay is longer than it.")]
        return []


class Failover(Words, frozen=True, kw_only=False):
    """Rung: go on with another worker that can do it, then with the worker's ``backup``, each with fresh tries."""


class Escalate(Words, frozen=True, kw_only=False):
    """Rung: ask a person."""

    question: str | None = None
    """The question. ``None``: the one of the worker, or the error."""
    timeout_s: fields.StartTimeout = None
    """Seconds. Without an answer in time it is the next rung's turn. ``None``: as long as it takes."""


Rung: TypeAlias = Retry | Failover | Escalate
Ladder: TypeAlias = tuple[Rung, ...]


class Breaker(Words, frozen=True, kw_only=False):
    """When a worker gets no more work for a while."""

    failure_threshold: Annotated[int, Field(ge=1)] = 5
    """Failures within ``window_s`` that open it, where they are at least ``failure_rate`` of the attempts that ended.

    Crashes, timeouts and exceptions count. An end that says that the request was at fault does not: ``Failed``,
    ``Rejected``, a result of the wrong type, exceptions named in ``expected=``. The attempts of one subtask count once.
    """
    window_s: fields.Period = 60.0
    """Seconds."""
    cooldown_s: fields.Period = 30.0
    """Seconds until one probe is let through. Its success closes the breaker."""
    failure_rate: fields.Share = 0.5
    """0 to 1. 0: the number of failures alone decides."""


# -- what a person answers -----------------------------------------------------------------------------------


class Approve(Words, frozen=True, kw_only=False):
    """Run it again as it is; I vouch for it."""


class Edit(Words, frozen=True, kw_only=False):
    """Take this value as its result."""

    value: Any


class Respond(Words, frozen=True, kw_only=False):
    """Run it again, with this text as ``context.feedback``."""

    text: str


class Reject(Words, frozen=True, kw_only=False):
    """It has failed."""

    reason: str = ""


Answer: TypeAlias = Approve | Edit | Respond | Reject

# -- what a reviewer says ------------------------------------------------------------------------------------


class Check(Words, frozen=True, kw_only=False):
    """What a reviewer says of one subtask's result."""

    subtask: str
    """Its id."""
    passed: bool
    feedback: str = ""
    """What is to be better; the subtask sees it when it runs again."""


def _a_list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


class Verdict(Words, frozen=True, kw_only=False):
    """What a reviewer says of all results. Only subtasks whose check has not passed run again."""

    passed: bool
    checks: Annotated[list[Check], BeforeValidator(_a_list)] = Field(default_factory=list)
