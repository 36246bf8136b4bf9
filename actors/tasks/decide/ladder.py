"""Ladder: the next rung after a failed attempt.

Comes in: the ladder, where the unit stands on it, and how the attempt failed. Goes out: try again (with whom, and after
how long), ask a person, or give up. What a rung does is its own (``actors.tasks.model.policy.Rung.next``): here they
are asked one after the other. Pure: randomness is passed in, and who could take over is asked of a function.

The rules (CONTRACT.md 8): attempts include the first; ``Failover`` starts the next worker with fresh tries, at the
first rung; after a person's ``Approve`` or ``Respond`` one attempt is made and then it is the next rung's turn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from actors.model.spec import RandomSource
from actors.tasks.model.outcome import Failure
from actors.tasks.model.policy import (
    AskPerson,
    Decision,
    GiveUp,
    Ladder,
    LadderPosition,
    NextWorker,
    RungFacts,
    TryAgain,
)

__all__ = ["MAX_LATERS", "AskPerson", "Decision", "GiveUp", "TryAgain", "asked_for", "climb", "last_attempt"]

MAX_LATERS: Final = 10
"""How often one subtask may be put off with ``Later``."""


def climb(
    ladder: Ladder,
    standing: LadderPosition,
    failure: Failure,
    worker: str | None,
    next_worker: NextWorker,
    uniform: RandomSource,
) -> Decision:
    """Decide what follows from ``failure`` of an attempt that ``worker`` had."""
    if standing.last_chance:
        standing = replace(standing, last_chance=False, rung=standing.rung + 1, tries=0, questions=0)
    facts = RungFacts(worker, next_worker, uniform)
    for number in range(standing.rung, len(ladder)):
        position = standing if number == standing.rung else replace(standing, rung=number, tries=0, questions=0)
        decision = ladder[number].next(position, failure, facts)
        if decision is not None:
            return decision
    return GiveUp()


def last_attempt(ladder: Ladder, standing: LadderPosition, following: int) -> int:
    """Number of the last attempt that a rung allows.

    Args:
        ladder: of the unit.
        standing: which rung it is on, and how many attempts have failed there.
        following: number of the attempt that follows those.
    """
    rung = ladder[standing.rung] if standing.rung < len(ladder) and not standing.last_chance else None
    most = getattr(rung, "max_attempts", 1)
    return following + max(0, most - standing.tries - 1)


def asked_for(ladder: Ladder, standing: LadderPosition, question: str) -> AskPerson | None:
    """Find the rung that asks a person, where a worker asked for one itself; None: there is none.

    The one that has asked before comes first: it lasts for the unit, as long as it has questions left.
    """
    for number in range(standing.rung, len(ladder)):
        position = standing if number == standing.rung else replace(standing, rung=number, questions=0)
        asks = ladder[number].ask(replace(position, tries=0, last_chance=False), question)
        if asks is not None:
            return asks
    return None
