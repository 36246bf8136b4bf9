"""Every kind of plan that can have a child, overlapped by everything that can happen to the child meanwhile.

A row of ``SETTINGS`` brings the supervisor to a moment and holds it there; a row of ``MEANWHILE`` is what is done then.
All ways are tried in which the steps of the second can fall before and after the releases of the first, and the
releases come in both orders. Nothing is expected but what must hold always: see ``invariants``.

``REGROW_OVERLAPS=all pytest tests/actors/supervision/ownership`` tries every cell in every way (some 15,000 trees);
otherwise each cell is tried in one way, another one in each: in the whole with two kinds of
restart. A sample tries every third cell, in diagonals, with one kind of restart: every setting with a third of what
happens meanwhile, and that with every third setting; what only pools have, with each.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.actors.supervision.ownership.invariants import check, check_end
from tests.actors.supervision.ownership.stage import stage

ALL = os.environ.get("REGROW_OVERLAPS") == "all"


@dataclass(frozen=True)
class Setting:
    """A moment in the life of a supervisor."""

    name: str
    steps: str
    """How it comes about. What is held here is released later."""
    words: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name.replace(" ", "_")

    @property
    def script(self) -> list[str]:
        return self.steps.split("; ")

    @property
    def releases(self) -> list[str]:
        """What brings the moment to its end."""
        held = [step.replace("hold", "free") for step in self.script if step.startswith("hold")]
        return held or ["wait 6"]


GROUP: dict[str, Any] = {"strategy": "one_for_all"}
REST: dict[str, Any] = {"strategy": "rest_for_one"}
LOOP: dict[str, Any] = {"place": "loop"}
NOT_YET: dict[str, Any] = {"begun": False}
ADDED: dict[str, Any] = {"ids": "az"}
POOL: dict[str, Any] = {"ids": "az", "pool": 3}

SETTINGS = [
    Setting("first pass, before its turn", "hold a.on_start; add s", NOT_YET),
    Setting("first pass, at its turn", "hold x.on_start; add s", NOT_YET),
    Setting("first pass, after its turn", "hold z.on_start; add s", NOT_YET),
    Setting("first pass, crashed meanwhile", "hold z.on_start; add s; crash x", NOT_YET),
    Setting("first pass, crashed meanwhile, in a group", "hold z.on_start; add s; crash x; crash a", NOT_YET | GROUP),
    Setting("first pass, replaced meanwhile", "hold z.on_start; add s; hold x.on_start; replace x", NOT_YET | GROUP),
    Setting("its own restart", "hold x.on_start; crash x"),
    Setting("its own last hook", "hold x.on_failure; crash x"),
    Setting("its own backoff", "crash x", {"backoff": True}),
    Setting("group, its sibling stops", "hold z.on_stop; crash a", GROUP),
    Setting("group, it stops", "hold x.on_stop; crash a", GROUP),
    Setting("group, the first starts", "hold a.on_start; crash a", GROUP),
    Setting("group, it starts", "hold x.on_start; crash a", GROUP),
    Setting("group, the last starts", "hold z.on_start; crash a", GROUP),
    Setting("group, it ended before its turn", "hold z.on_stop; crash a; crash x", GROUP),
    Setting("group of its own", "hold z.on_stop; crash x", GROUP),
    Setting("group of its own, in backoff", "crash x", GROUP | {"backoff": True}),
    Setting("group, stopped one after the other", "hold z.on_stop; hold x.on_stop; crash a; free z.on_stop", GROUP),
    Setting("rest, its sibling stops", "hold z.on_stop; crash a", REST),
    Setting("rest, it starts", "hold x.on_start; crash a", REST),
    Setting("rest, it ended before its turn", "hold z.on_stop; crash b; crash x", REST | {"ids": "abxz"}),
    Setting("rest, of its own", "hold z.on_stop; crash x", REST),
    Setting("rest, a pool, two of it", "hold z.on_stop; crash x#0; crash x#1", REST | {"pool": 2}),
    Setting("rest, a pool, one of it starts", "hold x#0.on_start; crash x#0; crash x#1", REST | {"pool": 2}),
    Setting("start call", "hold x.on_start; add x", ADDED),
    Setting("start call of a pool", "hold x#1.on_start; add x", POOL),
    Setting("start call of a pool, one restarts", "hold x#1.on_start; add x; hold x#0.on_start; crash x#0", POOL),
    Setting("start call of a pool, in a group", "hold x#1.on_start; add x; hold z.on_stop; crash a", POOL | GROUP),
    Setting("restart call", "terminate x; hold x.on_start; restart x"),
    Setting("restart call of a pool", "terminate x; hold x#1.on_start; restart x", {"pool": 3}),
    Setting("stop call", "hold x.on_stop; terminate x"),
    Setting("stop call, in a group", "hold x.on_stop; terminate x; hold z.on_stop; crash a", GROUP),
    Setting("stop call, and group waits", "hold z.on_stop; crash a; hold x.on_stop; terminate x", GROUP),
    Setting("stop call of a pool", "hold x#1.on_stop; terminate x", {"pool": 2}),
    Setting("shutdown, its sibling stops", "hold z.on_stop; terminate s"),
    Setting("shutdown, it stops", "hold x.on_stop; terminate s"),
    Setting("shutdown, its restart is under way", "hold x.on_start; crash x; hold z.on_stop; terminate s"),
    Setting("group, its replacement starts", "hold x.on_start; replace x; hold z.on_stop; crash a", GROUP),
    Setting("its supervisor is restarted", "hold x.on_stop; refstop s"),
    Setting("its supervisor starts again", "hold x.on_start; refstop s"),
    Setting("replaced, it is killed", "hold x.on_receive; note x; replace x", LOOP),
    Setting("replaced, it starts", "hold x.on_start; replace x", GROUP),
    Setting("parked, it is killed", "hold x.on_receive; note x; park x", LOOP | GROUP),
    Setting("parked", "park x"),
    Setting("up", "note x"),
]

MEANWHILE = [
    "terminate x",
    "terminate x; delete x",
    "terminate x; delete x; add x",
    "terminate x; restart x",
    "terminate x; terminate x; add x",
    "delete x; add x; delete x",
    "restart x",
    "add x",
    "crash x",
    "refstop x",
    "replace x",
    "park x",
    "crash a",
    "crash a; delete x; add x",
    "crash a; terminate x; delete x; add x; crash a",
    "crash z; crash a",
    "add y; crash y",
    "crash x; add y; crash y",
    "terminate a; delete a; add a",
    "terminate z",
    "note x; terminate s",
    "terminate s; restart s",
    "refstop s",
    "stop",
    "kill",
]
POOL_ONLY = ["terminate x#0", "crash x#0; terminate x#1", "terminate x#0; delete x#0; terminate x"]


def ways(releases: list[str], steps: list[str]) -> list[list[str]]:
    """All the ways in which two lists of steps can be merged; the first of them in both directions."""
    orders = [releases] if len(releases) == 1 else [releases, releases[::-1]]
    found = []
    for order in orders:
        total = len(order) + len(steps)
        for places in itertools.combinations(range(total), len(order)):
            left, right = iter(order), iter(steps)
            found.append([next(left) if at in places else next(right) for at in range(total)])
    return found


def chosen(found: list[list[str]], number: int, restart: str, one_in: int) -> list[list[str]]:
    """All of them, or one that is another in each cell: over the table every kind of way is tried."""
    if ALL:
        return found
    if number % one_in != one_in // 3 * ("permanent", "transient", "temporary").index(restart):
        return []
    return [found[number * 7 % len(found)]]


@pytest.mark.slow
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_whatever_happens_to_a_child_that_a_plan_has_everything_ends_and_nothing_runs_unlisted(
    setting: Setting, restart: str
) -> None:
    rows = MEANWHILE + (POOL_ONLY if "pool" in setting.words else [])
    for number, row in enumerate(rows):
        found = ways(setting.releases, row.split("; "))
        for way in chosen(found, number + SETTINGS.index(setting), restart, 3 if row in POOL_ONLY else 9):
            with stage(restart=restart, **setting.words) as played:
                played.play(setting.script, check)
                played.play(way, check)
                check_end(played)
