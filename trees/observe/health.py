"""Health of a tree: is it alive, and may work be given to it.

Comes in: facts of one moment. Goes out: ``Health``. Pure: ``trees.host.tree_health`` collects the facts.

``ok`` is for a probe that restarts what is dead (Kubernetes: liveness), ``ready`` for one that gives it no work for a
while (readiness). A standby is ok and not ready; so is a tree with a child in its backoff, and one that is being
stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MOST_PROBLEMS: Final = 50
"""Children that are named; of the others it is said how many they are."""


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """One thing that is wrong, and where."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


@dataclass(frozen=True, slots=True)
class Health:
    """Health of a tree at one moment."""

    ok: bool
    """True: the root is up, and each supervisor that is up has answered in time."""
    ready: bool
    """True: it is ok and not being stopped, nothing of it is parked, restarting or starting, its store writes, and this
    process leads."""
    problems: tuple[HealthProblem, ...]
    """Reasons why it is not ok, or not ready; empty where it is both."""


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """Facts that the health of a tree is judged by."""

    root: str
    """Path of the root."""
    down: str | None
    """Reason why it is down; None: it is not."""
    silent: Sequence[str]
    """Paths of the supervisors that are up and did not answer."""
    within_s: float
    """Seconds that they had for it."""
    unsettled: Mapping[str, str]
    """By the path of a child that is parked, restarting or starting: which of these."""
    role: str
    holder: str | None
    """Leader, as far as this process knows."""
    store_paused_s: float | None
    """Seconds for which the store has written nothing; None: it writes, or there is none."""
    is_ending: bool = False
    """True: the root is being stopped, or stops its children because it gives up."""


def health_of(facts: HealthFacts) -> Health:
    """Judge a tree."""
    if facts.down is not None:
        return Health(ok=False, ready=False, problems=(HealthProblem(facts.root, facts.down),))
    dead = tuple(HealthProblem(path, f"did not answer within {facts.within_s:g} s") for path in sorted(facts.silent))
    hindered = tuple(_hindrances(facts))
    return Health(ok=not dead, ready=not (dead or hindered), problems=dead + hindered)


def _hindrances(facts: HealthFacts) -> Iterator[HealthProblem]:
    if facts.role != "leader":
        leads = "nobody is known to lead" if facts.holder is None else f"{facts.holder} leads"
        yield HealthProblem(facts.root, f"{facts.role}: {leads}")
        return  # none of its children is up, which is as it should be
    if facts.is_ending:
        yield HealthProblem(facts.root, "is being stopped")
    if facts.store_paused_s is not None:
        yield HealthProblem(facts.root, f"its store has written nothing for {facts.store_paused_s:.1f} s")
    for number, (path, state) in enumerate(facts.unsettled.items()):
        if number == MOST_PROBLEMS:
            yield HealthProblem(
                facts.root, f"{len(facts.unsettled) - number:,} more are parked, restarting or starting"
            )
            return
        yield HealthProblem(path, f"is {state}")
