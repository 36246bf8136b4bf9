"""Random plans of everything together, whose orchestrators die at a random record: see ``together``.

Of every act with an undo there is one more than there are undos of it in the end, or as many where all was undone:
what a revision makes void is undone once, and what is kept is not.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from actors.tasks.journal.fold import fold
from tests.faults.cut_points import CuttingStore, WritingStore, twice
from tests.random_plans.together import UNDOABLE, Run, World, runs, told
from trees import Report, TaskStatus

pytestmark = pytest.mark.usefixtures("quiet_log")
PLANS = int(os.environ.get("REGROW_PLANS", "16"))


def unclear(store: CuttingStore) -> Counter[tuple[str, str]]:
    """Acts that ended so that nobody knows what they had done, by subtask and member: these are undone as well."""
    states = {stream: fold(stream, journal) for stream, journal in store.journals.items()}
    found = Counter[tuple[str, str]]()
    for node in states["t"].nodes.values():
        for act in node.acts or ():
            found[node.id, ""] += act.unknown
            part = states.get(act.part)
            for inner in part.nodes.values() if part is not None else ():
                found[node.id, inner.id] += sum(each.unknown for each in inner.acts or ())
    return found


def wrong_with(
    world: World, report: Report, store: CuttingStore, broken_off: Counter[tuple[str, str]] | None = None
) -> list[Any]:
    """What must not be."""
    doubts = broken_off or Counter()
    found: list[Any] = [key for key, count in world.keys.items() if count > 1]
    found += twice(store)
    for each in report.graph:
        sub = world.subs.get(each.id[:2]) if "." not in each.id else None
        if sub is None or sub.doer not in UNDOABLE:
            continue
        stands = report.status is TaskStatus.SUCCEEDED and each.status == "succeeded"
        for member in ("one", "two") if sub.doer == "team" else ("",):
            left = world.done["do", each.id, member] - world.done["undo", each.id, member]
            is_given = sub.person == "edit" and member in {"", "one"}  # by a person: there was no effect, or not yet
            # What has raised, or was broken off, is undone, whether it had an effect or not.
            most = int(sub.stumbles) + int(is_given and stands) + doubts[each.id, member]
            if not stands - most <= left <= stands:
                found.append((each.id, member, each.status, left))
    return found


@pytest.mark.timeout(120 + 2 * PLANS)
@settings(max_examples=PLANS, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(run=runs())
def test_whoever_dies_a_task_of_everything_together_ends_alike_and_nothing_is_left_or_done_twice(run: Run) -> None:
    undisturbed, whole = World(run), CuttingStore(kept=WritingStore() if run.written else None)
    report = undisturbed.play(whole)
    assert wrong_with(undisturbed, report, whole) == []

    at = 1 + run.at % max(1, whole.written)
    world, store = World(run), CuttingStore(at, before=run.before, kept=WritingStore() if run.written else None)
    found = world.play(store)

    doubts = unclear(store) - unclear(whole)
    ids = {id_ for id_, _ in doubts}
    assert told(found, but=ids) == told(report, but=ids)
    assert wrong_with(world, found, store, doubts) == []
