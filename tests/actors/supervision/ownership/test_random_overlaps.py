"""Random scripts: holds, releases, crashes and calls in any order, under any strategy.

Nothing is expected but what must hold always: see ``invariants``.

``REGROW_OVERLAP_WALKS=5000 pytest tests/actors/supervision/ownership`` goes on for long; a failure shows the script,
which can be played again as it is.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from tests.actors.supervision.ownership.invariants import check, check_end
from tests.actors.supervision.ownership.stage import Stage, stage

WALKS = int(os.environ.get("REGROW_OVERLAP_WALKS", "40"))
PARTS = 6
STEPS = 16
HOOKS = ("on_start", "on_start", "on_stop", "on_stop", "on_failure", "on_receive")
ON_A_CHILD = (
    *("terminate", "delete", "add", "restart", "terminate", "delete", "add"),
    *("crash", "crash", "crash", "note", "refstop", "replace", "park"),
)


def drawn(source: random.Random) -> dict[str, Any]:
    """What the tree is like."""
    pool = source.choice([None, None, 2, 3])
    return {
        "strategy": source.choice(["one_for_one", "one_for_all", "rest_for_one"]),
        "place": source.choice(["pool", "pool", "loop", "thread"]),
        "restart": source.choice(["permanent", "transient", "temporary"]),
        "pool": pool,
        "backoff": pool is None and source.random() < 0.25,
        "begun": source.random() < 0.8,
    }


def next_step(played: Stage, source: random.Random, ids: list[str]) -> str:
    """One step that means something now, or nearly so."""
    gates = list(played.world.gates)
    turn = source.random()
    if gates and turn < 0.25:
        return "free " + ".".join(source.choice(gates))
    if turn < 0.45:
        return f"hold {source.choice(ids)}.{source.choice(HOOKS)}"
    if turn < 0.5:
        return "wait 6"
    if turn < 0.58:
        return f"{source.choice(['terminate', 'restart', 'refstop', 'add', 'delete'])} s"
    verb, id_ = source.choice(ON_A_CHILD), source.choice(ids)
    return f"{verb} {id_.partition('#')[0] if verb == 'add' else id_}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_is_done_in_whatever_order_everything_ends_and_nothing_runs_unlisted(part: int) -> None:
    for number in range(part, WALKS, PARTS):
        source = random.Random(number)  # noqa: S311 - the walk of this number
        words = drawn(source)
        ids = ["a", "x", "x", "x", "y", "z"] if words["pool"] is None else ["a", "x", "x", "x#0", "x#1", "y", "z"]
        with stage(**words) as played:
            if not words["begun"]:
                played.play([f"hold {source.choice(ids)}.on_start", "add s"], check)
            played.play((next_step(played, source, ids) for _ in range(STEPS)), check)
            check_end(played)
